//! Waits of the requester: for answers, for receives of the peer's, and for what is in the way (9.9.2.1).

use core::time::Duration;

use super::Connection;
use crate::completion::Status;
use crate::requester::{PATIENT_REPEAT, WaitReason};
use crate::timer::{Moment, ack_timeout};

/// What is to be done once time has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterWait {
    /// Nothing yet.
    Nothing,
    /// What was under way is repeated: start what can start.
    Repeat,
    /// The oldest request failed.
    Fail(Status),
}

impl<P, T> Connection<P, T> {
    /// How long an answer may take before what it would answer is repeated.
    pub fn answer_wait(&self) -> Duration {
        ack_timeout(self.attributes.timeout).unwrap_or(PATIENT_REPEAT)
    }
}

impl<P, T: Moment> Connection<P, T> {
    /// When [`Connection::take_time`] wants to be called, if nothing happens before.
    pub fn poll_timeout(&self) -> Option<T> {
        self.requester.wait.map(|(until, _)| until)
    }

    /// It is `now`: a wait may be over.
    pub fn take_time(&mut self, now: T) -> AfterWait {
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
