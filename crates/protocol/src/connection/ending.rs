//! The ends of requests and of the connection (IBTA vol. 1, 10.3.1, 9.9.2).

use super::Connection;
use crate::completion::Status;
use crate::message::BaseHeader;
use crate::responder::AffiliatedError;
use crate::state::{QpState, QpType};
use crate::surroundings::{Event, LocalTurn, Surroundings};
use crate::timer::Moment;

impl<P, T: Moment> Connection<P, T> {
    /// Ends the oldest request that has not.
    pub(super) fn finish<S: Surroundings<P, T>>(&mut self, around: &mut S, status: Status) {
        let number = self.send.finished;
        self.send.finished += 1;
        self.send.started = self.send.started.max(self.send.finished);
        around.request_ended(self, number, status);
    }

    /// Ends the oldest request with a failure, and what that entails for the others (10.3.1).
    pub(super) fn fail_oldest<S: Surroundings<P, T>>(&mut self, around: &mut S, status: Status) {
        if !self.send.is_empty() {
            self.finish(around, status);
        }
        if around.service() == QpType::ReliableConnection {
            self.fail(around);
        } else {
            self.attributes.state = QpState::SendQueueError;
            self.requester.stop();
            self.flush_sends(around);
        }
    }

    /// The queue pair fails. Harmless when it has already.
    pub fn fail<S: Surroundings<P, T>>(&mut self, around: &mut S) {
        if self.stop(around) {
            around.failed();
        }
    }

    /// To ERR: stops everything and flushes every queue (10.3.1); false if that was done already.
    pub fn stop<S: Surroundings<P, T>>(&mut self, around: &mut S) -> bool {
        if matches!(self.state(), QpState::Error | QpState::Reset) {
            return false;
        }
        around.withdraw();
        if self.requester.is_held_up() {
            self.take_last_turn(around);
        }
        self.attributes.state = QpState::Error;
        self.requester.stop();
        self.flush_sends(around);
        if let Some(receive) = self.responder.stop() {
            around.receive_failed(&receive, Status::Flushed);
        }
        while let Some(receive) = self.receives.take() {
            around.receive_failed(&receive, Status::Flushed);
        }
        around.was_flushed();
        true
    }

    /// Ends every request that has not ended.
    pub fn flush_sends<S: Surroundings<P, T>>(&mut self, around: &mut S) {
        while !self.send.is_empty() {
            self.finish(around, Status::Flushed);
        }
    }

    /// The connection ends while a request waits for those inside an operation. Whoever ended it has left, so the request may be
    /// done by now, and is then not flushed with the others.
    #[cold]
    fn take_last_turn<S: Surroundings<P, T>>(&mut self, around: &mut S) {
        let operation = self.send.slot(self.send.finished).operation;
        if around.take_turn(&operation) == LocalTurn::Done {
            self.requester.wait = None;
            self.finish(around, Status::Success);
        }
    }

    /// A request of the peer's was refused for good, and the peer is told: the connection is over (9.9.3).
    pub(super) fn end_refused<S: Surroundings<P, T>>(
        &mut self,
        around: &mut S,
        error: Option<AffiliatedError>,
    ) {
        if !self.state().receives() {
            // It is already: telling the peer found out that an older request is refused, too.
            return;
        }
        if let Some(error) = error {
            around.raise(Event::Affiliated(error));
        }
        self.fail(around);
    }

    /// The way to the peer is closed until further notice. What was done for the peer is told, a message that has come in part is
    /// refused as by nobody, so that its sender repeats it, and what waits to be sent waits as for an answer. What was sent before
    /// still arrives, and so do its answers: nothing is done twice.
    pub fn lose_way<S: Surroundings<P, T>>(&mut self, around: &mut S) {
        self.answer(around);
        if around.service() == QpType::ReliableConnection
            && let Some((psn, attempt)) = self.responder.is_taking()
        {
            self.responder.decline(BaseHeader::new(
                around.number(),
                self.attributes.destination_qp,
                psn,
                attempt,
            ));
            self.answer(around);
        }
        self.give_back_inbound(around);
        if around.service() != QpType::ReliableConnection {
            self.requester.sent = 0;
        }
    }

    /// The peer's process has ended. If it ended in order, what was under way to it gets no answer and fails when its retries are
    /// used up, and nothing else happens, as with a network card: programs that are done must not see their last requests fail.
    /// If it crashed the queue pair goes to error at once, so that a program which only receives learns of it too.
    pub fn lose_peer<S: Surroundings<P, T>>(&mut self, around: &mut S, in_order: bool) {
        if around.service() != QpType::ReliableConnection || !self.state().receives() {
            return;
        }
        if self.requester.is_held_up() {
            self.take_last_turn(around);
        }
        // What is still held up is not under way to the peer.
        let waits = self.is_sending() && !self.requester.is_held_up();
        if in_order {
            if waits && self.requester.wait.is_none() {
                self.take_back();
                self.requester.restart();
                self.wait_for_answer(around);
            }
        } else if waits {
            self.fail_oldest(around, Status::RetryExceeded);
        } else {
            self.lost_in_rtr = self.state() == QpState::ReadyToReceive;
            self.fail(around);
        }
    }
}
