//! A socket of the program.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use nonic_rsocket::{Error, Polled, Result, Standing, Stream};
use nonic_sys::RawFd;

use crate::event_set::EventSet;
use crate::listening::Listening;
use crate::option::Options;
use crate::shown::{self, Course};
use crate::{Way, table};

/// A TCP socket of the program that is not the kernel's alone.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) v6: bool,
    /// Numbers that stand for it.
    descriptors: AtomicUsize,
    nonblocking: AtomicBool,
    /// Its stream, once that is connected: for calls that send and receive.
    connected: OnceLock<Arc<Stream>>,
    /// Which process carries its connection out, a [`Bearer`].
    bearer: AtomicU8,
    /// What a child has to know; there once this process has forked.
    bequest: OnceLock<Bequest>,
    /// It was accepted, and nothing was sent or received.
    untouched: AtomicBool,
    /// How often a call could not send all that it was given.
    blocked: AtomicU32,
    pub(crate) options: Mutex<Options>,
    state: Mutex<State>,
    sets: Mutex<Vec<Weak<EventSet>>>,
}

/// Who carries a connection out that was made by a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Bearer {
    /// This process.
    Own,
    /// The process that this one is a child of. The first use has the kernel do it.
    Parent,
    /// The kernel.
    Kernel,
    /// Nobody.
    Nobody,
}

/// What a child has to know of a connection of its parent's.
#[derive(Debug)]
struct Bequest {
    name: SocketAddr,
    peer: Option<SocketAddr>,
    /// Where the parent gives it out.
    carriers: Vec<SocketAddr>,
}

/// How far a socket has come.
#[derive(Debug)]
pub(crate) enum State {
    /// Neither connected nor listening.
    Fresh,
    Listening(Listening),
    Connecting {
        stream: Arc<Stream>,
        address: SocketAddr,
    },
    Connected(Arc<Stream>),
    /// It was to be connected without waiting, and that failed.
    Failed(Error),
    /// The kernel's for good.
    Kernel,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Socket {
    pub(crate) fn new(v6: bool, nonblocking: bool) -> Self {
        Self::of(v6, nonblocking, State::Fresh)
    }

    /// One that a listener gives out.
    pub(crate) fn accepted(v6: bool, nonblocking: bool, stream: Arc<Stream>) -> Self {
        let socket = Self::of(v6, nonblocking, State::Fresh);
        socket.untouched.store(true, Ordering::Relaxed);
        socket.connect_to(&mut socket.lock(), stream);
        socket
    }

    fn of(v6: bool, nonblocking: bool, state: State) -> Self {
        Self {
            v6,
            descriptors: AtomicUsize::new(0),
            nonblocking: AtomicBool::new(nonblocking),
            connected: OnceLock::new(),
            bearer: AtomicU8::new(Bearer::Own as u8),
            bequest: OnceLock::new(),
            untouched: AtomicBool::new(false),
            blocked: AtomicU32::new(0),
            options: Mutex::default(),
            state: Mutex::new(state),
            sets: Mutex::default(),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    pub(crate) fn is_nonblocking(&self) -> bool {
        self.nonblocking.load(Ordering::Relaxed)
    }

    pub(crate) fn set_nonblocking(&self, nonblocking: bool) {
        self.nonblocking.store(nonblocking, Ordering::Relaxed);
        match &*self.lock() {
            State::Connecting { stream, .. } | State::Connected(stream) => {
                stream.set_nonblocking(nonblocking)
            }
            _ => {}
        }
    }

    pub(crate) fn add_descriptor(&self) {
        self.descriptors.fetch_add(1, Ordering::SeqCst);
    }

    /// One number less; whether it was the last.
    pub(crate) fn remove_descriptor(&self) -> bool {
        self.descriptors.fetch_sub(1, Ordering::SeqCst) == 1
    }

    /// It has a connected stream from now on.
    pub(crate) fn connect_to(&self, state: &mut State, stream: Arc<Stream>) {
        stream.set_nonblocking(self.is_nonblocking());
        lock(&self.options).apply_to(&stream);
        let _ = self.connected.set(Arc::clone(&stream));
        *state = State::Connected(stream);
        crate::exit::watch();
    }

    /// Shows that it is connected by a stream.
    pub(crate) fn show_stream(&self, number: RawFd, stream: &Stream) {
        let source = Some(stream.name());
        shown::note(number, Course::Stream, 0, source, stream.peer_name().ok());
    }

    /// The stream of a socket that is connected, for data. The number is that of the call.
    pub(crate) fn stream(self: &Arc<Self>, number: RawFd) -> Result<Way<&Arc<Stream>>> {
        match self.bearer() {
            Bearer::Own => {}
            Bearer::Kernel => return Ok(Way::Kernel),
            Bearer::Parent | Bearer::Nobody => return self.claim(number).map(|()| Way::Kernel),
        }
        if let Some(stream) = self.connected.get() {
            return Ok(Way::Done(stream));
        }
        self.settle(number);
        match &*self.lock() {
            State::Connecting { .. } => Err(Error::new(libc::EAGAIN)),
            _ => Ok(self.connected.get().map_or(Way::Kernel, Way::Done)),
        }
    }

    /// Takes note of how the connecting went that is under way; the socket becomes the kernel's where nobody takes a stream.
    pub(crate) fn settle(self: &Arc<Self>, number: RawFd) {
        let mut state = self.lock();
        let State::Connecting { stream, address } = &*state else { return };
        let (stream, address) = (Arc::clone(stream), *address);
        match stream.standing() {
            Standing::Connected => {
                self.show_stream(number, &stream);
                self.connect_to(&mut state, stream);
            }
            Standing::Refused(error) if error.errno() == libc::ETIMEDOUT => *state = State::Failed(error),
            Standing::Refused(error) => {
                tracing::debug!(%address, %error, "nobody takes a stream: the connection goes over TCP");
                shown::note(number, Course::Refused, error.errno(), None, Some(address));
                let begun = nonic_sys::connect_number(number, address);
                let errno = begun.err().and_then(|error| error.raw_os_error());
                match errno {
                    None | Some(libc::EINPROGRESS | libc::EINTR) => {
                        *state = State::Kernel;
                        drop(state);
                        self.become_kernels(number);
                    }
                    Some(errno) => *state = State::Failed(Error::new(errno)),
                }
            }
            Standing::Opening | Standing::Unconnected => {}
        }
    }

    /// All its numbers are the kernel's from now on.
    pub(crate) fn become_kernels(self: &Arc<Self>, number: RawFd) {
        *self.lock() = State::Kernel;
        let mut numbers = table::take_all(self);
        if numbers.is_empty() {
            numbers.push(number);
        }
        for set in self.sets() {
            numbers.iter().for_each(|number| set.hand_over(*number));
        }
    }

    /// What is to be polled in its place; `None`: the kernel's socket.
    pub(crate) fn polled(self: &Arc<Self>, number: RawFd) -> Option<Polled> {
        self.settle(number);
        if self.bearer() != Bearer::Own {
            let _ = self.claim(number);
            return None;
        }
        match &mut *self.lock() {
            State::Listening(listening) => listening.stream().map(Polled::both),
            State::Connecting { stream, .. } | State::Connected(stream) => {
                Some(Polled::stream(Arc::clone(stream)))
            }
            State::Fresh | State::Failed(_) | State::Kernel => None,
        }
    }

    /// Whether its stream is not this process's.
    pub(crate) fn is_foreign(&self) -> bool {
        self.bearer() != Bearer::Own
    }

    /// Whether it has a stream of this process's that is connected.
    pub(crate) fn is_connected(&self) -> bool {
        self.connected.get().is_some() && self.bearer() == Bearer::Own
    }

    /// Its stream, if it has one and nobody is about to change that.
    pub(crate) fn stream_if_free(&self) -> Option<Arc<Stream>> {
        match &*self.state.try_lock().ok()? {
            State::Connected(stream) => Some(Arc::clone(stream)),
            _ => None,
        }
    }

    /// Something is sent or received.
    pub(crate) fn touch(&self) {
        if self.untouched.load(Ordering::Relaxed) {
            self.untouched.store(false, Ordering::Relaxed);
        }
    }

    /// Whether it was accepted and nobody has sent or received since: what servers fork for.
    pub(crate) fn is_untouched(&self) -> bool {
        self.untouched.load(Ordering::Relaxed) && self.is_connected()
    }

    /// Before a fork.
    pub(crate) fn leave_to_child(&self) {
        if let State::Listening(listening) = &mut *self.lock() {
            listening.leave_to_child();
        }
    }

    /// Whether it is connecting.
    pub(crate) fn is_connecting(&self) -> bool {
        matches!(&*self.lock(), State::Connecting { .. })
    }

    /// It is in an event poll.
    pub(crate) fn enter_set(&self, set: &Arc<EventSet>) {
        let mut sets = lock(&self.sets);
        sets.retain(|other| other.strong_count() > 0 && !std::ptr::eq(other.as_ptr(), Arc::as_ptr(set)));
        sets.push(Arc::downgrade(set));
    }

    /// The event polls that it is in.
    pub(crate) fn sets(&self) -> Vec<Arc<EventSet>> {
        lock(&self.sets).iter().filter_map(Weak::upgrade).collect()
    }

    /// A call could not send all.
    pub(crate) fn note_blocked(&self) {
        self.blocked.fetch_add(1, Ordering::Relaxed);
    }

    /// How often that happened.
    pub(crate) fn blocked(&self) -> u32 {
        self.blocked.load(Ordering::Relaxed)
    }

    /// In a child: what belongs to the parent is left alone.
    pub(crate) fn leave_to_parent(&self) {
        let mut state = self.lock();
        match &mut *state {
            State::Listening(listening) => listening.leave_to_parent(),
            State::Connected(_) => {
                let bearer = if self.is_inherited() { Bearer::Parent } else { Bearer::Nobody };
                self.bearer.store(bearer as u8, Ordering::Relaxed);
                // Its end would be told to a peer that talks with the parent.
                std::mem::forget(std::mem::replace(&mut *state, State::Kernel));
            }
            State::Connecting { .. } => {
                self.bearer.store(Bearer::Nobody as u8, Ordering::Relaxed);
                std::mem::forget(std::mem::replace(&mut *state, State::Failed(Error::new(libc::ECONNRESET))));
            }
            State::Fresh | State::Failed(_) | State::Kernel => {}
        }
    }

    fn bearer(&self) -> Bearer {
        const ALL: [Bearer; 4] = [Bearer::Own, Bearer::Parent, Bearer::Kernel, Bearer::Nobody];
        ALL[usize::from(self.bearer.load(Ordering::Relaxed)) % ALL.len()]
    }

    /// Before a fork: what a child has to know. `carriers` says where children find connections, if there are some.
    pub(crate) fn bequeath(&self, carriers: impl FnOnce() -> Vec<SocketAddr>) {
        let (Some(stream), Bearer::Own) = (self.connected.get(), self.bearer()) else { return };
        let peer = stream.peer_name().ok();
        self.bequest.get_or_init(|| Bequest { name: stream.name(), peer, carriers: carriers() });
    }

    /// Whether a child may have it.
    pub(crate) fn is_inherited(&self) -> bool {
        self.bequest.get().is_some()
    }

    /// Its names, if the kernel does not know them.
    pub(crate) fn bequeathed_names(&self) -> Option<(SocketAddr, Option<SocketAddr>)> {
        let bequest = self.bequest.get().filter(|_| self.is_foreign())?;
        Some((bequest.name, bequest.peer))
    }

    /// Has the kernel carry a connection of a parent's from now on: the parent gives the socket its other end.
    #[cold]
    pub(crate) fn claim(&self, number: RawFd) -> Result<()> {
        let _state = self.lock();
        if self.bearer() == Bearer::Parent {
            let carriers = self.bequest.get().map_or(&[][..], |bequest| &bequest.carriers);
            let is_there = |error: std::io::Error| error.raw_os_error() == Some(libc::EISCONN);
            if let Some(bequest) = self.bequest.get() {
                shown::note(number, Course::Carried, 0, Some(bequest.name), bequest.peer);
            }
            let reached = carriers.iter().any(|carrier| {
                nonic_sys::connect_to_loopback(number, self.v6, *carrier).map_or_else(is_there, |()| true)
            });
            let bearer = if reached { Bearer::Kernel } else { Bearer::Nobody };
            tracing::debug!(number, reached, "a connection of the parent's is asked for");
            self.bearer.store(bearer as u8, Ordering::Relaxed);
        }
        if self.bearer() == Bearer::Nobody { Err(Error::new(libc::ECONNRESET)) } else { Ok(()) }
    }

    /// Becomes the kernel's, names aside; its stream, which somebody else carries on. `None` without one.
    pub(crate) fn leave_stream(self: &Arc<Self>, number: Option<RawFd>) -> Option<Arc<Stream>> {
        let mut state = self.lock();
        let State::Connected(stream) = &*state else { return None };
        let stream = Arc::clone(stream);
        self.bearer.store(Bearer::Kernel as u8, Ordering::Relaxed);
        *state = State::Kernel;
        drop(state);
        if let Some(number) = number {
            shown::note(number, Course::Carried, 0, Some(stream.name()), stream.peer_name().ok());
            let numbers = table::numbers_of(self);
            for set in self.sets() {
                numbers.iter().chain([&number]).for_each(|number| set.hand_over(*number));
            }
        }
        Some(stream)
    }

    /// An address as a program of this socket's family reads it.
    pub(crate) fn shown(&self, address: SocketAddr) -> SocketAddr {
        match address.ip() {
            IpAddr::V4(v4) if self.v6 => SocketAddr::new(v4.to_ipv6_mapped().into(), address.port()),
            _ => address,
        }
    }
}
