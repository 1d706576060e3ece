//! Programs of others that measure the same: a server and a client, each bound to its processor.

mod launch;
mod output;

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

use serde::Serialize;

use super::job::{Sample, Unit, Verb};
use super::worker::pin;
use crate::demo::failure::{Failure, Outcome};
use crate::library::own_program;
use crate::run::find_program;

/// Who is measured beside the device.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Suite {
    /// UCX over shared memory and the kernel's copy.
    Ucx,
    /// libfabric over its shared-memory provider.
    Libfabric,
    /// perftest, unmodified, on this device.
    Perftest,
}

impl Suite {
    /// All of them.
    pub(super) const ALL: [Self; 3] = [Self::Ucx, Self::Libfabric, Self::Perftest];

    /// The program that shows that it is installed.
    fn program(self) -> &'static str {
        match self {
            Self::Ucx => "ucx_perftest",
            Self::Libfabric => "fi_pingpong",
            Self::Perftest => "ib_write_lat",
        }
    }

    /// The Debian package that brings it.
    pub(super) fn package(self) -> &'static str {
        match self {
            Self::Ucx => "ucx-utils",
            Self::Libfabric => "libfabric-bin",
            Self::Perftest => "perftest",
        }
    }

    /// Its name for people.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ucx => "UCX",
            Self::Libfabric => "libfabric",
            Self::Perftest => "perftest",
        }
    }

    /// How it tells its version.
    fn version_command(self) -> [&'static str; 2] {
        match self {
            Self::Ucx => ["ucx_info", "-v"],
            Self::Libfabric => ["fi_info", "--version"],
            Self::Perftest => ["ib_write_lat", "--version"],
        }
    }
}

/// One measurement by such a program.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize)]
pub(super) enum Test {
    /// `ucx_perftest -t NAME`; its figures are times, or rates where the name ends in `bw`.
    Ucx(&'static str, usize),
    /// `fi_pingpong -p shm`.
    PingPong(usize),
    /// A program of perftest, with a flag of its own; its figures are times, or rates where the name ends in `bw`.
    Perftest(&'static str, usize, Option<&'static str>),
}

impl Test {
    pub(super) fn suite(self) -> Suite {
        match self {
            Self::Ucx(..) => Suite::Ucx,
            Self::PingPong(_) => Suite::Libfabric,
            Self::Perftest(..) => Suite::Perftest,
        }
    }

    /// What it measures, for people.
    pub(super) fn name(self) -> String {
        match self {
            Self::Ucx(name, _) => format!("UCX {name}"),
            Self::PingPong(_) => "libfabric shm".to_owned(),
            Self::Perftest(name, _, flag) => flag.map_or(name.to_owned(), |flag| format!("{name} {flag}")),
        }
    }

    fn is_rate(self) -> bool {
        matches!(self, Self::Ucx(name, _) | Self::Perftest(name, ..) if name.ends_with("_bw"))
    }

    /// Those that measure what the device does with that verb, best first.
    pub(super) fn beside(verb: Verb, rate: bool, size: usize) -> Vec<Self> {
        match (verb, rate) {
            (Verb::Write, false) => vec![Self::Ucx("ucp_put_lat", size)],
            (Verb::Send, false) => vec![Self::Ucx("tag_lat", size), Self::PingPong(size)],
            (Verb::Write, true) => vec![Self::Ucx("ucp_put_bw", size)],
            (Verb::Send, true) => vec![Self::Ucx("tag_bw", size)],
            (Verb::Read, false) => vec![Self::Ucx("ucp_get", size)],
            (Verb::Atomics, false) => vec![Self::Ucx("ucp_fadd", 8)],
            (Verb::Read | Verb::Atomics, true) => Vec::new(),
        }
    }
}

/// What is installed.
pub(super) struct Programs {
    installed: Vec<Installed>,
    processors: [usize; 2],
    /// Where this process may run when it starts no one.
    all: Vec<usize>,
}

/// One of them.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Installed {
    /// Which.
    pub(super) suite: Suite,
    /// Its version; nothing if it is not installed or not wanted.
    pub(super) version: Option<String>,
}

impl Programs {
    /// Looks for them in `PATH`; for none of them if none is wanted.
    pub(super) fn find(wanted: bool, processors: [usize; 2], all: Vec<usize>) -> Self {
        let version = |suite: Suite| {
            find(suite.program()).filter(|_| wanted)?;
            let [program, flag] = suite.version_command();
            let output = Command::new(find(program)?).arg(flag).output().ok()?;
            output::version(&String::from_utf8_lossy(&output.stdout)).or(Some("unknown".to_owned()))
        };
        let installed = |suite| Installed { suite, version: version(suite) };
        Self { installed: Suite::ALL.map(installed).to_vec(), processors, all }
    }

    /// All, installed or not.
    pub(super) fn list(&self) -> &[Installed] {
        &self.installed
    }

    pub(super) fn has(&self, suite: Suite) -> bool {
        self.installed.iter().any(|installed| installed.suite == suite && installed.version.is_some())
    }

    /// Runs one. How often it repeats follows from its size, so that it takes a fraction of a second.
    pub(super) fn measure(&self, test: Test, quick: bool) -> Outcome<Sample> {
        let tell = |words: String| Failure::new(format!("{}: {words}", test.name()));
        let port = launch::free_port().map_err(|error| tell(error.to_string()))?;
        let [server, client] = [false, true].map(|client| command(test, client, port, quick));
        let (server, client) = (server.map_err(tell)?, client.map_err(tell)?);
        let output = launch::run([client, server], port, |side| match side {
            Some(side) => pin(&[self.processors[side]]),
            None => pin(&self.all),
        });
        let output = output.map_err(|failure| tell(failure.to_string()))?;
        let value = match test {
            Test::Ucx(..) => output::ucx(&output, test.is_rate()),
            Test::PingPong(_) => output::ping_pong(&output),
            Test::Perftest(..) => output::perftest(&output, test.is_rate()),
        };
        let value = value.ok_or_else(|| tell(format!("its output holds no figure:\n{output}")))?;
        let unit = if test.is_rate() { Unit::OperationsPerSecond } else { Unit::Nanoseconds };
        Ok(Sample::of(value, unit))
    }
}

fn find(name: &str) -> Option<PathBuf> {
    find_program(OsStr::new(name), std::env::var_os("PATH").as_deref()).ok()
}

/// How often the program repeats.
fn repetitions(test: Test, quick: bool) -> usize {
    let (size, budget) = match test {
        Test::Ucx(_, size) | Test::Perftest(_, size, _) => (size, 64 << 20),
        Test::PingPong(size) => (size, 16 << 20),
    };
    let most = match test {
        Test::Perftest(_, _, Some("-e")) => 5_000,
        _ if test.is_rate() => 200_000,
        _ => 20_000,
    };
    let count = (16 * budget / size.max(1)).clamp(500, most);
    if quick { count / 50 + 10 } else { count }
}

fn command(test: Test, client: bool, port: u16, quick: bool) -> Result<Command, String> {
    let name = match test {
        Test::Perftest(name, ..) => name,
        _ => test.suite().program(),
    };
    let program = find(name).ok_or_else(|| format!("{name} is not installed"))?;
    let (count, port) = (repetitions(test, quick).to_string(), port.to_string());
    let mut command = match test {
        Test::Perftest(..) => {
            let mut command = Command::new(own_program().map_err(|error| error.to_string())?);
            command.arg("run").arg("--").arg(program);
            command
        }
        _ => Command::new(program),
    };
    match test {
        Test::Ucx(name, size) => {
            command.env("UCX_TLS", "posix,cma").env("UCX_LOG_LEVEL", "error").args(["-p", &port]);
            if client {
                command.args(["127.0.0.1", "-t", name, "-s", &size.to_string(), "-n", &count]);
            }
        }
        Test::PingPong(size) => {
            command.args(["-p", "shm", "-e", "rdm", "-I", &count, "-S", &size.to_string()]);
            command.args([if client { "-P" } else { "-B" }, &port]);
            command.args(client.then_some("127.0.0.1"));
        }
        Test::Perftest(_, size, flag) => {
            command.args(["-n", &count, "-p", &port]).args(flag);
            if !name.contains("atomic") {
                command.args(["-s", &size.to_string()]);
            }
            // In ticks of the time-stamp counter, since its microseconds have only two digits behind the point.
            command.args((!test.is_rate()).then_some("-C"));
            command.args(client.then_some("127.0.0.1"));
        }
    }
    Ok(command)
}
