//! Receives: taking one, placing bytes in it, and showing it to the program.

use std::time::Instant;

use nonic_memory::{Access, AddressRange, KeyUse, OperationGuard, SharedSlice, ZoneId};
use nonic_protocol::{BaseHeader, CompletionOpcode, Outcome, Receive, Refusal, ScatterGather, Status};

use crate::completion_queue::SendCredit;
use crate::queue_pair::{Inner, QueuePair};
use crate::requester::Slices;

/// What is shown of a message that has arrived.
pub(super) struct Arrived {
    pub(super) opcode: CompletionOpcode,
    /// Length in bytes.
    pub(super) total: u32,
    /// Immediate data, or the key that was taken out of use.
    pub(super) immediate: Option<u32>,
    pub(super) solicited: bool,
}

impl QueuePair {
    /// The next receive, or what to do without one.
    pub(super) fn take_receive(&self, inner: &mut Inner) -> Result<Receive, Outcome> {
        let receive = match &self.shared_receives {
            Some(queue) => queue.take(),
            None => inner.receives.take(),
        };
        if let Some(receive) = receive {
            inner.responder.found_receive();
            return Ok(receive);
        }
        Err(self.without_receive(inner))
    }

    /// A receive is the next again: what it was taken for did not come.
    pub(super) fn give_back_receive(&self, inner: &mut Inner, receive: Receive) {
        match &self.shared_receives {
            Some(queue) => queue.give_back(receive),
            None => inner.receives.give_back(receive),
        }
    }

    pub(super) fn has_receive(&self, inner: &Inner) -> bool {
        match &self.shared_receives {
            Some(queue) => !queue.is_empty(),
            None => inner.receives.length() > 0,
        }
    }

    pub(super) fn without_receive(&self, inner: &mut Inner) -> Outcome {
        let owes_poll = || self.receive_completions.has_entries();
        let timer = inner.attributes.min_rnr_timer;
        inner.responder.without_receive(self.transport, timer, owes_poll, Instant::now)
    }

    /// Puts into `slices` the parts of a receive's pieces that hold `count` bytes from `offset`. False: its keys do not
    /// allow it, or it is shorter.
    pub(super) fn receive_bytes<'a>(
        &'a self,
        guard: &'a OperationGuard<'_>,
        receive: &Receive,
        offset: u64,
        count: u64,
        slices: &mut Slices<'a>,
    ) -> bool {
        let memory = &self.engine().party().memory;
        let resolve = |zone: ZoneId, piece: &ScatterGather, skip: u64, length: u64| {
            let range = AddressRange::new(piece.address.checked_add(skip)?, length);
            memory.resolve(guard, zone, piece.key, KeyUse::Local, range, Access::LOCAL_WRITE).ok()
        };
        let (mut offset, mut count) = (offset, count);
        for piece in receive.pieces.as_slice() {
            if count == 0 {
                break;
            }
            let length = u64::from(piece.length);
            if offset >= length {
                offset -= length;
                continue;
            }
            let take = count.min(length - offset);
            let Some(slice) = resolve(receive.zone, piece, offset, take) else { return false };
            slices.push(slice);
            (offset, count) = (0, count - take);
        }
        count == 0
    }

    pub(super) fn place(&self, receive: &Receive, offset: u64, payload: SharedSlice<'_>) -> bool {
        let guard = self.engine().party().memory.enter();
        let mut slices = Slices::new();
        if !self.receive_bytes(&guard, receive, offset, payload.length() as u64, &mut slices) {
            return false;
        }
        let mut at = 0;
        for slice in &slices {
            slice.copy_near_from(payload.part(at, slice.length()));
            at += slice.length();
        }
        self.engine().party().memory.device_wrote(&slices);
        true
    }

    /// A receive that cannot take its message: it fails, and the connection with it.
    pub(super) fn fail_receive(&self, receive: &Receive, status: Status, refusal: Refusal) -> Outcome {
        self.complete_receive(receive, status);
        Outcome::Fatal(refusal, None)
    }

    #[inline]
    pub(super) fn complete_message(&self, id: u64, base: BaseHeader, arrived: Arrived) -> Outcome {
        self.receive_is_over();
        self.receive_completions.push(SendCredit::NONE, arrived.solicited, |completion| {
            completion.set_bare(id, arrived.opcode, Status::Success, self.number);
            completion.byte_length = arrived.total;
            completion.immediate = arrived.immediate;
            completion.source_qp = base.source;
        });
        Outcome::Done(true)
    }
}
