//! Whether programs would find and load the library, and what it then shows them.

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::peer::ask_helper;
use super::report::Line;
use super::view;
use crate::device_options::complaint_about;
use crate::library::LibraryFolder;
use crate::verbs::{Library, Session};

/// What the helper process saw.
#[derive(Debug, Default, Deserialize, Serialize)]
struct Seen {
    symbols: usize,
    devices: Vec<String>,
    open_us: u64,
    link_layer: String,
    gids: Vec<String>,
    error: Option<String>,
}

/// All findings about the library, and whether it can be loaded.
pub(super) fn examine() -> (Vec<Line>, bool) {
    let mut lines = Vec::new();
    let mut loads = false;
    let found = LibraryFolder::find();
    match &found {
        Ok(folder) => {
            lines.push(Line::ok("library folder", folder.path().display().to_string()));
            let seen = loaded(folder);
            loads = seen.is_ok();
            lines.extend(seen.unwrap_or_else(|problem| vec![problem]));
            if loads {
                lines.push(view::examine(folder));
            }
        }
        Err(error) => lines.push(Line::problem(
            "library folder",
            error.to_string(),
            "cargo build --release, or NONIC_LIB_DIR=FOLDER",
        )),
    }
    lines.push(preloaded(found.as_ref().ok()));
    lines.extend(variables());
    (lines, loads)
}

/// Loads the library in a process of its own, where it can do no harm.
fn loaded(folder: &LibraryFolder) -> Result<Vec<Line>, Line> {
    const NAME: &str = "loads";
    let fix = "build again (cargo build --release); nonic needs glibc 2.34 or newer";
    let seen = ask_helper::<Seen>(&["library".as_ref(), folder.verbs_library().as_os_str()])
        .map_err(|error| Line::problem(NAME, error.to_string(), fix))?;
    if let Some(error) = seen.error {
        return Err(Line::problem(NAME, error, fix));
    }
    let open = format!("opened in {:.1} ms", seen.open_us as f64 / 1000.0);
    Ok(vec![
        Line::ok(NAME, format!("yes: all {} symbols that were asked for, with their versions", seen.symbols)),
        Line::ok("devices", format!("{}; {open}; {} port", seen.devices.join(", "), seen.link_layer)),
        Line::ok("GIDs", seen.gids.join(", ")),
    ])
}

/// In the helper process: loads the library, opens the first device and prints what was seen.
pub(super) fn load_and_tell(file: &Path) -> ExitCode {
    let seen = look(file).unwrap_or_else(|error| Seen { error: Some(error), ..Seen::default() });
    println!("{}", serde_json::to_string(&seen).expect("strings and numbers only"));
    ExitCode::SUCCESS
}

fn look(file: &Path) -> Result<Seen, String> {
    let library = Library::load(file).map_err(|error| error.to_string())?;
    let devices = library.device_names().map_err(|error| error.to_string())?;
    let begun = Instant::now();
    let session = Session::open(&library, 0).map_err(|error| error.to_string())?;
    let open_us = begun.elapsed().as_micros() as u64;
    let port = session.port().map_err(|error| error.to_string())?;
    let gids = (0..port.gid_count).filter_map(|index| session.gid(index).ok()).filter(|gid| gid != &[0; 16]);
    let gids = gids.map(|gid| std::net::Ipv6Addr::from(gid).to_string()).collect();
    Ok(Seen {
        symbols: library.symbol_count(),
        devices,
        open_us,
        link_layer: port.link_layer().to_owned(),
        gids,
        error: None,
    })
}

/// Libraries that would be asked before ours, which are in `folder`.
fn preloaded(folder: Option<&LibraryFolder>) -> Line {
    const NAME: &str = "LD_PRELOAD";
    let value = std::env::var(NAME).unwrap_or_default();
    let is_ours = |name: &&str| folder.is_some_and(|folder| Path::new(name).parent() == Some(folder.path()));
    let mut others = value.split([':', ' ']).filter(|name| !is_ours(name));
    let rivals = ["ibverbs", "rdmacm", "rspreload"];
    if others.any(|name| rivals.iter().any(|rival| name.contains(rival))) {
        Line::note(NAME, format!("{value} comes before nonic's library")).fix("unset LD_PRELOAD")
    } else if value.is_empty() {
        Line::ok(NAME, "nothing in the way")
    } else {
        Line::ok(NAME, format!("{value}; no rival of nonic's library"))
    }
}

/// The device's variables that are set, each judged.
fn variables() -> Vec<Line> {
    let known = ["NONIC_LIB_DIR"];
    let set =
        std::env::vars().filter(|(name, _)| name.starts_with("NONIC_") && !known.contains(&name.as_str()));
    let mut set: Vec<_> = set.collect();
    set.sort();
    let judge = |(name, value): (String, String)| match complaint_about(&name, &value) {
        None => Line::ok("variable", format!("{name}={value}")),
        Some(complaint) => {
            Line::note("variable", format!("{name}={value}: {complaint}")).fix(format!("unset {name}"))
        }
    };
    set.into_iter().map(judge).collect()
}
