//! The completer: takes a peer's answers to this side's requests.

use nonic_memory::{Access, SharedSlice};
use nonic_protocol::{Answer, BaseHeader, Extent, Psn, Refusal, Refused, ResponseStep, Status, WaitReason};

use crate::happening::Happening;
use crate::queue_pair::{Inner, QueuePair};
use crate::requester::{Slices, cut};

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
            self.witness.sees(Happening::Dropped);
        }
        self.pump(inner);
    }

    /// Everything before `psn` is done: an answer to a later message says so too. Stops at a request that waits for
    /// data.
    fn finish_before(&self, inner: &mut Inner, psn: Psn) {
        while inner.passes_oldest(psn) {
            self.finish(inner, Status::Success);
        }
    }

    #[inline]
    pub(crate) fn take_acknowledge(&self, inner: &mut Inner, psn: Psn) {
        // One that was repeated is harmless.
        if inner.is_under_way(psn) {
            self.finish_before(inner, psn.next());
        }
    }

    fn take_refusal(&self, inner: &mut Inner, base: BaseHeader, refusal: Refusal) -> bool {
        if !inner.is_refused(base) {
            return true;
        }
        if refusal.is_judgement() {
            self.finish_before(inner, base.psn);
        }
        self.witness.sees(Happening::Denied { psn: base.psn, refusal });
        match inner.take_refusal(base.psn, refusal) {
            Refused::Nothing => {}
            Refused::Nonsense => return false,
            Refused::WaitForAnswer => self.wait_for_answer(inner),
            Refused::WaitForReceive(wait) => self.wait(inner, wait, WaitReason::NotReady),
            Refused::RepeatWithBytes => {
                self.witness.sees(Happening::Repeated);
                if let Some(path) = &inner.path {
                    path.link.stop_pulls();
                }
            }
            Refused::Fail(status) => self.fail_oldest(inner, status),
        }
        true
    }

    /// Whether a response is to the oldest request, when those before it are done.
    fn answers_oldest(&self, inner: &mut Inner, psn: Psn) -> bool {
        if !inner.is_under_way(psn) {
            return false;
        }
        self.finish_before(inner, psn);
        inner.answers_oldest(psn)
    }

    fn take_atomic_response(&self, inner: &mut Inner, base: BaseHeader, old: u64) -> bool {
        if inner.is_outdated(base) {
            return true;
        }
        if !self.answers_oldest(inner, base.psn) {
            return false;
        }
        let step = inner.take_atomic_response();
        let mut old = old.to_ne_bytes();
        self.take_response(inner, base.psn, step, 0, SharedSlice::of_private(&mut old))
    }

    fn take_read_response(
        &self,
        inner: &mut Inner,
        base: BaseHeader,
        extent: Extent,
        payload: SharedSlice<'_>,
    ) -> bool {
        if inner.is_outdated(base) {
            return true;
        }
        if !self.answers_oldest(inner, base.psn) {
            return false;
        }
        let step = inner.take_read_response(extent, payload.length() as u32);
        self.take_response(inner, base.psn, step, extent.offset as usize, payload)
    }

    /// Does what is to be done about data for the oldest request; false if they make no sense.
    fn take_response(
        &self,
        inner: &mut Inner,
        psn: Psn,
        step: ResponseStep,
        offset: usize,
        data: SharedSlice<'_>,
    ) -> bool {
        match step {
            ResponseStep::Nonsense => return false,
            ResponseStep::Bad => {
                self.fail_oldest(inner, Status::BadResponse);
                return false;
            }
            ResponseStep::Place { .. } if !self.copy_response(inner, offset, data) => {
                self.fail_oldest(inner, Status::LocalProtection);
            }
            ResponseStep::Place { last: true } => {
                inner.has_its_data(psn);
                self.finish(inner, Status::Success);
            }
            ResponseStep::Place { last: false } => {}
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
