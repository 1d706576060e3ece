//! Waits of the requester: for answers, for receives of the peer's, and for what is in the way (IBTA vol. 1, 9.9.2.1).

use core::time::Duration;

use super::Connection;
use crate::completion::Status;
use crate::happening::Happening;
use crate::requester::{PATIENT_REPEAT, WaitReason};
use crate::surroundings::Surroundings;
use crate::timer::{Moment, ack_timeout, answer_time};

/// When to look again whether those who were inside an operation have left.
pub(super) const LOOK_AGAIN: Duration = Duration::from_micros(50);

/// What is to be done once time has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterWait {
    /// Nothing yet.
    Nothing,
    /// What was under way is repeated: start what can start.
    Repeat,
    /// The oldest request failed.
    Fail(Status),
}

impl<P, T> Connection<P, T> {
    /// How long an answer may take before what it would answer is repeated.
    pub(super) fn answer_wait(&self) -> Duration {
        let in_vain = self.attributes.retry_count.saturating_sub(self.requester.retries);
        answer_time(self.attributes.timeout, in_vain).unwrap_or(PATIENT_REPEAT)
    }
}

impl<P, T: Moment> Connection<P, T> {
    /// When [`Connection::handle_time`] wants to be called, if nothing happens before.
    pub fn poll_timeout(&self) -> Option<T> {
        self.requester.wait.map(|(until, _)| until)
    }

    /// It is `now`: goes on after a wait, or gives up, if it is time.
    pub fn handle_time<S: Surroundings<P, T>>(&mut self, around: &mut S, now: T) {
        match self.take_time(now) {
            AfterWait::Nothing => {}
            AfterWait::Repeat => {
                around.sees(Happening::Repeated);
                self.pump(around);
            }
            AfterWait::Fail(status) => self.fail_oldest(around, status),
        }
    }

    /// Nobody answers: waits for the timeout, then repeats.
    pub(super) fn wait_for_answer<S: Surroundings<P, T>>(&mut self, around: &mut S) {
        let wait = self.answer_wait();
        self.wait(around, wait, WaitReason::NoAnswer);
    }

    /// Sends nothing for `wait`.
    pub(super) fn wait<S: Surroundings<P, T>>(&mut self, around: &mut S, wait: Duration, reason: WaitReason) {
        let until = self.requester.wait(around.now(), wait, reason);
        around.call_at(until);
    }

    /// A wait may be over.
    pub(super) fn take_time(&mut self, now: T) -> AfterWait {
        let Some((until, reason)) = self.requester.wait else { return AfterWait::Nothing };
        if now < until || !self.is_sending() {
            return AfterWait::Nothing;
        }
        if reason == WaitReason::NoAnswer && ack_timeout(self.attributes.timeout).is_some() {
            if self.requester.retries == 0 {
                return AfterWait::Fail(Status::RetryExceeded);
            }
            self.requester.retries -= 1;
        }
        self.take_back();
        self.requester.restart();
        AfterWait::Repeat
    }
}
