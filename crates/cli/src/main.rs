//! The command `nonic`. Everything it does is in the library beside this file, where tests can reach it.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    nonic_cli::main()
}
