//! Where other hosts ask for connections to a listener of this process: open as long as it listens, and only if there is a list of hosts.
//!
//! Who asks gets a relay, which connects to the listener as an endpoint of this host would: so backlog, readiness, `accept` and
//! whoever may accept are the same.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nonic_rsocket::{Entry, Inbox, PortSpace, Stream};
use nonic_sys::{
    AsRawFd, OwnedFd, POLL_IN, PerProcess, PollEntry, Seldom, bind_name, open_stream, poll_now, random_u64,
    socket_cookie, spawn_without_signals,
};

use crate::attempt::Standing;
use crate::connecting::{request, system};
use crate::kept_descriptor::KeptDescriptor;
use crate::node::fabric;
use crate::registry;
use crate::relay::{Line, Local, start};
use crate::segment::Segment;
use crate::side::Side;
use crate::wire::{Header, Kind, Link, VERSION, code_of};
use crate::{PortId, ScifError};

/// Requests of other hosts that are looked at at once, by one listener.
const ASKING_MOST: usize = 64;
/// How long who asks may take to say what for.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is looked whether who asks is still there.
const LOOK: Duration = Duration::from_millis(50);
/// How long a port may be another's that has just been closed, and how often it is tried.
const TAKEN: Duration = Duration::from_secs(5);
const TRY: Duration = Duration::from_millis(20);

/// Those of this process, by the cookies of their listeners.
static DOORS: PerProcess<Mutex<HashMap<u64, Arc<Door>>>> = PerProcess::new();

#[derive(Debug)]
struct Door {
    port: u16,
    stream: Mutex<Option<Arc<Stream>>>,
    wake: Arc<Entry>,
    inbox: Arc<Inbox>,
    closed: AtomicBool,
    asking: AtomicUsize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether an address may ask: it is that of a node of another host.
fn admits(from: IpAddr) -> bool {
    fabric().hosts.as_ref().is_some_and(|hosts| hosts.node_elsewhere(from).is_some())
}

/// Opens one for a listener; whether there is one now.
pub(crate) fn open(cookie: u64, port: u16, backlog: i32) -> bool {
    let hosts = fabric().hosts.as_ref();
    let Some(address) = hosts.and_then(|hosts| hosts.address(fabric().own)) else { return false };
    let place = SocketAddr::new(address, port);
    let Ok(inbox) = Inbox::new() else { return false };
    let door = Arc::new(Door {
        port,
        stream: Mutex::new(None),
        wake: Entry::new(&inbox, 0),
        inbox,
        closed: AtomicBool::new(false),
        asking: AtomicUsize::new(0),
    });
    // Now, if that can be: who is told that this listens may be asked at once.
    let at_once = door.listen(place, backlog);
    let own = Arc::clone(&door);
    let started = spawn_without_signals("nonic-scif-door", move || own.run(place, backlog, at_once.is_ok()));
    if started.is_err() {
        door.close();
        return false;
    }
    lock(DOORS.get_or_make(Mutex::default)).insert(cookie, door);
    true
}

/// The listener is closed.
pub(crate) fn close(cookie: u64) {
    let door = DOORS.get().and_then(|doors| lock(doors).remove(&cookie));
    if let Some(door) = door {
        door.close();
    }
}

impl Door {
    fn listen(&self, place: SocketAddr, backlog: i32) -> nonic_rsocket::Result<()> {
        let stream = Stream::in_space(PortSpace::Scif, place)?;
        stream.set_nonblocking(true);
        stream.bind(place)?;
        stream.admit(admits);
        // Before the first can ask.
        stream.begin_watch(&self.wake);
        stream.listen(backlog)?;
        let mut own = lock(&self.stream);
        if self.closed.load(Ordering::SeqCst) {
            stream.close_until(Instant::now());
        } else {
            *own = Some(stream);
        }
        Ok(())
    }

    fn close(&self) {
        let stream = {
            let mut own = lock(&self.stream);
            self.closed.store(true, Ordering::SeqCst);
            own.take()
        };
        if let Some(stream) = stream {
            stream.close_until(Instant::now());
            stream.end_watch(&self.wake);
        }
        self.wake.tell();
    }

    fn run(self: Arc<Self>, place: SocketAddr, backlog: i32, mut is_open: bool) {
        let until = Instant::now() + TAKEN;
        while !is_open && !self.closed.load(Ordering::SeqCst) {
            match self.listen(place, backlog) {
                Ok(()) => is_open = true,
                Err(error) if Instant::now() >= until => {
                    tracing::warn!(%place, %error, "other hosts do not find the listener");
                    return;
                }
                Err(_) => self.inbox_wait(Some(Instant::now() + TRY)),
            }
        }
        while !self.closed.load(Ordering::SeqCst) {
            self.inbox.take(&mut Vec::new());
            self.wake.is_looked_at();
            let stream = lock(&self.stream).clone();
            let Some(stream) = stream else { return };
            match stream.try_accept() {
                Ok(Some(asks)) => self.meet(asks),
                Ok(None) => self.inbox_wait(None),
                Err(_) => return,
            }
        }
    }

    fn inbox_wait(&self, until: Option<Instant>) {
        let _ = self.inbox.wait(None, &mut Vec::new(), until);
    }

    /// Somebody asks: a thread of its own hears what for.
    fn meet(self: &Arc<Self>, asks: Arc<Stream>) {
        if self.asking.fetch_add(1, Ordering::SeqCst) >= ASKING_MOST {
            self.asking.fetch_sub(1, Ordering::SeqCst);
            tracing::debug!("a request of another host is one too many");
            asks.close_until(Instant::now());
            return;
        }
        let door = Arc::clone(self);
        let met = spawn_without_signals("nonic-scif-far", move || door.answer(asks));
        if met.is_err() {
            self.asking.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn answer(&self, asks: Arc<Stream>) {
        let made = Visitor::new(self, asks).and_then(|mut visitor| match visitor.knock() {
            Ok(local) => Some((visitor, local)),
            Err(why) => {
                tracing::debug!(%why, "a request of another host is refused");
                visitor.refuse(why);
                None
            }
        });
        self.asking.fetch_sub(1, Ordering::SeqCst);
        if let Some((Visitor { line, link, .. }, local)) = made {
            link.push(Header::new(Kind::Welcome).alone());
            start(line, link, local);
        }
    }
}

/// Who asks, from another host.
struct Visitor<'a> {
    door: &'a Door,
    line: Line,
    link: Arc<Link>,
}

impl<'a> Visitor<'a> {
    fn new(door: &'a Door, stream: Arc<Stream>) -> Option<Self> {
        let (mut line, link) = Line::new(Arc::clone(&stream)).ok()?;
        line.is_connected();
        stream.keep_alive(crate::relay::SILENCE_SECONDS).ok()?;
        Some(Self { door, line, link })
    }

    fn refuse(&mut self, why: ScifError) {
        self.link.push(Header { value: code_of(Err(why)), ..Header::new(Kind::Refusal) }.alone());
        self.line.flush(&self.link);
        self.link.end();
        self.line.stream.close_until(Instant::now() + PATIENCE);
    }

    /// Connects to the listener in the name of who asks.
    fn knock(&mut self) -> Result<Local, ScifError> {
        let from = self.hear()?;
        let socket = open_stream().map_err(|error| system(&error))?;
        let number = socket.as_raw_fd();
        let name = fabric().name_of_relay(from, random_u64());
        bind_name(number, &name).map_err(|error| system(&error))?;
        let cookie = socket_cookie(number).map_err(|error| system(&error))?;
        let outcome = self.connect(&socket, cookie);
        // No call of the program ever names it.
        let entry = registry::lock().remove(cookie);
        let segment = outcome?;
        drop(entry);
        Ok(Local { socket: KeptDescriptor::new(socket), segment, side: Side::Connector })
    }

    fn connect(&mut self, socket: &OwnedFd, cookie: u64) -> Result<Segment, ScifError> {
        let target = PortId { node: fabric().own, port: self.door.port };
        let notice = {
            let mut registry = registry::lock();
            registry.insert(cookie, socket.as_raw_fd());
            let entry = registry.entry(cookie).ok_or(ScifError::NotOpen)?;
            request(socket.as_raw_fd(), target, entry, false, self.link.number())?
        };
        loop {
            let mut registry = registry::lock();
            let entry = registry.entry(cookie).ok_or(ScifError::NotOpen)?;
            match entry.standing() {
                Standing::Accepted | Standing::Connected => {
                    let connection = entry.record.connection.get();
                    return connection
                        .map(|connection| connection.segment().clone())
                        .ok_or(ScifError::Refused);
                }
                Standing::Refused(why) => return Err(why),
                Standing::Idle => return Err(ScifError::Refused),
                Standing::Undecided { .. } => {}
            }
            if self.is_gone() && entry.withdraw() {
                return Err(ScifError::Reset);
            }
            drop(registry);
            if poll_now(notice.number(), POLL_IN) == 0 {
                let mut entries = vec![PollEntry { number: notice.number(), events: POLL_IN, revents: 0 }];
                self.line.wait(&mut entries, Some(Instant::now() + LOOK));
            }
        }
    }

    /// Whether who asks has gone, or says what it may not say now.
    fn is_gone(&mut self) -> bool {
        self.line.look(&self.link);
        !matches!(self.line.take(), Ok(None))
    }

    /// Hears who asks, and whether that can be.
    fn hear(&mut self) -> Result<PortId, ScifError> {
        let until = Instant::now() + PATIENCE;
        let (hello, word) = loop {
            self.line.look(&self.link);
            match self.line.take() {
                Ok(Some(came)) => break came,
                Ok(None) if Instant::now() < until => self.line.wait(&mut Vec::new(), Some(until)),
                Ok(None) | Err(_) => return Err(ScifError::Reset),
            }
        };
        // By the address that its packets come from: what it says of itself, or a process of this host says, is nobody's word.
        let address = self.line.stream.peer_host().ok_or(ScifError::Refused)?;
        let hosts = fabric().hosts.as_ref();
        let node = hosts.and_then(|hosts| hosts.node_elsewhere(address)).ok_or(ScifError::Refused)?;
        let is_hello = hello.kind == Kind::Hello && hello.value == VERSION && hello.small > 0;
        if is_hello && hello.offset != i64::from(fabric().own) {
            name_other_list(node, hello.offset);
            return Err(ScifError::Refused);
        }
        if !is_hello || word != fabric().word.as_bytes() {
            return Err(ScifError::Refused);
        }
        Ok(PortId { node, port: hello.small })
    }
}

/// Says that another host has another list than this one.
fn name_other_list(node: u16, meant: i64) {
    static OTHERS: Seldom = Seldom::new();
    if let Some(unsaid) = OTHERS.turn() {
        tracing::warn!(
            node,
            meant,
            own = fabric().own,
            unsaid,
            "another host means this one by another node: give all hosts the same NONIC_SCIF_HOSTS"
        );
    }
}
