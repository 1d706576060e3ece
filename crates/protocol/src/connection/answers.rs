//! The completer: what the peer's answers say of what is under way (IBTA vol. 1, 9.7.5, 9.7.6).

use core::time::Duration;

use super::Connection;
use crate::completion::Status;
use crate::happening::Happening;
use crate::message::{Answer, BaseHeader, Extent};
use crate::number::Psn;
use crate::refusal::Refusal;
use crate::requester::WaitReason;
use crate::surroundings::Surroundings;
use crate::timer::{Moment, rnr_wait};

/// The RNR retry count that stands for no end (9.7.5).
const FOR_EVER: u8 = 7;

/// What is to be done about a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// Nothing.
    Nothing,
    /// It makes no sense: count it.
    Nonsense,
    /// Wait as for an answer that does not come, then repeat.
    WaitForAnswer,
    /// Wait so long for the peer to post a receive, then repeat.
    WaitForReceive(Duration),
    /// Repeat at once, with the bytes in the message.
    RepeatWithBytes,
    /// The oldest request failed.
    Fail(Status),
}

/// What is to be done about bytes that answer the oldest request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResponseStep {
    /// Place them; whether they are the last.
    Place {
        /// Nothing follows.
        last: bool,
    },
    /// They are not what was asked for: the request failed.
    Bad,
    /// They answer another kind of request: count it.
    Nonsense,
}

impl<P, T> Connection<P, T> {
    /// Whether `psn` is of a message under way, or of the one that is being sent in fragments.
    #[inline]
    pub(super) fn is_under_way(&self, psn: Psn) -> bool {
        let last = if self.requester.sent > 0 { 0 } else { -1 };
        psn.ahead_of(self.requester.unanswered) >= 0 && psn.ahead_of(self.requester.next) <= last
    }

    /// Whether the oldest request under way is done when everything before `psn` is: an answer to a later message says so
    /// (9.7.5, coalesced acknowledgements), but of a request that waits for data. If it is, it is answered from now on, and has
    /// only to be finished.
    #[inline]
    pub(super) fn passes_oldest(&mut self, psn: Psn) -> bool {
        let Some(oldest) = self.oldest_psn() else { return false };
        if oldest.ahead_of(psn) >= 0 || self.send.slot(self.send.finished).awaits_data() {
            return false;
        }
        self.was_answered(oldest);
        true
    }

    /// The peer has answered this number, which is that of the oldest request.
    #[inline]
    pub(super) fn was_answered(&mut self, psn: Psn) {
        self.requester.unanswered = psn.next();
        self.requester.refill(&self.attributes);
    }

    /// Whether a refusal concerns something under way, and not an attempt that was given up already. If it is no judgement
    /// of the message it names, it says nothing of earlier ones either ([`Refusal::is_judgement`]).
    pub(super) fn is_refused(&self, base: BaseHeader) -> bool {
        base.attempt() == self.requester.attempt && self.is_under_way(base.psn) && self.is_sending()
    }

    /// Takes a refusal of something under way ([`Connection::is_refused`]). If it is a judgement, everything before the message
    /// it names has been finished ([`Connection::passes_oldest`]).
    pub(super) fn take_refusal(&mut self, psn: Psn, refusal: Refusal) -> Refused {
        if !refusal.is_judgement() {
            if self.requester.wait.is_some() {
                return Refused::Nothing;
            }
            self.give_up_attempt();
            return Refused::WaitForAnswer;
        }
        if self.requester.unanswered != psn {
            return Refused::Nonsense;
        }
        match refusal {
            Refusal::NotReady { .. } if self.requester.wait.is_some() => return Refused::Nothing,
            Refusal::NotReady { timer } => {
                self.give_up_attempt();
                return self.take_not_ready(timer);
            }
            Refusal::CannotPull => {
                self.give_up_attempt();
                self.requester.restart();
                return Refused::RepeatWithBytes;
            }
            _ => {}
        }
        self.give_up_attempt();
        self.requester.wait = None;
        Refused::Fail(match refusal {
            Refusal::InvalidRequest => Status::RemoteInvalidRequest,
            Refusal::Access => Status::RemoteAccess,
            Refusal::RequesterMemory => Status::LocalProtection,
            _ => Status::RemoteOperation,
        })
    }

    /// The peer had no receive: one retry less, unless there is no end to them (9.7.5, 9.9.2.1).
    fn take_not_ready(&mut self, timer: u8) -> Refused {
        if self.requester.rnr_retries == 0 {
            return Refused::Fail(Status::RnrRetryExceeded);
        }
        if self.attributes.rnr_retry != FOR_EVER {
            self.requester.rnr_retries -= 1;
        }
        Refused::WaitForReceive(rnr_wait(timer))
    }

    /// The peer takes what it declined: whether that is repeated now. Only once until something is answered, whatever the peer says.
    pub(super) fn take_readiness(&mut self) -> bool {
        let waits = matches!(self.requester.wait, Some((_, WaitReason::NoAnswer))) && self.is_sending();
        let repeats = waits && !core::mem::replace(&mut self.requester.heard_ready, true);
        if repeats {
            self.take_back();
            self.requester.restart();
        }
        repeats
    }

    /// Nothing from the refused message on was done: all of it is repeated, or fails.
    fn give_up_attempt(&mut self) {
        self.take_back();
        (self.requester.sent, self.requester.reads, self.requester.read_received) = (0, 0, 0);
    }

    /// Whether a response is of an attempt that was given up already, so that nothing is to be done with it.
    pub(super) fn is_outdated(&self, base: BaseHeader) -> bool {
        base.attempt() != self.requester.attempt || self.requester.wait.is_some()
    }

    /// Whether a response is to the oldest request. Those before it have been finished ([`Connection::passes_oldest`]).
    pub(super) fn answers_oldest(&self, psn: Psn) -> bool {
        self.oldest_psn() == Some(psn)
    }

    /// Takes `length` bytes of a read from the peer (9.7.6); they answer the oldest request.
    pub(super) fn take_read_response(&mut self, extent: Extent, length: u32) -> ResponseStep {
        let slot = self.send.slot(self.send.finished);
        if !slot.operation.is_answered_as_read() {
            return ResponseStep::Nonsense;
        }
        let next = extent.offset == self.requester.read_received && extent.holds(length);
        if u64::from(extent.total) != slot.total || !next {
            return ResponseStep::Bad;
        }
        let received = extent.offset + length;
        self.requester.read_received = received;
        ResponseStep::Place { last: received == extent.total }
    }

    /// Takes the result of an atomic (9.7.6); it answers the oldest request.
    pub(super) fn take_atomic_response(&mut self) -> ResponseStep {
        let slot = self.send.slot(self.send.finished);
        if !slot.awaits_data() || slot.operation.is_answered_as_read() {
            return ResponseStep::Nonsense;
        }
        ResponseStep::Place { last: true }
    }

    /// All the bytes are placed that the oldest request waited for.
    pub(super) fn has_its_data(&mut self, psn: Psn) {
        self.requester.read_received = 0;
        self.requester.reads = self.requester.reads.saturating_sub(1);
        self.was_answered(psn);
    }
}

impl<P, T: Moment> Connection<P, T> {
    /// Takes an acknowledgement, a refusal or a response of the peer; false: it makes no sense.
    pub(super) fn take_answer<S: Surroundings<P, T>>(
        &mut self,
        around: &mut S,
        base: BaseHeader,
        answer: Answer,
        arrival: S::Arrival<'_>,
    ) -> bool {
        match answer {
            Answer::Acknowledge => {
                self.take_acknowledge(around, base.psn);
                true
            }
            Answer::Refuse(refusal) => self.take_refused(around, base, refusal),
            Answer::Ready => {
                if self.take_readiness() {
                    around.sees(Happening::Repeated);
                }
                true
            }
            Answer::ReadResponse(extent) => self.take_response(
                around,
                base,
                |connection| connection.take_read_response(extent, S::length(arrival)),
                |connection, around| around.place_answer(connection, extent.offset, arrival),
            ),
            Answer::AtomicResponse { old } => self.take_response(
                around,
                base,
                |connection| connection.take_atomic_response(),
                |connection, around| around.place_old(connection, old),
            ),
        }
    }

    /// Everything up to `psn` is done (9.7.5).
    #[inline(always)]
    pub fn take_acknowledge<S: Surroundings<P, T>>(&mut self, around: &mut S, psn: Psn) {
        // One that was repeated is harmless.
        if self.is_under_way(psn) {
            self.finish_before(around, psn.next());
        }
    }

    /// Everything before `psn` is done: an answer to a later message says so too. Stops at a request that waits for data.
    #[inline(always)]
    fn finish_before<S: Surroundings<P, T>>(&mut self, around: &mut S, psn: Psn) {
        while self.passes_oldest(psn) {
            self.finish(around, Status::Success);
        }
    }

    fn take_refused<S: Surroundings<P, T>>(
        &mut self,
        around: &mut S,
        base: BaseHeader,
        refusal: Refusal,
    ) -> bool {
        if !self.is_refused(base) {
            return true;
        }
        if refusal.is_judgement() {
            self.finish_before(around, base.psn);
        }
        around.sees(Happening::Denied { psn: base.psn, refusal });
        match self.take_refusal(base.psn, refusal) {
            Refused::Nothing => {}
            Refused::Nonsense => return false,
            Refused::WaitForAnswer => self.wait_for_answer(around),
            Refused::WaitForReceive(wait) => self.wait(around, wait, WaitReason::NotReady),
            Refused::RepeatWithBytes => {
                around.sees(Happening::Repeated);
                if let Some(path) = &self.path {
                    around.stop_pulls(path);
                }
            }
            Refused::Fail(status) => self.fail_oldest(around, status),
        }
        true
    }

    /// Takes data for the oldest request: `judge` says what is to be done about them. False if they make no sense.
    fn take_response<S: Surroundings<P, T>>(
        &mut self,
        around: &mut S,
        base: BaseHeader,
        judge: impl FnOnce(&mut Self) -> ResponseStep,
        place: impl FnOnce(&Self, &mut S) -> bool,
    ) -> bool {
        if self.is_outdated(base) {
            return true;
        }
        if !self.is_under_way(base.psn) {
            return false;
        }
        self.finish_before(around, base.psn);
        if !self.answers_oldest(base.psn) {
            return false;
        }
        match judge(self) {
            ResponseStep::Nonsense => return false,
            ResponseStep::Bad => {
                self.fail_oldest(around, Status::BadResponse);
                return false;
            }
            ResponseStep::Place { .. } if !place(self, around) => {
                self.fail_oldest(around, Status::LocalProtection);
            }
            ResponseStep::Place { last: true } => {
                self.has_its_data(base.psn);
                self.finish(around, Status::Success);
            }
            ResponseStep::Place { last: false } => {}
        }
        true
    }
}
