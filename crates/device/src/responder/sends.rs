//! Sends of a peer, in fragments or pulled from its memory.

use std::sync::Arc;

use nonic_memory::SharedSlice;
use nonic_protocol::{
    AffiliatedError, BaseHeader, CompletionOpcode, Outcome, QpType, Receive, Refusal, SendFragment, SendPull,
    Status,
};
use nonic_transport::{Link, PullError, PullPiece};

use super::receives::Arrived;
use crate::limits::PIECES_MAX;
use crate::queue_pair::{Inner, QueuePair};
use crate::requester::{DIRECT_CHUNK, Slices};

impl QueuePair {
    pub(super) fn take_send(
        &self,
        inner: &mut Inner,
        base: BaseHeader,
        send: &SendFragment,
        payload: SharedSlice<'_>,
    ) -> Outcome {
        let SendFragment { extent, immediate, solicited, .. } = *send;
        let receive = match self.receive_under_way(inner, extent.total) {
            Ok(receive) => receive,
            Err(outcome) => return outcome,
        };
        if !self.place(&receive, extent.offset.into(), payload) {
            return self.fail_receive(&receive, Status::LocalProtection, Refusal::Operation);
        }
        let received = extent.offset + payload.length() as u32;
        if received < extent.total {
            return Outcome::More(received, Some(receive));
        }
        let (opcode, total) = (CompletionOpcode::Receive, extent.total);
        self.complete_message(receive.id, base, Arrived { opcode, total, immediate, solicited })
    }

    /// The receive that the message's earlier fragments went to, or a new one if this is the first.
    pub(super) fn receive_under_way(&self, inner: &mut Inner, total: u32) -> Result<Receive, Outcome> {
        match inner.responder.break_off() {
            Some(receive) => Ok(receive),
            None => self.receive_for(inner, total),
        }
    }

    /// Takes a receive that is long enough for the message.
    pub(super) fn receive_for(&self, inner: &mut Inner, total: u32) -> Result<Receive, Outcome> {
        let receive = self.take_receive(inner)?;
        if u64::from(total) <= receive.pieces.length() {
            return Ok(receive);
        }
        if self.transport == QpType::ReliableConnection {
            return Err(self.fail_receive(&receive, Status::LocalLength, Refusal::InvalidRequest));
        }
        self.give_back_receive(inner, receive);
        Err(Outcome::Dropped)
    }

    /// A send whose bytes are still in the sender's memory.
    pub(super) fn take_pull(
        &self,
        inner: &mut Inner,
        link: &Arc<Link>,
        base: BaseHeader,
        send: &SendPull,
        payload: SharedSlice<'_>,
    ) -> Outcome {
        let SendPull { total, immediate, solicited, .. } = *send;
        let Some(list) = parse_list(payload, total) else {
            return Outcome::Fatal(Refusal::InvalidRequest, Some(AffiliatedError::InvalidRequest));
        };
        let sender = link.view().and_then(|view| view.segment.slot_place(base.source));
        let Some(sender) = sender else { return Outcome::Retry(Refusal::CannotPull) };
        match link.can_pull(sender, &list) {
            Ok(()) => {}
            Err(PullError::Unreachable) => return Outcome::Retry(Refusal::CannotPull),
            Err(PullError::Revoked | PullError::Copy(_)) => {
                return Outcome::Fatal(Refusal::RequesterMemory, None);
            }
        }
        let receive = match self.receive_for(inner, total) {
            Ok(receive) => receive,
            Err(outcome) => return outcome,
        };
        let mut offset = 0;
        while offset < u64::from(total) {
            // A part at a time, so that nobody who takes memory back waits for all of them.
            let count = (u64::from(total) - offset).min(DIRECT_CHUNK);
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
        let opcode = CompletionOpcode::Receive;
        self.complete_message(receive.id, base, Arrived { opcode, total, immediate, solicited })
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
