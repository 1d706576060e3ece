//! SCIF: whether its library works, which nodes there are, and which ports are in use on them.

use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc;

use serde::{Deserialize, Serialize};

use super::peer::ask_helper;
use super::report::Line;
use crate::holders::Holder;
use crate::library::LibraryFolder;
use crate::scif::{Endpoint, Listed, PortId, ScifError, ScifLibrary, listing};

/// The fabric of programs that name none.
const DEFAULT_FABRIC: &str = "0";
/// Names taken by strangers of which so many are shown at most.
const STRANGERS_SHOWN: usize = 8;

/// What the endpoints that are tried say.
const GREETING: &[u8; 8] = b"nonic ok";

/// What the helper process saw.
#[derive(Debug, Default, Deserialize, Serialize)]
struct Seen {
    nodes: Vec<u16>,
    own: u16,
    port: u16,
    error: Option<String>,
}

/// All findings about SCIF.
pub(super) fn examine() -> Vec<Line> {
    let mut lines = match LibraryFolder::find() {
        Ok(folder) => loaded(&folder).unwrap_or_else(|line| vec![line]),
        Err(_) => Vec::new(), // Said above, where the other library is looked for.
    };
    lines.extend(ports());
    lines
}

/// Loads the library in a process of its own, where it can do no harm.
fn loaded(folder: &LibraryFolder) -> Result<Vec<Line>, Line> {
    const NAME: &str = "libscif.so.0";
    // A note: programs for verbs run without it.
    let fault = |words: String| Line::note(NAME, words).fix("build again: cargo build --release --workspace");
    let file = folder.scif_library();
    if !file.exists() {
        return Err(fault(format!("{} is missing: SCIF programs cannot run", file.display())));
    }
    let seen: Seen =
        ask_helper(&["scif".as_ref(), file.as_os_str()]).map_err(|error| fault(error.to_string()))?;
    if let Some(error) = seen.error {
        return Err(fault(error));
    }
    let nodes: Vec<_> = seen.nodes.iter().map(u16::to_string).collect();
    Ok(vec![
        Line::ok(NAME, format!("works: a listener took port {} and connected to itself", seen.port)),
        Line::ok(
            "nodes",
            format!("programs started from here are on node {}; online: {}", seen.own, nodes.join(", ")),
        ),
    ])
}

/// In the helper process: loads the library, connects two endpoints and prints what was seen.
pub(super) fn load_and_tell(file: &Path) -> ExitCode {
    let seen = look(file).unwrap_or_else(|error| Seen { error: Some(error), ..Seen::default() });
    println!("{}", serde_json::to_string(&seen).expect("strings and numbers only"));
    ExitCode::SUCCESS
}

fn look(file: &Path) -> Result<Seen, String> {
    // Who accepts waits for ever if nobody can connect, so it is the other end that has a thread of its own.
    let (tell, told) = mpsc::channel();
    let accepting = {
        let file = file.to_owned();
        std::thread::spawn(move || accept_greeting(&file, &tell))
    };
    let ended = || "the thread that accepts ended".to_owned();
    let Ok((nodes, target)) = told.recv() else {
        return Err(accepting.join().map_err(|_| ended())?.err().unwrap_or_else(ended));
    };
    let connector = Endpoint::open(&ScifLibrary::load(file).map_err(words)?).map_err(words)?;
    connector.connect(target).map_err(words)?;
    connector.send(GREETING).map_err(words)?;
    let heard = accepting.join().map_err(|_| ended())??;
    if &heard != GREETING {
        return Err(format!("sent {GREETING:?}, received {heard:?}"));
    }
    Ok(Seen { nodes, own: target.node, port: target.port, error: None })
}

/// Listens, tells all nodes and where it listens, and takes the bytes of who connects.
fn accept_greeting(
    file: &Path,
    tell: &mpsc::Sender<(Vec<u16>, PortId)>,
) -> Result<[u8; GREETING.len()], String> {
    let library = ScifLibrary::load(file).map_err(words)?;
    let (nodes, node) = library.nodes().map_err(words)?;
    let listener = Endpoint::open(&library).map_err(words)?;
    let port = listener.listen().map_err(words)?;
    let _ = tell.send((nodes, PortId { node, port })); // Who asked may have ended.
    let (accepted, _) = listener.accept().map_err(words)?;
    let mut heard = [0; GREETING.len()];
    accepted.receive(&mut heard).map_err(words)?;
    Ok(heard)
}

fn words(error: ScifError) -> String {
    error.to_string()
}

/// One line for each node on which ports are in use, ours first.
fn ports() -> Vec<Line> {
    const NAME: &str = "ports in use";
    let listing = match listing() {
        Ok(listing) => listing,
        Err(error) => return vec![Line::note(NAME, format!("cannot tell: /proc/net/unix: {error}"))],
    };
    let user = rustix::process::geteuid().as_raw();
    let fabric = std::env::var("NONIC_SCIF_FABRIC").ok().filter(|fabric| !fabric.is_empty());
    let fabric = fabric.as_deref().unwrap_or(DEFAULT_FABRIC);
    if listing.is_empty() {
        return vec![Line::ok(NAME, "none: no program of this network namespace has a bound endpoint")];
    }
    let mut lines: Vec<_> = listing
        .iter()
        .map(|(place, ports)| {
            let (owner, of_fabric, node) = place;
            let reach = unreachable(user, fabric, *owner, of_fabric);
            (reach.is_some(), line(*node, ports, reach))
        })
        .collect();
    let own: Vec<_> = listing.iter().filter(|((owner, ..), _)| *owner == user).collect();
    lines.extend(
        own.iter()
            .flat_map(|(place, ports)| taken(place, ports))
            .take(STRANGERS_SHOWN)
            .map(|line| (false, line)),
    );
    lines.sort_by_key(|(foreign, _)| *foreign);
    lines.into_iter().map(|(_, line)| line).collect()
}

/// Ports of this user whose names strangers have: anybody can take one. Connecting there is refused.
fn taken(place: &(u32, String, u16), ports: &[Listed]) -> Vec<Line> {
    let (owner, _, node) = place;
    let stranger = |listed: &Listed| {
        let holders = listed.holders();
        let holder = match holders.first() {
            Some(holder) => {
                let user = holder.user.filter(|user| user != owner)?;
                format!("{holder} of user {user}")
            }
            None => listed.listener(place).filter(|holder| holder.uid != *owner)?.to_string(),
        };
        let words =
            format!("its name is taken by {holder}: to programs of user {owner} nobody listens there");
        Some(Line::note(format!("port {}, node {node}", listed.port), words))
    };
    ports.iter().filter_map(stranger).collect()
}

/// Why programs of this user and fabric cannot connect to ports of others, if they cannot.
fn unreachable(user: u32, fabric: &str, owner: u32, of_fabric: &str) -> Option<String> {
    let other_user = (owner != user).then(|| format!("user {owner}"));
    let other_fabric = (of_fabric != fabric).then(|| format!("fabric {of_fabric:?}"));
    let both = [other_user, other_fabric].into_iter().flatten().collect::<Vec<_>>();
    (!both.is_empty()).then(|| both.join(", "))
}

fn line(node: u16, ports: &[Listed], other: Option<String>) -> Line {
    let list = |listens: bool| {
        let chosen = ports.iter().filter(|listed| listed.listens == listens);
        chosen.map(port).collect::<Vec<_>>().join(", ")
    };
    let mut parts = Vec::new();
    for (words, list) in [("listening", list(true)), ("bound", list(false))] {
        if !list.is_empty() {
            parts.push(format!("{words} {list}"));
        }
    }
    let ports = parts.join("; ");
    match other {
        None => Line::ok(format!("ports, node {node}"), ports),
        // Not a note: it is no fault, and nothing has to change.
        Some(other) => Line::ok(
            format!("ports, node {node}"),
            format!("{ports}; of {other}, so not reachable from here"),
        ),
    }
}

/// A port with the processes that have it, where this user may see them.
fn port(listed: &Listed) -> String {
    let holders = listed.holders();
    let holders: Vec<_> = holders.iter().map(Holder::to_string).collect();
    if holders.is_empty() {
        listed.port.to_string()
    } else {
        format!("{} ({})", listed.port, holders.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_another_user_or_fabric_say_whose_they_are() {
        assert_eq!(unreachable(1000, "0", 1000, "0"), None);
        assert_eq!(unreachable(1000, "0", 0, "0").as_deref(), Some("user 0"));
        assert_eq!(unreachable(1000, "0", 1000, "test").as_deref(), Some("fabric \"test\""));
        assert_eq!(unreachable(1000, "0", 0, "test").as_deref(), Some("user 0, fabric \"test\""));
    }
}
