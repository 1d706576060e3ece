//! `nonic bench`: how fast the device is between two processes, beside what the machine itself can do and what others do on
//! it, in the same moments.
//!
//! The command starts pairs of processes (`crew`, `worker`) that use the C library as any program would (`device`) or no
//! library at all (`machine`), and programs of others (`programs`); compares them in rounds that count only if the machine
//! stood still (`cell`); and tells what came of it (`report`, `results`, `markdown`, `picture`).

mod cell;
mod crew;
mod device;
mod goals;
mod job;
mod lab;
mod machine;
mod markdown;
mod options;
#[allow(unsafe_code)] // Shared memory, stores past the caches, the time-stamp counter; each with its reason.
mod physical;
mod picture;
mod programs;
mod report;
mod results;
mod scale;
mod small;
mod sweep;
mod wire;
mod words;
mod worker;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;

pub(crate) use scale::{
    PeerArguments as ScalePeerArguments, ScaleArguments, main as scale_main, peer_main as scale_peer_main,
};
pub(crate) use worker::{PeerArguments, main as peer_main};

use crate::cable::Cable;
use crate::demo::failure::{Failure, Outcome};
use crate::device_options::parse_size;
use crate::library::LibraryFolder;
use job::Verb;
use lab::{Lab, Tier};
use options::{CommonOptions, write_files};
use programs::{Programs, Suite};
use report::Report;
use results::{Calibration, Machine, Results};
use small::Small;

/// Largest transfer that is measured, in bytes.
const SIZE_MAX: u64 = 64 << 20;

/// How long one measurement takes, and in how many rounds it is repeated: as a rule, and when only to see that it runs.
const BUDGET: [Duration; 2] = [Duration::from_millis(40), Duration::from_millis(3)];
const ROUNDS: [usize; 2] = [3, 1];

/// Bytes of the transfers unless told otherwise.
const SIZES: [&[u64]; 2] = [&[8, 512, 4096, 65536, 1 << 20], &[8, 65536]];

/// Measure how fast the device is, beside what this machine can do
///
/// Two processes, each bound to a processor, use nonic's libibverbs.so.1 through its C interface by the methods of
/// perftest: latency (median, p99, p99.9), message rate and bandwidth by size, for writes, reads, sends and atomics, on
/// each tier. Beside every figure stands what the machine itself does in the same moment (a cache line from processor to
/// processor, copies, process_vm_writev, an eventfd, a bare atomic), and what UCX and libfabric do, where installed.
/// Takes about a minute and a half.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct BenchArguments {
    /// Only see that it runs: few sizes, one short round; the figures mean little
    #[arg(long)]
    quick: bool,

    /// Only these operations, separated by commas
    #[arg(long, value_name = "VERBS", value_delimiter = ',')]
    only: Vec<Verb>,

    /// Only these tiers, separated by commas; auto is the fastest there is
    #[arg(long, value_name = "TIERS", value_delimiter = ',')]
    tiers: Vec<Tier>,

    /// Only transfers of these sizes, in bytes or with K, M or G, separated by commas; at most 64M
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = parse_transfer)]
    sizes: Vec<usize>,

    /// Also measure what the project promises, with unmodified perftest programs where installed
    #[arg(long)]
    goals: bool,

    /// Only goals whose names hold this text; implies --goals
    #[arg(long, value_name = "TEXT")]
    goal: Option<String>,

    /// Leave out the comparison by size; of use with --goals
    #[arg(long)]
    no_sweep: bool,

    /// Leave out UCX, libfabric and perftest
    #[arg(long)]
    no_peers: bool,

    /// Measure the wire instead: RoCEv2 between two networks that this command makes, beside UDP and TCP there
    #[arg(long, conflicts_with_all = ["only", "tiers", "sizes", "goals", "no_sweep", "no_peers", "svg"])]
    wire: bool,

    /// Rounds that each figure is made of, 1 to 100 [default 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=100))]
    rounds: Option<u8>,

    #[command(flatten)]
    common: CommonOptions,

    /// Write a picture of the comparison by size to FILE
    #[arg(long, value_name = "FILE", conflicts_with = "no_sweep")]
    svg: Option<PathBuf>,

    /// Write the table of the goals to FILE, as Markdown
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

const AFTER_HELP: &str = "\
Examples:
  nonic bench
  nonic bench --only write,send --sizes 8,64K --tiers auto
  nonic bench --svg speed.svg --json speed.json
  nonic bench --goals --no-sweep              the promises and whether they are kept
  nonic bench --no-sweep --goal ib_write_lat  one of them
  nonic bench --wire                          RoCEv2, beside UDP and TCP
  nonic bench --quick                         only see that it runs

How to read it: a ratio is ours by theirs, made within one round. A round in which the time of a
cache line moved by more than a quarter counts for nothing and is done again, a bounded number of
times; ~ marks what was measured on a machine that never stood still.

Environment:
  NONIC_LIB_DIR  folder with libibverbs.so.1; default: beside this command
  NONIC_*        the variables of the device, but NONIC_TIER: nonic run --help
  PATH           where ucx_perftest, fi_pingpong and perftest's programs are looked for
  NO_COLOR       no colours

Exit status:
  0  everything asked for was measured, fast or slow
  1  something could not be measured or written; the sentence why is printed
  2  bad usage";

fn parse_transfer(text: &str) -> Result<usize, String> {
    match parse_size(text)? {
        bytes @ 1..=SIZE_MAX => Ok(bytes as usize),
        _ => Err("must be from 1 byte to 64M".to_owned()),
    }
}

/// Measures and tells.
pub(crate) fn main(arguments: &BenchArguments) -> ExitCode {
    match measure(arguments).and_then(|results| write(arguments, &results)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("nonic: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn measure(arguments: &BenchArguments) -> Outcome<Results> {
    let begun = Instant::now();
    let folder = LibraryFolder::find().map_err(|error| Failure::new(error.to_string()))?;
    let (processors, all) = arguments.common.processors()?;
    // Before anything else has a thread.
    let cable =
        arguments.wire.then(Cable::lay).transpose().map_err(|error| Failure::new(error.to_string()))?;
    let peers = !arguments.no_peers && !arguments.wire;
    let programs = Programs::find(peers, processors, all);
    let choice = usize::from(arguments.quick);
    let rounds = arguments.rounds.map_or(ROUNDS[choice], usize::from);
    let library = folder.verbs_library();
    let mut lab = Lab::new(library, processors, BUDGET[choice], arguments.quick, programs, cable)?;
    let mut results = Results {
        nonic: env!("CARGO_PKG_VERSION"),
        label: arguments.common.label.clone(),
        machine: Machine::here(processors),
        peers,
        programs: lab.programs.list().to_vec(),
        small: None,
        rows: Vec::new(),
        goals: Vec::new(),
        calibration: Calibration::default(),
        failures: Vec::new(),
        seconds: 0.0,
    };
    let mut report = Report::new();
    report.begin(&results, lab.line()?);
    if !arguments.no_sweep && !arguments.wire && arguments.only.is_empty() && arguments.tiers.is_empty() {
        let small = Small::measure(&mut lab, rounds)?;
        report.small(&small);
        results.small = Some(small);
    }
    for plan in plans(arguments, choice) {
        let row = plan.measure(&mut lab, rounds)?;
        report.row(&row);
        results.rows.push(row);
    }
    for goal in goals(arguments, &lab) {
        let kept = goal.measure(&mut lab, rounds)?;
        report.goal(&kept);
        results.goals.push(kept);
    }
    results.failures = lab.failures.iter().map(ToString::to_string).collect();
    results.seconds = begun.elapsed().as_secs_f64();
    results.calibrate();
    report.end(&results);
    Ok(results)
}

fn plans(arguments: &BenchArguments, choice: usize) -> Vec<sweep::Plan> {
    if arguments.no_sweep || arguments.wire {
        return Vec::new();
    }
    let verbs = if arguments.only.is_empty() { &Verb::ALL } else { &arguments.only[..] };
    let tiers = if arguments.tiers.is_empty() { &Tier::ALL } else { &arguments.tiers[..] };
    let usual: Vec<_> = SIZES[choice].iter().map(|bytes| *bytes as usize).collect();
    let sizes = if arguments.sizes.is_empty() { &usual } else { &arguments.sizes };
    sweep::plans(verbs, tiers, sizes)
}

fn goals(arguments: &BenchArguments, lab: &Lab) -> Vec<goals::Goal> {
    let text = arguments.goal.as_deref().unwrap_or_default();
    let wanted = arguments.goals || arguments.goal.is_some();
    let all = if arguments.wire {
        wire::goals()
    } else if wanted {
        goals::goals(lab.programs.has(Suite::Perftest))
    } else {
        Vec::new()
    };
    all.into_iter().filter(|goal| goal.name.contains(text)).collect()
}

fn write(arguments: &BenchArguments, results: &Results) -> Outcome<()> {
    write_files(&[
        (&arguments.common.json, &|| results.to_json()),
        (&arguments.svg, &|| picture::picture(results)),
        (&arguments.markdown, &|| markdown::table(results)),
    ])
}
