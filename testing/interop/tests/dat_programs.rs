//! Whole programs of uDAPL 1.2: thousands of connections, threads, and processes that are killed at every step.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use nonic_interop::c_program::{compile_dat, judge};
use nonic_interop::environment::{AS_IT_COMES, Environment, Place, ways};
use nonic_interop::suite::{Suite, Verdict};

/// A sentence, a file of `c/dat`, and whether it also runs within one process.
const CASES: &[(&str, &str, bool)] = &[
    ("thousands of connections, endpoints and objects leave nothing behind", "many", true),
    ("threads have connections of their own, and share dispatchers", "threads", true),
    ("processes that are killed, exit, fork or are interrupted leave others whole", "deaths", false),
];

const ONE_CPU: Environment = Environment { name: "with all on one CPU", one_cpu: true, ..AS_IT_COMES };

fn main() -> ExitCode {
    let mut suite = Suite::new();
    for (sentence, program, alone) in CASES {
        suite.test(format!("{sentence}, between processes"), move || run(program, AS_IT_COMES, &[], &[]));
        if *alone {
            suite.test(format!("{sentence}, within one process"), move || {
                run(program, AS_IT_COMES, &["alone"], &[])
            });
        }
    }
    for environment in ways().into_iter().skip(1).chain([ONE_CPU]) {
        let (sentence, program, _) = CASES[2];
        suite.test(format!("{sentence}, {}", environment.name), move || run(program, environment, &[], &[]));
    }
    let (sentence, program, _) = CASES[2];
    suite.test(format!("{sentence}, not coherent"), move || {
        run(program, AS_IT_COMES, &[], &[("NONIC_NONCOHERENT", "1")])
    });
    let (sentence, program, _) = CASES[1];
    suite.test(format!("{sentence}, {}", ONE_CPU.name), move || run(program, ONE_CPU, &[], &[]));
    suite.run()
}

/// In a network of its own: what these programs count includes sockets at the port of the wire, which they would get later where
/// other users' programs have it at first.
fn run(program: &str, environment: Environment, words: &[&str], variables: &[(&str, &str)]) -> Verdict {
    let environment = Environment { only_lo: true, ..environment };
    let mut command = vec![compile_dat(program)?.display().to_string()];
    command.extend(words.iter().map(|word| word.to_string()));
    let mut place = Place::prepare(environment)?;
    for (name, value) in variables {
        place = place.variable(name, value);
    }
    judge(&place.nonic_run(command)?.run()?).map(drop)
}
