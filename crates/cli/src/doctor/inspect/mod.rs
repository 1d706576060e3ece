//! `nonic doctor --pid`: a running process, its regions and its peers; which way bytes take, why, and the one change that
//! would make it better.

mod changes;
mod identifiers;
pub(crate) mod process;
mod regions;
mod sockets;
mod tcp_table;
mod traffic;
mod way;
pub(super) mod words;

use std::process::ExitCode;

use nonic_memory::{AdoptionPolicy, Translation};
use nonic_transport::{LinkFacts, SegmentRegions, Tier as Limit};
use serde::Serialize;

use super::report::{Line, Section, Tier, render_sections};
use crate::EXIT_REFUSED;
use crate::style::{Style, print};
use process::{Process, Seen, Unexplained};
use regions::Group;
use sockets::Sockets;
use traffic::Traffic;
use way::{End, Way};

/// What is told about one or two processes.
#[derive(Debug, Serialize)]
struct Explanation {
    version: &'static str,
    processes: Vec<Told>,
    sections: Vec<Section>,
}

/// What is told about one process, for machines.
#[derive(Debug, Default, Serialize)]
struct Told {
    pid: i32,
    name: String,
    uid: u32,
    regions: Vec<Group>,
    traffic: Traffic,
    peers: Vec<Peer>,
    links_beyond: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    identifiers: Option<Identifiers>,
    tcp: Sockets,
}

/// The identifiers of a process that uses the RDMA connection manager.
#[derive(Debug, Serialize)]
struct Identifiers {
    shown: Vec<identifiers::Told>,
    beyond: u64,
}

/// One link of a process, both ways.
#[derive(Debug, Serialize)]
struct Peer {
    pid: i32,
    uid: u32,
    #[serde(skip)]
    name: String,
    to: Way,
    from: Way,
}

/// Explains the processes and prints it.
pub(super) fn main(pids: &[i32], json: bool) -> ExitCode {
    if pids.len() > 2 || pids.first() == pids.get(1) {
        eprintln!("nonic: --pid takes one process, or two different ones for the pair they are");
        return ExitCode::from(EXIT_REFUSED);
    }
    match explain(pids) {
        Ok(explanation) => tell(&explanation, json),
        Err(unexplained) => {
            if let Some(explanation) = explain_sockets(pids, &unexplained) {
                return tell(&explanation, json);
            }
            eprintln!("nonic: {unexplained}");
            ExitCode::FAILURE
        }
    }
}

fn tell(explanation: &Explanation, json: bool) -> ExitCode {
    print(&if json { explanation.to_json() } else { explanation.to_text(Style::of_standard_output()) });
    ExitCode::SUCCESS
}

/// A process without a device of its own whose TCP sockets are led over RDMA where they can be: what has become of them.
fn explain_sockets(pids: &[i32], why: &Unexplained) -> Option<Explanation> {
    let (Unexplained::NoDevice { .. } | Unexplained::Inherited { .. }, [pid]) = (why, pids) else {
        return None;
    };
    let seen = Seen::find(*pid).ok()?;
    let tcp = sockets::of(&seen);
    tcp.are_led().then(|| Explanation {
        version: env!("CARGO_PKG_VERSION"),
        sections: vec![
            Section::new(
                format!("Process {}", seen.title()),
                vec![Line::ok("user", seen.uid.to_string()), Line::ok("device", "has opened none itself")],
            ),
            Section::new(format!("TCP sockets of {}", seen.title()), sockets::lines(&tcp)),
        ],
        processes: vec![Told { pid: seen.pid, name: seen.name, uid: seen.uid, tcp, ..Told::default() }],
    })
}

fn explain(pids: &[i32]) -> Result<Explanation, Unexplained> {
    let processes = pids.iter().map(|pid| Process::find(*pid)).collect::<Result<Vec<_>, _>>()?;
    let mut told = Vec::new();
    let mut sections = Vec::new();
    for process in &processes {
        let found = process.regions()?;
        sections.push(Section::new(format!("Process {}", process.seen.title()), settings(process)));
        sections.push(Section::new(format!("Regions of {}", process.seen.title()), regions::lines(&found)));
        let traffic = Traffic(process.counters()?);
        sections.push(Section::new(format!("Traffic of {}", process.seen.title()), traffic.lines()));
        let changes = changes::of(process);
        if !changes.is_empty() {
            sections
                .push(Section::new(format!("Changes of {}", process.seen.title()), changes::lines(&changes)));
        }
        let identifiers = process
            .identifiers()
            .map(|shown| Identifiers { shown: identifiers::told(&shown), beyond: shown.beyond });
        if let Some(Identifiers { shown, beyond }) = &identifiers {
            let lines = identifiers::lines(shown, *beyond);
            sections.push(Section::new(format!("Connections (rdma_cm) of {}", process.seen.title()), lines));
        }
        let tcp = sockets::of(&process.seen);
        sections.push(Section::new(format!("TCP sockets of {}", process.seen.title()), sockets::lines(&tcp)));
        let other = processes.iter().find(|other| other.seen.pid != process.seen.pid);
        let wanted = |link: &&LinkFacts| {
            other.is_none_or(|other| link.pid == other.seen.pid || link.pid == other.seen.inner_pid)
        };
        let peers: Vec<_> =
            process.head.links.iter().filter(wanted).map(|link| peer(process, link)).collect();
        if other.is_none() {
            let lines = peer_lines(&peers, process.head.links_beyond);
            sections.push(Section::new(format!("Peers of {}", process.seen.title()), lines));
        }
        told.push(Told {
            pid: process.seen.pid,
            name: process.seen.name.clone(),
            uid: process.seen.uid,
            regions: regions::groups(&found),
            traffic,
            peers,
            links_beyond: process.head.links_beyond,
            changes,
            identifiers,
            tcp,
        });
    }
    if let [first, second] = &told[..] {
        for (from, to) in [(first, second), (second, first)] {
            let title =
                format!("From {} ({}) to the memory of {} ({})", from.pid, from.name, to.pid, to.name);
            sections.push(Section::new(title, pair_lines(from, to)));
        }
    }
    Ok(Explanation { version: env!("CARGO_PKG_VERSION"), processes: told, sections })
}

impl Explanation {
    fn to_json(&self) -> String {
        serde_json::to_string(self).expect("an explanation holds only strings, numbers and booleans") + "\n"
    }

    fn to_text(&self, style: Style) -> String {
        let mut text = format!("{}\n", style.strong(format_args!("nonic {}", self.version)));
        render_sections(&self.sections, style, &mut text);
        text
    }
}

fn settings(process: &Process) -> Vec<Line> {
    let settings = &process.head.settings;
    let tier = match settings.tier {
        Limit::Mapped => Line::ok("tier", "mapped at best"),
        Limit::Kernel => limit("kernel copy at best (NONIC_TIER=kernel)"),
        Limit::Ring => limit("ring (NONIC_TIER=ring)"),
    };
    let adoption = match (settings.tier, settings.adoption, settings.has_file) {
        (Limit::Mapped, AdoptionPolicy::Never, _) => {
            Line::note("adoption", "never (NONIC_ADOPT=never)").fix("start it with NONIC_ADOPT=auto")
        }
        (_, AdoptionPolicy::Never, _) => Line::ok("adoption", "never, under this tier"),
        (_, _, false) => Line::note("adoption", words::reason(nonic_memory::PlainReason::NoFile))
            .fix("ulimit -f unlimited, before it is started"),
        (_, AdoptionPolicy::Auto, true) => Line::ok("adoption", "where it pays"),
        (_, AdoptionPolicy::Always, true) => Line::ok("adoption", "always"),
    };
    let mut lines = vec![Line::ok("user", process.seen.uid.to_string()), tier, adoption];
    lines.extend(process.variables.iter().map(|variable| Line::ok("started with", variable.clone())));
    lines
}

fn limit(words: &str) -> Line {
    Line::note("tier", words).fix("start it with NONIC_TIER=auto")
}

fn peer(process: &Process, link: &LinkFacts) -> Peer {
    let owner = End { pid: process.seen.pid, uid: process.seen.uid, settings: Some(process.head.settings) };
    let peer = process.peer(link.pid);
    let other = End { pid: link.pid, uid: link.uid, settings: peer.as_ref().map(|peer| peer.head.settings) };
    // What the peer itself shows is better than what it said when they met.
    let back =
        peer.as_ref().and_then(|peer| peer.head.links.iter().find(|back| back.pid == process.seen.pid));
    let from = match back {
        Some(back) => Way::to_peer(other, owner, back),
        None => Way::from_peer(owner, other, link),
    };
    let name = peer.map_or_else(
        || format!("user {}", link.uid),
        |peer| format!("{}, user {}", peer.seen.name, link.uid),
    );
    Peer { pid: link.pid, uid: link.uid, name, to: Way::to_peer(owner, other, link), from }
}

fn peer_lines(peers: &[Peer], beyond: u64) -> Vec<Line> {
    let mut lines = Vec::new();
    for peer in peers {
        lines.push(Line::ok("peer", format!("{} ({})", peer.pid, peer.name)));
        lines.push(way_line("  towards it", &peer.to));
        lines.push(way_line("  from it", &peer.from));
    }
    if beyond > 0 {
        lines.push(Line::ok("more", format!("{beyond} links that the table in the segment has no room for")));
    }
    if lines.is_empty() {
        lines.push(Line::ok(
            "peers",
            "none: no queue pair of it has exchanged a message with another process",
        ));
    }
    lines
}

fn way_line(name: &'static str, way: &Way) -> Line {
    let mut value = way.tier.words().to_owned();
    match way.tier {
        Tier::Mapped => {
            value += " (adopted pages";
            if let Some([large, small]) = way.apertures {
                for (count, size) in
                    [(large, "64 GiB"), (small, "1 GiB")].into_iter().filter(|(count, _)| *count > 0)
                {
                    value +=
                        &format!(", {count} aperture{} of {size} mapped", if count == 1 { "" } else { "s" });
                }
                if [large, small] == [0, 0] {
                    value += ", no aperture mapped yet";
                }
            }
            value += if way.kernel { "; the rest by kernel copy)" } else { "; the rest by the ring)" };
        }
        _ if way.shared_memory => value += "; device memory and shared files are mapped",
        _ => {}
    }
    if let Some(obstacle) = &way.obstacle {
        value += &format!(": {obstacle}");
    }
    let line = if way.obstacle.is_some() { Line::note(name, value) } else { Line::ok(name, value) };
    match &way.fix {
        Some(fix) => line.fix(fix.clone()),
        None => line,
    }
}

/// How one process reaches the regions of another.
fn pair_lines(from: &Told, to: &Told) -> Vec<Line> {
    // Each of them names the other by the number it has in its own pid namespace; the list holds only this peer.
    let way = from.peers.first().map(|peer| &peer.to).or_else(|| to.peers.first().map(|peer| &peer.from));
    let Some(way) = way else {
        return vec![Line::ok("link", "none: the two have not exchanged a message")];
    };
    let mut lines = vec![way_line("link", way)];
    for group in &to.regions {
        let tier = way.tier_for(group.lie);
        let reason = if group.reason.is_empty() || group.fix().is_none() {
            String::new()
        } else {
            format!(": {}", group.reason)
        };
        let value = format!("{}: {}{reason}", group.lie.words(), group.amount());
        let better = if tier == Tier::Mapped { None } else { way.fix.clone() };
        let fix = group.fix().map(str::to_owned).or(better);
        lines.push(match fix {
            Some(fix) => Line::note(tier.words(), value).fix(fix),
            None => Line::ok(tier.words(), value),
        });
    }
    lines
}

/// Whether `from` has adopted memory of `to` mapped.
pub(super) fn maps_adopted_memory(from: i32, to: i32) -> bool {
    let (Ok(from), Ok(to)) = (Process::find(from), Process::find(to)) else { return false };
    let adopted = |found: SegmentRegions| {
        found.regions.iter().any(|entry| matches!(entry.translation, Translation::Adopted { .. }))
    };
    let maps = |link: &LinkFacts| {
        link.pid == to.seen.inner_pid && (link.large_apertures > 0 || link.small_apertures > 0)
    };
    from.head.links.iter().any(maps) && to.regions().is_ok_and(adopted)
}
