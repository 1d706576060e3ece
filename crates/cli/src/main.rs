//! The command `nonic`. Everything it does is in the library beside this file, where tests can reach it.

use std::process::ExitCode;

fn main() -> ExitCode {
    nonic_cli::main()
}
