//! Programs of many threads: more than there are places for, cancelled ones, ones that leave in the middle of a call, and ones
//! under a filter of system calls that comes late.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Duration;

use nonic_interop::c_program::{compile, judge};
use nonic_interop::environment::{AS_IT_COMES, Environment, Place, ways};
use nonic_interop::suite::{Suite, Verdict};

/// Seconds for each number of threads; `NONIC_THREADS_SECONDS` asks for more.
const SECONDS: u32 = 1;
/// Programs that exit in a signal handler.
const EXITS: u32 = 200;

fn main() -> ExitCode {
    let mut suite = Suite::new();
    for way in ways() {
        for (mode, whom) in [("loopback", "with themselves"), ("processes", "between two processes")] {
            suite
                .test(format!("256 threads operate {whom} and none stands still, {}", way.name), move || {
                    run(way, "many_threads", &[mode, &seconds()])
                });
        }
        suite.test(
            format!("threads are cancelled where they wait and nowhere else, {}", way.name),
            move || run(way, "cancelled", &["100", "1"]),
        );
    }
    suite.test(
        "a thread of the library's has its variables before a program that has the device goes on",
        // A library that is loaded in front has them in every thread from the beginning.
        || run_with(&["--no-preload"], AS_IT_COMES, "begun_threads", &["50"]),
    );
    suite.test("programs that exit in a signal handler end, whatever it interrupted", || {
        run(AS_IT_COMES, "exits", &[&EXITS.to_string(), "1"])
    });
    for way in ways() {
        for who in ["active", "passive", "both"] {
            suite.test(
                format!("a filter that comes late leaves threads and revocation right, {who}, {}", way.name),
                move || run(way, "late_filter", &[who, "20"]),
            );
        }
    }
    suite.run()
}

fn seconds() -> String {
    std::env::var("NONIC_THREADS_SECONDS").unwrap_or_else(|_| SECONDS.to_string())
}

fn run(environment: Environment, program: &str, arguments: &[&str]) -> Verdict {
    run_with(&[], environment, program, arguments)
}

fn run_with(options: &[&str], environment: Environment, program: &str, arguments: &[&str]) -> Verdict {
    let mut words = vec![compile(program)?.display().to_string()];
    words.extend(arguments.iter().map(|word| word.to_string()));
    // Ten runs of each number of threads at most, and whatever a loaded machine makes of it.
    let patience = Duration::from_secs(240 + 20 * seconds().parse::<u64>().unwrap_or(0));
    let finished = Place::prepare(environment)?.nonic_run_with(options, words)?.deadline(patience).run()?;
    judge(&finished)?;
    for line in finished.stdout.lines().filter(|line| line.starts_with("  ")) {
        println!("{line}");
    }
    Ok(())
}
