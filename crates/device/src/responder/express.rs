//! The express way of the responder: a short send that is the next, for a receive of one piece of the queue pair's own. It
//! passes the same checks and the same gate as any other message; whatever it meets that is not plain it leaves to the
//! ordinary way, before anything has moved.

use std::sync::Arc;

use nonic_memory::{Access, AddressRange, KeyUse};
use nonic_protocol::{CompletionOpcode, Status};
use nonic_transport::{Counter, IncomingShort, Link};

use crate::completion_queue::SendCredit;
use crate::queue_pair::QueuePair;
use crate::queue_pair::ReceivesFrom;

impl QueuePair {
    /// Takes a short send. False: nothing was done; the ordinary way takes it, or says what is wrong.
    #[inline]
    pub(crate) fn express_receive(&self, link: &Arc<Link>, incoming: &IncomingShort<'_>) -> bool {
        let IncomingShort { send, payload } = incoming;
        let mut inner = self.lock();
        let inner = &mut *inner;
        let from_peer = inner.attributes.destination_qp == send.base.source
            && inner.path.as_ref().is_some_and(|path| Arc::ptr_eq(&path.link, link));
        let plain = self.express && matches!(self.receives_from, ReceivesFrom::Own);
        let next = inner.may_take_at_once(send.base.psn);
        if !from_peer || !next || !plain || link.is_dead() {
            return false;
        }
        let Some(receive) = inner.receives.first() else { return false };
        let [piece] = receive.pieces.as_slice() else { return false };
        let length = payload.length() as u32;
        if payload.is_empty() || length > piece.length {
            return false;
        }
        let own = self.engine().party().memory.enter();
        let range = AddressRange::new(piece.address, length.into());
        let (zone, key, id) = (receive.zone, piece.key, receive.id);
        let Some(place) = own.find(zone, key, KeyUse::Local, range, Access::LOCAL_WRITE) else {
            return false;
        };
        place.copy_near_from(*payload);
        own.memory().device_wrote(&[place]);
        drop(own);
        inner.has_taken_at_once(send.base.psn);
        self.witness.counts([Counter::Received, Counter::ReceivedBytes], length);
        // The requests it answers end before the receive does, as their acknowledgement by itself would have them do.
        if let Some(psn) = send.acknowledges {
            inner.take_acknowledge(&mut { self }, psn);
        }
        self.receive_completions.push(SendCredit::NONE, send.solicited, |completion| {
            completion.set_bare(id, CompletionOpcode::Receive, Status::Success, self.number);
            completion.byte_length = length;
            completion.source_qp = send.base.source;
        });
        if send.acknowledges.is_some() && inner.awaits_answers() {
            inner.pump(&mut { self });
        }
        true
    }
}
