//! One of the two processes that the demo starts.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use super::exchange::Exchange;
use super::failure::{Failure, Outcome};
use super::step::{Done, Stage, Step};
use crate::verbs::{Library, Session};

/// One of the demo's processes (internal)
#[derive(Args, Debug)]
pub(crate) struct PeerArguments {
    role: Role,
    library: PathBuf,
    steps: Vec<Step>,
}

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Role {
    /// Starts every operation and measures.
    Initiator,
    /// Has the memory.
    Target,
}

impl Role {
    /// As the command line says it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Initiator => "initiator",
            Self::Target => "target",
        }
    }
}

/// What a process of the demo tells the command that started it, one JSON text a line on standard output.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) enum Event {
    /// The device is open.
    Opened {
        /// Name of the device.
        device: String,
        /// Its link layer in words.
        link_layer: String,
    },
    /// The SCIF endpoints are connected.
    Joined {
        /// Node and port of either side.
        places: [String; 2],
    },
    /// The endpoints of uDAPL are connected.
    Connected {
        /// Name of the adapter.
        adapter: String,
        /// The service number that the target listens on.
        number: u64,
    },
    /// The connection manager has found the device that leads to the target.
    Resolved {
        /// Name of the device.
        device: String,
        /// Its link layer in words.
        link_layer: String,
        /// The address and port that the target listens on.
        address: SocketAddr,
    },
    /// The device is open, and has an address at one end of a cable.
    Wired {
        /// Name of the device.
        device: String,
        /// The address here.
        from: IpAddr,
        /// The address at the other end.
        to: IpAddr,
    },
    /// The next step succeeded, as far as this process can tell.
    Done(Done),
    /// Nothing more comes from this process, because of this.
    Failed(String),
}

/// The process. Its standard input is one end of the socketpair to the other one.
pub(crate) fn main(arguments: &PeerArguments) -> ExitCode {
    run(arguments).err().unwrap_or(ExitCode::SUCCESS)
}

fn run(arguments: &PeerArguments) -> Result<(), ExitCode> {
    let mut exchange = begin()?;
    let session = or_give_up(open(arguments), &mut exchange)?;
    let mut stage = Stage { session, exchange };
    for &step in &arguments.steps {
        let played =
            play(arguments.role, &mut stage, |stage| step.initiate(stage), |stage| step.serve(stage));
        or_give_up(played, &mut stage.exchange)?;
    }
    Ok(())
}

/// The way to the other process, over standard input.
pub(super) fn begin() -> Result<Exchange, ExitCode> {
    // Whoever kills the demo means this process too.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    Exchange::of_standard_input().map_err(|failure| fail(&failure))
}

/// Tells the other process and the command if something went wrong, of which this process ends.
pub(super) fn or_give_up<T>(outcome: Outcome<T>, exchange: &mut Exchange) -> Result<T, ExitCode> {
    outcome.map_err(|failure| {
        let _ = exchange.tell_failure(&failure); // If the other process is gone already, there is no one to tell.
        fail(&failure)
    })
}

/// Plays this process's part of a step.
pub(super) fn play<S>(
    role: Role,
    stage: &mut S,
    initiate: impl FnOnce(&mut S) -> Outcome<Done>,
    serve: impl FnOnce(&mut S) -> Outcome<()>,
) -> Outcome<()> {
    match role {
        Role::Initiator => initiate(stage).map(|done| tell(&Event::Done(done))),
        Role::Target => serve(stage),
    }
}

fn open(arguments: &PeerArguments) -> Outcome<std::rc::Rc<Session>> {
    let library = Library::load(&arguments.library).map_err(|error| Failure::new(error.to_string()))?;
    let device = first_device(&library)?;
    let session = Session::open(&library, 0)?;
    let link_layer = session.port()?.link_layer().to_owned();
    tell(&Event::Opened { device, link_layer });
    Ok(session)
}

/// Name of the first device.
pub(super) fn first_device(library: &Library) -> Outcome<String> {
    let first = library.device_names()?.into_iter().next();
    first.ok_or_else(|| Failure::new("the library shows no device (is NONIC_DEVICES 0?)"))
}

fn fail(failure: &Failure) -> ExitCode {
    tell(&Event::Failed(failure.to_string()));
    ExitCode::FAILURE
}

pub(super) fn tell(event: &Event) {
    let line = serde_json::to_string(event).expect("an event holds only strings and numbers");
    // A demo that no longer listens has ended, and this process with it.
    let _ = writeln!(std::io::stdout(), "{line}");
}
