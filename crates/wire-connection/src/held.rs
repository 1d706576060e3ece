//! A connection by the wire, as the layer above holds it that has it.

use std::sync::{Arc, Weak};
use std::time::Instant;

use nonic_roce::{
    CallError, CommunicationId, ConnectionManager, ConnectionOffer, Event, Reason, Service, ServiceAnswer,
    Side, Transport,
};

use crate::sinks::Follows;
use crate::way::{HOP_LIMIT, Way};
use crate::wire::Wire;

/// A connection, an attempt at one, or a request for one; a question for a service. Dropped, it ends: a request is rejected.
#[derive(Debug)]
pub struct WireConnection {
    wire: Weak<Wire>,
    id: CommunicationId,
}

/// What is to be asked, and by whom.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// Whom.
    pub service: Service,
    /// The way there.
    pub way: &'a Way,
    /// Retries of the one that is asked, 3 bits.
    pub retry_count: u8,
    /// This side.
    pub side: &'a Side,
    /// Private data.
    pub data: &'a [u8],
}

impl Wire {
    /// Asks for a reliable connection. Errors: as [`ConnectionManager::connect`].
    pub fn connect(
        self: &Arc<Self>,
        question: &Question<'_>,
        follower: Arc<dyn Follows>,
    ) -> Result<WireConnection, CallError> {
        let Question { service, way, retry_count, side, data } = *question;
        let offer = ConnectionOffer {
            transport: Transport::Reliable,
            path_mtu: way.path_mtu,
            retry_count,
            traffic_class: way.traffic_class,
            hop_limit: HOP_LIMIT,
            flow_label: None,
        };
        let asked = self.with_follower(follower, |manager, now| {
            manager.connect(now, way.ends, service, &offer, side, data)
        });
        asked.map(|id| WireConnection::new(&Arc::downgrade(self), id))
    }

    /// Asks where datagrams of a service go to. Errors: as [`ConnectionManager::resolve_service`].
    pub fn resolve_service(
        self: &Arc<Self>,
        way: &Way,
        service: Service,
        data: &[u8],
        follower: Arc<dyn Follows>,
    ) -> Result<WireConnection, CallError> {
        let asked = self
            .with_follower(follower, |manager, now| manager.resolve_service(now, way.ends, service, data));
        asked.map(|id| WireConnection::new(&Arc::downgrade(self), id))
    }
}

/// Errors of all calls: `Unknown` and `State` if the peer has ended it, or it has not come so far; those of the manager's call.
impl WireConnection {
    pub(crate) fn new(wire: &Weak<Wire>, id: CommunicationId) -> Self {
        Self { wire: Weak::clone(wire), id }
    }

    fn call(
        &self,
        work: impl FnOnce(&mut ConnectionManager<Instant>, Instant, CommunicationId) -> Result<(), CallError>,
    ) -> Result<(), CallError> {
        let wire = self.wire.upgrade().ok_or(CallError::Unknown)?;
        wire.call(self.id, work)
    }

    /// From now on somebody is told what becomes of it.
    pub fn follow(&self, follower: Arc<dyn Follows>) {
        if let Some(wire) = self.wire.upgrade() {
            wire.follow(self.id, follower);
        }
    }

    /// Accepts, with at most 196 bytes of private data.
    pub fn accept(&self, side: &Side, data: &[u8]) -> Result<(), CallError> {
        self.call(|manager, now, id| manager.accept(now, id, side, data))
    }

    /// Says where datagrams of the service go to.
    pub fn answer(&self, answer: ServiceAnswer, data: &[u8]) -> Result<(), CallError> {
        self.call(|manager, now, id| manager.answer_service(now, id, answer, data))
    }

    /// Rejects what the other side asked or replied, with at most 148 bytes of private data. Harmless when it is over.
    pub fn reject(&self, reason: Reason, data: &[u8]) {
        let _ = self.call(|manager, now, id| manager.reject(now, id, reason, &[], data));
    }

    /// Says that this side is ready, too.
    pub fn establish(&self) -> Result<(), CallError> {
        self.call(|manager, _, id| manager.establish(id, &[]))
    }

    /// The peer is ready, as what it has sent shows.
    pub fn is_established(&self) {
        let _ = self.call(|manager, _, id| manager.communication_established(id));
    }

    /// Ends it, with at most 220 bytes of private data, or agrees to its end. Harmless when it is over.
    pub fn disconnect(&self, data: &[u8]) {
        let _ = self.call(|manager, now, id| {
            // Of one that was accepted the peer has not said yet that it knows.
            let _ = manager.communication_established(id);
            manager.disconnect(now, id, data)
        });
    }

    /// There is no room for what it asks for: nothing is said, and who asks, asks again.
    pub fn ignore(self) {
        let _ = self.call(|manager, _, id| manager.ignore(id));
    }

    /// Hands a request, and the event that it came with, to who takes those for another service at the same address in this process, as
    /// if it had come there. If nobody does, both come back.
    pub fn hand_to(self, service_id: u64, event: Event) -> Result<(), (Self, Event)> {
        match self.wire.upgrade() {
            Some(wire) => wire.hand(service_id, self, event),
            None => Err((self, event)),
        }
    }
}

impl Drop for WireConnection {
    fn drop(&mut self) {
        if let Some(wire) = self.wire.upgrade() {
            wire.forget(self.id);
        }
    }
}
