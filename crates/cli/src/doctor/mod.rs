//! `nonic doctor`: what works on this machine, and why not.

mod adoption;
mod asking;
mod dat;
mod inspect;
mod kernel;
mod library;
mod meeting;
mod network;
mod peer;
mod process;
mod rdmacm;
mod reach;
mod report;
mod scif;
mod services;
mod tiers;
mod view;
mod wire;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Args;

pub(crate) use asking::ask;
pub(crate) use inspect::process::{Process, Unexplained};
pub(crate) use peer::{PeerArguments, main as peer_main};

use crate::run;
use crate::style::{Style, print};
use report::{Line, Report, Section};

/// What stands behind the address of a port that is named by a GID.
const BY_GID: &str = " by GID";

/// Say what works on this machine, and what one line would change
///
/// Everything is tried, not guessed: system calls are made, helper processes copy to and from each other, the library
/// is loaded in a process of its own. Nothing is changed.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct DoctorArguments {
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,

    /// Explain this running process instead: its regions, connections and peers, which way bytes take and why
    ///
    /// Given twice, explains this pair of processes, both ways. Needs the same user, or root.
    #[arg(long, value_name = "PID", conflicts_with = "program", value_parser = clap::value_parser!(i32).range(1..))]
    pid: Vec<i32>,

    /// Also say whether this program would use nonic's libraries
    #[arg(value_name = "PROGRAM")]
    program: Option<OsString>,
}

const AFTER_HELP: &str = "\
Marks:
  ok       as it should be
  note     works, but slower or not everywhere; the fix is optional
  problem  nonic cannot be used before this is mended

Ways of moving bytes, best first:
  mapped       the sender writes into memory that both processes have mapped
  kernel copy  one system call (process_vm_writev) copies from process to process
  ring         the bytes travel through a shared ring, and the receiver places them

Examples:
  nonic doctor
  nonic doctor ib_write_bw
  nonic doctor --pid 4711             regions, connections and peers of a running process
  nonic doctor --pid 4711 --pid 4712  this pair, both ways
  nonic doctor --json | jq .tiers

Environment:
  NONIC_LIB_DIR  folder with the libraries; default: beside this command
  NONIC_*        the variables of the device, SCIF and uDAPL (nonic run --help); their values are checked
  NO_COLOR       no colours

Exit status:
  0  nonic works here, perhaps with notes; the processes asked about were explained
  1  something makes nonic unusable; a process could not be looked at
  2  bad usage";

/// Examines the machine and prints what was found.
pub(crate) fn main(arguments: &DoctorArguments) -> ExitCode {
    if !arguments.pid.is_empty() {
        return inspect::main(&arguments.pid, arguments.json);
    }
    let (mut copying, permission) = process::examine_copying();
    let (library, loads) = library::examine();
    let bound = std::env::var("NONIC_TIER").ok();
    let tried = loads.then(|| reach::examine(tiers::best(&permission, bound.as_deref())));
    let tiers = tiers::conclude(&permission, bound.as_deref(), &tried);
    copying.extend(process::examine_limits());
    let mut sections = vec![
        Section::new("Library", library),
        Section::new("Kernel", kernel::examine()),
        Section::new("Adoption", adoption::examine()),
        Section::new("Processes", copying),
        Section::new("Network", network::examine()),
        Section::new("SCIF", scif::examine()),
        Section::new("RDMA connection manager", rdmacm::examine()),
        Section::new("uDAPL", dat::examine()),
        Section::new("How bytes would move", tiers::explain(&tiers, bound.as_deref(), &tried)),
    ];
    if let Some(program) = &arguments.program {
        sections.push(Section::new("Program", examine_program(program)));
    }
    let report = Report::new(sections, tiers);
    let style = Style::of_standard_output();
    print(&if arguments.json {
        report.to_json()
            + "
"
    } else {
        report.to_text(style)
    });
    ExitCode::from(u8::from(!report.is_usable()))
}

fn examine_program(name: &OsString) -> Vec<Line> {
    let checked = match run::check(name) {
        Ok(checked) => checked,
        Err(error) => return vec![Line::note("program", error).fix("give its path, or check PATH")],
    };
    let mut lines: Vec<_> = checked.warnings.iter().map(|warning| Line::note("program", warning)).collect();
    if let Some(reason) = &checked.unsuitable {
        lines.push(Line::note("program", format!("{}: {reason}", checked.subject)));
    }
    if lines.is_empty() {
        lines.push(Line::ok("program", format!("{} would use nonic's libraries", checked.subject)));
    }
    lines
}
