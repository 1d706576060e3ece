//! The programs of `dapl2-utils`: a server and clients, which meet at service numbers of uDAPL and partly at TCP ports that
//! are fixed in them.

use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::environment::{Environment, Place};
use crate::output::complaints;
use crate::program::{Finished, Running};
use crate::suite::{Verdict, failed};
use crate::toolbox::program;

/// Where every program of this module gets its adapter from, unless a test says otherwise.
pub const ADAPTER: &str = "nonic";

/// Longest that a server or client may run. The programs themselves wait for ever at several places.
const DEADLINE: Duration = Duration::from_secs(90);

/// A place in which only programs of one test meet: a network of its own or, where that is not wanted, a turn.
pub struct Room {
    /// The place.
    pub place: Place,
    /// Held by tests in the network of the host: TCP ports and service numbers are fixed in the programs.
    _turn: Option<MutexGuard<'static, ()>>,
}

impl Room {
    /// A network of its own, otherwise this environment.
    pub fn apart(environment: Environment) -> Verdict<Self> {
        let place = Place::prepare(Environment { only_lo: true, ..environment })?;
        Ok(Self { place, _turn: None })
    }

    /// A place that is its own.
    pub fn of(place: Place) -> Self {
        Self { place, _turn: None }
    }

    /// In the network of the host, when it is free.
    pub fn on_the_host(environment: Environment) -> Verdict<Self> {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Self { place: Place::prepare(environment)?, _turn: Some(turn) })
    }

    /// Changes the place.
    pub fn with(self, change: impl FnOnce(Place) -> Place) -> Self {
        Self { place: change(self.place), ..self }
    }

    /// Starts a program of `dapl2-utils`.
    pub fn start(&self, options: &[&str], name: &str, arguments: &[&str]) -> Verdict<Running> {
        let words = [program(name)?.display().to_string()];
        let words = words.into_iter().chain(arguments.iter().map(|word| word.to_string()));
        self.place.nonic_run_with(options, words)?.deadline(DEADLINE).start()
    }
}

/// Both sides of a test.
pub struct Sides {
    /// Which was started first and waited.
    pub server: Finished,
    /// Which connected.
    pub client: Finished,
}

/// What tells that a server waits.
#[derive(Debug, Clone, Copy)]
pub enum Ready {
    /// It listens on this TCP port.
    Port(u16),
    /// It listens on this service number of uDAPL.
    Service(u64),
}

impl Sides {
    /// Runs a server, and a client once the server is ready, both with `arguments`.
    ///
    /// Some servers tell their client by TCP where they are *before* they listen, and a client that is quicker is rejected,
    /// as it should be. That says nothing about the provider, so it is tried again.
    pub fn run(room: &Room, options: &[&str], name: &str, arguments: &[&str], ready: Ready) -> Verdict<Self> {
        Self::apart([room, room], "127.0.0.1", options, name, arguments, ready)
    }

    /// The same in two places, of the server and of the client, which finds it at `address`.
    pub fn apart(
        rooms: [&Room; 2],
        address: &str,
        options: &[&str],
        name: &str,
        arguments: &[&str],
        ready: Ready,
    ) -> Verdict<Self> {
        for _ in 0..10 {
            let sides = Self::try_once(rooms, address, options, name, arguments, ready)?;
            if !came_too_early(&sides.client) {
                return Ok(sides);
            }
        }
        failed(format!("{name}'s client was quicker than its server ten times in a row"))
    }

    fn try_once(
        [near, far]: [&Room; 2],
        address: &str,
        options: &[&str],
        name: &str,
        arguments: &[&str],
        ready: Ready,
    ) -> Verdict<Self> {
        let server = [&["-P", ADAPTER], arguments, &["-s"]].concat();
        let client = [&["-P", ADAPTER], arguments, &["-h", address]].concat();
        let mut server = near.start(options, name, &server)?;
        match ready {
            Ready::Port(port) => server.listens_on(port)?,
            Ready::Service(number) => serves(&mut server, number)?,
        }
        let client = match far.start(options, name, &client)?.finish() {
            Ok(client) => client,
            Err(why) => {
                return failed(format!("the client: {why}\nthe server:\n{}", server.report("at that time")));
            }
        };
        if came_too_early(&client) {
            // The server waits for ever for it.
            return Ok(Self { server: server.kill(), client });
        }
        match server.finish() {
            Ok(server) => Ok(Self { server, client }),
            Err(why) => failed(format!("the server: {why}\nthe client:\n{}", client.report())),
        }
    }

    /// Fails unless both exited with 0, complained of nothing, and printed a line that holds each of `words`.
    pub fn both_say(&self, words: &[&str]) -> Verdict {
        for (side, finished) in [("client", &self.client), ("server", &self.server)] {
            if !finished.succeeded() {
                return self.wrong(format!("the {side} ended with {}", finished.status()));
            }
            if let Some(line) = complaints(&finished.printed()).first() {
                return self.wrong(format!("the {side} exited with 0 and yet says: {line}"));
            }
            if let Some(missing) = words.iter().find(|words| !finished.stdout.contains(**words)) {
                return self.wrong(format!("the {side} does not say \"{missing}\""));
            }
        }
        Ok(())
    }

    /// Fails unless a side printed `words`.
    pub fn says(&self, finished: &Finished, words: &str) -> Verdict {
        if finished.stdout.contains(words) {
            return Ok(());
        }
        self.wrong(format!("\"{words}\" is missing"))
    }

    /// A failure that shows what both printed.
    pub fn wrong<T>(&self, why: impl Into<String>) -> Verdict<T> {
        let why = why.into();
        failed(format!("{why}\nthe client:\n{}the server:\n{}", self.client.report(), self.server.report()))
    }
}

/// Whether a client says that nobody listened (`DAT_CONNECTION_EVENT_NON_PEER_REJECTED`).
fn came_too_early(client: &Finished) -> bool {
    let printed = client.printed();
    printed.contains("0x4003") || printed.contains("DAT_CONNECTION_EVENT_NON_PEER_REJECTED")
}

/// Waits until somebody in the server's network listens on a service number of uDAPL.
pub fn serves(server: &mut Running, number: u64) -> Verdict {
    let end = Instant::now() + DEADLINE;
    loop {
        let table = fs::read_to_string(format!("/proc/{}/net/unix", server.id())).unwrap_or_default();
        if listens(&table, number) {
            return Ok(());
        }
        if server.has_ended() || Instant::now() > end {
            return failed(format!("it never served number {number}\n{}", server.report("then")));
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Reads the kernel's table: `Num RefCount Protocol Flags Type St Inode Path`; flag 0x10000 is a listening socket, and the
/// services of uDAPL have abstract names that end in `/dat/<number>`.
fn listens(table: &str, number: u64) -> bool {
    let name = format!("/dat/{number}");
    table.lines().any(|line| {
        let mut fields = line.split_whitespace();
        fields.nth(3) == Some("00010000") && fields.last().is_some_and(|path| path.ends_with(&name))
    })
}

/// The number behind `label` and a colon or equals sign, in the first line that holds the label.
pub fn figure(text: &str, label: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.contains(label))?;
    let rest = line.split_once(label)?.1.trim_start_matches([' ', ':', '=']);
    let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == ' ')).unwrap_or(rest.len());
    // dapltest pads the digits behind the point with blanks, as in `0. 5`.
    rest[..end].trim().replace(". ", ".0").split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_found_in_the_kernels_table_only_while_it_listens() {
        let table = "Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0005 01 123 @nonic-connection.3/dat/45248
0000000000000000: 00000003 00000000 00000000 0005 03 124 @nonic-connection.3/dat/45249
";
        assert!(listens(table, 45248));
        assert!(!listens(table, 45249));
        assert!(!listens(table, 5248));
    }

    #[test]
    fn figures_are_read_behind_their_labels() {
        let text =
            "Total WQE        :   20000.12 WQE/Sec\nTotal Send       :       3.90 MB -     410. 5 MB/Sec\n";
        assert_eq!(figure(text, "Total WQE"), Some(20000.12));
        assert_eq!(figure(text, "Total Send"), Some(3.9));
        assert_eq!(figure(text, "Total Recv"), None);
        assert_eq!(figure("x, CPS 1234.50 Total 0.1", "CPS"), Some(1234.5));
    }
}
