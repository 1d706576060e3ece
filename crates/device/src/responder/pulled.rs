//! Sends of a peer that are pulled from its memory.

use std::sync::Arc;

use nonic_memory::SharedSlice;
use nonic_protocol::{
    AffiliatedError, Arrived, BaseHeader, CompletionOpcode, Outcome, Refusal, SendPull, Status, fail_receive,
};
use nonic_transport::{Link, PullError, PullPiece};

use crate::bytes::Slices;
use crate::limits::PIECES_MAX;
use crate::peer_access::receive_bytes;
use crate::queue_pair::{Inner, QueuePair};
use crate::requester::DIRECT_CHUNK;

impl QueuePair {
    /// A send whose bytes are still in the sender's memory.
    pub(crate) fn take_pull(
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
        if !self.is_asked_here() {
            // They go to another process, which has no way to the sender's memory.
            return Outcome::Retry(Refusal::CannotPull);
        }
        let sender = link.view().and_then(|view| view.segment.slot_place(base.source));
        let Some(sender) = sender else { return Outcome::Retry(Refusal::CannotPull) };
        let access = match link.begin_pull(sender, &list) {
            Ok(access) => access,
            Err(PullError::Unreachable) => return Outcome::Retry(Refusal::CannotPull),
            // If its port opens again it repeats.
            Err(PullError::Withdrawn) => return Outcome::Retry(Refusal::NoAnswer),
            Err(PullError::Revoked | PullError::Copy(_)) => {
                return Outcome::Fatal(Refusal::RequesterMemory, None);
            }
        };
        let receive = match inner.receive_for(&mut { self }, total) {
            Ok(receive) => receive,
            Err(outcome) => return outcome,
        };
        // Held for the first part. Each other one begins anew, so that nobody who takes memory back waits for all of them.
        let mut held = Some(access);
        let mut offset = 0;
        while offset < u64::from(total) {
            let count = (u64::from(total) - offset).min(DIRECT_CHUNK);
            let own = self.engine().party().memory.enter();
            let mut slices = Slices::new();
            if !receive_bytes(&own, &receive, offset, count, &mut slices) {
                return fail_receive(&mut { self }, &receive, Status::LocalProtection, Refusal::Operation);
            }
            let access = held.take().map_or_else(|| link.begin_pull(sender, &list), Ok);
            let pulled = access.and_then(|access| link.pull(&access, offset, &slices));
            own.memory().device_wrote(&slices);
            if own.has_faulted() {
                return fail_receive(&mut { self }, &receive, Status::LocalProtection, Refusal::Operation);
            }
            if let Err(PullError::Withdrawn) = pulled {
                self.put_receive_back(&mut inner.receives, receive);
                return Outcome::Retry(Refusal::NoAnswer);
            }
            if pulled.is_err() {
                return fail_receive(&mut { self }, &receive, Status::General, Refusal::RequesterMemory);
            }
            offset += count;
        }
        let opcode = CompletionOpcode::Receive;
        self.complete_message(receive.id, base.source, Arrived { opcode, total, immediate, solicited });
        Outcome::Done(true)
    }
}

/// The sender's pieces of a send that is pulled; they add up to the message.
fn parse_list(payload: SharedSlice<'_>, total: u32) -> Option<arrayvec::ArrayVec<PullPiece, PIECES_MAX>> {
    const EACH: usize = PullPiece::LENGTH;
    let length = payload.length();
    if !length.is_multiple_of(EACH) || length > PIECES_MAX * EACH {
        return None;
    }
    let mut bytes = [0; PIECES_MAX * EACH];
    payload.read(&mut bytes[..length]);
    let list: arrayvec::ArrayVec<_, PIECES_MAX> =
        bytes[..length].as_chunks::<EACH>().0.iter().map(PullPiece::from_bytes).collect();
    let sum: u64 = list.iter().map(|piece| piece.range.length).sum();
    (sum == u64::from(total)).then_some(list)
}
