//! Identifiers.

mod accepting;
mod binding;
mod by_wire;
mod connecting;
mod devices;
mod ending;
mod inner;
mod line;
mod listening;
mod meeting;
mod multicast;
mod options;
mod queue_pair;
mod reporting;
mod resolving;

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use nonic_device::{Context, EventAccount};
use nonic_roce::{AddressHeader, Naming};
use nonic_sys::current_generation;

use crate::channel::{Target, Waiting};
use crate::private_data::{Kind, header};
use crate::{Ece, Error, EventChannel, EventKind, Parameters, PortSpace};
use connecting::Link;
pub(crate) use devices::device_context;
use inner::{Core, CoreGuard};
pub use multicast::MulticastGroup;

/// Where an identifier stands (`rdma_cm(7)`; the names are those of the kernel's).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The standard's names, one for one.
pub enum State {
    Idle,
    AddressBound,
    AddressResolved,
    RouteResolved,
    Connect,
    Disconnect,
    Listen,
    Destroying,
}

/// An identifier (`struct rdma_cm_id`). Dropped, it goes as with [`Id::destroy`], but waits for nobody.
pub struct Id {
    this: Weak<Id>,
    /// The process that made it.
    generation: u32,
    space: PortSpace,
    /// It sends datagrams, and has no connections.
    datagrams: bool,
    cookie: AtomicUsize,
    /// The program names its addresses by GIDs.
    by_gid: AtomicBool,
    account: Arc<EventAccount>,
    core: Mutex<Core>,
}

impl Id {
    /// The Q_Key of datagram services (`RDMA_UDP_QKEY`).
    pub const DEFAULT_QUEUE_KEY: u32 = 0x0123_4567;

    /// Creates one in a port space; its events come on `channel`. `cookie` is the caller's own.
    pub fn create(channel: &Arc<EventChannel>, space: PortSpace, cookie: usize) -> Result<Arc<Self>, Error> {
        Ok(Self::new(channel, space, space.is_datagram(), cookie))
    }

    /// The same in the space of InfiniBand, whose identifiers may be of either kind.
    pub fn create_for_services(
        channel: &Arc<EventChannel>,
        datagrams: bool,
        cookie: usize,
    ) -> Result<Arc<Self>, Error> {
        Ok(Self::new(channel, PortSpace::InfiniBand, datagrams, cookie))
    }

    fn new(channel: &Arc<EventChannel>, space: PortSpace, datagrams: bool, cookie: usize) -> Arc<Self> {
        let new = Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            generation: current_generation(),
            space,
            datagrams,
            cookie: AtomicUsize::new(cookie),
            by_gid: AtomicBool::new(false),
            account: Arc::default(),
            core: Mutex::new(Core::new(channel, space)),
        });
        // Shows it.
        drop(new.lock());
        devices::remember(&new);
        new
    }

    /// Its addresses, and those of identifiers that requests to it make, are of the family `AF_IB` from now on; or no more.
    pub fn name_by_gid(&self, by_gid: bool) {
        self.by_gid.store(by_gid, Ordering::Relaxed);
    }

    /// Whether they are.
    pub fn is_by_gid(&self) -> bool {
        self.by_gid.load(Ordering::Relaxed)
    }

    /// The caller's own word. 0 in one that a request made.
    pub fn cookie(&self) -> usize {
        self.cookie.load(Ordering::Acquire)
    }

    /// Changes it.
    pub fn set_cookie(&self, cookie: usize) {
        self.cookie.store(cookie, Ordering::Release);
    }

    /// Its port space.
    pub fn space(&self) -> PortSpace {
        self.space
    }

    /// Whether it sends datagrams, and has no connections.
    pub fn is_datagram(&self) -> bool {
        self.datagrams
    }

    /// The family of its addresses, as listeners have it.
    fn naming(&self) -> Naming {
        if self.is_by_gid() { Naming::Gid } else { Naming::Ip }
    }

    fn kind(&self) -> Kind {
        Kind { datagrams: self.datagrams, by_gid: self.is_by_gid() }
    }

    /// Where it stands now.
    pub fn state(&self) -> State {
        self.lock().state
    }

    /// Where its events come.
    pub fn channel(&self) -> Arc<EventChannel> {
        Arc::clone(&self.lock().channel)
    }

    /// The device it is bound to, opened; `None` before, and with a wildcard.
    pub fn context(&self) -> Option<Arc<Context>> {
        self.lock().context.clone()
    }

    /// Its own address and port; `None` while it has none.
    pub fn source(&self) -> Option<SocketAddr> {
        self.lock().source
    }

    /// The peer's; `None` while there is none.
    pub fn destination(&self) -> Option<SocketAddr> {
        self.lock().destination
    }

    /// The numbers of its own service and of the peer's, as addresses of the family `AF_IB` have them; 0 of one that is not known.
    pub fn services(&self) -> [u64; 2] {
        let core = self.lock();
        let of = |ports: PortSpace, address: SocketAddr| ports.first_service() | u64::from(address.port());
        let own = core.source.map_or(0, |own| of(core.ports, own));
        let named = core.service.or(core.destination.map(|peer| of(self.space, peer)));
        [own, named.unwrap_or(0)]
    }

    /// What stands in front of the private data of a request that names addresses of IP, which one that names GIDs may say by itself: who
    /// listens at an address of IP understands it then. `None` while there is no peer.
    pub fn address_header(&self) -> Option<[u8; AddressHeader::LENGTH]> {
        let core = self.lock();
        Some(header(core.source?, core.destination?).emit())
    }

    /// Options of the vendor that the other side asked for or took; zero if none.
    pub fn remote_ece(&self) -> Ece {
        self.lock().peer.as_ref().map_or(Ece::default(), |peer| peer.parameters.ece)
    }

    pub(crate) fn account(&self) -> &Arc<EventAccount> {
        &self.account
    }

    fn lock(&self) -> CoreGuard<'_> {
        CoreGuard::new(self, &self.core)
    }

    /// The lock, for a call that is allowed in these states only.
    fn lock_in(&self, states: &[State]) -> Result<CoreGuard<'_>, Error> {
        let core = self.lock_alive()?;
        if states.contains(&core.state) { Ok(core) } else { Err(Error::State(core.state)) }
    }

    /// The lock, for a call that is allowed in every state.
    fn lock_alive(&self) -> Result<CoreGuard<'_>, Error> {
        if self.generation != current_generation() {
            return Err(Error::Forked);
        }
        let core = self.lock();
        match core.state {
            State::Destroying => Err(Error::State(core.state)),
            _ if core.is_removed => Err(Error::Removed),
            _ => Ok(core),
        }
    }

    /// Tells the program something.
    fn push(&self, core: &Core, kind: EventKind, status: i32, parameters: Parameters) {
        let target = Target::Known(Weak::clone(&self.this));
        core.channel.queue.push(Waiting { kind, status, target, parameters });
    }

    /// Whether an event that waits is this one's.
    fn owns(&self, waiting: &Waiting) -> bool {
        std::ptr::eq(waiting.target.owner().as_ptr(), self)
    }

    /// Moves it to another channel, with the events that wait; then waits until those that were got are acknowledged
    /// (`rdma_migrate_id(3)`).
    pub fn migrate(&self, channel: &Arc<EventChannel>) -> Result<(), Error> {
        let mut core = self.lock_alive()?;
        let before = std::mem::replace(&mut core.channel, Arc::clone(channel));
        for waiting in before.queue.remove(|waiting| self.owns(waiting)) {
            if let Target::New { id, .. } = &waiting.target {
                id.lock().channel = Arc::clone(channel);
            }
            channel.queue.push(waiting);
        }
        drop(core);
        self.account.wait_for_all();
        Ok(())
    }

    /// Gives it back (`rdma_destroy_id(3)`): ends its connection, rejects what it was asked and did not answer, drops events that
    /// were not got, and waits until those that were are acknowledged.
    pub fn destroy(&self) {
        // In a child nothing of the parent's is touched: its locks may be held by threads that are not there.
        if self.generation == current_generation() {
            self.leave();
            self.account.wait_for_all();
        }
    }

    /// As [`Id::destroy`], but waits for nobody: for who lets a channel go with the identifiers on it.
    pub fn abandon(&self) {
        if self.generation == current_generation() {
            self.leave();
        }
    }

    fn leave(&self) {
        let (channel, _ended, _left) = {
            let mut core = self.lock();
            if core.state == State::Destroying {
                return;
            }
            core.state = State::Destroying;
            let link = std::mem::replace(&mut core.link, Link::None);
            let ended = (link.leave(), core.listening.take(), core.binding.take());
            (Arc::clone(&core.channel), ended, std::mem::take(&mut core.groups))
        };
        // Requests among them are rejected.
        drop(channel.queue.remove(|waiting| self.owns(waiting)));
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let core = self.lock();
        let ends = (core.source, core.destination);
        f.debug_struct("Id")
            .field("space", &self.space)
            .field("state", &core.state)
            .field("ends", &ends)
            .finish_non_exhaustive()
    }
}

impl Drop for Id {
    fn drop(&mut self) {
        self.abandon();
    }
}
