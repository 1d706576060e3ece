//! Runs the simulator for so many steps, or one run once more.

#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use nonic_simulator::managers::Managers;
use nonic_simulator::wire::Wire;
use nonic_simulator::{Scenario, World, shrink, tell_choices, try_seed};

/// Runs pairs of queue pairs on virtual carriers, until one fails
#[derive(Debug, Parser)]
#[command(name = "simulate")]
struct Options {
    /// Steps in all, of runs of some hundred steps each
    #[arg(default_value_t = 1_000_000)]
    steps: u64,
    /// Seed of the first run; each further one has the next
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The choices of a run that failed, divided by commas, to run it once more and print its steps
    #[arg(long, value_delimiter = ',')]
    choices: Vec<u32>,
    /// Pairs of RoCEv2 on a wire, in place of pairs within one host
    #[arg(long)]
    wire: bool,
    /// Connection managers on a wire
    #[arg(long, conflicts_with = "wire")]
    managers: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    match (options.wire, options.managers) {
        (true, _) => run::<Wire>(options, " --wire"),
        (_, true) => run::<Managers>(options, " --managers"),
        _ => run::<World>(options, ""),
    }
}

fn run<S: Scenario>(Options { steps, seed, choices, .. }: Options, kind: &str) -> ExitCode {
    let began = Instant::now();
    if !choices.is_empty() {
        return match tell_choices::<S>(choices, steps) {
            Ok(_) => ExitCode::SUCCESS,
            Err(failure) => {
                println!("step {}: {}", failure.step, failure.message);
                ExitCode::FAILURE
            }
        };
    }
    let mut taken = 0;
    for seed in seed.. {
        if taken >= steps {
            println!(
                "{taken} steps, {:.1} s, last seed {}: all good",
                began.elapsed().as_secs_f64(),
                seed - 1
            );
            break;
        }
        match try_seed::<S>(seed) {
            Ok(count) => taken += count,
            Err(failure) => {
                println!("seed {seed} failed at step {}: {}", failure.step, failure.message);
                let short = shrink::<S>(&failure);
                let choices: Vec<String> = short.failure.choices.iter().map(u32::to_string).collect();
                println!(
                    "after {} shorter runs, step {}: {}",
                    short.tried, short.failure.step, short.failure.message
                );
                println!("    simulate{kind} {} --choices {}", short.failure.step, choices.join(","));
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
