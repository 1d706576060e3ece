//! Sequences of C calls as chance has them, on every face: handles of nothing, of other kinds and of what was freed, wild sizes
//! and flags, in any order, among many objects that live and queues that are connected. C programs make them and judge each
//! answer by what its page says; here they run on several ways, and what they print besides is looked at.
//!
//! The seeds are always the same ones, so that a run can be repeated. `NONIC_SEED=n` begins with another; with
//! `NONIC_CALLS_SECONDS=n` each row goes on for so long, from seed to seed (`ci/calls`).
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, Instant};

use nonic_interop::c_program::{compile, compile_dat, compile_scif, judge};
use nonic_interop::environment::{AS_IT_COMES, Place, ways};
use nonic_interop::scif::place;
use nonic_interop::suite::{Suite, Verdict, failed};

/// Sequences of one run of a program: a few seconds, so that it is far from its end when it hangs.
const SEQUENCES: u64 = 300;

fn main() -> ExitCode {
    let mut suite = Suite::new();
    for (number, environment) in ways().into_iter().enumerate() {
        suite.test(
            format!("sequences of verbs calls are answered by the book, {}", environment.name),
            move || {
                run(&Place::prepare(environment)?, &compile("sequences")?, first_seed(10_000 * number as u64))
            },
        );
    }
    for (number, memory) in ["0", "1"].into_iter().enumerate() {
        let name = if memory == "1" { ", not coherent" } else { "" };
        suite.test(format!("sequences of uDAPL calls are answered by the book{name}"), move || {
            let place = Place::prepare(AS_IT_COMES)?.variable("NONIC_NONCOHERENT", memory);
            run(&place, &compile_dat("sequences")?, first_seed(100_000 + 10_000 * number as u64))
        });
    }
    for (number, tier) in ["auto", "ring"].into_iter().enumerate() {
        suite.test(format!("sequences of SCIF calls are answered by the book, tier {tier}"), move || {
            let place = place(AS_IT_COMES)?.variable("NONIC_TIER", tier);
            run(&place, &compile_scif("sequences.c")?, first_seed(200_000 + 10_000 * number as u64))
        });
    }
    suite.run()
}

fn number<T: FromStr>(variable: &str) -> Option<T> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

fn first_seed(usual: u64) -> u64 {
    number("NONIC_SEED").unwrap_or(usual)
}

fn run(place: &Place, program: &Path, mut seed: u64) -> Verdict {
    let until = Instant::now() + Duration::from_secs(number("NONIC_CALLS_SECONDS").unwrap_or(0));
    loop {
        let words = [program.display().to_string(), SEQUENCES.to_string(), seed.to_string()];
        let finished = place.nonic_run(words)?.run()?;
        judge(&finished)?;
        // A panic is caught before it reaches the program, which may not have looked at that answer.
        if finished.stderr.contains("panicked") {
            return failed(format!("the library panicked, seed {seed}\n{}", finished.report()));
        }
        if Instant::now() >= until {
            return Ok(());
        }
        seed = seed.wrapping_add(SEQUENCES);
    }
}
