//! Asks the engine itself which way bytes take: two processes connect through the library, one is stopped, and the other
//! writes to its memory. What arrives nevertheless went without the target's help.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use rustix::process::{Pid, Signal, WaitOptions};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::inspect;
use crate::demo::endpoint::Endpoint;
use crate::demo::exchange::Exchange;
use crate::demo::failure::{Failure, Outcome, ensure};
use crate::library::{LibraryFolder, own_program};
use crate::verbs::{Buffer, Library, Operation, Piece, RemoteMemory, Rights, Session};

/// How much time the two processes are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Pace {
    /// Plenty where they have a processor each.
    Brisk,
    /// Plenty where dozens of others wait for the same processor.
    Patient,
}

impl Pace {
    fn name(self) -> &'static str {
        match self {
            Self::Brisk => "brisk",
            Self::Patient => "patient",
        }
    }

    /// How long the initiator keeps writing before the target is stopped, so that both ends know all about each other.
    fn acquaintance(self) -> Duration {
        match self {
            Self::Brisk => Duration::from_millis(20),
            Self::Patient => Duration::from_secs(1),
        }
    }

    /// How long a write to a stopped process may take. One that needs no help takes microseconds.
    fn without_help(self) -> Duration {
        match self {
            Self::Brisk => Duration::from_millis(40),
            Self::Patient => Duration::from_secs(1),
        }
    }
}

/// Lines that each end of a connection tells the other: where it is, and that it is ready.
const WORDS_TO_CONNECT: usize = 2;

/// Which of the two processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Side {
    Initiator,
    Target,
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Self::Initiator => "initiator",
            Self::Target => "target",
        }
    }
}

/// Which memory of a stopped process could be written.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(super) struct Reach {
    /// Ordinary memory.
    pub(super) ordinary: bool,
    /// Device memory.
    pub(super) device: bool,
    /// The ordinary memory was adopted, and the initiator had it mapped.
    #[serde(default)]
    pub(super) adopted: bool,
}

impl Reach {
    /// Whether everything that `other` could write this one could, too.
    fn covers(self, other: Self) -> bool {
        self.ordinary >= other.ordinary && self.device >= other.device && self.adopted >= other.adopted
    }
}

/// Lets two processes try it; a failure is a sentence. If less comes of it than `expected` they try once more with more time:
/// on a busy machine neither may have had its turn.
pub(super) fn examine(expected: Reach) -> Result<Reach, String> {
    direct(Pace::Brisk)
        .and_then(|reach| if reach.covers(expected) { Ok(reach) } else { direct(Pace::Patient) })
        .map_err(|failure| failure.to_string())
}

fn direct(pace: Pace) -> Outcome<Reach> {
    let folder = LibraryFolder::find().map_err(|error| Failure::new(error.to_string()))?;
    let mut initiator = Helper::start(Side::Initiator, pace, &folder.verbs_library())?;
    let mut target = Helper::start(Side::Target, pace, &folder.verbs_library())?;
    // The two talk through this process, so that it knows how far they are.
    for _memory in 0..2 {
        for _ in 0..WORDS_TO_CONNECT {
            pass_on(&mut initiator, &mut target)?;
            pass_on(&mut target, &mut initiator)?;
        }
        pass_on(&mut target, &mut initiator)?; // Where its memory is.
    }
    initiator.exchange.hear::<()>()?; // It has written, and they know each other.
    target.stop()?;
    initiator.exchange.tell(&())?;
    let reach: Reach = initiator.exchange.hear()?;
    let adopted = inspect::maps_adopted_memory(initiator.child.id() as i32, target.child.id() as i32);
    Ok(Reach { adopted, ..reach })
}

fn pass_on(from: &mut Helper, to: &mut Helper) -> Outcome<()> {
    let word: Value =
        from.exchange.hear().map_err(|failure| Failure::new(format!("{}: {failure}", from.side.name())))?;
    to.exchange.tell(&word)
}

/// One of the two processes, seen from the doctor. Ends with this object, stopped or not.
struct Helper {
    side: Side,
    child: Child,
    exchange: Exchange,
}

impl Helper {
    fn start(side: Side, pace: Pace, library: &Path) -> Outcome<Self> {
        let start = || -> std::io::Result<Self> {
            let (ours, theirs) = UnixStream::pair()?;
            let mut command = Command::new(own_program()?);
            command.args(["doctor-peer", "reach", side.name(), pace.name()]).arg(library);
            let child = command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).spawn()?;
            Ok(Self { side, child, exchange: Exchange::new(ours) })
        };
        start().map_err(|error| Failure::new(format!("no helper process can be started: {error}")))
    }

    /// Stops the process and waits until it stands still.
    fn stop(&self) -> Outcome<()> {
        let pid = Pid::from_child(&self.child);
        let stop = || -> rustix::io::Result<bool> {
            rustix::process::kill_process(pid, Signal::STOP)?;
            let status = rustix::process::waitpid(Some(pid), WaitOptions::UNTRACED)?;
            Ok(status.is_some_and(|(_, status)| status.stopped()))
        };
        let stopped =
            stop().map_err(|error| Failure::new(format!("the target cannot be stopped: {error}")))?;
        ensure(stopped, || "the target ended before it could be stopped".to_owned())
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.child.kill(); // Ends a stopped process too.
        let _ = self.child.wait();
    }
}

/// In one of the two processes: standard input is the socket to the doctor.
pub(super) fn take_part(side: Side, pace: Pace, library: &Path) -> ExitCode {
    // Whoever kills the doctor means this process too, even while it is stopped.
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    let Ok(mut exchange) = Exchange::of_standard_input() else { return ExitCode::FAILURE };
    let part = match side {
        Side::Initiator => initiate(library, pace, &mut exchange),
        Side::Target => serve(library, &mut exchange),
    };
    match part {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let _ = exchange.tell_failure(&failure); // A doctor that has gone needs no answer.
            ExitCode::FAILURE
        }
    }
}

fn open(library: &Path) -> Outcome<Rc<Session>> {
    let library = Library::load(library).map_err(|error| Failure::new(error.to_string()))?;
    Ok(Session::open(&library, 0)?)
}

/// Memory of the target, and the connection to it.
struct Way {
    endpoint: Endpoint,
    memory: RemoteMemory,
}

impl Way {
    fn find(session: &Rc<Session>, exchange: &mut Exchange) -> Outcome<Self> {
        let endpoint = Endpoint::connect(session, exchange)?;
        Ok(Self { endpoint, memory: exchange.hear()? })
    }

    /// Whether a write gets through within that time.
    fn write_within(&mut self, piece: Piece<'_>, patience: Duration) -> Outcome<bool> {
        self.endpoint.start(Operation::Write(self.memory), piece)?;
        self.endpoint.finish_within(patience)
    }
}

fn initiate(library: &Path, pace: Pace, exchange: &mut Exchange) -> Outcome<()> {
    // One open device for each, because a write that waits for help holds up what is posted after it.
    let sessions = [open(library)?, open(library)?];
    let mut ordinary = Way::find(&sessions[0], exchange)?;
    let mut device = Way::find(&sessions[1], exchange)?;
    let buffer = Rc::new(Buffer::new(8));
    let sources =
        [sessions[0].register(&buffer, Rights::Local)?, sessions[1].register(&buffer, Rights::Local)?];
    let pieces = [Piece::new(&sources[0], 0, 8), Piece::new(&sources[1], 0, 8)];
    let begun = Instant::now();
    while begun.elapsed() < pace.acquaintance() {
        ordinary.endpoint.perform(Operation::Write(ordinary.memory), pieces[0])?;
        device.endpoint.perform(Operation::Write(device.memory), pieces[1])?;
    }
    exchange.tell(&())?;
    exchange.hear::<()>()?; // The target is stopped.
    let reach = Reach {
        ordinary: ordinary.write_within(pieces[0], pace.without_help())?,
        device: device.write_within(pieces[1], pace.without_help())?,
        adopted: false, // The doctor looks itself.
    };
    exchange.tell(&reach)?;
    // The doctor looks at this process now, and ends it when it has seen enough.
    let _ = exchange.hear::<()>();
    Ok(())
}

fn serve(library: &Path, exchange: &mut Exchange) -> Outcome<()> {
    let session = open(library)?;
    let _first = Endpoint::connect(&session, exchange)?;
    let ordinary = session.register(&Buffer::new(8).into(), Rights::Remote)?;
    exchange.tell(&RemoteMemory::of(&ordinary))?;
    let _second = Endpoint::connect(&session, exchange)?;
    let memory = session.allocate_device_memory(4096)?;
    let device = session.register_device_memory(&memory, 0, 4096, true)?;
    exchange.tell(&RemoteMemory::of(&device))?;
    exchange.hear() // Never comes: the doctor ends this process.
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_falls_short_in_one_way_is_not_covered() {
        let all = Reach { ordinary: true, device: true, adopted: true };
        assert!(all.covers(all) && all.covers(Reach { ordinary: false, ..all }));
        for less in [
            Reach { ordinary: false, ..all },
            Reach { device: false, ..all },
            Reach { adopted: false, ..all },
        ] {
            assert!(less.covers(less) && !less.covers(all), "{less:?}");
        }
    }
}
