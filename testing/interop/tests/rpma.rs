//! librpma of the distribution: memory at the service of another process, by addresses of the connection manager.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use nonic_interop::c_program::{compile_rpma, judge};
use nonic_interop::environment::{Environment, Place, environments};
use nonic_interop::port::TcpPort;
use nonic_interop::suite::{Suite, Verdict};

fn main() -> ExitCode {
    let mut suite = Suite::new();
    for environment in environments() {
        for address in ["127.0.0.1", "::1"] {
            let name = format!("librpma writes, flushes and reads at {address}, {}", environment.name);
            suite.test(name, move || served(environment, address));
        }
    }
    suite.run()
}

fn served(environment: Environment, address: &str) -> Verdict {
    let port = TcpPort::claim()?.number().to_string();
    let words = [compile_rpma()?.display().to_string(), address.into(), port];
    judge(&Place::prepare(environment)?.nonic_run(words)?.run()?)?;
    Ok(())
}
