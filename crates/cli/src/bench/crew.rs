//! Pairs of processes that measure, as the command that started them sees them.

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

use super::job::{Order, Sample};
use super::machine::ROOM;
use super::physical::SharedArea;
use super::worker::Side;
use crate::cable::Cable;
use crate::demo::exchange::Exchange;
use crate::demo::failure::{Failure, Outcome};
use crate::library::own_program;

/// How long a pair may take for one order beyond what the order says.
const PATIENCE: Duration = Duration::from_secs(30);

/// Two processes. They end with this object at the latest.
pub(super) struct Pair {
    members: [Member; 2],
}

/// One of them.
pub(super) struct Member {
    side: Side,
    control: Exchange,
    child: Child,
}

impl Pair {
    /// Two that use the library, with these variables set for them, and at the ends of a cable if there is one.
    pub(super) fn with_device(
        library: &Path,
        processors: &[Vec<usize>; 2],
        variables: &[(&'static str, String)],
        cable: Option<&Cable>,
    ) -> Outcome<Self> {
        Self::start(processors, |side, command| {
            command.arg("--library").arg(library).envs(variables.iter().cloned());
            let Some(cable) = cable else { return Ok(()) };
            command.arg("--cable");
            cable.enter(usize::from(side == Side::Target)).map_err(std::io::Error::other)
        })
    }

    /// Two that measure the machine.
    pub(super) fn without_device(processors: &[Vec<usize>; 2]) -> Outcome<Self> {
        let made = || -> rustix::io::Result<[OwnedFd; 3]> {
            // Not closed when a program is executed, so that the two inherit them; closed here as soon as they have.
            let memory = memfd_create("nonic-bench", MemfdFlags::empty())?;
            ftruncate(&memory, SharedArea::file_length(ROOM) as u64)?;
            Ok([memory, eventfd(0, EventfdFlags::empty())?, eventfd(0, EventfdFlags::empty())?])
        };
        let shared = made().map_err(|error| Failure::new(format!("no shared memory: {error}")))?;
        let numbers = shared.each_ref().map(|descriptor| descriptor.as_raw_fd().to_string()).join(",");
        Self::start(processors, |_, command| {
            command.arg("--inherited").arg(&numbers);
            Ok(())
        })
    }

    fn start(
        processors: &[Vec<usize>; 2],
        mut equip: impl FnMut(Side, &mut Command) -> std::io::Result<()>,
    ) -> Outcome<Self> {
        let start = || -> std::io::Result<Self> {
            let (left, right) = UnixStream::pair()?;
            let initiator = Member::start(Side::Initiator, left, &processors[0], &mut equip)?;
            let target = Member::start(Side::Target, right, &processors[1], &mut equip)?;
            Ok(Self { members: [initiator, target] })
        };
        let started = { start }();
        let mut pair =
            started.map_err(|error| Failure::new(format!("no process can be started: {error}")))?;
        for member in &mut pair.members {
            member.hear::<()>(PATIENCE)?;
        }
        Ok(pair)
    }

    /// Lets both do it, and returns what the initiator measured, if there was anything to measure.
    pub(super) fn perform(&mut self, order: &Order) -> Outcome<Option<Sample>> {
        self.begin(order)?;
        self.end(order)
    }

    /// Lets both begin.
    pub(super) fn begin(&mut self, order: &Order) -> Outcome<()> {
        self.members.iter_mut().try_for_each(|member| member.tell(order))
    }

    /// Waits until both have done what they were told last.
    pub(super) fn end(&mut self, order: &Order) -> Outcome<Option<Sample>> {
        let patience = PATIENCE + 4 * order.budget;
        let [initiator, target] = &mut self.members;
        let sample = initiator.hear(patience);
        // If one gives up, the other was told and says only that: the cause counts.
        let other: Outcome<Option<Sample>> = target.hear(if sample.is_ok() { patience } else { LAST_WORDS });
        match (sample, other) {
            (Ok(sample), Ok(_)) => Ok(sample),
            (Err(_), Err(cause)) if !cause.to_string().contains("the other process") => Err(cause),
            (Err(failure), _) | (_, Err(failure)) => Err(failure),
        }
    }
}

/// How long the second process may take to say what it saw when the first has failed.
const LAST_WORDS: Duration = Duration::from_secs(1);

impl Member {
    /// Starts it, with a socket to the other one.
    pub(super) fn start(
        side: Side,
        peer: UnixStream,
        processors: &[usize],
        equip: &mut impl FnMut(Side, &mut Command) -> std::io::Result<()>,
    ) -> std::io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let list: Vec<_> = processors.iter().map(usize::to_string).collect();
        let mut command = Command::new(own_program()?);
        command.arg("bench-peer").arg(side.name()).arg("--processors").arg(list.join(","));
        equip(side, &mut command)?;
        command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::from(OwnedFd::from(peer)));
        Ok(Self { side, control: Exchange::new(ours), child: command.spawn()? })
    }

    /// Tells it something.
    pub(super) fn tell(&mut self, order: &Order) -> Outcome<()> {
        self.control.tell(order)
    }

    /// Waits for what it says.
    pub(super) fn hear<T: serde::de::DeserializeOwned>(&mut self, patience: Duration) -> Outcome<T> {
        self.control.hear_within(patience).map_err(|failure| {
            let words = failure.to_string();
            let words = words.strip_prefix("the other process gave up: ").unwrap_or(&words);
            Failure::new(format!("{}: {words}", self.side.name()))
        })
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.child.kill(); // It may have ended already.
        let _ = self.child.wait();
    }
}
