//! Endpoints: one side of a connection, with a queue of requests and one of receives.
//!
//! An endpoint is one reliable queue pair of the engine. It is made as soon as the endpoint knows its protection zone and
//! its dispatchers, so that receives can be posted before there is a connection.

mod attributes;
mod by_wire;
mod changing;
mod completing;
mod connecting;
mod disconnecting;
mod lifetime;
mod link;
mod numbered;
#[allow(unsafe_code)]
// Posting is an unsafe function of the engine: what it is given are the program's addresses.
mod posting;
mod watermarks;
mod wiring;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Instant;

use nonic_device::QueuePair;

pub use attributes::EndpointAttributes;
use connecting::Connecting;
pub use posting::AtomicChange;
use wiring::Wiring;

use crate::error::StateKind;
use crate::event_dispatcher::EventDispatcher;
use crate::interface_adapter::InterfaceAdapter;
use crate::mark::Mark;
use crate::members::Membership;
use crate::protection_zone::ProtectionZone;
use crate::shared_receive_queue::SharedReceiveQueue;
use crate::values::EndpointState;

/// What an endpoint is made from. What is missing can be given later ([`Endpoint::modify`]), but for the queue of shared
/// receives.
#[derive(Clone, Debug, Default)]
pub struct EndpointSetup {
    /// Its protection zone.
    pub zone: Option<Arc<ProtectionZone>>,
    /// Where receives complete.
    pub receive: Option<Arc<EventDispatcher>>,
    /// Where sends, RDMA and binds complete.
    pub request: Option<Arc<EventDispatcher>>,
    /// Where connection events go.
    pub connect: Option<Arc<EventDispatcher>>,
    /// Where receives come from, if not from the endpoint's own queue.
    pub shared_receives: Option<Arc<SharedReceiveQueue>>,
    /// What it can do; the defaults if there are none.
    pub attributes: Option<EndpointAttributes>,
}

/// What is to change about an endpoint: what is `None` stays.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)] // As in `EndpointSetup` and `EndpointAttributes`.
pub struct EndpointChange {
    pub zone: Option<Option<Arc<ProtectionZone>>>,
    pub receive: Option<Option<Arc<EventDispatcher>>>,
    pub request: Option<Option<Arc<EventDispatcher>>>,
    pub connect: Option<Option<Arc<EventDispatcher>>>,
    pub service_type: Option<u32>,
    pub max_message_size: Option<u64>,
    pub max_rdma_size: Option<u64>,
    pub qos: Option<u32>,
    pub receive_flags: Option<u32>,
    pub request_flags: Option<u32>,
    pub max_receives: Option<i32>,
    pub max_requests: Option<i32>,
    pub max_receive_pieces: Option<i32>,
    pub max_request_pieces: Option<i32>,
    pub max_reads_in: Option<i32>,
    pub max_reads_out: Option<i32>,
    pub shared_soft_watermark: Option<i32>,
    pub max_read_pieces: Option<i32>,
    pub max_write_pieces: Option<i32>,
}

/// What can be asked about an endpoint.
#[derive(Clone, Debug)]
pub struct EndpointFacts {
    /// Its state.
    pub state: EndpointState,
    /// Port of its side of the connection, 0 if it has none.
    pub local_port: u64,
    /// Address and connection qualifier of the peer, while there is one.
    pub remote: Option<(SocketAddr, u64)>,
    /// Its protection zone.
    pub zone: Option<Arc<ProtectionZone>>,
    /// Where receives complete.
    pub receive: Option<Arc<EventDispatcher>>,
    /// Where sends, RDMA and binds complete.
    pub request: Option<Arc<EventDispatcher>>,
    /// Where connection events go.
    pub connect: Option<Arc<EventDispatcher>>,
    /// Where receives come from, if not from its own queue.
    pub shared_receives: Option<Arc<SharedReceiveQueue>>,
    /// What it can do.
    pub attributes: EndpointAttributes,
}

/// One side of a connection.
#[derive(Debug)]
pub struct Endpoint {
    this: Weak<Self>,
    mark: Mark,
    membership: Membership,
    adapter: Arc<InterfaceAdapter>,
    /// [`EndpointState`], for posting. Written under `core`.
    state: AtomicU32,
    /// It is connected, and its completions have only to be shown.
    is_plain: AtomicBool,
    /// The queue pair and what posting needs besides.
    wiring: OnceLock<Box<Wiring>>,
    core: Mutex<Core>,
}

/// What changes while an endpoint lives.
#[derive(Debug)]
pub(crate) struct Core {
    /// Zone and dispatchers.
    pub(crate) setup: EndpointSetup,
    /// Attributes as they are.
    pub(crate) attributes: EndpointAttributes,
    /// The connection.
    pub(crate) connecting: Connecting,
    /// Its queue pair was connected to another host: packets for it may come until then.
    rests_until: Option<Instant>,
    /// It was freed.
    pub(crate) freed: bool,
}

impl Endpoint {
    /// The face's word.
    #[inline]
    pub fn mark(&self) -> &Mark {
        &self.mark
    }

    /// Its adapter.
    pub fn adapter(&self) -> &Arc<InterfaceAdapter> {
        &self.adapter
    }

    /// Its state.
    #[inline]
    pub fn state(&self) -> EndpointState {
        state_of(self.state.load(Ordering::Acquire))
    }

    /// Moves it to a state. `core` is the proof that the caller may.
    pub(crate) fn set_state(&self, core: &mut Core, state: EndpointState) {
        let _ = core;
        let numbered = self.wiring().is_none_or(|wiring| wiring.tags.is_some());
        self.is_plain.store(state == EndpointState::Connected && !numbered, Ordering::Release);
        self.state.store(state as u32, Ordering::Release);
    }

    pub(crate) fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The endpoint, to be kept. `None` while it is being dropped.
    pub(crate) fn this(&self) -> Option<Arc<Self>> {
        self.this.upgrade()
    }

    /// Its wiring: the last of the chain.
    #[inline]
    fn wiring(&self) -> Option<&Wiring> {
        let mut wiring = self.wiring.get()?;
        while let Some(next) = wiring.next.get() {
            wiring = next;
        }
        wiring.is_live().then_some(&**wiring)
    }

    /// Its queue pair, if zone and dispatchers are known.
    pub(crate) fn pair(&self) -> Option<&Arc<QueuePair>> {
        self.wiring().map(|wiring| &wiring.pair)
    }
}

fn state_of(number: u32) -> EndpointState {
    use EndpointState as S;
    match number {
        0 => S::Unconnected,
        2 => S::Reserved,
        4 => S::PassiveConnectionPending,
        6 => S::ActiveConnectionPending,
        7 => S::TentativeConnectionPending,
        9 => S::Connected,
        10 => S::DisconnectPending,
        12 => S::CompletionPending,
        _ => S::Disconnected,
    }
}

/// How a refusal names the state that forbids it.
pub fn forbidden_by(state: EndpointState) -> StateKind {
    use EndpointState as S;
    match state {
        S::Unconnected => StateKind::EpUnconnected,
        S::Reserved => StateKind::EpReserved,
        S::PassiveConnectionPending => StateKind::EpPassiveConnectionPending,
        S::ActiveConnectionPending => StateKind::EpActiveConnectionPending,
        S::TentativeConnectionPending => StateKind::EpTentativeConnectionPending,
        S::Connected => StateKind::EpConnected,
        S::DisconnectPending => StateKind::EpDisconnectPending,
        S::Disconnected => StateKind::EpDisconnected,
        S::CompletionPending => StateKind::EpCompletionPending,
    }
}
