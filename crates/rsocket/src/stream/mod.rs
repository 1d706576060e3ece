//! Stream sockets.

mod connecting;
mod ending;
mod held;
mod listening;
mod options;
mod taken;
mod transfer;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nonic_device::Context;
use nonic_rdma_cm::{EventChannel, Id, PortSpace};
use nonic_sys::{AsRawFd, POLL_ERROR, POLL_HANG_UP, POLL_IN, POLL_OUT, RawFd};

pub use self::ending::Direction;
pub use self::held::Standing;
pub use self::listening::Admission;
use self::listening::Backlog;
use self::options::Options;
pub use self::taken::TakenStream;
use crate::link::{Link, News};
use crate::waiting::{Awaited, Look, Patience, wait};
use crate::wakeup::Wakeup;
use crate::{Error, Result, service};

/// A stream socket.
#[derive(Debug)]
pub struct Stream {
    id: Arc<Id>,
    /// Its descriptor is the socket's number.
    channel: Arc<EventChannel>,
    unbound: SocketAddr,
    wakeup: Arc<Wakeup>,
    nonblocking: AtomicBool,
    /// In nanoseconds; 0: none.
    receive_timeout: AtomicU64,
    send_timeout: AtomicU64,
    /// Held by a thread that sends, or receives, so that the bytes of two calls do not mix.
    sending: Mutex<()>,
    receiving: Mutex<()>,
    state: Mutex<State>,
}

/// Where a stream stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Made, perhaps bound.
    Idle,
    Listening,
    /// On the way to a connection: the address, the route, the peer is asked.
    Resolving,
    Routing,
    Connecting,
    /// A request was accepted, and the peer does not know yet.
    Accepting,
    /// There is no connection, and will be none.
    Refused,
    Connected,
    /// There was one. What has come can still be read.
    Disconnected,
    /// It ended with an error.
    Broken,
    /// The program has given the socket back.
    Closed,
}

impl Phase {
    fn is_opening(self) -> bool {
        matches!(self, Self::Resolving | Self::Routing | Self::Connecting | Self::Accepting)
    }
}

#[derive(Debug)]
pub(crate) struct State {
    phase: Phase,
    /// More may come from the peer; more may go there.
    readable: bool,
    writable: bool,
    /// `SO_ERROR`.
    error: i32,
    /// An error that nobody who reads was told of.
    untold: Option<Error>,
    link: Option<Link>,
    /// It was taken away from the program.
    taken: bool,
    /// Threads that wait for completions.
    waiters: usize,
    options: Options,
    backlog: Backlog,
    /// When something was last heard or said, for those who are kept alive.
    active: Instant,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stream {
    /// One that is not bound; `unbound` is what it says of itself then.
    pub fn new(unbound: SocketAddr) -> Result<Arc<Self>> {
        Self::in_space(PortSpace::Tcp, unbound)
    }

    /// The same with ports of another space, which is one of connections.
    pub fn in_space(space: PortSpace, unbound: SocketAddr) -> Result<Arc<Self>> {
        let channel = EventChannel::create()?;
        let id = Id::create(&channel, space, 0)?;
        Ok(Arc::new(Self::of(id, channel, unbound, Phase::Idle, Options::default())))
    }

    /// Its addresses, and those of connections that it accepts, are named by GIDs, or not.
    pub fn name_by_gid(&self, by_gid: bool) {
        self.id.name_by_gid(by_gid);
    }

    /// Whether they are.
    pub fn is_by_gid(&self) -> bool {
        self.id.is_by_gid()
    }

    /// Neither asks other hosts nor takes requests of theirs, from now on.
    pub fn stay_within_host(&self) {
        self.id.stay_within_host();
    }

    fn of(
        id: Arc<Id>,
        channel: Arc<EventChannel>,
        unbound: SocketAddr,
        phase: Phase,
        options: Options,
    ) -> Self {
        Self {
            id,
            channel,
            unbound,
            wakeup: Arc::default(),
            nonblocking: AtomicBool::new(false),
            receive_timeout: AtomicU64::new(0),
            send_timeout: AtomicU64::new(0),
            sending: Mutex::default(),
            receiving: Mutex::default(),
            state: Mutex::new(State {
                phase,
                readable: false,
                writable: false,
                error: 0,
                untold: None,
                link: None,
                taken: false,
                waiters: 0,
                options,
                backlog: Backlog::default(),
                active: Instant::now(),
            }),
        }
    }

    /// Its descriptor.
    pub(crate) fn number(&self) -> RawFd {
        self.channel.fd().as_raw_fd()
    }

    /// Whether calls that would wait fail instead.
    pub fn is_nonblocking(&self) -> bool {
        self.nonblocking.load(Ordering::Relaxed)
    }

    /// Has calls that would wait fail instead, or not.
    pub fn set_nonblocking(&self, nonblocking: bool) {
        self.nonblocking.store(nonblocking, Ordering::Relaxed);
    }

    /// Its own address; the unspecified one while it has none.
    pub fn name(&self) -> SocketAddr {
        self.id.source().unwrap_or(self.unbound)
    }

    /// The peer's address.
    pub fn peer_name(&self) -> Result<SocketAddr> {
        self.id.destination().ok_or(Error::new(libc::ENOTCONN))
    }

    /// Binds it to an address.
    pub fn bind(&self, address: SocketAddr) -> Result<()> {
        Ok(self.id.bind(address)?)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Takes in what has happened by now.
    fn update(&self, state: &mut State, look: Look) {
        if state.phase.is_opening() {
            self.take_events(state);
        }
        if state.phase != Phase::Connected {
            return;
        }
        let Some(link) = &mut state.link else { return };
        match look {
            Look::Glance if !link.endpoint().has_completions() => return,
            Look::Glance | Look::Thorough => {}
            Look::Armed => link.endpoint().arm(),
            Look::Waiting => link.endpoint().arm_to_wait(),
        }
        let news = link.reap();
        state.apply(&news);
        if state.phase == Phase::Connected {
            state.talk();
        }
        if news.any {
            state.active = Instant::now();
        }
        if news.any || state.phase != Phase::Connected {
            self.wakeup.ring();
        }
    }

    /// Waits until `ready` gives something, as long as `patience` says; with `EAGAIN` if it may wait no longer, with `EINTR` after
    /// a signal.
    fn wait<T>(&self, patience: Patience, ready: &mut dyn FnMut(&mut State) -> Option<T>) -> Result<T> {
        wait(self, patience, &mut |look| {
            let mut state = self.lock();
            self.update(&mut state, look);
            ready(&mut state)
        })
    }

    /// How long a call with these flags may wait.
    fn patience(&self, flags: i32, timeout: &AtomicU64) -> Patience {
        if self.is_nonblocking() || flags & libc::MSG_DONTWAIT != 0 {
            return Patience::None;
        }
        match timeout.load(Ordering::Relaxed) {
            0 => Patience::Endless,
            nanoseconds => Instant::now()
                .checked_add(Duration::from_nanos(nanoseconds))
                .map_or(Patience::Endless, Patience::Until),
        }
    }

    /// What of `events` there is now, and errors and hang-ups.
    pub fn ready(&self, events: i16, look: Look) -> i16 {
        let mut state = self.lock();
        self.update(&mut state, look);
        let input = events & (POLL_IN | libc::POLLRDNORM);
        let output = events & (POLL_OUT | libc::POLLWRNORM);
        let peer_end = events & libc::POLLRDHUP;
        if state.taken {
            // Whoever waits for it is to look elsewhere.
            return input | output;
        }
        let link = state.link.as_ref();
        match state.phase {
            Phase::Idle
            | Phase::Resolving
            | Phase::Routing
            | Phase::Connecting
            | Phase::Accepting
            | Phase::Closed => 0,
            Phase::Listening if state.backlog.has_ready() => input,
            Phase::Listening => 0,
            Phase::Refused => input | output | POLL_ERROR,
            Phase::Connected => {
                let can_read = !state.readable || link.is_some_and(|link| link.waiting() > 0);
                let can_write = link.is_some_and(Link::can_send) || !state.writable;
                let ended = if state.readable { 0 } else { peer_end };
                ended | if can_read { input } else { 0 } | if can_write { output } else { 0 }
            }
            // What has come is to be read before the end is told: programs that hear of a hang-up look no further.
            Phase::Disconnected if input != 0 && link.is_some_and(|link| link.waiting() > 0) => {
                input | peer_end
            }
            Phase::Disconnected => input | peer_end | POLL_HANG_UP,
            Phase::Broken => input | peer_end | POLL_ERROR,
        }
    }
}

impl State {
    fn apply(&mut self, news: &News) {
        if news.shut_down {
            self.readable = false;
        }
        let both_done = news.shut_down && !self.writable;
        if news.disconnected || news.ended || both_done {
            self.end(Phase::Disconnected);
        } else if news.failed {
            self.break_off(Error::new(libc::EIO));
        }
    }

    /// Says to the peer what is due.
    fn talk(&mut self) {
        let Some(link) = &mut self.link else { return };
        if let Err(error) = link.tell_mappings().and_then(|()| link.give_credit()) {
            self.break_off(error);
        }
    }

    /// Nothing more comes or goes.
    fn end(&mut self, phase: Phase) {
        tracing::debug!(was = ?self.phase, is = ?phase, "a stream sends and receives nothing more");
        self.phase = phase;
        self.readable = false;
        self.writable = false;
    }

    fn break_off(&mut self, error: Error) {
        self.end(Phase::Broken);
        self.error = error.errno();
        self.untold = Some(error);
        if let Some(link) = &self.link {
            link.stop();
        }
    }
}

impl Awaited for Stream {
    fn wakeup(&self) -> &Arc<Wakeup> {
        &self.wakeup
    }

    fn begin_wait(&self) -> Option<Arc<Context>> {
        let mut state = self.lock();
        state.waiters += 1;
        state.link.as_ref().map(|link| Arc::clone(link.context()))
    }

    fn pause_wait(&self) {
        let state = self.lock();
        if let (1, Some(link)) = (state.waiters, &state.link) {
            link.endpoint().disarm();
        }
    }

    fn end_wait(&self) {
        let mut state = self.lock();
        state.waiters -= 1;
        if state.waiters == 0
            && let Some(link) = &state.link
        {
            link.endpoint().disarm();
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.end();
        service::forget(self.channel.fd());
    }
}
