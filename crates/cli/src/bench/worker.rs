//! One of two processes that measure: pinned to a processor, it does what it is told until nobody tells it more.

use std::os::fd::RawFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::device::Device;
use super::job::{Order, Sample};
use super::machine::Machine;
use super::physical::inherited;
use super::wire::Wire;
use crate::demo::exchange::Exchange;
use crate::demo::failure::{Deadline, Failure, Outcome};

/// How long a process waits for its next order. Its parent ends it long before.
const UNTIL_TOLD: Duration = Duration::from_secs(24 * 3600);

/// How long either process of a measurement waits for the other, even where many share a processor.
const PATIENCE: Duration = Duration::from_secs(20);

/// One of the processes that measure (internal)
#[derive(Args, Debug)]
pub(crate) struct PeerArguments {
    side: Side,
    /// Where it may run
    #[arg(long, value_delimiter = ',')]
    processors: Vec<usize>,
    /// The library to use; without one it measures the machine
    #[arg(long)]
    library: Option<PathBuf>,
    /// It is at an end of a cable
    #[arg(long)]
    cable: bool,
    /// Shared memory and two eventfds, for measuring the machine
    #[arg(long, value_delimiter = ',')]
    inherited: Vec<RawFd>,
}

/// Which of the two.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(super) enum Side {
    /// Starts every operation and measures.
    Initiator,
    /// Has the memory, and answers.
    Target,
}

impl Side {
    /// As the command line says it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Initiator => "initiator",
            Self::Target => "target",
        }
    }
}

/// The process. Standard input is a socket to the command, standard output one to the other process.
pub(crate) fn main(arguments: &PeerArguments) -> ExitCode {
    // Whoever kills the benchmark means this process too.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let sockets = Exchange::of_standard_input()
        .and_then(|control| Exchange::of_standard_output().map(|peer| (control, peer)));
    let Ok((mut control, mut peer)) = sockets else { return ExitCode::FAILURE };
    match serve(arguments, &mut control, &mut peer) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Whoever is gone already need not be told.
            let _ = peer.tell_failure(&failure);
            let _ = control.tell_failure(&failure);
            ExitCode::FAILURE
        }
    }
}

enum Subject {
    Device(Box<Device>),
    Wire(Box<Wire>),
    Machine(Box<Machine>),
}

fn serve(arguments: &PeerArguments, control: &mut Exchange, peer: &mut Exchange) -> Outcome<()> {
    pin(&arguments.processors)?; // Before the library is loaded, whose threads then run there too.
    let mut subject = match &arguments.library {
        Some(library) if arguments.cable => Subject::Wire(Box::new(Wire::open(library, arguments.side)?)),
        Some(library) => Subject::Device(Box::new(Device::open(library)?)),
        None => Subject::Machine(Box::new(Machine::new(descriptors(&arguments.inherited)?)?)),
    };
    control.tell(&())?;
    loop {
        let order: Order = control.hear_within(UNTIL_TOLD)?;
        let sample: Option<Sample> = match &mut subject {
            Subject::Device(device) => device.perform(arguments.side, &order, peer)?,
            Subject::Wire(wire) => wire.perform(&order, peer)?,
            Subject::Machine(machine) => Some(machine.perform(arguments.side, &order, peer)?),
        };
        control.tell(&sample)?;
    }
}

fn descriptors(numbers: &[RawFd]) -> Outcome<[std::os::fd::OwnedFd; 3]> {
    let failed = |error: std::io::Error| Failure::new(error.to_string());
    let owned = numbers.iter().map(|number| inherited(*number)).collect::<Result<Vec<_>, _>>();
    owned.map_err(failed)?.try_into().map_err(|_| Failure::new("three descriptors are needed"))
}

/// Runs from here on only there.
pub(super) fn pin(processors: &[usize]) -> Outcome<()> {
    let mut set = CpuSet::new();
    for processor in processors {
        set.set(*processor);
    }
    sched_setaffinity(None, &set)
        .map_err(|error| Failure::new(format!("cannot be bound to the processors {processors:?}: {error}")))
}

/// Looks without a pause until it is so; fails when it takes too long. Gives the processor away now and then, in case the
/// other process needs it.
#[inline]
pub(super) fn wait_until(what: &str, ready: impl FnMut() -> Outcome<bool>) -> Outcome<()> {
    wait_within(PATIENCE, what, ready)
}

/// The same, for so long.
#[inline]
pub(super) fn wait_within(
    patience: Duration,
    what: &str,
    mut ready: impl FnMut() -> Outcome<bool>,
) -> Outcome<()> {
    const LOOKS: u32 = 1 << 14;
    let mut deadline = None;
    loop {
        for _ in 0..LOOKS {
            if ready()? {
                return Ok(());
            }
        }
        deadline.get_or_insert_with(|| Deadline::after(patience)).check(what)?;
        std::thread::yield_now();
    }
}
