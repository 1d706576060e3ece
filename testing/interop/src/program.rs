//! A program that runs under a deadline, with its output captured, and that cannot outlive its test.

use std::fmt::Write as _;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::port::{is_listening, is_offered};
use crate::stuck::tell_of;
use crate::suite::{Verdict, failed};

/// Between two looks at something the kernel cannot notify us of: a port that starts to listen, a process that ends.
const LOOK: Duration = Duration::from_millis(2);

/// A command line, with what it may take.
#[derive(Debug, Clone)]
pub struct Program {
    words: Vec<String>,
    variables: Vec<(String, String)>,
    deadline: Duration,
}

impl Program {
    /// The command line, word by word: wrappers first, then the program.
    pub fn new(words: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            words: words.into_iter().map(Into::into).collect(),
            variables: Vec::new(),
            deadline: Duration::from_secs(120),
        }
    }

    /// Sets an environment variable.
    pub fn variable(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// Sets how long it may run. Generous by default: never waited out when all is well.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Starts it, in a process group of its own.
    pub fn start(self) -> Verdict<Running> {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).current_dir("/").env_clear().process_group(0);
        command.env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin").env("HOME", "/").env("LC_ALL", "C.UTF-8");
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(e) => return failed(format!("cannot start {}: {e}", self.words.join(" "))),
        };
        let printed = Arc::new(Printed::default());
        let readers = vec![
            read_into(Arc::clone(&printed), child.stdout.take().expect("stdout is piped"), Stream::Out),
            read_into(Arc::clone(&printed), child.stderr.take().expect("stderr is piped"), Stream::Err),
        ];
        let now = Instant::now();
        Ok(Running {
            command: self.words,
            child,
            printed,
            readers,
            started: now,
            deadline: now + self.deadline,
        })
    }

    /// Starts it and waits for its end.
    pub fn run(self) -> Verdict<Finished> {
        self.start()?.finish()
    }
}

#[derive(Clone, Copy)]
enum Stream {
    Out,
    Err,
}

#[derive(Default)]
struct Printed {
    text: Mutex<(String, String)>,
    more: Condvar,
}

fn read_into(printed: Arc<Printed>, mut from: impl Read + Send + 'static, stream: Stream) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count) = from.read(&mut bytes) {
            if count == 0 {
                break;
            }
            let text = String::from_utf8_lossy(&bytes[..count]);
            let mut both = printed.text.lock().expect("no reader panics");
            match stream {
                Stream::Out => both.0.push_str(&text),
                Stream::Err => both.1.push_str(&text),
            }
            printed.more.notify_all();
        }
    })
}

/// A program that runs. Killed with its whole process group when dropped.
pub struct Running {
    command: Vec<String>,
    child: Child,
    printed: Arc<Printed>,
    readers: Vec<JoinHandle<()>>,
    started: Instant,
    deadline: Instant,
}

impl Running {
    /// The process: wrappers replace themselves, so this is the program's own number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it listens on a TCP port.
    pub fn listens_on(&mut self, port: u16) -> Verdict {
        while !is_listening(self.id(), port) {
            if self.has_ended() {
                return failed(format!(
                    "it ended before it listened on port {port}\n{}",
                    self.report("ended")
                ));
            }
            if Instant::now() > self.deadline {
                return failed(format!("it never listened on port {port}\n{}", self.stands()));
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Waits until somebody in its network namespace listens for requests of the RDMA connection manager: on a port of a space
    /// (`tcp`, `udp`), whatever the address.
    pub fn offers(&mut self, space: &str, port: u16) -> Verdict {
        while !is_offered(self.id(), space, port) {
            if self.has_ended() || Instant::now() > self.deadline {
                let stands = self.stands();
                return failed(format!("it never listened on port {port} of the space {space}\n{stands}"));
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Waits until its standard output holds a whole line that `wanted` accepts, and returns that line.
    pub fn prints(&mut self, wanted: impl Fn(&str) -> bool) -> Verdict<String> {
        loop {
            // What a program printed last is read after it has ended, and its children may print longer.
            let ended = self.has_ended() && self.readers.iter().all(JoinHandle::is_finished);
            let both = self.printed.text.lock().expect("no reader panics");
            let complete = both.0.rfind('\n').map_or("", |end| &both.0[..end]);
            if let Some(line) = complete.lines().find(|line| wanted(line)) {
                return Ok(line.to_owned());
            }
            if ended || Instant::now() > self.deadline {
                drop(both);
                let (state, report) = match ended {
                    true => ("it ended", self.report("ended")),
                    false => ("time ran out", self.stands()),
                };
                return failed(format!("{state} before it printed what was waited for\n{report}"));
            }
            // Woken by more output; the limit is for the end, which does not wake.
            drop(self.printed.more.wait_timeout(both, Duration::from_millis(50)).expect("no reader panics"));
        }
    }

    /// Waits for its end, or kills it when its time is up.
    pub fn finish(mut self) -> Verdict<Finished> {
        while !self.has_ended() {
            if Instant::now() > self.deadline {
                let took = self.started.elapsed();
                return failed(format!("it did not end within {took:.0?}\n{}", self.stands()));
            }
            thread::sleep(LOOK);
        }
        Ok(self.reap())
    }

    /// Ends it now.
    pub fn kill(mut self) -> Finished {
        self.kill_group();
        self.reap()
    }

    /// Whether the program has ended.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// What it is, how it stands and what it has printed.
    pub fn report(&self, state: &str) -> String {
        let both = self.printed.text.lock().expect("no reader panics");
        render(&self.command, state, &both.0, &both.1)
    }

    /// The same, and what all its processes are doing.
    pub fn stands(&self) -> String {
        self.report("at that time") + &tell_of(self.id())
    }

    fn kill_group(&mut self) {
        if let Some(group) = Pid::from_raw(self.child.id() as i32) {
            // An error means that the group is gone.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }

    fn reap(&mut self) -> Finished {
        // Children that hold the pipes open would keep the readers from ending.
        let status = self.child.wait().ok();
        self.kill_group();
        for reader in self.readers.drain(..) {
            let _ = reader.join();
        }
        let both = self.printed.text.lock().expect("no reader panics");
        Finished {
            command: self.command.clone(),
            status,
            stdout: both.0.clone(),
            stderr: both.1.clone(),
            took: self.started.elapsed(),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill_group();
        let _ = self.child.wait();
    }
}

/// A program that has ended, and what it printed.
#[derive(Debug, Clone)]
pub struct Finished {
    command: Vec<String>,
    status: Option<ExitStatus>,
    /// What it printed to standard output.
    pub stdout: String,
    /// What it printed to standard error.
    pub stderr: String,
    /// How long it ran.
    pub took: Duration,
}

impl Finished {
    /// Whether it exited with 0.
    pub fn succeeded(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    /// The exit status in words.
    pub fn status(&self) -> String {
        match self.status {
            None => "its status was lost".into(),
            Some(status) => match (status.code(), status.signal()) {
                (Some(code), _) => format!("exit status {code}"),
                (None, Some(signal)) => format!("killed by signal {signal}"),
                (None, None) => format!("{status}"),
            },
        }
    }

    /// Both streams, for searching.
    pub fn printed(&self) -> String {
        format!("{}\n{}", self.stdout, self.stderr)
    }

    /// What it was, how it ended and what it printed.
    pub fn report(&self) -> String {
        render(
            &self.command,
            &format!("{} after {:.2?}", self.status(), self.took),
            &self.stdout,
            &self.stderr,
        )
    }
}

fn render(command: &[String], state: &str, stdout: &str, stderr: &str) -> String {
    let mut text = format!("---- {}\n     {state}\n", command.join(" "));
    for (name, stream) in [("stdout", stdout), ("stderr", stderr)] {
        for line in stream.lines() {
            let _ = writeln!(text, "     {name}| {line}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_child_prints_after_its_parents_end_is_waited_for() {
        let mut program = Program::new(["/bin/sh", "-c", "(sleep 0.2; echo late) & exit 0"]).start().unwrap();
        assert_eq!(program.prints(|line| line == "late").unwrap(), "late");
        let mut program = Program::new(["/bin/sh", "-c", "echo other"]).start().unwrap();
        assert!(program.prints(|line| line == "late").is_err());
    }

    fn shell(script: &str) -> Program {
        Program::new(["/bin/sh", "-c", script])
    }

    #[test]
    fn output_and_status_are_both_captured() {
        let finished = shell("echo out; echo err >&2; exit 3").run().unwrap();
        assert_eq!((finished.stdout.as_str(), finished.stderr.as_str()), ("out\n", "err\n"));
        assert!(!finished.succeeded());
        assert_eq!(finished.status(), "exit status 3");
    }

    #[test]
    fn a_program_that_hangs_is_killed_and_shown_with_what_it_printed_and_what_its_children_do() {
        let stop =
            shell("echo before; sleep 100; true").deadline(Duration::from_millis(300)).run().unwrap_err();
        let text = stop.to_string();
        assert!(text.contains("did not end within") && text.contains("stdout| before"), "{text}");
        let child = text.lines().skip_while(|line| !line.ends_with(": sleep 100")).nth(1);
        assert!(child.is_some_and(|line| line.contains("(sleep): S ")), "{text}");
    }

    #[test]
    fn a_whole_line_is_waited_for() {
        let mut running = shell("printf 'first: 1\nsec'; printf 'ond: 2\n'; sleep 100").start().unwrap();
        assert_eq!(running.prints(|line| line.starts_with("second")).unwrap(), "second: 2");
    }

    #[test]
    fn the_end_of_a_program_ends_the_wait_for_its_line() {
        let stop = shell("echo other").start().unwrap().prints(|line| line == "never").unwrap_err();
        assert!(stop.to_string().contains("it ended"), "{stop}");
    }

    #[test]
    fn a_killed_program_takes_its_children_along() {
        let mut running = shell("sleep 100 & echo started; wait").start().unwrap();
        running.prints(|line| line == "started").unwrap();
        assert!(running.kill().took < Duration::from_secs(50));
    }
}
