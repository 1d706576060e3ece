//! The completer: takes a peer's answers to this side's requests.

use std::sync::atomic::Ordering;

use nonic_memory::{Access, SharedSlice};
use nonic_protocol::{Answer, BaseHeader, Extent, Psn, Refusal};
use nonic_queue::{Operation, Status};

use crate::queue_pair::{Inner, QueuePair};
use crate::requester::{Slices, WaitReason, cut, rnr_wait};

impl QueuePair {
    /// Handles an acknowledgement, a refusal or a response of the peer.
    pub(crate) fn take_answer(
        &self,
        inner: &mut Inner,
        base: BaseHeader,
        answer: Answer,
        payload: SharedSlice<'_>,
    ) {
        let makes_sense = match answer {
            Answer::Acknowledge => {
                self.take_acknowledge(inner, base.psn);
                true
            }
            Answer::Refuse(refusal) => self.take_refusal(inner, base, refusal),
            Answer::ReadResponse(extent) => self.take_read_response(inner, base, extent, payload),
            Answer::AtomicResponse { old } => self.take_atomic_response(inner, base, old),
        };
        if !makes_sense {
            self.refused_messages.fetch_add(1, Ordering::Relaxed);
        }
        self.pump(inner);
    }

    /// Whether `psn` is of a message under way, or of the one that is being sent in fragments.
    fn is_under_way(inner: &Inner, psn: Psn) -> bool {
        let requester = &inner.requester;
        let last = if requester.sent > 0 { 0 } else { -1 };
        psn.ahead_of(requester.unanswered) >= 0 && psn.ahead_of(requester.next) <= last
    }

    /// Everything before `psn` is done: an answer to a later message says so too. Stops at a request that waits for
    /// data.
    fn finish_before(&self, inner: &mut Inner, psn: Psn) {
        while inner.send.finished < inner.send.started {
            let slot = inner.send.slot(inner.send.finished);
            if slot.psn.ahead_of(psn) >= 0 || slot.awaits_data() {
                break;
            }
            self.finish_answered(inner, slot.psn);
        }
    }

    fn finish_answered(&self, inner: &mut Inner, psn: Psn) {
        inner.requester.unanswered = psn.next();
        let Inner { requester, attributes, .. } = &mut *inner;
        requester.refill(attributes);
        self.finish(inner, Status::Success);
    }

    #[inline]
    pub(crate) fn take_acknowledge(&self, inner: &mut Inner, psn: Psn) {
        // One that was repeated is harmless.
        if !inner.send.nothing_in_flight() && Self::is_under_way(inner, psn) {
            self.finish_before(inner, psn.next());
        }
    }

    fn take_refusal(&self, inner: &mut Inner, base: BaseHeader, refusal: Refusal) -> bool {
        let psn = base.psn;
        if base.attempt != inner.requester.attempt || !Self::is_under_way(inner, psn) {
            // Of an attempt that was given up already.
            return true;
        }
        if matches!(refusal, Refusal::NoAnswer | Refusal::OutOfSequence) {
            // These say nothing of earlier messages: they are no judgement of the one they name.
            if inner.requester.wait.is_none() {
                Self::take_back(inner);
                self.wait_for_answer(inner);
            }
            return true;
        }
        self.finish_before(inner, psn);
        if inner.requester.unanswered != psn {
            return false;
        }
        if let Refusal::NotReady { timer } = refusal {
            if inner.requester.wait.is_none() {
                self.take_not_ready(inner, timer);
            }
            return true;
        }
        if refusal == Refusal::CannotPull {
            // At once, and with its bytes.
            if let Some(path) = &inner.path {
                path.link.stop_pulls();
            }
            Self::take_back(inner);
            inner.requester.restart();
            return true;
        }
        Self::take_back(inner);
        inner.requester.wait = None;
        let status = match refusal {
            Refusal::InvalidRequest => Status::RemoteInvalidRequest,
            Refusal::Access => Status::RemoteAccess,
            Refusal::RequesterMemory => Status::LocalProtection,
            _ => Status::RemoteOperation,
        };
        self.fail_oldest(inner, status);
        true
    }

    /// Nothing from the refused message on was done: all of it is repeated, or fails.
    fn take_back(inner: &mut Inner) {
        inner.take_back();
        (inner.requester.sent, inner.requester.reads, inner.requester.read_received) = (0, 0, 0);
    }

    fn take_not_ready(&self, inner: &mut Inner, timer: u8) {
        const FOR_EVER: u8 = 7;
        Self::take_back(inner);
        if inner.requester.rnr_retries == 0 {
            self.fail_oldest(inner, Status::RnrRetryExceeded);
            return;
        }
        if inner.attributes.rnr_retry != FOR_EVER {
            inner.requester.rnr_retries -= 1;
        }
        self.wait(inner, rnr_wait(timer), WaitReason::NotReady);
    }

    /// Whether a response is of an attempt that was given up already, so that nothing is to be done with it.
    fn is_outdated(inner: &Inner, base: BaseHeader) -> bool {
        base.attempt != inner.requester.attempt || inner.requester.wait.is_some()
    }

    /// Whether a response is to the oldest request, when those before it are done.
    fn answers_oldest(&self, inner: &mut Inner, psn: Psn) -> bool {
        if !Self::is_under_way(inner, psn) {
            return false;
        }
        self.finish_before(inner, psn);
        !inner.send.nothing_in_flight() && inner.send.slot(inner.send.finished).psn == psn
    }

    fn take_atomic_response(&self, inner: &mut Inner, base: BaseHeader, old: u64) -> bool {
        if Self::is_outdated(inner, base) {
            return true;
        }
        if !self.answers_oldest(inner, base.psn) {
            return false;
        }
        let slot = inner.send.slot(inner.send.finished);
        if !slot.awaits_data() || matches!(slot.operation, Operation::Read { .. }) {
            return false;
        }
        let mut old = old.to_ne_bytes();
        self.place_response(inner, base.psn, 0, SharedSlice::of_private(&mut old), true)
    }

    fn take_read_response(
        &self,
        inner: &mut Inner,
        base: BaseHeader,
        extent: Extent,
        payload: SharedSlice<'_>,
    ) -> bool {
        if Self::is_outdated(inner, base) {
            return true;
        }
        if !self.answers_oldest(inner, base.psn) {
            return false;
        }
        let slot = inner.send.slot(inner.send.finished);
        if !matches!(slot.operation, Operation::Read { .. }) {
            return false;
        }
        if u64::from(extent.total) != slot.total || extent.offset != inner.requester.read_received {
            self.fail_oldest(inner, Status::BadResponse);
            return false;
        }
        let received = extent.offset + payload.length() as u32;
        inner.requester.read_received = received;
        let last = received == extent.total;
        self.place_response(inner, base.psn, extent.offset as usize, payload, last)
    }

    /// Places data where the oldest request wants it.
    fn place_response(
        &self,
        inner: &mut Inner,
        psn: Psn,
        offset: usize,
        data: SharedSlice<'_>,
        last: bool,
    ) -> bool {
        if !self.copy_response(inner, offset, data) {
            self.fail_oldest(inner, Status::LocalProtection);
        } else if last {
            inner.requester.read_received = 0;
            inner.requester.reads = inner.requester.reads.saturating_sub(1);
            self.finish_answered(inner, psn);
        }
        true
    }

    /// Copies data to the local memory of the oldest request; false if its keys do not allow it.
    fn copy_response(&self, inner: &Inner, offset: usize, data: SharedSlice<'_>) -> bool {
        let guard = self.engine().party().memory.enter();
        let mut slices = Slices::new();
        if self.local_bytes(inner, &guard, inner.send.finished, Access::LOCAL_WRITE, &mut slices).is_err() {
            return false;
        }
        let mut at = 0;
        let slices = cut(&slices, offset, data.length());
        for slice in &slices {
            slice.copy_near_from(data.part(at, slice.length()));
            at += slice.length();
        }
        self.engine().party().memory.device_wrote(&slices);
        true
    }
}
