//! Interface adapters: opening, closing, and what their objects ask of them.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nonic_device::{Context, ZoneId, devices};

use crate::error::{DatError, DatResult, HandleKind, Resource, StateKind, Subtype};
use crate::event::AsyncObject;
use crate::event_dispatcher::EventDispatcher;
use crate::local_region::RegionTable;
use crate::mark::Mark;
use crate::members::{Member, MemberKind, Members, Membership};
use crate::shared_receive_queue::SharedReceiveQueue;
use crate::values::{AsyncError, Streams};

/// Entries of an adapter's own dispatcher of asynchronous errors at least.
const ASYNC_LENGTH_MIN: i32 = 256;

/// How to open an adapter (`dat_ia_openv`).
#[derive(Debug)]
pub struct OpenOptions {
    /// The name it was asked for by, without `RO_AWARE_`.
    pub name: String,
    /// Whether peers and the program see the same memory without synchronizing.
    pub coherent: bool,
    /// Where asynchronous errors go.
    pub async_events: AsyncEvents,
}

/// Where the asynchronous errors of an adapter go.
#[derive(Debug)]
pub enum AsyncEvents {
    /// To a dispatcher of at least this length that is made, and goes, with the adapter.
    Own {
        /// Entries.
        length: i32,
    },
    /// To a dispatcher of the program's, which stays.
    Given(Arc<EventDispatcher>),
    /// Nobody here can see them (`DAT_EVD_ASYNC_EXISTS`).
    OutOfScope,
}

/// An open adapter: every open makes one with objects of its own. It lives until it is closed.
#[derive(Debug)]
pub struct InterfaceAdapter {
    mark: Mark,
    name: String,
    coherent: bool,
    address: SocketAddr,
    context: Arc<Context>,
    closed: AtomicBool,
    members: Members,
    async_events: Mutex<AsyncDestination>,
    /// Numbers of its protection zones.
    zones: Mutex<HashSet<u32>>,
    /// The one that was asked for last; numbers are never used again, so one of a zone that is gone does no harm.
    last_zone: AtomicU32,
    pub(crate) regions: RegionTable,
}

#[derive(Debug)]
enum AsyncDestination {
    None,
    Own(Arc<EventDispatcher>),
    Given(Arc<EventDispatcher>),
}

pub(crate) const ADAPTER_HANDLE: DatError = DatError::handle(Subtype::Handle(HandleKind::InterfaceAdapter));

impl InterfaceAdapter {
    /// Opens an adapter.
    ///
    /// Errors: `INVALID_PARAMETER|ARG2` for a negative length of the dispatcher, `INVALID_HANDLE|EVD_ASYNC` for a
    /// dispatcher that was freed or takes no asynchronous errors, `INSUFFICIENT_RESOURCES` if the device cannot be opened.
    pub fn open(options: OpenOptions) -> DatResult<Arc<Self>> {
        let OpenOptions { name, coherent, async_events } = options;
        if matches!(async_events, AsyncEvents::Own { length } if length < 0) {
            return Err(DatError::argument(2));
        }
        let no_device = DatError::resources(Subtype::Resource(Resource::Device));
        let device = devices().into_iter().next().ok_or(no_device)?;
        let context = device.open().map_err(|_| no_device)?;
        // Queue pairs and queues have observers.
        context.ignore_async_events();
        if let AsyncEvents::Given(dispatcher) = &async_events {
            let no_such = DatError::handle(Subtype::Handle(HandleKind::AsyncDispatcher));
            if !dispatcher.streams().contains(Streams::ASYNC) {
                return Err(no_such);
            }
            dispatcher.hold().map_err(|_| no_such)?;
        }
        let adapter = Arc::new(Self {
            mark: Mark::default(),
            name,
            coherent,
            address: own_address(),
            context,
            closed: AtomicBool::new(false),
            members: Members::default(),
            async_events: Mutex::new(AsyncDestination::None),
            zones: Mutex::default(),
            last_zone: AtomicU32::new(u32::MAX),
            regions: RegionTable::default(),
        });
        let destination = match async_events {
            AsyncEvents::Own { length } => {
                let length = length.max(ASYNC_LENGTH_MIN);
                AsyncDestination::Own(EventDispatcher::create_async(&adapter, length)?)
            }
            AsyncEvents::Given(dispatcher) => AsyncDestination::Given(dispatcher),
            AsyncEvents::OutOfScope => AsyncDestination::None,
        };
        *adapter.lock_async() = destination;
        Ok(adapter)
    }

    /// The face's word.
    pub fn mark(&self) -> &Mark {
        &self.mark
    }

    /// The name it was opened by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether peers and the program see the same memory without synchronizing.
    pub fn is_coherent(&self) -> bool {
        self.coherent
    }

    /// An address of this machine, port 0: that of the first interface with IPv4 that is not the loopback, else 127.0.0.1.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The dispatcher of its asynchronous errors, if the program can see one.
    pub fn async_dispatcher(&self) -> Option<Arc<EventDispatcher>> {
        match &*self.lock_async() {
            AsyncDestination::None => None,
            AsyncDestination::Own(dispatcher) | AsyncDestination::Given(dispatcher) => {
                Some(Arc::clone(dispatcher))
            }
        }
    }

    /// Closes the adapter. Gracefully: refused with `INVALID_STATE|IA_IN_USE` while objects of the program's live, or another
    /// adapter sends its asynchronous errors to this one's dispatcher. Abruptly: destroys them all, remote regions before
    /// endpoints, those before zones, and dispatchers last, and wakes whoever waits on one. Closed already:
    /// `INVALID_HANDLE|IA`.
    pub fn close(&self, graceful: bool) -> DatResult<()> {
        self.check_process()?;
        if graceful {
            if self.is_closed() {
                return Err(ADAPTER_HANDLE);
            }
            let own = match &*self.lock_async() {
                AsyncDestination::Own(dispatcher) => Some(Arc::clone(dispatcher)),
                _ => None,
            };
            if own.as_ref().is_some_and(|own| own.users.close().is_err()) {
                return Err(DatError::state(Subtype::State(StateKind::IaInUse)));
            }
            if !self.members.close_if_empty() {
                if let Some(own) = own {
                    own.users.reopen();
                }
                return Err(DatError::state(Subtype::State(StateKind::IaInUse)));
            }
        }
        if self.closed.swap(true, Ordering::AcqRel) {
            return Err(ADAPTER_HANDLE);
        }
        self.members.close();
        for kind in MemberKind::ALL {
            for member in self.members.of_kind(kind) {
                member.end();
            }
        }
        self.context.close();
        let destination = std::mem::replace(&mut *self.lock_async(), AsyncDestination::None);
        match destination {
            AsyncDestination::None => {}
            AsyncDestination::Own(dispatcher) => dispatcher.abort(),
            AsyncDestination::Given(dispatcher) => dispatcher.release(),
        }
        Ok(())
    }

    /// The engine's context.
    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// `INVALID_HANDLE|IA` once it is closed, and in children of the process that opened it.
    #[inline]
    pub(crate) fn check_open(&self) -> DatResult<()> {
        if self.is_closed() || !self.context.is_current() { Err(ADAPTER_HANDLE) } else { Ok(()) }
    }

    /// `INVALID_HANDLE|IA` in children of the process that opened it: threads that are not there may have its locks.
    #[inline]
    pub(crate) fn check_process(&self) -> DatResult<()> {
        if self.context.is_current() { Ok(()) } else { Err(ADAPTER_HANDLE) }
    }

    /// Takes an object in; `INVALID_HANDLE|IA` once the adapter is closed.
    pub(crate) fn join<M: Member>(&self, member: &Arc<M>) -> DatResult<()> {
        if self.members.join(member) { Ok(()) } else { Err(ADAPTER_HANDLE) }
    }

    /// Lets an object go; harmless if it has gone.
    pub(crate) fn leave(&self, membership: &Membership) {
        self.members.leave(membership);
    }

    /// Has the remote regions look which of their binds are done.
    pub(crate) fn look_again_at_binds(&self) {
        for region in self.members.of_kind(MemberKind::RemoteRegion) {
            region.look_again();
        }
    }

    /// Completions of receives from a shared queue that wait to be handed out.
    pub(crate) fn receives_to_show(&self, queue: &SharedReceiveQueue) -> u32 {
        let endpoints = self.members.of_kind(MemberKind::Endpoint);
        endpoints.iter().map(|endpoint| endpoint.receives_to_show(queue)).sum()
    }

    /// Tells the program of an asynchronous error, if it can see one.
    pub(crate) fn raise(&self, kind: AsyncError, object: AsyncObject<'_>, reason: i32) {
        if let Some(dispatcher) = self.async_dispatcher() {
            dispatcher.push_async(kind, object, reason);
        }
    }

    pub(crate) fn add_zone(&self, zone: ZoneId) {
        self.lock_zones().insert(zone.0);
    }

    pub(crate) fn remove_zone(&self, zone: ZoneId) {
        self.lock_zones().remove(&zone.0);
    }

    /// Whether a zone is, or was, one of its own.
    #[inline]
    pub(crate) fn has_zone(&self, zone: ZoneId) -> bool {
        self.last_zone.load(Ordering::Relaxed) == zone.0 || self.find_zone(zone)
    }

    #[cold]
    fn find_zone(&self, zone: ZoneId) -> bool {
        let found = self.lock_zones().contains(&zone.0);
        if found {
            self.last_zone.store(zone.0, Ordering::Relaxed);
        }
        found
    }

    fn lock_zones(&self) -> MutexGuard<'_, HashSet<u32>> {
        self.zones.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_async(&self) -> MutexGuard<'_, AsyncDestination> {
        self.async_events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn own_address() -> SocketAddr {
    let addresses = nonic_sys::interface_addresses();
    let found = addresses.into_iter().find(|found| !found.loopback && found.address.is_ipv4());
    SocketAddr::new(found.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |found| found.address), 0)
}
