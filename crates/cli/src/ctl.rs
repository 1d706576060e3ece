//! `nonic ctl`: changes the device of running programs, as a cable, a switch or a subnet manager would.

use std::fs;
use std::process::ExitCode;
use std::time::Duration;

use clap::{ArgGroup, Args};
use nonic_transport::{Asked, Change};

use crate::EXIT_REFUSED;
use crate::doctor::{Process, Unexplained, ask};

/// How long a process may take to answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Change the device of running programs: a port goes down, an address changes, the device fails
///
/// What programs meet on a card when a cable is pulled or a subnet manager moves, they meet here: the events of
/// ibv_get_async_event(3) and rdma_get_cm_event(3), and what every query and file tells from then on.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP, group = ArgGroup::new("whom").args(["pid", "all"]).required(true).multiple(true))]
pub(crate) struct CtlArguments {
    /// Change the devices of this process; may be given several times
    ///
    /// Needs the same user, or root.
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pid: Vec<i32>,

    /// Change the devices of all processes of this user in this network namespace
    #[arg(long, conflicts_with = "pid")]
    all: bool,

    /// Change this device alone, and not all that a process has
    #[arg(long, value_name = "NAME")]
    device: Option<String>,

    /// What changes, in words: see below
    #[arg(value_name = "CHANGE", required = true, num_args = 1..)]
    change: Vec<String>,
}

const AFTER_HELP: &str = "\
Changes, and the event that programs get:
  port down              the port works no more (PORT_ERR)
  port up                it works again (PORT_ACTIVE)
  gid add ADDRESS        an address in the first empty entry of the GID table (GID_CHANGE)
  gid set INDEX ADDRESS  an address in this entry (GID_CHANGE)
  gid remove INDEX       the entry is empty (GID_CHANGE)
  lid LID                another local identifier (LID_CHANGE)
  pkey set INDEX KEY     another key in this entry of the P_Key table (PKEY_CHANGE)
  pkey remove INDEX      the entry is empty (PKEY_CHANGE)
  client-reregister      the subnet manager asks to register again (CLIENT_REREGISTER)
  sm-change [LID]        another subnet manager (SM_CHANGE)
  loss PERCENT           so much of what goes to other hosts and comes from them is lost (no event)
  fatal                  the device fails for good (DEVICE_FATAL); opened again it is a new one

Examples:
  nonic ctl --pid 4711 port down       pull the cable of one program
  nonic ctl --all port up              plug in all of this user's
  nonic ctl --pid 4711 gid set 1 10.0.0.9
  nonic ctl --pid 4711 loss 0.1%       a bad network; loss 0 ends it

Environment:
  NONIC_LIB_DIR  not used; the other variables (nonic run --help) neither: NONIC_FAULTS has a program make such changes itself

Exit status:
  0  every process has changed, or was so already
  1  a process was not changed: nothing is different there
  2  bad usage";

/// Does what was asked for.
pub(crate) fn main(arguments: &CtlArguments) -> ExitCode {
    let change = match arguments.change.join(" ").parse::<Change>() {
        Ok(change) => change,
        Err(error) => {
            eprintln!("nonic: {error}");
            return ExitCode::from(EXIT_REFUSED);
        }
    };
    let mut all_changed = true;
    let mut complain = |why: String| {
        eprintln!("nonic: {why}");
        all_changed = false;
    };
    let processes = if arguments.all { all_of_user() } else { named(&arguments.pid, &mut complain) };
    if arguments.all && processes.is_empty() {
        complain("no process of this user has a device open in this network namespace".to_owned());
    }
    let asked = Asked::Change(arguments.device.clone(), change);
    for process in &processes {
        match change_one(process, &asked) {
            Ok(done) => println!("{}: {change}: {done}", process.seen.title()),
            Err(why) => complain(why),
        }
    }
    ExitCode::from(u8::from(!all_changed))
}

/// Asks each engine of a process, of which those do not count that have no device open, if another has.
fn change_one(process: &Process, asked: &Asked) -> Result<String, String> {
    if process.changing.is_empty() {
        return Err(format!(
            "{} takes no changes: it has no thread or socket for them",
            process.seen.title()
        ));
    }
    let answers = process.changing.iter().map(|token| ask(process, *token, asked, PATIENCE));
    let (done, refused): (Vec<_>, Vec<_>) = answers.partition(Result::is_ok);
    match done.into_iter().flatten().next() {
        Some(done) => Ok(done),
        None => Err(refused
            .into_iter()
            .filter_map(Result::err)
            .next()
            .map_or_else(String::new, |why| why.to_string())),
    }
}

fn named(pids: &[i32], complain: &mut impl FnMut(String)) -> Vec<Process> {
    let find = |pid: &i32| match Process::find(*pid) {
        Ok(process) => Some(process),
        Err(Unexplained::OtherUser { pid, name, uid, own }) => {
            complain(format!(
                "process {pid} ({name}) belongs to user {uid}, and this command runs as user {own}: only that user and \
                 root may change its devices"
            ));
            None
        }
        Err(Unexplained::Forbidden { pid, name }) => {
            complain(format!(
                "process {pid} ({name}) may not be looked at, though it is of the same user (it is not dumpable): only \
                 root may change its devices"
            ));
            None
        }
        Err(unexplained) => {
            complain(unexplained.to_string());
            None
        }
    };
    pids.iter().filter_map(find).collect()
}

fn all_of_user() -> Vec<Process> {
    let own = rustix::process::geteuid().as_raw();
    let here = fs::read_link("/proc/self/ns/net").ok();
    let numbers = nonic_sys::numbers_in("/proc").unwrap_or_default();
    let is_here = |pid: &i32| fs::read_link(format!("/proc/{pid}/ns/net")).ok() == here;
    let pids = numbers.into_iter().filter(is_here);
    pids.filter_map(|pid| Process::find(pid).ok()).filter(|process| process.seen.uid == own).collect()
}
