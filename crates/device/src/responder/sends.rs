//! Sends of a peer, in fragments or pulled from its memory.

use std::sync::Arc;

use nonic_memory::{Access, AddressRange, KeyUse, SharedSlice};
use nonic_queue::{QpType, Status};
use nonic_transport::{Header, Incoming, Link, PullError, PullPiece, Refusal};

use super::{Inbound, Outcome, inbound};
use crate::async_event::AsyncEventKind;
use crate::limits::PIECES_MAX;
use crate::queue_pair::{Inner, QueuePair};
use crate::receive_queue::Receive;
use crate::requester::{DIRECT_CHUNK, Slices};

impl QueuePair {
    /// Places a message that is here whole in a receive of one piece of the queue pair's own, without moving either about.
    /// False: nothing was done; the ordinary way takes it, or says what is wrong.
    #[inline]
    fn take_whole(&self, inner: &mut Inner, incoming: &Incoming<'_>) -> bool {
        let (header, payload) = (&incoming.header, incoming.payload);
        let plain = inner.responder.inbound.is_none() && self.shared_receives.is_none();
        if !plain || payload.length() != header.total as usize || payload.is_empty() {
            return false;
        }
        let Some(receive) = inner.receives.first() else { return false };
        let [piece] = receive.pieces.as_slice() else { return false };
        if header.total > piece.length {
            return false;
        }
        let memory = &self.engine().party().memory;
        let guard = memory.enter();
        let range = AddressRange::new(piece.address, header.total.into());
        let (zone, key, id) = (receive.zone, piece.key, receive.id);
        let Some(place) = memory.find(&guard, zone, key, KeyUse::Local, range, Access::LOCAL_WRITE) else {
            return false;
        };
        place.copy_near_from(payload);
        drop(guard);
        inner.receives.pass_first();
        inner.responder.held_since = None;
        self.complete_send(id, header);
        true
    }

    pub(super) fn take_send(&self, inner: &mut Inner, incoming: &Incoming<'_>) -> Outcome {
        if self.take_whole(inner, incoming) {
            return Outcome::Done(true);
        }
        let header = &incoming.header;
        let receive = match inner.responder.inbound.take() {
            Some(Inbound { receive: Some(receive), .. }) => receive,
            _ => match self.receive_for(inner, header) {
                Ok(receive) => receive,
                Err(outcome) => return outcome,
            },
        };
        if !self.place(&receive, header.offset.into(), incoming.payload) {
            return self.fail_receive(&receive, Status::LocalProtection, Refusal::Operation);
        }
        let received = header.offset + incoming.payload.length() as u32;
        if received < header.total {
            inner.responder.inbound = Some(inbound(header, received, Some(receive)));
            return Outcome::More;
        }
        self.complete_send(receive.id, header)
    }

    /// Takes a receive that is long enough for the message.
    pub(super) fn receive_for(&self, inner: &mut Inner, header: &Header) -> Result<Receive, Outcome> {
        let receive = self.take_receive(inner)?;
        if u64::from(header.total) <= receive.pieces.length() {
            return Ok(receive);
        }
        if self.transport == QpType::ReliableConnection {
            return Err(self.fail_receive(&receive, Status::LocalLength, Refusal::InvalidRequest));
        }
        inner.responder.inbound = Some(inbound(header, 0, Some(receive)));
        self.give_back_inbound(inner);
        Err(Outcome::Dropped)
    }

    /// A send whose bytes are still in the sender's memory.
    pub(super) fn take_pull(&self, inner: &mut Inner, link: &Arc<Link>, incoming: &Incoming<'_>) -> Outcome {
        let header = &incoming.header;
        let Some(list) = parse_list(incoming.payload, header.total) else {
            return Outcome::Fatal(Refusal::InvalidRequest, Some(AsyncEventKind::QpRequestError));
        };
        let sender = link.view().and_then(|view| view.segment.slot_place(header.source));
        let Some(sender) = sender else { return Outcome::Retry(Refusal::CannotPull) };
        match link.can_pull(sender, &list) {
            Ok(()) => {}
            Err(PullError::Unreachable) => return Outcome::Retry(Refusal::CannotPull),
            Err(PullError::Revoked | PullError::Copy(_)) => {
                return Outcome::Fatal(Refusal::RequesterMemory, None);
            }
        }
        let receive = match self.receive_for(inner, header) {
            Ok(receive) => receive,
            Err(outcome) => return outcome,
        };
        let (total, mut offset) = (u64::from(header.total), 0);
        while offset < total {
            // A part at a time, so that nobody who takes memory back waits for all of them.
            let count = (total - offset).min(DIRECT_CHUNK);
            let guard = self.engine().party().memory.enter();
            let mut slices = Slices::new();
            if !self.receive_bytes(&guard, &receive, offset, count, &mut slices) {
                return self.fail_receive(&receive, Status::LocalProtection, Refusal::Operation);
            }
            if link.pull(sender, &list, offset, &slices).is_err() {
                return self.fail_receive(&receive, Status::General, Refusal::RequesterMemory);
            }
            offset += count;
        }
        self.complete_send(receive.id, header)
    }
}

/// The sender's pieces of a send that is pulled; they add up to the message.
fn parse_list(payload: SharedSlice<'_>, total: u32) -> Option<arrayvec::ArrayVec<PullPiece, PIECES_MAX>> {
    const EACH: usize = PullPiece::LENGTH;
    let length = payload.length();
    if length % EACH != 0 || length > PIECES_MAX * EACH {
        return None;
    }
    let mut bytes = [0; PIECES_MAX * EACH];
    payload.read(&mut bytes[..length]);
    let list: arrayvec::ArrayVec<_, PIECES_MAX> =
        bytes[..length].as_chunks::<EACH>().0.iter().map(PullPiece::from_bytes).collect();
    let sum: u64 = list.iter().map(|piece| piece.range.length).sum();
    (sum == u64::from(total)).then_some(list)
}
