//! The ends of requests and of the connection (IBTA vol. 1, 10.3.1, 9.9.2, 9.9.3).

use nonic_protocol::{AffiliatedError, Event, LocalTurn, Moment, QpState, Status};

use super::Connection;
use crate::surroundings::Surroundings;

impl<T: Moment> Connection<T> {
    /// Ends the oldest request that has not.
    pub(super) fn finish<S: Surroundings>(&mut self, around: &mut S, status: Status) {
        let number = self.send.finished;
        let slot = *self.send.slot(number);
        if slot.awaits_data() && number < self.send.started {
            self.requester.reads = self.requester.reads.saturating_sub(1);
        }
        if !slot.operation.is_local() {
            self.requester.has_finished();
        }
        self.send.finished += 1;
        self.send.started = self.send.started.max(self.send.finished);
        self.requester.numbered = self.requester.numbered.max(self.send.finished);
        around.request_ended(&self.send, number, status);
    }

    /// Ends the oldest request with a failure, and what that entails for the others (10.3.1).
    pub(super) fn fail_oldest<S: Surroundings>(&mut self, around: &mut S, status: Status) {
        if !self.send.is_empty() {
            self.finish(around, status);
        }
        if self.is_reliable() {
            self.end(around, true);
        } else {
            self.attributes.state = QpState::SendQueueError;
            self.requester.stop();
            self.flush_sends(around);
        }
    }

    /// To ERR, as its program or its driver asks: stops everything and flushes every queue (10.3.1). Harmless when it is there
    /// already.
    pub fn stop<S: Surroundings>(&mut self, around: &mut S) {
        self.end(around, false);
    }

    /// The same where something went wrong that is nobody's wish: a completion queue overran.
    pub fn fail<S: Surroundings>(&mut self, around: &mut S) {
        self.end(around, true);
    }

    fn end<S: Surroundings>(&mut self, around: &mut S, by_itself: bool) {
        if matches!(self.state(), QpState::Error | QpState::Reset) {
            return;
        }
        if self.requester.is_held_up() {
            self.take_last_turn(around);
        }
        self.attributes.state = QpState::Error;
        self.requester.stop();
        self.silence.forget();
        self.flush_sends(around);
        if let Some(receive) = self.responder.break_off() {
            around.receive_failed(&receive, Status::Flushed);
        }
        while let Some(receive) = self.receives.take() {
            around.receive_failed(&receive, Status::Flushed);
        }
        around.was_flushed(by_itself);
    }

    /// Ends every request that has not ended.
    fn flush_sends<S: Surroundings>(&mut self, around: &mut S) {
        while !self.send.is_empty() {
            self.finish(around, Status::Flushed);
        }
    }

    /// The connection ends while a request waits for those inside an operation. Whoever ended it has left, so the request may be
    /// done by now, and is then not flushed with the others.
    fn take_last_turn<S: Surroundings>(&mut self, around: &mut S) {
        let operation = self.send.slot(self.send.finished).operation;
        if around.take_turn(&operation) == LocalTurn::Done {
            self.requester.wait = None;
            self.finish(around, Status::Success);
        }
    }

    /// A request of the peer's was refused for good, which the peer is told: the connection is over (9.9.3).
    pub(super) fn end_refused<S: Surroundings>(&mut self, around: &mut S, error: Option<AffiliatedError>) {
        if !self.state().receives() {
            return;
        }
        if let Some(error) = error {
            around.raise(Event::Affiliated(error));
        }
        self.end(around, true);
    }
}
