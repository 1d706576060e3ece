//! Sends of a peer, in fragments or pulled from its memory.

use std::sync::Arc;

use nonic_memory::SharedSlice;
use nonic_queue::{QpType, Status};
use nonic_transport::{Header, Incoming, Link, PullError, PullPiece, Refusal};

use super::{Inbound, Outcome, inbound};
use crate::async_event::AsyncEventKind;
use crate::limits::PIECES_MAX;
use crate::queue_pair::{Inner, QueuePair};
use crate::receive_queue::Receive;
use crate::requester::{DIRECT_CHUNK, Slices};

impl QueuePair {
    pub(super) fn take_send(&self, inner: &mut Inner, incoming: &Incoming<'_>) -> Outcome {
        let header = &incoming.header;
        let receive = match self.receive_under_way(inner, header) {
            Ok(receive) => receive,
            Err(outcome) => return outcome,
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

    /// The receive that the message's earlier fragments went to, or a new one if this is the first.
    pub(super) fn receive_under_way(&self, inner: &mut Inner, header: &Header) -> Result<Receive, Outcome> {
        match inner.responder.inbound.take() {
            Some(Inbound { receive: Some(receive), .. }) => Ok(receive),
            _ => self.receive_for(inner, header),
        }
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
            let pulled = link.pull(sender, &list, offset, &slices);
            self.engine().party().memory.device_wrote(&slices);
            if pulled.is_err() {
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
