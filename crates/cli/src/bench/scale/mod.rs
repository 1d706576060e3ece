//! `nonic bench-scale`: how cost grows with number, beside what it may cost.
//!
//! Each part starts processes that are measured (`process`, and one file for each part), asks them in interleaved rounds,
//! and gives one figure or more over a row of numbers (`plan`); `report` and `picture` tell what came of it.

mod bare_mesh;
mod connections;
mod links;
mod memory;
mod mesh;
mod picture;
mod plan;
mod process;
mod queue_pairs;
mod regions;
mod repeated;
mod report;
mod several;
mod threads;
mod windows;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;

pub(crate) use process::{PeerArguments, main as peer_main};

use super::options::{CommonOptions, write_files};
use super::results::Machine;
use crate::demo::failure::{Failure, Outcome};
use crate::library::LibraryFolder;
use plan::{Part, Plan, Series};
use process::{Ask, Process, Role};
use report::Results;
use several::Several;

/// How long one measurement takes, and in how many rounds it is repeated: as a rule, and when only to see that it runs.
const BUDGET: [Duration; 2] = [Duration::from_millis(40), Duration::from_millis(3)];
const ROUNDS: [usize; 2] = [5, 1];

/// How long a process that is being set up waits for the next word of the one that sets it up, which has many to see to.
const SETTING_UP: Duration = Duration::from_secs(300);

/// Measure how cost grows with number: of idle links, threads, queue pairs, regions, windows, connections, processes
///
/// Each figure is measured over a row of numbers, by processes that use nonic's libraries as any program would, in
/// interleaved rounds; beside it stands what it is by that of the first number, and whether that is within the goal. A few
/// minutes; up to 1,300 processes and 1 GiB of memory.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ScaleArguments {
    /// Only see that it runs: small numbers, one short round; the figures mean little
    #[arg(long)]
    quick: bool,

    /// Only these parts, separated by commas
    #[arg(long, value_name = "PARTS", value_delimiter = ',')]
    only: Vec<Part>,

    /// Rounds that each figure is made of, 1 to 100 [default 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=100))]
    rounds: Option<u8>,

    #[command(flatten)]
    common: CommonOptions,

    /// Write a picture of it to FILE
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

const AFTER_HELP: &str = "\
Examples:
  nonic bench-scale
  nonic bench-scale --only links
  nonic bench-scale --svg scale.svg --json scale.json
  nonic bench-scale --quick                   only see that it runs

Environment:
  NONIC_LIB_DIR  folder with libibverbs.so.1; default: beside this command
  NONIC_*        the variables of the device: nonic run --help
  NO_COLOR       no colours

Exit status:
  0  everything asked for was measured, whether goals are kept or not
  1  something could not be measured or written; the sentence why is printed
  2  bad usage";

/// Where and with what to measure.
struct Place {
    library: PathBuf,
    scif: PathBuf,
    processors: [usize; 2],
}

/// Processes that can be measured.
trait Subject {
    /// Measures one figure at one number; nothing if that cannot be had here.
    fn ask(&mut self, ask: Ask) -> Outcome<Option<f64>>;
}

impl Part {
    fn plans(self, quick: bool) -> Vec<Plan> {
        match self {
            Self::Links => links::plans(quick),
            Self::Threads => threads::plans(quick),
            Self::QueuePairs => queue_pairs::plans(quick),
            Self::Regions => regions::plans(quick),
            Self::Windows => windows::plans(quick),
            Self::Connections => connections::plans(quick),
            Self::Mesh => mesh::plans(quick),
        }
    }

    fn start(self, place: &Place, plans: &[Plan], failures: &mut Vec<Failure>) -> Outcome<Box<dyn Subject>> {
        let most = plans.iter().flat_map(|plan| plan.numbers.iter().copied()).max().unwrap_or_default();
        let alone = |role| -> Outcome<Box<dyn Subject>> {
            let mut process = Process::start(role, &place.library, &[], most)?;
            process.hear::<()>()?;
            Ok(Box::new(process))
        };
        let several =
            |role, processors: &[usize], failures: &mut Vec<Failure>| -> Outcome<Box<dyn Subject>> {
                Ok(Box::new(Several::start(role, &place.library, processors, plans, failures)?))
            };
        match self {
            Self::Links => several(Role::Hub, &place.processors, failures),
            Self::Threads => alone(Role::Threads),
            Self::QueuePairs => several(Role::Turns, &[], failures),
            Self::Regions => alone(Role::Regions),
            Self::Windows => alone(Role::Windows),
            Self::Connections => Ok(Box::new(connections::start(place, most)?)),
            Self::Mesh => Ok(Box::new(mesh::Meshes::new(place))),
        }
    }
}

impl Subject for Process {
    fn ask(&mut self, ask: Ask) -> Outcome<Option<f64>> {
        Self::ask(self, ask)
    }
}

/// Keeps a failure that is not known yet.
fn note(failures: &mut Vec<Failure>, failure: Failure) {
    if !failures.iter().any(|known| known.0 == failure.0) {
        failures.push(failure);
    }
}

/// Measures and tells.
pub(crate) fn main(arguments: &ScaleArguments) -> ExitCode {
    match measure(arguments).and_then(|results| write(arguments, &results).map(|()| results)) {
        Ok(results) if results.failures.is_empty() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("nonic: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn measure(arguments: &ScaleArguments) -> Outcome<Results> {
    let begun = Instant::now();
    let folder = LibraryFolder::find().map_err(|error| Failure::new(error.to_string()))?;
    let (processors, _) = arguments.common.processors()?;
    process::raise_descriptor_limit()?;
    let place = Place { library: folder.verbs_library(), scif: folder.scif_library(), processors };
    let choice = usize::from(arguments.quick);
    let mut results = Results {
        label: arguments.common.label.clone(),
        machine: Machine::here(processors),
        rounds: arguments.rounds.map_or(ROUNDS[choice], usize::from),
        series: Vec::new(),
        failures: Vec::new(),
        seconds: 0.0,
    };
    report::begin(&results);
    let parts = if arguments.only.is_empty() { &Part::ALL } else { &arguments.only[..] };
    for part in parts {
        let mut failures = Vec::new();
        let plans = part.plans(arguments.quick);
        match carry_out(*part, &place, plans, (results.rounds, BUDGET[choice]), &mut failures) {
            Ok(measured) => {
                measured.iter().for_each(report::series);
                results.series.extend(measured);
            }
            Err(failure) => note(&mut failures, failure),
        }
        results.failures.extend(failures);
    }
    results.seconds = begun.elapsed().as_secs_f64();
    report::end(&results);
    Ok(results)
}

/// Measures everything of a part: in each round every figure at every number, number by number, since it takes a while to have many.
fn carry_out(
    part: Part,
    place: &Place,
    plans: Vec<Plan>,
    (rounds, budget): (usize, Duration),
    failures: &mut Vec<Failure>,
) -> Outcome<Vec<Series>> {
    let mut subject = part.start(place, &plans, failures)?;
    let mut measured: Vec<_> = plans.into_iter().map(Series::new).collect();
    let numbers: BTreeSet<u64> =
        measured.iter().flat_map(|series| series.points.iter().map(|point| point.number)).collect();
    for _ in 0..rounds {
        for number in &numbers {
            for (what, series) in measured.iter_mut().enumerate() {
                for point in series.points.iter_mut().filter(|point| point.number == *number) {
                    point.values.push(subject.ask(Ask { what, number: *number, budget })?);
                }
            }
        }
    }
    Ok(measured)
}

fn write(arguments: &ScaleArguments, results: &Results) -> Outcome<()> {
    write_files(&[
        (&arguments.common.json, &|| report::to_json(results)),
        (&arguments.svg, &|| picture::picture(results)),
    ])
}
