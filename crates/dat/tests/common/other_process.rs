//! A second process with one side of a connection, which does what it is told by lines.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

use nonic_dat::{ConnectionRequest, Event, EventDispatcher, PublicServicePoint, Streams};

use super::connected::{PATIENCE, PLAIN, Plan, Side, next};

const ROLE: &str = "NONIC_TEST_ROLE";
/// First characters of a line that is for the other process, and not the test harness's.
const MARK: &str = "nonic: ";

/// The second process.
pub(crate) struct Other {
    pub(crate) process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Other {
    /// Starts one. The test program has a test named `servant`, which calls [`serve`].
    pub(crate) fn start() -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "servant", "--nocapture", "--test-threads", "1"])
            .env(ROLE, "servant")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        Self { process, input, output: BufReader::new(output) }
    }

    /// Has it do something; the answer is heard later.
    pub(crate) fn order(&mut self, text: &str) {
        writeln!(self.input, "{text}").unwrap();
        self.input.flush().unwrap();
    }

    /// The next line it says.
    pub(crate) fn hear(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "the other process has ended");
            if let Some((_, text)) = line.split_once(MARK) {
                return text.trim_end().to_owned();
            }
        }
    }

    /// Has it do something that it answers.
    pub(crate) fn tell(&mut self, text: &str) -> String {
        self.order(text);
        self.hear()
    }

    /// The number it answers.
    pub(crate) fn number(&mut self, text: &str) -> u64 {
        self.tell(text).parse().unwrap()
    }

    /// Stops it, and waits until it has stopped.
    pub(crate) fn stop(&self) {
        self.signal(libc::SIGSTOP);
        let stat = format!("/proc/{}/stat", self.process.id());
        while !std::fs::read_to_string(&stat).unwrap().contains(") T ") {
            std::thread::yield_now();
        }
    }

    pub(crate) fn signal(&self, signal: i32) {
        // SAFETY: a signal to the child of this test.
        unsafe { libc::kill(self.process.id() as i32, signal) };
    }

    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Has it end in order.
    pub(crate) fn leave(mut self) {
        self.order("leave");
        assert!(self.process.wait().unwrap().success());
    }

    pub(crate) fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.process.id())).unwrap().count()
    }

    /// Memory of its own, in KiB.
    pub(crate) fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
        line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn say(text: &str) {
    println!("{MARK}{text}");
}

/// What the second process does, a line at a time.
pub(crate) fn serve() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let mut servant = Servant::new();
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let (command, rest) = line.split_once(' ').unwrap_or((&line, ""));
        if command == "leave" {
            std::process::exit(0);
        }
        say(&servant.obey(command, rest));
    }
}

struct Servant {
    side: Side,
    requests: Arc<EventDispatcher>,
    conn_qual: u64,
    point: Arc<PublicServicePoint>,
    request: Option<Arc<ConnectionRequest>>,
}

impl Servant {
    fn new() -> Self {
        let side = Side::new(&Plan::default());
        let requests = EventDispatcher::create(&side.adapter, 64, None, Streams::CONNECTION_REQUEST).unwrap();
        let (conn_qual, point) = PublicServicePoint::create_any(&side.adapter, &requests, false).unwrap();
        Self { side, requests, conn_qual, point, request: None }
    }

    fn next_request(&self) -> Arc<ConnectionRequest> {
        let mut found = None;
        let (result, _) = self.requests.wait(PATIENCE, 1, |event| {
            let Event::Request { request, .. } = event else { panic!("{event:?}") };
            found = Some(Arc::clone(request));
        });
        result.unwrap();
        found.unwrap()
    }

    fn obey(&mut self, command: &str, rest: &str) -> String {
        let number = || rest.parse::<u64>().unwrap();
        let done =
            |result: nonic_dat::DatResult<()>| result.map_or_else(|e| e.to_string(), |()| "ok".to_owned());
        let side = &self.side;
        match command {
            "qualifier" => self.conn_qual.to_string(),
            "next" => {
                self.request = Some(self.next_request());
                "ok".into()
            }
            "accept" => done(self.request.take().unwrap().accept(Some(&side.endpoint), rest.as_bytes())),
            "reject" => done(self.request.take().unwrap().reject(rest.as_bytes())),
            "connect" => {
                done(side.endpoint.connect(side.adapter.address(), number(), PATIENCE, b"servant", 0, 0))
            }
            "told" => format!("{:?}", next(&side.connections)),
            "receive" => {
                side.receive(number(), 4096);
                "ok".into()
            }
            "send" => done(side.send(number(), 8, PLAIN)),
            "done" => format!("{:?}", side.next()),
            "disconnect" => done(side.endpoint.disconnect(rest == "graceful")),
            "reset" => done(side.endpoint.reset()),
            "memory" => {
                let remote = side.remote(0, 4096);
                format!("{} {} {}", remote.context, remote.address, remote.length)
            }
            "byte" => side.pages.read(number() as usize).to_string(),
            // Takes so many connections one after the other, each ended by the peer.
            "turns" => {
                for _ in 0..number() {
                    self.next_request().accept(Some(&side.endpoint), b"").unwrap();
                    // ESTABLISHED, DISCONNECTED.
                    next(&side.connections);
                    next(&side.connections);
                    side.endpoint.reset().unwrap();
                }
                "ok".into()
            }
            // A child that tries everything with its parent's objects, and what it finds.
            "fork" => {
                // SAFETY: the child leaves by `_exit`.
                let pid = unsafe { libc::fork() };
                if pid == 0 {
                    // Threads that are not here may hold the locks of these.
                    let refused = [
                        side.endpoint.disconnect(false),
                        side.endpoint.free(),
                        side.endpoint.reset(),
                        side.endpoint.status().map(drop),
                        side.endpoint.connect(side.adapter.address(), 1, PATIENCE, b"", 0, 0),
                        self.point.free(),
                        side.adapter.close(false),
                    ];
                    let good = refused.iter().all(Result::is_err);
                    // SAFETY: ends the child.
                    unsafe { libc::_exit(if good { 7 } else { 1 }) };
                }
                let mut status = 0;
                // SAFETY: waits for the child made above.
                unsafe { libc::waitpid(pid, &raw mut status, 0) };
                libc::WEXITSTATUS(status).to_string()
            }
            other => panic!("no such command: {other}"),
        }
    }
}
