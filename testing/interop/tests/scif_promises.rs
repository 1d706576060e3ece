//! C programs that prove what SCIF promises and refuses, each errno with a proof that nothing moved; between two processes
//! and within one.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use nonic_interop::c_program::{compile_scif, judge};
use nonic_interop::environment::AS_IT_COMES;
use nonic_interop::scif::place;
use nonic_interop::suite::{Suite, Verdict};

const CASES: &[(&str, &str)] = &[
    ("endpoints refuse what their state does not allow", "endpoints"),
    ("a direction of the stream holds exactly 4095 bytes", "stream"),
    ("windows stand where they were put and keep their pages", "windows"),
    ("mappings are the peer's pages, and refused ones replace nothing", "mappings"),
    ("transfers move every byte that was asked for, and refused ones none", "transfers"),
    ("marks and signals come after the transfers before them", "fences"),
    ("endpoints are descriptors: dup, close, fork, poll, select, epoll", "descriptors"),
];

fn main() -> ExitCode {
    let mut suite = Suite::new();
    for (sentence, program) in CASES {
        for (name, word) in [("between two processes", "two"), ("within one process", "alone")] {
            suite.test(format!("{sentence}, {name}"), move || run(program, &[word], &[]));
        }
    }
    suite.test("registered memory counts as locked where that is asked for", || {
        run("windows", &["two", "memlock"], &[("NONIC_SCIF_MEMLOCK", "1")])
    });
    suite.test("killed peers and signals end every call that waits", || run("deaths", &[], &[]));
    suite.run()
}

fn run(program: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Verdict {
    let mut words = vec![compile_scif(&format!("{program}.c"))?.display().to_string()];
    words.extend(arguments.iter().map(|word| word.to_string()));
    let mut place = place(AS_IT_COMES)?;
    for (name, value) in variables {
        place = place.variable(name, value);
    }
    judge(&place.nonic_run(words)?.run()?).map(drop)
}
