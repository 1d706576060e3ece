//! Runs the conformance suite: every rule over every arrangement, and a table of the results.

use std::process::ExitCode;

fn main() -> ExitCode {
    nonic_conformance::run()
}
