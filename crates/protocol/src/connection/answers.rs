//! What the peer's answers say of what is under way (9.7.6).

use core::time::Duration;

use super::Connection;
use crate::completion::Status;
use crate::message::{BaseHeader, Extent};
use crate::number::Psn;
use crate::refusal::Refusal;
use crate::timer::rnr_wait;
use crate::work_request::Operation;

/// The RNR retry count that stands for no end (9.7.5).
const FOR_EVER: u8 = 7;

/// What is to be done about a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
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
pub enum ResponseStep {
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
    pub fn is_under_way(&self, psn: Psn) -> bool {
        let last = if self.requester.sent > 0 { 0 } else { -1 };
        psn.ahead_of(self.requester.unanswered) >= 0 && psn.ahead_of(self.requester.next) <= last
    }

    /// Whether the oldest request under way is done when everything before `psn` is: an answer to a later message says so
    /// (9.7.5, coalesced acknowledgements), but of a request that waits for data. If it is, it is answered from now on, and has
    /// only to be finished.
    #[inline]
    pub fn passes_oldest(&mut self, psn: Psn) -> bool {
        let Some(oldest) = self.oldest_psn() else { return false };
        if oldest.ahead_of(psn) >= 0 || self.send.slot(self.send.finished).awaits_data() {
            return false;
        }
        self.was_answered(oldest);
        true
    }

    /// The peer has answered this number, which is that of the oldest request.
    #[inline]
    pub fn was_answered(&mut self, psn: Psn) {
        self.requester.unanswered = psn.next();
        self.requester.refill(&self.attributes);
    }

    /// Whether a refusal concerns something under way, and not an attempt that was given up already. If it is no judgement
    /// of the message it names, it says nothing of earlier ones either ([`Refusal::is_judgement`]).
    pub fn is_refused(&self, base: BaseHeader) -> bool {
        base.attempt == self.requester.attempt && self.is_under_way(base.psn) && self.is_sending()
    }

    /// Takes a refusal of something under way ([`Connection::is_refused`]). If it is a judgement, everything before the message
    /// it names has been finished ([`Connection::passes_oldest`]).
    pub fn take_refusal(&mut self, psn: Psn, refusal: Refusal) -> Refused {
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

    /// Nothing from the refused message on was done: all of it is repeated, or fails.
    fn give_up_attempt(&mut self) {
        self.take_back();
        (self.requester.sent, self.requester.reads, self.requester.read_received) = (0, 0, 0);
    }

    /// Whether a response is of an attempt that was given up already, so that nothing is to be done with it.
    pub fn is_outdated(&self, base: BaseHeader) -> bool {
        base.attempt != self.requester.attempt || self.requester.wait.is_some()
    }

    /// Whether a response is to the oldest request. Those before it have been finished ([`Connection::passes_oldest`]).
    pub fn answers_oldest(&self, psn: Psn) -> bool {
        self.oldest_psn() == Some(psn)
    }

    /// Takes `length` bytes of a read from the peer (9.7.6); they answer the oldest request.
    pub fn take_read_response(&mut self, extent: Extent, length: u32) -> ResponseStep {
        let slot = self.send.slot(self.send.finished);
        if !matches!(slot.operation, Operation::Read { .. }) {
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
    pub fn take_atomic_response(&mut self) -> ResponseStep {
        let slot = self.send.slot(self.send.finished);
        if !slot.awaits_data() || matches!(slot.operation, Operation::Read { .. }) {
            return ResponseStep::Nonsense;
        }
        ResponseStep::Place { last: true }
    }

    /// All the bytes are placed that the oldest request waited for.
    pub fn has_its_data(&mut self, psn: Psn) {
        self.requester.read_received = 0;
        self.requester.reads = self.requester.reads.saturating_sub(1);
        self.was_answered(psn);
    }
}
