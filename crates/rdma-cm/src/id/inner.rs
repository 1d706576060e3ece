//! What changes of an identifier, and that every change is shown.

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nonic_device::{AddressVector, Context, QpNumber};
use nonic_sys::random_u64;
use nonic_wire_connection::{MetWay, Way};

use super::State;
use super::connecting::Link;
use super::listening::Listening;
use super::multicast::Joined;
use super::options::Options;
use crate::facts::Facts;
use crate::ports::Binding;
use crate::shown::Record;
use crate::{ConnectionParameters, EventChannel, Id, IdentifierFacts, PortSpace, Progress};

/// What changes.
pub(super) struct Core {
    pub(super) state: State,
    pub(super) channel: Arc<EventChannel>,
    pub(super) source: Option<SocketAddr>,
    pub(super) destination: Option<SocketAddr>,
    /// Whose ports its own is one of.
    pub(super) ports: PortSpace,
    /// The peer's service, if it was named by its number; 0 if there is a peer who does not say it.
    pub(super) service: Option<u64>,
    pub(super) context: Option<Arc<Context>>,
    pub(super) options: Options,
    pub(super) binding: Option<Binding>,
    pub(super) listening: Option<Listening>,
    pub(super) link: Link,
    pub(super) groups: Vec<Joined>,
    /// The way to a peer on another host.
    pub(super) way: Option<Way>,
    /// The way to one in another network namespace that is met.
    pub(super) met: Option<MetWay>,
    /// Number of the first packet that the other side is to send.
    pub(super) packet: u32,
    /// How often a packet is sent again, as who asked said.
    pub(super) retry_count: u8,
    /// What this side said when it asked.
    pub(super) own: ConnectionParameters,
    /// What the other side said.
    pub(super) peer: Option<Facts>,
    /// The device that it was bound to has failed.
    pub(super) is_removed: bool,
    /// The device has its address no more, and the program was told.
    pub(super) has_moved: bool,
    /// Where it is shown.
    record: Record,
}

impl Core {
    pub(super) fn new(channel: &Arc<EventChannel>, space: PortSpace) -> Self {
        Self {
            state: State::Idle,
            channel: Arc::clone(channel),
            source: None,
            destination: None,
            ports: space,
            service: None,
            context: None,
            options: Options::default(),
            binding: None,
            listening: None,
            link: Link::None,
            groups: Vec::new(),
            way: None,
            met: None,
            packet: random_u64() as u32 & QpNumber::MASK,
            retry_count: 0,
            own: ConnectionParameters::default(),
            peer: None,
            is_removed: false,
            has_moved: false,
            record: Record::new(),
        }
    }

    /// Where a queue pair's packets go to reach the peer.
    pub(super) fn vector(&self, context: &Context) -> AddressVector {
        let elsewhere = self.way.as_ref().map(Way::vector).or_else(|| self.met.as_ref().map(MetWay::vector));
        elsewhere.unwrap_or_else(|| context.path_to_this_host())
    }

    /// How far it has come, in words for people.
    fn progress(&self) -> Progress {
        match (&self.link, self.state) {
            (Link::Asking { .. } | Link::Pausing { .. } | Link::Answered(_), _) => Progress::Asking,
            (Link::Pending(_) | Link::Accepted(_), _) => Progress::Asked,
            (Link::Open(_), _) => Progress::Connected,
            (Link::Closing(_) | Link::Closed(_), _) => Progress::Ending,
            (Link::Over | Link::Resting(_), _)
            | (Link::None, State::Connect | State::Disconnect | State::Destroying) => Progress::Over,
            (Link::None, State::Listen) => Progress::Listening,
            (Link::None, State::RouteResolved) => Progress::Routed,
            (Link::None, State::AddressResolved) => Progress::Resolved,
            (Link::None, State::AddressBound) => Progress::Bound,
            (Link::None, State::Idle) => Progress::Idle,
        }
    }
}

/// The lock of an identifier. When it is given back, what has changed is shown.
pub(super) struct CoreGuard<'a> {
    id: &'a Id,
    core: MutexGuard<'a, Core>,
}

impl<'a> CoreGuard<'a> {
    pub(super) fn new(id: &'a Id, core: &'a Mutex<Core>) -> Self {
        Self { id, core: core.lock().unwrap_or_else(PoisonError::into_inner) }
    }
}

impl Deref for CoreGuard<'_> {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.core
    }
}

impl DerefMut for CoreGuard<'_> {
    fn deref_mut(&mut self) -> &mut Core {
        &mut self.core
    }
}

impl Drop for CoreGuard<'_> {
    fn drop(&mut self) {
        let facts = IdentifierFacts {
            space: self.id.space(),
            by_gid: self.id.is_by_gid(),
            progress: self.core.progress(),
            source: self.core.source,
            destination: self.core.destination,
        };
        self.core.record.show(&facts);
    }
}
