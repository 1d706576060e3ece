//! `nonic demo`: two processes use the C library as any program would, and check every byte.
//!
//! The command itself loads nothing: it starts an initiator and a target, joined by a socketpair, listens to both and
//! tells what they say. So whatever happens to one of them, there is someone to report it.

mod atomics;
mod cm;
mod dat;
mod device_memory;
pub(crate) mod endpoint;
pub(crate) mod exchange;
pub(crate) mod failure;
mod measure;
mod one_sided;
mod peer;
mod refusal;
mod report;
mod scif;
mod step;
mod two_sided;
mod wire;

use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};

pub(crate) use cm::{PeerArguments as CmPeerArguments, peer_main as cm_peer_main};
pub(crate) use dat::{PeerArguments as DatPeerArguments, peer_main as dat_peer_main};
pub(crate) use peer::{PeerArguments, main as peer_main};
pub(crate) use scif::{PeerArguments as ScifPeerArguments, peer_main as scif_peer_main};
pub(crate) use wire::{PeerArguments as WirePeerArguments, lose, peer_main as wire_peer_main};

use crate::cable::Cable;
use crate::device_options::DeviceOptions;
use crate::library::{LibraryFolder, own_program};
use failure::{Deadline, Failure};
use peer::{Event, Role};
use report::Report;
use step::Step;

/// How long a process of the demo waits for anything.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long the whole may take, even on a slow and busy machine.
const PATIENCE_IN_ALL: Duration = Duration::from_secs(60);

/// How long one process may go on after the other has failed, to say what it saw.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Let two processes move data, check every byte, and say how fast it was
///
/// Needs nothing installed: two real processes load nonic's libibverbs.so.1, libscif.so.0, libdat.so.1 or
/// librdmacm.so.1, and use it through its C interface, as any program would. Takes a few seconds.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct DemoArguments {
    /// Which interface the processes use
    #[arg(value_name = "INTERFACE", default_value = "verbs")]
    interface: Interface,

    /// Print one JSON object at the end instead of text
    #[arg(long)]
    json: bool,

    /// Only this step of verbs; may be given more than once
    #[arg(long = "step", value_name = "STEP")]
    steps: Vec<Step>,

    #[command(flatten)]
    device: DeviceOptions,
}

/// A C interface of nonic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Interface {
    /// libibverbs.so.1: RDMA.
    Verbs,
    /// libscif.so.0: a window, a remote write, a remote mapping, a fence.
    Scif,
    /// libdat.so.1: regions, a bind, a remote write, a rebind, memory that is not coherent.
    Dat,
    /// librdmacm.so.1: addresses, connections with private data, transfers, refusals and ends.
    Cm,
    /// Verbs by RoCEv2 between two networks that the demo makes: everything goes by packets, also when some are lost.
    Wire,
}

const AFTER_HELP: &str = "\
Examples:
  nonic demo
  nonic demo scif                   a host and a card: window, remote write, remote mapping, fence
  nonic demo dat                    uDAPL: register, bind, write, rebind, and memory that is not coherent
  nonic demo cm                     the connection manager: resolve, connect, transfer, refuse, end
  nonic demo wire                   two network namespaces, and RoCEv2 between them
  nonic demo --tier ring            as between processes of different users
  nonic demo --link-layer ethernet --step one-sided
  nonic demo --json | jq '.steps[].figures'

Environment:
  NONIC_LIB_DIR  folder with the libraries; default: beside this command
  NONIC_*        the variables of the device: nonic run --help
  NO_COLOR       no colours

Exit status:
  0  every step passed
  1  something was wrong; the sentence why is printed
  2  bad usage";

/// Starts both processes and tells what they say.
pub(crate) fn main(arguments: &DemoArguments) -> ExitCode {
    match play(arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("nonic: the demo cannot start: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// What came from one of the processes.
struct Heard {
    role: Role,
    /// Nothing when its output has ended.
    event: Option<Event>,
}

fn play(arguments: &DemoArguments) -> Result<bool, Failure> {
    if arguments.interface != Interface::Verbs && !arguments.steps.is_empty() {
        return Err(Failure::new(
            "--step chooses steps of verbs; those of the other interfaces build on each other",
        ));
    }
    let begun = Instant::now();
    let folder = LibraryFolder::find().map_err(|error| Failure::new(error.to_string()))?;
    let steps = if arguments.steps.is_empty() { Step::ALL.to_vec() } else { arguments.steps.clone() };
    let names = match arguments.interface {
        Interface::Verbs => steps.iter().map(|step| step.name()).collect(),
        Interface::Scif => scif::STEPS.to_vec(),
        Interface::Dat => dat::STEPS.to_vec(),
        Interface::Cm => cm::STEPS.to_vec(),
        Interface::Wire => wire::STEPS.to_vec(),
    };
    // Before anything else has a thread.
    let cable = (arguments.interface == Interface::Wire).then(Cable::lay).transpose();
    let cable = cable.map_err(|error| Failure::new(error.to_string()))?;
    let start = |role: Role, socket| {
        let mut command = Command::new(own_program()?);
        command.envs(arguments.device.environment());
        match arguments.interface {
            Interface::Verbs => {
                command.arg("demo-peer").arg(role.name()).arg(folder.verbs_library()).args(&names)
            }
            Interface::Scif => scif::complete(&mut command, role, &folder.scif_library()),
            Interface::Dat => dat::complete(&mut command, role, &folder.dat_library()),
            Interface::Cm => cm::complete(&mut command, role, &folder),
            Interface::Wire => wire::complete(&mut command, role, &folder),
        };
        if let Some(cable) = &cable {
            cable.enter(wire::end_of(role)).map_err(std::io::Error::other)?;
        }
        Process::start(role, socket, command)
    };
    let start_both = || -> std::io::Result<[Process; 2]> {
        let (left, right) = UnixStream::pair()?;
        Ok([start(Role::Initiator, left)?, start(Role::Target, right)?])
    };
    let mut processes =
        start_both().map_err(|error| Failure::new(format!("no process can be started: {error}")))?;
    let report = Report::new([processes[0].child.id(), processes[1].child.id()], arguments.json);
    Ok(listen(&mut processes, &names, report).finish(begun.elapsed().as_secs_f64()))
}

/// Listens to both until both have ended.
fn listen(processes: &mut [Process; 2], steps: &[&'static str], mut report: Report) -> Report {
    let (sender, receiver) = channel();
    for process in processes.iter_mut() {
        process.listen(sender.clone());
    }
    drop(sender);
    let failures = hear_both(&receiver, &mut report, steps);
    let endings: Vec<_> = processes.iter_mut().map(|process| (process.role, process.end())).collect();
    let at = report.step_count();
    if let Some(words) = verdict(&failures, &endings, at == steps.len()) {
        report.failed(steps[at.min(steps.len() - 1)], words);
    }
    report
}

/// Takes what they say until both are silent or the time is over; returns what went wrong, by process.
fn hear_both(receiver: &Receiver<Heard>, report: &mut Report, steps: &[&'static str]) -> Vec<(Role, String)> {
    let mut failures = Vec::new();
    let mut deadline = Deadline::after(PATIENCE_IN_ALL);
    loop {
        let heard = match receiver.recv_timeout(deadline.remaining().unwrap_or_default()) {
            Ok(heard) => heard,
            Err(RecvTimeoutError::Disconnected | RecvTimeoutError::Timeout) => return failures,
        };
        let silent = heard.event.is_none();
        match heard.event {
            Some(Event::Opened { device, link_layer }) if heard.role == Role::Initiator => {
                report.opened(device, link_layer)
            }
            Some(Event::Joined { places }) => report.joined(places),
            Some(Event::Connected { adapter, number }) => report.connected(adapter, number),
            Some(Event::Resolved { device, link_layer, address }) => {
                report.resolved(device, link_layer, address)
            }
            Some(Event::Wired { device, from, to }) if heard.role == Role::Initiator => {
                report.wired(device, [from, to])
            }
            Some(Event::Done(done)) => match steps.get(report.step_count()) {
                Some(step) => report.done(step, done),
                None => failures.push((heard.role, "did more steps than there are".to_owned())),
            },
            Some(Event::Opened { .. } | Event::Wired { .. }) => {}
            Some(Event::Failed(words)) => failures.push((heard.role, words)),
            None => {}
        }
        // From here on, whoever still has something to say says it soon.
        let ending = silent || !failures.is_empty() || report.step_count() == steps.len();
        if ending && deadline.remaining().is_some_and(|left| left > LAST_WORDS) {
            deadline = Deadline::after(LAST_WORDS);
        }
    }
}

/// The sentence why the demo failed, if it did: the cause rather than what followed from it.
fn verdict(failures: &[(Role, String)], endings: &[(Role, Ending)], complete: bool) -> Option<String> {
    let violent = endings.iter().find(|(_, ending)| matches!(ending, Ending::Killed(_)));
    if let Some((role, Ending::Killed(status))) = violent {
        return Some(format!("the {} process ended in an unforeseen way: {status}", role.name()));
    }
    let first_hand = failures.iter().find(|(_, words)| !words.starts_with("the other process"));
    if let Some((role, words)) = first_hand.or(failures.first()) {
        return Some(format!("{}: {words}", role.name()));
    }
    if let Some((role, _)) = endings.iter().find(|(_, ending)| matches!(ending, Ending::Stuck)) {
        return Some(format!("the {} process did not answer in time and was stopped", role.name()));
    }
    (!complete).then(|| "the processes ended before the last step".to_owned())
}

/// How a process of the demo ended.
enum Ending {
    /// By itself, with a status that its words explain.
    Own,
    /// By a signal or a panic.
    Killed(ExitStatus),
    /// Not at all, until the command ended it.
    Stuck,
}

/// One of the two processes. Ends with this object at the latest.
struct Process {
    role: Role,
    child: Child,
}

impl Process {
    fn start(role: Role, socket: UnixStream, mut command: Command) -> std::io::Result<Self> {
        command.stdin(OwnedFd::from(socket)).stdout(Stdio::piped());
        Ok(Self { role, child: command.spawn()? })
    }

    /// Passes on what the process says, from a thread of its own.
    fn listen(&mut self, heard: Sender<Heard>) {
        let output = self.child.stdout.take().expect("stdout was asked to be a pipe, and is taken once");
        let role = self.role;
        std::thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            let events = lines.filter_map(|line| serde_json::from_str(&line).ok()).map(Some);
            for event in events.chain([None]) {
                if heard.send(Heard { role, event }).is_err() {
                    return; // The command has heard enough.
                }
            }
        });
    }

    /// Ends the process if it did not end by itself.
    fn end(&mut self) -> Ending {
        let deadline = Deadline::after(Duration::from_millis(500));
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) if matches!(status.code(), Some(0 | 1)) => return Ending::Own,
                Ok(Some(status)) => return Ending::Killed(status),
                Ok(None) if deadline.remaining().is_some() => std::thread::sleep(Duration::from_millis(2)),
                _ => return Ending::Stuck, // `drop` ends it.
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill(); // It has ended already, as a rule.
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_is_told_and_not_what_followed_from_it() {
        let followed = (Role::Initiator, "the other process gave up: no memory".to_owned());
        let cause = (Role::Target, "no memory".to_owned());
        let words = verdict(&[followed, cause], &[(Role::Target, Ending::Own)], false);
        assert_eq!(words.as_deref(), Some("target: no memory"));
    }

    #[test]
    fn a_demo_that_stops_early_without_a_word_has_not_passed() {
        assert!(verdict(&[], &[(Role::Target, Ending::Own)], false).is_some());
        assert!(verdict(&[], &[(Role::Target, Ending::Stuck)], true).is_some());
        assert_eq!(verdict(&[], &[(Role::Target, Ending::Own)], true), None);
    }
}
