//! Sends of a peer, in fragments or pulled from its memory.

use std::sync::Arc;

use nonic_memory::{Access, AddressRange, KeyUse, SharedSlice};
use nonic_queue::{QpType, Status};
use nonic_transport::{Header, Incoming, Link, Refusal, pull};

use super::{Inbound, Outcome, inbound};
use crate::async_event::AsyncEventKind;
use crate::limits::PIECES_MAX;
use crate::queue_pair::{Inner, QueuePair};
use crate::receive_queue::Receive;
use crate::requester::Slices;

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
        let Ok(place) = memory.resolve(&guard, zone, key, KeyUse::Local, range, Access::LOCAL_WRITE) else {
            return false;
        };
        place.copy_from(payload);
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
        if !link.can_reach() {
            return Outcome::Fatal(Refusal::Operation, None);
        }
        let receive = match self.receive_for(inner, header) {
            Ok(receive) => receive,
            Err(outcome) => return outcome,
        };
        let guard = self.engine().party().memory.enter();
        let mut slices = Slices::new();
        if !self.receive_bytes(&guard, &receive, 0, header.total.into(), &mut slices) {
            return self.fail_receive(&receive, Status::LocalProtection, Refusal::Operation);
        }
        if pull(link, &list, &slices).is_err() {
            return self.fail_receive(&receive, Status::General, Refusal::RequesterMemory);
        }
        self.complete_send(receive.id, header)
    }
}

/// The sender's pieces of a send that is pulled: pairs of address and length that add up to the message.
pub(super) fn parse_list(
    payload: SharedSlice<'_>,
    total: u32,
) -> Option<arrayvec::ArrayVec<(u64, u64), PIECES_MAX>> {
    const PAIR: usize = 16;
    let length = payload.length();
    if length % PAIR != 0 || length > PIECES_MAX * PAIR {
        return None;
    }
    let mut bytes = [0; PIECES_MAX * PAIR];
    payload.read(&mut bytes[..length]);
    let mut list = arrayvec::ArrayVec::new();
    let mut sum = 0u64;
    for pair in bytes[..length].as_chunks::<PAIR>().0 {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| pair[at + i]));
        sum = sum.checked_add(word(8))?;
        list.push((word(0), word(8)));
    }
    (sum == u64::from(total)).then_some(list)
}
