//! Copies of this command that are measured, or are there so that others can be.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use clap::{Args, ValueEnum};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{bare_mesh, connections, links, mesh, queue_pairs, regions, threads, windows};
use crate::demo::exchange::Exchange;
use crate::demo::failure::{Failure, Outcome, ensure};
use crate::library::own_program;

/// How long a process may take for what it is told, and for what another one has to do for it.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// How long a process waits to be told something. Its parent ends it long before.
pub(super) const UNTIL_TOLD: Duration = Duration::from_secs(24 * 3600);

/// One of the processes that show how cost grows (internal)
#[derive(Args, Debug)]
pub(crate) struct PeerArguments {
    role: Role,
    /// The library to use
    #[arg(long)]
    pub(super) library: PathBuf,
    /// Where it may run, and who it works with
    #[arg(long, value_delimiter = ',')]
    pub(super) processors: Vec<usize>,
    /// How many there are of what this process is about
    #[arg(long, default_value_t = 0)]
    pub(super) number: u64,
}

/// What a process is for.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Role {
    /// Has so many idle links, and is measured.
    Hub,
    /// Has one, and sleeps.
    IdlePeer,
    /// Has so many threads at most, and is measured.
    Threads,
    /// Has what they write to, and takes their messages.
    ThreadTarget,
    /// Writes to so many queue pairs in turn.
    Turns,
    /// Has what they write to.
    TurnTarget,
    /// Registers beside so many regions at most.
    Regions,
    /// Binds beside so many windows at most.
    Windows,
    /// Connects beside so many connections at most.
    Connector,
    /// Accepts them.
    Acceptor,
    /// One of so many that are all connected.
    Member,
    /// The same without a device.
    BareMember,
}

/// What is to be measured.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(super) struct Ask {
    /// Which of the figures of a part.
    pub(super) what: usize,
    /// At which number.
    pub(super) number: u64,
    /// For about how long.
    pub(super) budget: Duration,
}

/// The process. Standard input is a socket to the one that started it.
pub(crate) fn main(arguments: &PeerArguments) -> ExitCode {
    // Whoever kills the benchmark means this process too.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let Ok(mut control) = Exchange::of_standard_input() else { return ExitCode::FAILURE };
    let played = match arguments.role {
        Role::Hub => links::hub(arguments, &mut control),
        Role::IdlePeer => links::idle_peer(arguments, &mut control),
        Role::Threads => threads::process(arguments, &mut control),
        Role::ThreadTarget => threads::target(arguments, &mut control),
        Role::Turns => queue_pairs::process(arguments, &mut control),
        Role::TurnTarget => queue_pairs::target(arguments, &mut control),
        Role::Regions => regions::process(arguments, &mut control),
        Role::Windows => windows::process(arguments, &mut control),
        Role::Connector => connections::connector(arguments, &mut control),
        Role::Acceptor => connections::acceptor(arguments, &mut control),
        Role::Member => mesh::member(arguments, &mut control),
        Role::BareMember => bare_mesh::member(arguments, &mut control),
    };
    match played {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let _ = control.tell_failure(&failure); // Whoever is gone already need not be told.
            ExitCode::FAILURE
        }
    }
}

/// Says that all is ready, and answers until nobody asks any more.
pub(super) fn serve(
    control: &mut Exchange,
    mut answer: impl FnMut(Ask) -> Outcome<Option<f64>>,
) -> Outcome<()> {
    control.tell(&())?;
    loop {
        let ask = control.hear_within(UNTIL_TOLD)?;
        let figure = answer(ask)?;
        control.tell(&figure)?;
    }
}

/// Sleeps until the other side ends this process.
pub(super) fn sleep_for_ever(control: &mut Exchange) -> Outcome<()> {
    control.hear_within(UNTIL_TOLD)
}

/// Lets this process, and those it starts, have as many descriptors as it is allowed to; how many those are.
pub(super) fn raise_descriptor_limit() -> Outcome<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised)
        .map_err(|error| Failure::new(format!("the limit of descriptors cannot be raised: {error}")))?;
    Ok(limit.maximum.unwrap_or(u64::MAX))
}

/// Fails unless this process may have so many descriptors.
pub(super) fn ensure_descriptors(needed: u64, what: &str) -> Outcome<()> {
    let allowed = raise_descriptor_limit()?;
    ensure(needed <= allowed, || {
        format!("{what} need {needed} descriptors, and this process may have {allowed} (ulimit -Hn)")
    })
}

/// A copy of this command. It ends with this object at the latest.
pub(super) struct Process {
    name: String,
    control: Exchange,
    child: Child,
}

impl Process {
    /// Starts one.
    pub(super) fn start(role: Role, library: &Path, processors: &[usize], number: u64) -> Outcome<Self> {
        Self::start_with(role, library, processors, number, &[])
    }

    /// Starts one that finds these variables.
    pub(super) fn start_with(
        role: Role,
        library: &Path,
        processors: &[usize],
        number: u64,
        variables: &[(&str, &str)],
    ) -> Outcome<Self> {
        let name = role.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
        let start = || -> std::io::Result<(Exchange, Child)> {
            let (ours, theirs) = UnixStream::pair()?;
            let mut command = Command::new(own_program()?);
            command.arg("bench-scale-peer").arg(&name).arg("--library").arg(library);
            if !processors.is_empty() {
                let list: Vec<_> = processors.iter().map(usize::to_string).collect();
                command.arg("--processors").arg(list.join(","));
            }
            command.arg("--number").arg(number.to_string()).envs(variables.iter().copied());
            command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null());
            Ok((Exchange::new(ours), command.spawn()?))
        };
        let (control, child) =
            start().map_err(|error| Failure::new(format!("no process can be started: {error}")))?;
        Ok(Self { name, control, child })
    }

    /// Tells it something.
    pub(super) fn tell(&mut self, word: &impl Serialize) -> Outcome<()> {
        self.control.tell(word).map_err(|failure| self.named(&failure))
    }

    /// Waits for what it says.
    pub(super) fn hear<T: DeserializeOwned>(&mut self) -> Outcome<T> {
        self.control.hear_within(PATIENCE).map_err(|failure| self.named(&failure))
    }

    /// Has it measure something; nothing if there is nothing to measure.
    pub(super) fn ask(&mut self, ask: Ask) -> Outcome<Option<f64>> {
        self.tell(&ask)?;
        self.hear()
    }

    fn named(&self, failure: &Failure) -> Failure {
        let words = failure.to_string();
        let words = words.strip_prefix("the other process gave up: ").unwrap_or(&words);
        Failure::new(format!("{}: {words}", self.name))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill(); // It may have ended already.
        let _ = self.child.wait();
    }
}
