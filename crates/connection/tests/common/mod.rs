//! What the tests share: sinks that note what they are told, and what a second process does.

#![allow(dead_code)]

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nonic_connection::{
    Connection, ConnectionSink, End, Listener, Refusal, Request, Response, ServiceSink, connect, listen,
};
use nonic_second_process::{SecondProcess, role};

/// Long enough for anything on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// What a sink was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Accepted(Vec<u8>, Vec<u8>),
    Established,
    Rejected(Vec<u8>),
    Refused(Refusal),
    TimedOut,
    Disconnected,
    Lost,
}

/// Notes everything.
pub(crate) struct Witness {
    told: Mutex<Sender<Told>>,
    willing: AtomicBool,
}

impl ConnectionSink for Witness {
    fn accepted(&self, facts: &[u8], data: &[u8]) -> Response {
        self.tell(Told::Accepted(facts.to_vec(), data.to_vec()));
        if self.willing.load(Ordering::SeqCst) { Response::Confirmed } else { Response::Declined }
    }

    fn established(&self) {
        self.tell(Told::Established);
    }

    fn ended(&self, end: End<'_>) {
        self.tell(match end {
            End::Rejected(data) => Told::Rejected(data.to_vec()),
            End::Refused(reason) => Told::Refused(reason),
            End::TimedOut => Told::TimedOut,
            End::Disconnected => Told::Disconnected,
            End::Lost => Told::Lost,
        });
    }
}

impl Witness {
    fn tell(&self, told: Told) {
        let _ = self.told.lock().unwrap().send(told);
    }

    /// A sink that accepts what is accepted, or not, and what it is told.
    pub(crate) fn new(willing: bool) -> (Arc<Self>, Notes<Told>) {
        let (sender, notes) = channel();
        (Arc::new(Self { told: Mutex::new(sender), willing: AtomicBool::new(willing) }), Notes(notes))
    }
}

/// What came, in order.
pub(crate) struct Notes<T>(Receiver<T>);

impl<T: Debug> Notes<T> {
    pub(crate) fn next(&self) -> T {
        self.0.recv_timeout(LONG).expect("nothing came in a minute")
    }

    /// Nothing has come.
    pub(crate) fn stay_empty_now(&self) {
        if let Ok(came) = self.0.try_recv() {
            panic!("{came:?} came");
        }
    }

    /// Nothing has come, and as much later nothing has either.
    pub(crate) fn stay_empty(&self) {
        match self.0.recv_timeout(Duration::from_millis(30)) {
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            Ok(came) => panic!("{came:?} came"),
        }
    }
}

struct Desk(Mutex<Sender<Request>>);

impl ServiceSink for Desk {
    fn request(&self, request: Request) {
        let _ = self.0.lock().unwrap().send(request);
    }
}

struct Refuser;

impl ServiceSink for Refuser {
    fn request(&self, request: Request) {
        drop(request);
    }
}

/// A space of this test process's own.
pub(crate) fn space() -> String {
    space_of(std::process::id())
}

fn space_of(pid: u32) -> String {
    format!("test-{pid}")
}

/// A number that no other test of this process uses.
pub(crate) fn fresh_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Listens in the space of the first process of the test.
pub(crate) fn offer_in(space: &str, number: u64) -> std::io::Result<(Listener, Notes<Request>)> {
    let (sender, requests) = channel();
    let listener = listen(space, number, Arc::new(Desk(Mutex::new(sender))))?;
    Ok((listener, Notes(requests)))
}

pub(crate) fn offer(number: u64) -> (Listener, Notes<Request>) {
    offer_in(&space(), number).unwrap()
}

pub(crate) fn ask(number: u64, data: &[u8], timeout: Option<Duration>) -> (Connection, Notes<Told>) {
    ask_in(&space(), number, data, timeout)
}

pub(crate) fn ask_in(
    space: &str,
    number: u64,
    data: &[u8],
    timeout: Option<Duration>,
) -> (Connection, Notes<Told>) {
    let (witness, notes) = Witness::new(true);
    (connect(&[(space, number)], b"facts", data, timeout, witness).unwrap(), notes)
}

pub(crate) fn accept(request: Request, data: &[u8]) -> (Connection, Notes<Told>) {
    let (witness, notes) = Witness::new(true);
    (request.accept(b"answer", data, witness).unwrap(), notes)
}

pub(crate) fn accepted(data: &[u8]) -> Told {
    Told::Accepted(b"answer".to_vec(), data.to_vec())
}

/// Waits until something is so.
pub(crate) fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < LONG, "not in a minute: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The names at which other processes of nonic open channels to this one.
pub(crate) fn doors(pid: u32) -> BTreeSet<String> {
    let sockets: Vec<_> = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .collect();
    let names = std::fs::read_to_string("/proc/net/unix").unwrap();
    let named = names.lines().filter_map(|line| line.split_once('@'));
    named
        .filter(|(line, name)| {
            let inode = line.split_whitespace().nth(6).unwrap();
            name.starts_with("nonic-connection.3/process.")
                && sockets.contains(&format!("socket:[{inode}]").into())
        })
        .map(|(_, name)| name.to_owned())
        .collect()
}

// The second process.

/// Starts one. Every test program has a test named `servant`, which calls [`serve`].
pub(crate) fn start() -> SecondProcess {
    SecondProcess::start("servant", &space(), &[])
}

/// Starts one that listens, on the number that comes with it.
pub(crate) fn listening() -> (SecondProcess, u64) {
    let number = fresh_number();
    let mut other = start();
    other.tell(&format!("listen {number}"));
    (other, number)
}

/// Has one accept a connection to its number.
pub(crate) fn take_one(other: &mut SecondProcess, number: u64) -> (Connection, Notes<Told>) {
    let (connection, asked) = ask(number, b"", None);
    other.tell("next");
    other.tell("accept");
    assert_eq!(asked.next(), accepted(b""));
    (connection, asked)
}

/// What the second process does. It keeps the requests and connections in the order in which they came.
pub(crate) fn serve() {
    if let Some(space) = role() {
        let mut servant = Servant { space, ..Servant::default() };
        nonic_second_process::serve(|command, rest| servant.obey(command, rest));
    }
}

#[derive(Default)]
struct Servant {
    space: String,
    listener: Option<Listener>,
    requests: Option<Notes<Request>>,
    request: Option<Request>,
    connections: Vec<(Connection, Notes<Told>)>,
    held: Vec<File>,
}

impl Servant {
    fn number(text: &str) -> u64 {
        text.parse().unwrap()
    }

    fn next_request(&self) -> Request {
        self.requests.as_ref().unwrap().next()
    }

    fn obey(&mut self, command: &str, rest: &str) -> String {
        let data = rest.as_bytes();
        match command {
            "listen" => match offer_in(&self.space, Self::number(rest)) {
                Ok((listener, requests)) => {
                    (self.listener, self.requests) = (Some(listener), Some(requests));
                    "ok".into()
                }
                Err(error) => format!("{:?}", error.kind()),
            },
            // Decides at once about whatever comes.
            "refuse-all" => {
                self.listener = Some(listen(&self.space, Self::number(rest), Arc::new(Refuser)).unwrap());
                "ok".into()
            }
            "close" => {
                self.listener = None;
                "ok".into()
            }
            "next" => {
                let request = self.next_request();
                let data = String::from_utf8_lossy(request.data()).into_owned();
                self.request = Some(request);
                data
            }
            "none" => {
                self.requests.as_ref().unwrap().stay_empty();
                "ok".into()
            }
            "accept" => {
                self.connections.push(accept(self.request.take().unwrap(), data));
                "ok".into()
            }
            "reject" => {
                self.request.take().unwrap().reject(data);
                "ok".into()
            }
            "drop" => {
                self.request = None;
                "ok".into()
            }
            "hand" => match self.request.take().unwrap().hand_to(&self.space, Self::number(rest)) {
                Ok(()) => "ok".into(),
                Err((error, request)) => {
                    self.request = Some(request);
                    error.to_string()
                }
            },
            "connect" => {
                let asked = ask_in(&self.space, Self::number(rest), b"servant", None);
                self.connections.push(asked);
                "ok".into()
            }
            // Of the last connection.
            "hear" => match self.connections.last().unwrap().1.next() {
                Told::Accepted(_, data) => format!("Accepted {}", String::from_utf8_lossy(&data)),
                told => format!("{told:?}"),
            },
            "disconnect" => {
                self.connections.last().unwrap().0.disconnect();
                "ok".into()
            }
            "fail" => {
                self.connections.last().unwrap().0.fail();
                "ok".into()
            }
            "forget" => {
                self.connections.clear();
                "ok".into()
            }
            // Accepts so many as they come, and waits until they are established.
            "serve" => {
                for _ in 0..Self::number(rest) {
                    self.connections.push(accept(self.next_request(), b""));
                }
                let since = self.connections.len() - Self::number(rest) as usize;
                for (_, notes) in &self.connections[since..] {
                    assert_eq!(notes.next(), Told::Established);
                }
                "ok".into()
            }
            // What every connection hears next: the same.
            "all" => {
                for (_, notes) in &self.connections {
                    assert_eq!(format!("{:?}", notes.next()), rest);
                }
                "ok".into()
            }
            // Leaves only so many descriptors that are not in use.
            "spare" => {
                let spare: Vec<_> =
                    (0..Self::number(rest)).map(|_| File::open("/dev/null").unwrap()).collect();
                let limit = spare.last().map_or(0, |last| last.as_raw_fd() as u64 + 1);
                let limits = libc::rlimit { rlim_cur: limit, rlim_max: limit };
                // SAFETY: the structure is a local.
                assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limits) }, 0);
                "ok".into()
            }
            // Uses one up.
            "hold" => match File::open("/dev/null") {
                Ok(file) => {
                    self.held.push(file);
                    "ok".into()
                }
                Err(error) => error.to_string(),
            },
            // And gives them back.
            "release" => {
                self.held.clear();
                "ok".into()
            }
            // A child that only sleeps; its id.
            "fork" => {
                // SAFETY: the child does nothing but wait for its end.
                let pid = unsafe { libc::fork() };
                if pid == 0 {
                    loop {
                        // SAFETY: waits for a signal.
                        unsafe { libc::pause() };
                    }
                }
                pid.to_string()
            }
            other => panic!("no such command: {other}"),
        }
    }
}
