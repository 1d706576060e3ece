//! What the tests of all victims share: strangers.

#![allow(dead_code)] // Each test is a crate of its own and uses its part.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nonic_second_process::SecondProcess;
pub(crate) use nonic_second_process::{count_warnings, warnings};

/// Nobody else's: the kernel counts descriptors that are under way by user.
pub(crate) const STRANGER: u32 = 23_461;
pub(crate) const OTHER_STRANGER: u32 = 23_462;

/// Descriptors that come with a message are there until it was looked at.
pub(crate) const IN_A_MESSAGE: usize = 32;

/// Speed is measured, and the machine has few CPUs.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Alone, in a network namespace of its own; `None` if that cannot be.
pub(crate) fn alone(what: &str) -> Option<MutexGuard<'static, ()>> {
    let guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: nothing of this thread depends on the network.
    let alone = unsafe { libc::geteuid() == 0 && libc::unshare(libc::CLONE_NEWNET) == 0 };
    if !alone {
        println!("SKIPPED: {what}: needs root, to be two users");
    }
    alone.then_some(guard)
}

/// Whom a stranger is after.
#[derive(Clone, Copy)]
pub(crate) enum Victim<'a> {
    /// The process of a queue pair.
    Number(u32),
    /// The process of a service of the connection manager.
    Service(&'a str),
    /// The process of a SCIF port, by its name.
    Port(&'a str),
    /// The process with a queue pair at an address, as `--wire` takes it.
    Wire(&'a str),
    /// All who meet in a folder.
    Folder(&'a str),
    /// The process of a queue pair, by the folder in which it is met.
    NumberIn(u32, &'a str),
}

/// A process that is not honest.
pub(crate) struct Stranger {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Stranger {
    pub(crate) fn start(user: u32, victim: Victim<'_>, arguments: &[&str]) -> Self {
        let named = |option: &str, value: &str| vec![option.to_owned(), value.to_owned()];
        let of_victim = match victim {
            Victim::Number(number) => named("--number", &number.to_string()),
            Victim::Service(service) => named("--service", service),
            Victim::Port(name) => named("--port", name),
            Victim::Wire(name) => named("--wire", name),
            Victim::Folder(path) => named("--folder", path),
            Victim::NumberIn(number, path) => {
                [named("--number", &number.to_string()), named("--folder", path)].concat()
            }
        };
        let mut process = Command::new(env!("CARGO_BIN_EXE_hostile"))
            .args(["--user", &user.to_string()])
            .args(of_victim)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (process.stdin.take(), process.stdout.take().unwrap());
        Self { process, input, output: BufReader::new(output) }
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Waits for the line that begins so.
    pub(crate) fn hear(&mut self, beginning: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(
                self.output.read_line(&mut line).unwrap() > 0,
                "the stranger ended without {beginning:?}"
            );
            if line.starts_with(beginning) {
                return line.trim_end().to_owned();
            }
        }
    }

    /// Lets it end, and what it has with it.
    pub(crate) fn end(mut self) {
        self.input = None;
        let mut rest = String::new();
        while self.output.read_line(&mut rest).unwrap() > 0 {}
        assert!(self.process.wait().unwrap().success());
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// How many descriptors of a process foreigners may have together.
pub(crate) fn foreigners_share() -> usize {
    descriptor_limit().min(4096) / 4
}

/// That of the campaign, or one of this process's.
pub(crate) fn seed() -> u64 {
    let seed = std::env::var("NONIC_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
    println!("NONIC_SEED={seed}");
    seed
}

/// How long a campaign takes.
pub(crate) fn seconds() -> u64 {
    let seconds = std::env::var("NONIC_HOSTILE_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    seconds.unwrap_or(4)
}

pub(crate) fn descriptor_limit() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.map_or(usize::MAX, |limit| limit as usize)
}

/// Has two strangers do all they can to a victim for as long as a campaign takes, while honest processes go on with what
/// `honest` does, which is given the victim's and says how long it took. The victim may have `more` descriptors than before, little more memory, and
/// writes a handful of kinds of messages, each once in ten seconds.
pub(crate) fn campaign(
    process: &mut SecondProcess,
    victim: Victim<'_>,
    more: usize,
    mut honest: impl FnMut(&mut SecondProcess, u64) -> Duration,
) {
    const BESIDE: u64 = 100;
    let (seconds, seed) = (seconds(), seed());
    for number in 0..BESIDE {
        honest(process, number);
    }
    let (before, resident) = (process.descriptors(), process.resident());
    let mut liars = [(STRANGER, seed), (OTHER_STRANGER, seed + 1)].map(|(user, seed)| {
        let (seed, seconds) = (seed.to_string(), seconds.to_string());
        Stranger::start(user, victim, &["--seed", &seed, "--seconds", &seconds])
    });
    for liar in &mut liars {
        liar.hear("begins");
    }
    let began = Instant::now();
    let (mut done, mut slowest, mut most, mut heaviest) = (0, Duration::ZERO, 0, 0);
    while began.elapsed() < Duration::from_secs(seconds) {
        slowest = slowest.max(honest(process, done));
        done += 1;
        most = most.max(process.descriptors());
        heaviest = heaviest.max(process.resident());
    }
    for mut liar in liars {
        println!("{}", liar.hear("done"));
        liar.end();
    }
    for number in 0..BESIDE {
        honest(process, number);
    }
    let warnings: u64 = process.tell("warnings").parse().unwrap();
    println!(
        "{done} connections, the slowest after {slowest:?}; {most} descriptors, {before} before; {heaviest} KiB, \
         {resident} before; {warnings} messages to people"
    );
    assert!(done > 0);
    assert!(most <= before + more, "{most} descriptors, {before} before, and {more} may come");
    assert!(heaviest < resident + 64 * 1024, "{heaviest} KiB, {resident} before");
    assert!(warnings <= 8 * (1 + seconds / 10), "{warnings} messages to people");
}
