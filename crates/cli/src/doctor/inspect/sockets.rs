//! TCP sockets of a process: whether the library that leads them over RDMA is in it, which of them go that way, and why the others do
//! not. The kernel says which there are, the library which way each goes.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nonic_sockets::{Course, SocketFacts, Taken};
use serde::Serialize;

use super::process::Seen;
use super::tcp_table::{self, TcpSocket};
use crate::doctor::report::Line;
use crate::library::{LibraryFolder, SOCKETS_LIBRARY};

/// Sockets that are told one by one; of more only the numbers.
const TOLD: usize = 32;

/// What is told of the sockets of a process, for machines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Sockets {
    /// Whether the library is in the process.
    preload: bool,
    /// Which sockets it takes, if it has seen one.
    #[serde(skip_serializing_if = "Option::is_none")]
    taken: Option<&'static str>,
    sockets: Vec<Told>,
}

/// What is told of one socket.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct Told {
    listens: bool,
    /// `rdma`, `tcp`, or of what listens also `both`.
    way: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<SocketAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    destination: Option<SocketAddr>,
    #[serde(skip_serializing_if = "String::is_empty")]
    why: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<&'static str>,
}

const START_THERE: &str = "start the program that listens there with nonic run --sockets";
const START_HERE: &str = "start it with nonic run --sockets, and the other side, too";

impl Sockets {
    /// Whether there is anything to tell of a process that has no device.
    pub(super) fn are_led(&self) -> bool {
        self.preload
    }
}

/// Looks at a process.
pub(super) fn of(process: &Seen) -> Sockets {
    let numbers = numbers(&process.place);
    let shown = process.sockets(&numbers.values().copied().collect::<Vec<_>>());
    let inodes: Vec<u64> = numbers.keys().copied().collect();
    let kernels = tcp_table::sockets(&process.place, &inodes);
    let own = shown.iter().find(|shown| shown.owner == process.inner_pid as u32);
    // A child holds its parent's file, and has its parent's sockets; what it shows itself is newer.
    let mut facts: BTreeMap<u64, SocketFacts> = BTreeMap::new();
    for shown in shown.iter().filter(|shown| shown.owner != process.inner_pid as u32).chain(own) {
        facts.extend(shown.sockets.iter().map(|facts| (facts.inode, *facts)));
    }
    let taken = own.and_then(|own| own.taken);
    let preload = own.is_some() || is_loaded(&process.place);
    let listening: Vec<u16> =
        kernels.values().filter(|socket| socket.listens()).map(|socket| socket.source.port()).collect();
    let look = Look { preload, taken, is_here: shares_network(&process.place), listening };
    let told = |(inode, number): (&u64, &i32)| look.tell(*number, facts.get(inode), kernels.get(inode));
    let mut sockets: Vec<Told> = numbers.iter().filter_map(told).collect();
    sockets.sort_by(|one, other| other.listens.cmp(&one.listens).then_with(|| one.cmp(other)));
    Sockets { preload, taken: taken.map(word), sockets }
}

/// Numbers of sockets, each by the inode; the lowest of those that stand for the same one.
fn numbers(place: &Path) -> BTreeMap<u64, i32> {
    let mut numbers: BTreeMap<u64, i32> = BTreeMap::new();
    for entry in fs::read_dir(place.join("fd")).into_iter().flatten().flatten() {
        let link = fs::read_link(entry.path()).unwrap_or_default();
        let inode =
            link.to_str().and_then(|link| link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok());
        let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
        if let (Some(inode), Some(number)) = (inode, number) {
            let lowest = numbers.entry(inode).or_insert(number);
            *lowest = number.min(*lowest);
        }
    }
    numbers
}

/// Whether the library is mapped there: by its name, or as the file that the name beside this command leads to.
fn is_loaded(place: &Path) -> bool {
    let maps = fs::read(place.join("maps")).unwrap_or_default();
    let own = LibraryFolder::find().ok().and_then(|folder| folder.sockets_library().canonicalize().ok());
    let names = [Some(PathBuf::from(format!("/{SOCKETS_LIBRARY}"))), own];
    let is_it = |line: &[u8]| names.iter().flatten().any(|name| line.ends_with(name.as_os_str().as_bytes()));
    maps.split(|byte| *byte == b'\n').any(is_it)
}

fn shares_network(place: &Path) -> bool {
    let own = fs::read_link("/proc/self/ns/net").ok();
    own.is_some() && fs::read_link(place.join("ns/net")).ok() == own
}

fn word(taken: Taken) -> &'static str {
    match taken {
        Taken::All => "on",
        Taken::Connecting => "connect",
        Taken::None => "off",
    }
}

/// What holds for all sockets of a process.
struct Look {
    preload: bool,
    taken: Option<Taken>,
    /// It is in this command's network namespace, whose addresses are known.
    is_here: bool,
    /// Ports that it listens on.
    listening: Vec<u16>,
}

impl Look {
    /// What is told of a socket; `None` of one that is neither connected nor listening.
    fn tell(&self, number: i32, facts: Option<&SocketFacts>, kernels: Option<&TcpSocket>) -> Option<Told> {
        let by_tcp = kernels.filter(|socket| socket.is_connected());
        if let Some(socket) = kernels.filter(|socket| socket.listens()) {
            let (way, why, fix) = self.listener(facts);
            let source = Some(socket.source);
            return Some(Told { listens: true, way, source, destination: None, why, fix });
        }
        let told = |way, why: String, fix, source, destination| {
            Some(Told { listens: false, way, source, destination, why, fix })
        };
        match (facts, by_tcp) {
            (Some(facts), None) if facts.course == Course::Stream => {
                told("rdma", String::new(), None, facts.source, facts.destination)
            }
            // What goes between it and its peer the program knows by other addresses than the kernel.
            (Some(facts), Some(_)) if facts.course == Course::Carried => {
                let why = "a forked child has it, too: it goes over TCP to the process that made it, which carries it on by RDMA";
                told("tcp", why.into(), None, facts.source, facts.destination)
            }
            (facts, Some(socket)) => {
                let (why, fix) = self.reason(number, facts, socket);
                told("tcp", why, fix, Some(socket.source), Some(socket.destination))
            }
            (_, None) => None,
        }
    }

    fn listener(&self, facts: Option<&SocketFacts>) -> (&'static str, String, Option<&'static str>) {
        let by_tcp = |why: String, fix| ("tcp", why, fix);
        match facts.map(|facts| (facts.course, facts.errno)) {
            Some((Course::Listens, _)) => ("both", String::new(), None),
            Some((Course::OnlyConnects, _)) => by_tcp("NONIC_SOCKETS=connect".into(), None),
            Some((Course::ListensByTcp, errno)) => {
                by_tcp(format!("a stream cannot listen there: {}", error(errno)), None)
            }
            _ => {
                let (why, fix) = self.unknown();
                by_tcp(why, fix)
            }
        }
    }

    /// Why a connection goes over TCP.
    fn reason(
        &self,
        number: i32,
        facts: Option<&SocketFacts>,
        socket: &TcpSocket,
    ) -> (String, Option<&'static str>) {
        let peer = socket.destination.ip();
        match facts.map(|facts| (facts.course, facts.errno)) {
            Some((Course::Nobody, _)) if self.is_here && !nonic_sys::is_own_address(peer) => {
                (format!("{peer} is no address of this host"), None)
            }
            Some((Course::Nobody, _)) => ("nobody listens there by a stream".into(), Some(START_THERE)),
            Some((Course::Stranger, _)) => {
                ("another user listens there by a stream, and not by TCP".into(), None)
            }
            Some((Course::Refused, errno)) => (format!("a stream was refused: {}", error(errno)), None),
            _ if self.preload
                && self.taken != Some(Taken::None)
                && self.listening.contains(&socket.source.port()) =>
            {
                let fix = Some("start the program that connects with nonic run --sockets");
                ("accepted: its peer connected by TCP".into(), fix)
            }
            _ if self.preload
                && usize::try_from(number).is_ok_and(|number| number >= nonic_sockets::NUMBERS) =>
            {
                (format!("its number {number} is above {}", nonic_sockets::NUMBERS - 1), None)
            }
            _ => self.unknown(),
        }
    }

    /// Of a socket that the library says nothing of.
    fn unknown(&self) -> (String, Option<&'static str>) {
        match (self.preload, self.taken) {
            (false, _) => (format!("{SOCKETS_LIBRARY} is not in the process"), Some(START_HERE)),
            (true, Some(Taken::None)) => ("NONIC_SOCKETS=off".into(), None),
            (true, _) => {
                let why = "made before the library was there, by another program or another library's own calls of the kernel";
                (why.into(), None)
            }
        }
    }
}

fn error(errno: i32) -> String {
    std::io::Error::from_raw_os_error(errno).to_string()
}

/// For people.
pub(super) fn lines(all: &Sockets) -> Vec<Line> {
    let mut lines = vec![preload(all)];
    lines.extend(all.sockets.iter().take(TOLD).map(line));
    let mut more: BTreeMap<&str, usize> = BTreeMap::new();
    for one in all.sockets.iter().skip(TOLD) {
        *more.entry(name(one)).or_default() += 1;
    }
    if !more.is_empty() {
        let more: Vec<_> = more.into_iter().map(|(name, count)| format!("{count} {name}")).collect();
        lines.push(Line::ok("more", more.join(", ")));
    }
    lines
}

fn preload(all: &Sockets) -> Line {
    match (all.preload, all.taken) {
        (false, _) => Line::ok(SOCKETS_LIBRARY, "is not in the process: its TCP sockets are the kernel's"),
        (true, Some("connect")) => {
            Line::note(SOCKETS_LIBRARY, "takes sockets that connect; those that listen do so by TCP alone")
                .fix("start it without NONIC_SOCKETS=connect")
        }
        (true, Some("off")) => {
            Line::note(SOCKETS_LIBRARY, "takes none").fix("start it without NONIC_SOCKETS=off")
        }
        (true, Some(_)) => Line::ok(SOCKETS_LIBRARY, "is in the process, and takes all its TCP sockets"),
        (true, None) => Line::ok(SOCKETS_LIBRARY, "is in the process, which has made no TCP socket"),
    }
}

fn name(one: &Told) -> &'static str {
    match (one.listens, one.way) {
        (true, _) => "listening",
        (false, "rdma") => "by RDMA",
        (false, _) => "by TCP",
    }
}

fn line(one: &Told) -> Line {
    let place = |address: Option<SocketAddr>| address.map_or("?".to_owned(), |address| address.to_string());
    let mut value = place(one.source);
    if one.listens {
        value += if one.way == "both" { " by RDMA and by TCP" } else { " by TCP alone" };
    } else {
        value += &format!(" to {}", place(one.destination));
    }
    if !one.why.is_empty() {
        value += &format!(": {}", one.why);
    }
    match one.fix {
        Some(fix) => Line::note(name(one), value).fix(fix),
        None => Line::ok(name(one), value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look() -> Look {
        Look { preload: true, taken: Some(Taken::All), is_here: true, listening: vec![7000] }
    }

    fn facts(course: Course) -> SocketFacts {
        let [source, destination] = ["127.0.0.1:40000", "127.0.0.1:7000"].map(|text| text.parse().ok());
        SocketFacts { inode: 1, course, errno: libc::EADDRINUSE, source, destination }
    }

    fn kernels(source: &str, destination: &str) -> TcpSocket {
        TcpSocket::connected(source.parse().unwrap(), destination.parse().unwrap())
    }

    fn why(look: &Look, facts: Option<SocketFacts>, socket: TcpSocket) -> String {
        let told = look.tell(5, facts.as_ref(), Some(&socket)).unwrap();
        assert_eq!((told.way, told.listens), ("tcp", false));
        told.why
    }

    #[test]
    fn each_reason_for_tcp_is_told() {
        let near = kernels("127.0.0.1:40000", "127.0.0.1:7001");
        let said = |course| why(&look(), Some(facts(course)), near);
        assert!(said(Course::Nobody).contains("nobody listens"));
        assert!(said(Course::Stranger).contains("another user"));
        assert!(said(Course::Refused).contains("Address already in use"));
        assert!(said(Course::Carried).contains("child"));
        let far = kernels("127.0.0.1:40000", "192.0.2.1:80");
        assert!(why(&look(), Some(facts(Course::Nobody)), far).contains("no address of this host"));
        let accepted = kernels("127.0.0.1:7000", "127.0.0.1:40000");
        assert!(why(&look(), None, accepted).contains("its peer connected by TCP"));
        assert!(why(&look(), None, near).contains("before the library"));
        assert!(why(&Look { taken: Some(Taken::None), ..look() }, None, accepted).contains("=off"));
        assert!(
            why(&Look { preload: false, taken: None, ..look() }, None, near).contains("not in the process")
        );
    }

    #[test]
    fn a_stream_has_the_programs_addresses_and_what_a_number_was_before_is_not_told() {
        let stream = look().tell(5, Some(&facts(Course::Stream)), None).unwrap();
        assert_eq!((stream.way, stream.source), ("rdma", "127.0.0.1:40000".parse().ok()));
        // What was to go over TCP has ended, or was never connected.
        assert_eq!(look().tell(5, Some(&facts(Course::Nobody)), None), None);
        assert_eq!(look().tell(5, None, None), None);
    }

    #[test]
    fn of_many_the_rest_is_counted() {
        let stream = look().tell(5, Some(&facts(Course::Stream)), None).unwrap();
        let all = Sockets { preload: true, taken: Some("on"), sockets: vec![stream; TOLD + 8] };
        let lines = lines(&all);
        assert_eq!(lines.len(), TOLD + 2);
        assert!(serde_json::to_string(&lines[TOLD + 1]).unwrap().contains("8 by RDMA"));
    }
}
