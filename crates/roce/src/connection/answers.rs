//! The completer: what the peer's answers say of what is under way (IBTA vol. 1, 9.7.5, 9.7.6).

use nonic_protocol::{Happening, Moment, Psn, Refusal, Slot, Status, rnr_wait};

use super::Connection;
use super::requester::WaitReason;
use crate::packet::{Aeth, Answer, Nak, ReadPart, Syndrome};
use crate::surroundings::Surroundings;

/// The RNR retry count that stands for no end (9.7.5.2.8).
const FOR_EVER: u8 = 7;

impl<T: Moment> Connection<T> {
    /// Takes what a responder says of packet `psn`; false: it says nothing of what is under way.
    pub(super) fn take_answer<S: Surroundings>(
        &mut self,
        now: T,
        around: &mut S,
        psn: Psn,
        answer: Answer,
        payload: &[u8],
    ) -> bool {
        if psn.distance_from(self.requester.unanswered) >= self.requester.outstanding() {
            // An answer to what was answered already, or to what was never sent. The last one may be said again, with new
            // credits (9.7.7.2.5).
            if let Answer::Acknowledge(aeth) = answer
                && psn.next() == self.requester.unanswered
            {
                self.requester.take_credits(aeth);
                return true;
            }
            return false;
        }
        match answer {
            Answer::Acknowledge(aeth) => self.take_acknowledge(now, around, psn, aeth),
            Answer::Read(part) => self.take_read(around, psn, part, payload),
            Answer::Atomic(aeth, old) => self.take_atomic(around, psn, aeth, old),
        }
    }

    fn take_acknowledge<S: Surroundings>(&mut self, now: T, around: &mut S, psn: Psn, aeth: Aeth) -> bool {
        match aeth.syndrome {
            Syndrome::Acknowledge(_) => {
                self.complete_before(around, psn.next());
                self.requester.take_credits(aeth);
                if self.requester.unanswered != psn.next() {
                    self.take_implied_refusal(around);
                }
            }
            Syndrome::NotReady(timer) => {
                if self.is_judged(around, psn) && self.requester.wait.is_none() {
                    let refusal = Refusal::NotReady { timer: timer.get() };
                    around.sees(Happening::Denied { psn, refusal });
                    self.take_not_ready(now, around, timer.get());
                }
            }
            Syndrome::Refuse(Nak::Sequence) => {
                if self.is_judged(around, psn) && self.requester.wait.is_none() {
                    around.sees(Happening::Denied { psn, refusal: Refusal::OutOfSequence });
                    self.congestion.were_lost();
                    if self.spend_retry(around) {
                        around.sees(Happening::Repeated);
                        self.go_back();
                    }
                }
            }
            Syndrome::Refuse(nak) => {
                if self.is_judged(around, psn) {
                    let (status, refusal) = match nak {
                        Nak::InvalidRequest => (Status::RemoteInvalidRequest, Refusal::InvalidRequest),
                        Nak::RemoteAccess => (Status::RemoteAccess, Refusal::Access),
                        _ => (Status::RemoteOperation, Refusal::Operation),
                    };
                    around.sees(Happening::Denied { psn, refusal });
                    self.fail_oldest(around, status);
                }
            }
        }
        true
    }

    /// Everything before `psn` was done, says a refusal of it. Whether nothing older waits for data that were lost.
    fn is_judged<S: Surroundings>(&mut self, around: &mut S, psn: Psn) -> bool {
        self.complete_before(around, psn);
        if self.requester.unanswered != psn {
            self.take_implied_refusal(around);
            return false;
        }
        true
    }

    /// Everything before `end` is done: an answer to a later packet says so too (9.7.5.1.2, coalesced acknowledgements). Stops at
    /// a request that waits for data.
    fn complete_before<S: Surroundings>(&mut self, around: &mut S, end: Psn) {
        while let Some(slot) = self.oldest() {
            let done = end.distance_from(self.requester.unanswered);
            if done == 0 || slot.awaits_data() {
                break;
            }
            let passed = self.requester.unanswered.distance_from(slot.psn);
            let left = self.packets_of(&slot) - passed;
            self.was_answered(done.min(left));
            if done >= left {
                self.finish(around, Status::Success);
            }
        }
        if self.requester.is_overtaken() {
            // The answers are to what was sent before this side went back.
            self.go_back();
        }
    }

    /// The oldest request that was begun and has not ended.
    pub(super) fn oldest(&self) -> Option<Slot> {
        (self.send.finished < self.requester.numbered).then(|| *self.send.slot(self.send.finished))
    }

    /// So many packets more are answered.
    fn was_answered(&mut self, packets: u32) {
        self.requester.unanswered = self.requester.unanswered.plus(packets);
        self.requester.refill(&self.attributes);
        self.congestion.was_acknowledged(packets);
    }

    /// One packet of data has come.
    fn got_data(&mut self) {
        self.requester.awaited = self.requester.awaited.saturating_sub(1);
        self.was_answered(1);
    }

    /// An answer to something later came while data are due: they were lost (9.7.5.2.7, implied NAK). Once for one packet: the
    /// answers behind it were on their way already. If what is sent again is lost, too, time tells.
    fn take_implied_refusal<S: Surroundings>(&mut self, around: &mut S) {
        let due = Some(self.requester.unanswered);
        if self.requester.wait.is_some() || self.requester.implied == due || self.requester.retries == 0 {
            return;
        }
        self.congestion.were_lost();
        self.requester.implied = due;
        self.requester.retries -= 1;
        around.sees(Happening::Repeated);
        self.go_back();
    }

    /// One retry less; false: there was none left, and the oldest request failed (9.9.2.1).
    pub(super) fn spend_retry<S: Surroundings>(&mut self, around: &mut S) -> bool {
        if self.requester.retries == 0 {
            self.fail_oldest(around, Status::RetryExceeded);
            return false;
        }
        self.requester.retries -= 1;
        true
    }

    /// The peer had no receive: one retry less, unless there is no end to them (9.7.5.2.8, 9.9.2.1).
    fn take_not_ready<S: Surroundings>(&mut self, now: T, around: &mut S, timer: u8) {
        if self.requester.rnr_retries == 0 {
            return self.fail_oldest(around, Status::RnrRetryExceeded);
        }
        if self.attributes.rnr_retry != FOR_EVER {
            self.requester.rnr_retries -= 1;
        }
        self.go_back();
        self.requester.wait = Some((now + rnr_wait(timer), WaitReason::NotReady));
    }

    /// Takes bytes of a read (9.7.6). How long each packet is follows from what was asked for.
    fn take_read<S: Surroundings>(
        &mut self,
        around: &mut S,
        psn: Psn,
        part: ReadPart,
        payload: &[u8],
    ) -> bool {
        let Some(slot) = self.is_due(around, psn) else { return false };
        if !slot.operation.is_answered_as_read() {
            return false;
        }
        let passed = psn.distance_from(slot.psn);
        let offset = passed * self.mtu().bytes();
        let left = slot.total as u32 - offset;
        let is_last = left <= self.mtu().bytes();
        let ends = is_last || (passed + 1).is_multiple_of(self.piece());
        // An answer that broke off may go on with a first packet or one from the middle.
        let begins = passed > 0 || matches!(part, ReadPart::First(_) | ReadPart::Only(_));
        let expected = left.min(self.mtu().bytes()) as usize;
        if part.ends() != ends || !begins || payload.len() != expected {
            self.fail_oldest(around, Status::BadResponse);
            return false;
        }
        if !payload.is_empty() && !around.place_answer(&self.send, self.send.finished, offset, payload) {
            self.fail_oldest(around, Status::LocalProtection);
            return true;
        }
        self.got_data();
        if ends && !is_last {
            self.requester.has_piece();
        }
        if let Some(aeth) = part.aeth() {
            self.requester.take_credits(aeth);
        }
        self.has_its_data(around, is_last);
        true
    }

    /// Takes the result of an atomic (9.7.6).
    fn take_atomic<S: Surroundings>(&mut self, around: &mut S, psn: Psn, aeth: Aeth, old: u64) -> bool {
        let Some(slot) = self.is_due(around, psn) else { return false };
        if !slot.awaits_data() || slot.operation.is_answered_as_read() {
            return false;
        }
        if !around.place_old(&self.send, self.send.finished, old) {
            self.fail_oldest(around, Status::LocalProtection);
            return true;
        }
        self.got_data();
        self.requester.take_credits(aeth);
        self.has_its_data(around, true);
        true
    }

    /// The oldest request, if data of this number are the next that it waits for.
    fn is_due<S: Surroundings>(&mut self, around: &mut S, psn: Psn) -> Option<Slot> {
        if !self.is_judged(around, psn) {
            return None;
        }
        self.oldest()
    }

    /// Bytes of the oldest request are in their place; whether all of them.
    fn has_its_data<S: Surroundings>(&mut self, around: &mut S, all: bool) {
        if all {
            self.finish(around, Status::Success);
        }
        if self.requester.is_overtaken() {
            self.go_back();
        }
    }
}
