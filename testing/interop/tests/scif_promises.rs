//! C programs that prove what SCIF promises and refuses, each errno with a proof that nothing moved; between two processes
//! and within one.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use nonic_interop::c_program::{compile_scif, judge};
use nonic_interop::environment::{AS_IT_COMES, Place};
use nonic_interop::scif::place;
use nonic_interop::suite::{Suite, Verdict, skipped};
use nonic_interop::toolbox::is_root;

const CASES: &[(&str, &str)] = &[
    ("endpoints refuse what their state does not allow", "endpoints"),
    ("a direction of the stream holds exactly 4095 bytes", "stream"),
    ("windows stand where they were put and keep their pages", "windows"),
    ("mappings are the peer's pages, and refused ones replace nothing", "mappings"),
    ("a buffer that was mapped over and unmapped is freed as if the library were not there", "freed_mapping"),
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
    for (name, tier) in [("on the kernel-copy tier", "kernel"), ("on the ring tier", "ring")] {
        suite.test(format!("windows on every kind of memory are the peer's to map {name}"), move || {
            run("windows", &["two"], &[("NONIC_TIER", tier)])
        });
    }
    suite.test(
        "windows on every kind of memory are the peer's to map for root, also on files without a name",
        || {
            if !is_root() {
                return skipped("windows of root: it takes root");
            }
            run_in(place(AS_IT_COMES)?.user(0), "windows", &["two"])
        },
    );
    suite.test("registered memory counts as locked where that is asked for", || {
        run("windows", &["two", "memlock"], &[("NONIC_SCIF_MEMLOCK", "1")])
    });
    suite.test("killed peers and signals end every call that waits", || run("deaths", &[], &[]));
    suite.run()
}

fn run(program: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Verdict {
    let set = |place: Place, (name, value): &(&str, &str)| place.variable(name, value);
    run_in(variables.iter().fold(place(AS_IT_COMES)?, set), program, arguments)
}

fn run_in(place: Place, program: &str, arguments: &[&str]) -> Verdict {
    let mut words = vec![compile_scif(&format!("{program}.c"))?.display().to_string()];
    words.extend(arguments.iter().map(|word| word.to_string()));
    judge(&place.nonic_run(words)?.run()?).map(drop)
}
