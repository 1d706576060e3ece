//! A connection by the wire, as the identifier holds it that has it.

use std::sync::{Arc, Weak};
use std::time::Instant;

use nonic_roce::{CallError, CommunicationId, ConnectionManager, Reason, Service, ServiceAnswer};

use super::{Follows, Way, Wire, offer, roce_space, side, tell_soon};
use crate::{ConnectionParameters, Error, PortSpace};

/// A connection, an attempt at one, or a request for one; a question for a service. Dropped, it ends: a request is rejected.
#[derive(Debug)]
pub(crate) struct WireConnection {
    wire: Weak<Wire>,
    id: CommunicationId,
}

/// What is to be asked, and by whom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question<'a> {
    pub(crate) space: PortSpace,
    pub(crate) port: u16,
    pub(crate) source_port: u16,
    pub(crate) way: &'a Way,
    pub(crate) own: &'a ConnectionParameters,
    pub(crate) packet: u32,
    pub(crate) retry_count: u8,
}

fn refused(error: CallError) -> Error {
    Error::Argument(match error {
        CallError::PrivateData { .. } => "there is more private data than a message carries",
        CallError::Range => "a number of the connection is out of its range",
        CallError::Addresses => "there is no way between these addresses",
        CallError::Unknown | CallError::State | CallError::Listening => "the connection is over",
    })
}

impl Wire {
    /// Asks for a connection, or where datagrams go to.
    pub(crate) fn ask(
        self: &Arc<Self>,
        question: &Question<'_>,
        follower: Arc<dyn Follows>,
    ) -> Result<WireConnection, Error> {
        let Question { space, port, source_port, way, own, packet, retry_count } = *question;
        let ports = roce_space(space).ok_or(Error::NoDevice)?;
        let service = Service::Port { space: ports, port, source_port };
        let data = &own.private_data;
        let asked = self.with(|machine, now| {
            let id = if space.is_datagram() {
                machine.manager.resolve_service(now, way.ends, service, data)?
            } else {
                let (offer, side) = (offer(way, retry_count), side(own, packet));
                machine.manager.connect(now, way.ends, service, &offer, &side, data)?
            };
            machine.followers.insert(id, follower);
            Ok(id)
        });
        asked.map(|id| WireConnection::new(&Arc::downgrade(self), id)).map_err(refused)
    }
}

impl WireConnection {
    pub(super) fn new(wire: &Weak<Wire>, id: CommunicationId) -> Self {
        Self { wire: Weak::clone(wire), id }
    }

    fn call(
        &self,
        work: impl FnOnce(&mut ConnectionManager<Instant>, Instant, CommunicationId) -> Result<(), CallError>,
    ) -> Result<(), Error> {
        let Some(wire) = self.wire.upgrade() else { return Err(refused(CallError::Unknown)) };
        let done = wire.with(|machine, now| work(&mut machine.manager, now, self.id));
        tell_soon(&wire);
        done.map_err(refused)
    }

    /// From now on somebody is told what becomes of it.
    pub(crate) fn follow(&self, follower: Arc<dyn Follows>) {
        if let Some(wire) = self.wire.upgrade() {
            wire.lock().followers.insert(self.id, follower);
        }
    }

    pub(crate) fn accept(&self, own: &ConnectionParameters, packet: u32) -> Result<(), Error> {
        let side = side(own, packet);
        self.call(|manager, now, id| manager.accept(now, id, &side, &own.private_data))
    }

    pub(crate) fn answer(&self, answer: ServiceAnswer, data: &[u8]) -> Result<(), Error> {
        self.call(|manager, now, id| manager.answer_service(now, id, answer, data))
    }

    pub(crate) fn reject(&self, reason: u8, data: &[u8]) {
        let _ = self.call(|manager, now, id| manager.reject(now, id, Reason(reason.into()), &[], data));
    }

    pub(crate) fn establish(&self) -> Result<(), Error> {
        self.call(|manager, _, id| manager.establish(id, &[]))
    }

    /// The peer is ready, as what it has sent shows.
    pub(crate) fn is_established(&self) {
        let _ = self.call(|manager, _, id| manager.communication_established(id));
    }

    /// Ends it, or agrees to its end.
    pub(crate) fn disconnect(&self) {
        let _ = self.call(|manager, now, id| {
            // Of one that was accepted the peer has not said yet that it knows.
            let _ = manager.communication_established(id);
            manager.disconnect(now, id, &[])
        });
    }

    /// There is no room for what it asks for: nothing is said, and who asks, asks again.
    pub(crate) fn ignore(self) {
        let _ = self.call(|manager, _, id| manager.ignore(id));
    }
}

impl Drop for WireConnection {
    fn drop(&mut self) {
        let Some(wire) = self.wire.upgrade().filter(|wire| wire.context.is_current()) else { return };
        let _ended = wire.with(|machine, now| {
            let _ = machine.manager.release(now, self.id);
            machine.followers.remove(&self.id)
        });
    }
}
