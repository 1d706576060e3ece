//! For tests: the same test program as a second process, which does what it is told by lines.
//!
//! The first process [starts](SecondProcess::start) a test of its own program by name. That test sees its [`role`] and
//! [says](say) and is [`told`] lines, or [serves](serve) until there are no more.

#![deny(unsafe_code)]

mod descriptors;
mod user;
mod warnings;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

pub use descriptors::descriptors;
pub use user::become_user;
pub use warnings::{count_warnings, warnings};

const ROLE: &str = "NONIC_TEST_ROLE";
/// First characters of a line that is for the other process, and not the test harness's.
const MARK: &str = "nonic: ";

/// A second process. It is killed when this is dropped.
#[derive(Debug)]
pub struct SecondProcess {
    process: Child,
    /// Until it is to end.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl SecondProcess {
    /// Starts the test `name` of this program once more, in a `role`, and with more in its environment.
    pub fn start(name: &str, role: &str, variables: &[(&str, &str)]) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture", "--test-threads", "1"])
            .env(ROLE, role)
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (process.stdin.take(), process.stdout.take().unwrap());
        Self { process, input, output: BufReader::new(output) }
    }

    /// Tells it something; what it says is heard later.
    pub fn order(&mut self, text: &str) {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{text}").unwrap();
        input.flush().unwrap();
    }

    /// The next line it says.
    ///
    /// # Panics
    ///
    /// If it has ended.
    pub fn hear(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "the second process has ended");
            // The harness writes the test's name without a line end before.
            if let Some((_, text)) = line.split_once(MARK) {
                return text.trim_end().to_owned();
            }
        }
    }

    /// Tells it something that it answers.
    pub fn tell(&mut self, text: &str) -> String {
        self.order(text);
        self.hear()
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    /// Stops it, and waits until it has stopped.
    pub fn stop(&self) {
        self.signal(Signal::STOP);
        let stat = format!("/proc/{}/stat", self.id());
        while !std::fs::read_to_string(&stat).unwrap().contains(") T ") {
            std::thread::yield_now();
        }
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Kills it, and waits for its end.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Has it end in order: it is told nothing more.
    ///
    /// # Panics
    ///
    /// If it fails.
    pub fn finish(mut self) {
        self.input = None;
        assert!(self.process.wait().unwrap().success(), "the second process failed");
    }

    /// How many descriptors it has open.
    pub fn descriptors(&self) -> usize {
        descriptors(self.id())
    }

    /// Memory of its own, in KiB.
    pub fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
        line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

impl Drop for SecondProcess {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What this process was started as; `None` in the first one.
pub fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// Says a line to the first process.
pub fn say(text: &str) {
    println!("{MARK}{text}");
}

/// Waits for a line of the first process; empty when there will be none.
pub fn told() -> String {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

/// Obeys, a line at a time: its first word and the rest. When there are no more the process exits, with everything as it is:
/// what happens then is the business of what is tested.
pub fn serve(mut obey: impl FnMut(&str, &str) -> String) -> ! {
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let (command, rest) = line.split_once(' ').unwrap_or((&line, ""));
        say(&obey(command, rest));
    }
    std::process::exit(0)
}
