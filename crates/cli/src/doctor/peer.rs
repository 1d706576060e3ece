//! Small processes that the doctor starts to try things out between processes, as two programs would.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::{Args, Subcommand};
use serde::de::DeserializeOwned;

use super::{adoption, dat, library, reach, scif, view};
use crate::library::own_program;
use crate::system;

/// How long a helper may take for one answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// What every helper's mailbox holds at first.
const FIRST: u64 = 0x6e6f_6e69_6300_0001;

/// Eight bytes that other processes try to read and write.
static MAILBOX: AtomicU64 = AtomicU64::new(FIRST);

/// The doctor's helper process (internal)
#[derive(Args, Debug)]
pub(crate) struct PeerArguments {
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Load the library, open a device, say what was seen.
    Library { file: PathBuf },
    /// Look for the device's files, say what was seen.
    View,
    /// Load the SCIF library, connect two endpoints, say what was seen.
    Scif { file: PathBuf },
    /// Load the library of uDAPL, connect two endpoints, say what was seen.
    Dat { file: PathBuf },
    /// Load a provider of uDAPL, say what was seen.
    DatProvider { library: PathBuf, registry: Option<PathBuf> },
    /// Adopt memory, say what was seen.
    Adoption,
    /// Write to the other process's memory, or have that memory, through the library.
    Reach { side: reach::Side, pace: reach::Pace, file: PathBuf },
    /// Read and write other processes on request.
    Memory {
        #[arg(long)]
        allow_ptrace: bool,
    },
}

/// The helper process.
pub(crate) fn main(arguments: &PeerArguments) -> ExitCode {
    match &arguments.role {
        Role::Library { file } => library::load_and_tell(file),
        Role::View => view::look_and_tell(),
        Role::Scif { file } => scif::load_and_tell(file),
        Role::Dat { file } => dat::load_and_tell(file),
        Role::DatProvider { library, registry } => dat::load_provider_and_tell(library, registry.as_deref()),
        Role::Adoption => adoption::try_and_tell(),
        Role::Reach { side, pace, file } => reach::take_part(*side, *pace, file),
        Role::Memory { allow_ptrace } => serve_memory(*allow_ptrace),
    }
}

/// Runs a helper to its end and takes what it prints.
pub(super) fn ask_helper<T: DeserializeOwned>(role: &[&OsStr]) -> io::Result<T> {
    ask_helper_with(role, None)
}

/// The same of one that has a variable more.
pub(super) fn ask_helper_with<T: DeserializeOwned>(
    role: &[&OsStr],
    variable: Option<(&str, OsString)>,
) -> io::Result<T> {
    let mut command = Command::new(own_program()?);
    command.envs(variable).arg("doctor-peer").args(role).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn()?;
    let mut answer = String::new();
    let mut output = child.stdout.take().expect("stdout was asked to be a pipe");
    let read = wait_readable(&output, PATIENCE).and_then(|()| output.read_to_string(&mut answer));
    if read.is_err() {
        child.kill()?;
    }
    let status = child.wait()?;
    read?;
    // Libraries that it has loaded may have said something before.
    serde_json::from_str(answer.lines().last().unwrap_or_default())
        .map_err(|_| io::Error::other(format!("the process that tried it ended: {status}")))
}

fn serve_memory(allow_ptrace: bool) -> ExitCode {
    if allow_ptrace {
        // Fails with EINVAL where there is no Yama, which then refuses nothing either.
        let _ = rustix::process::set_ptracer(rustix::process::PTracer::Any);
    }
    println!("{}", mailbox_address());
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        println!("{}", answer(&line));
    }
    ExitCode::SUCCESS
}

fn mailbox_address() -> usize {
    (&raw const MAILBOX).addr()
}

/// `show`, `open PID`, `read PID ADDRESS` or `write PID ADDRESS VALUE`; answers a number, or `error` and its errno.
fn answer(request: &str) -> String {
    let words: Vec<&str> = request.split(' ').collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
    let result = match words[0] {
        "show" => Ok(MAILBOX.load(Ordering::SeqCst)),
        "open" => open_memory(number(1)).map(|_| number(1)),
        "read" => system::read_process(number(1) as u32, number(2) as usize),
        _ => system::write_process(number(1) as u32, number(2) as usize, number(3)).map(|()| number(3)),
    };
    match result {
        Ok(value) => value.to_string(),
        Err(error) => format!("error {}", error.raw_os_error().unwrap_or(libc::EIO)),
    }
}

/// A process's memory, as the kernel's copies open it to write.
fn open_memory(pid: u64) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(format!("/proc/{pid}/mem"))
}

/// Someone whose memory can be tried: this process, or a helper.
pub(super) trait Party {
    /// Its process id.
    fn pid(&self) -> u32;
    /// The address of its eight bytes.
    fn address(&self) -> usize;
    /// Executes a request of [`answer`].
    fn ask(&mut self, request: &str) -> io::Result<u64>;
}

/// This process.
pub(super) struct Myself;

impl Party for Myself {
    fn pid(&self) -> u32 {
        std::process::id()
    }

    fn address(&self) -> usize {
        mailbox_address()
    }

    fn ask(&mut self, request: &str) -> io::Result<u64> {
        understand(&answer(request))
    }
}

/// A helper process of the memory kind. Ends with this object.
pub(super) struct MemoryPeer {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    address: usize,
}

impl MemoryPeer {
    /// Starts one.
    pub(super) fn start(allow_ptrace: bool) -> io::Result<Self> {
        let mut command = Command::new(own_program()?);
        command.args(["doctor-peer", "memory"]).args(allow_ptrace.then_some("--allow-ptrace"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let requests = child.stdin.take().expect("stdin was asked to be a pipe");
        let answers = BufReader::new(child.stdout.take().expect("stdout was asked to be a pipe"));
        let mut peer = Self { child, requests, answers, address: 0 };
        peer.address = peer.next_answer()? as usize;
        Ok(peer)
    }

    fn next_answer(&mut self) -> io::Result<u64> {
        wait_readable(self.answers.get_ref(), PATIENCE)?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        understand(line.trim_end())
    }
}

impl Party for MemoryPeer {
    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn address(&self) -> usize {
        self.address
    }

    fn ask(&mut self, request: &str) -> io::Result<u64> {
        writeln!(self.requests, "{request}")?;
        self.next_answer()
    }
}

impl Drop for MemoryPeer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn understand(answer: &str) -> io::Result<u64> {
    match answer.strip_prefix("error ") {
        Some(number) => Err(io::Error::from_raw_os_error(number.parse().unwrap_or(libc::EIO))),
        None => answer.parse().map_err(|_| io::Error::other(format!("the helper process said {answer:?}"))),
    }
}

/// Waits until something can be read, at most that long.
pub(super) fn wait_readable(from: &impl std::os::fd::AsFd, patience: Duration) -> io::Result<()> {
    use rustix::event::{PollFd, PollFlags, Timespec};
    let timeout = Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: patience.subsec_nanos().into() };
    match rustix::event::poll(&mut [PollFd::new(from, PollFlags::IN)], Some(&timeout))? {
        0 => {
            Err(io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {} s", patience.as_secs())))
        }
        _ => Ok(()),
    }
}

/// Whether `initiator` can open the memory of `target`.
pub(super) fn try_open(initiator: &mut impl Party, target: &impl Party) -> io::Result<()> {
    initiator.ask(&format!("open {}", target.pid())).map(drop)
}

/// Whether `initiator` can read from and write to `target` without the target's help; checks the bytes.
pub(super) fn try_copy(initiator: &mut impl Party, target: &mut impl Party, value: u64) -> io::Result<()> {
    let (pid, address) = (target.pid(), target.address());
    initiator.ask(&format!("write {pid} {address} {value}"))?;
    let arrived = target.ask("show")?;
    let read = initiator.ask(&format!("read {pid} {address}"))?;
    if (arrived, read) == (value, value) {
        Ok(())
    } else {
        Err(io::Error::other(format!("wrote {value:#x}, the target has {arrived:#x}, read {read:#x}")))
    }
}
