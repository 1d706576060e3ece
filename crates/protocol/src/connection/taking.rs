//! Taking what the peer sends. A request takes the steps of the specification in its order: sequence, resources and rights,
//! execution, acknowledgement (IBTA vol. 1, 9.7.4, 9.7.5; unreliable service 9.8).

use super::Connection;
use super::executing::NO_ACCESS;
use crate::happening::Happening;
use crate::message::{Answer, BaseHeader, Request};
use crate::number::{Psn, QueueName, SrqNumber};
use crate::responder::{Conclusion, Outcome};
use crate::state::{QpState, QpType};
use crate::surroundings::{Delivery, Event, Surroundings};
use crate::timer::Moment;

impl<P, T: Moment> Connection<P, T> {
    /// Takes an answer, if it is of the peer. What it makes room for is started.
    pub fn handle_answer<S: Surroundings<P, T>>(
        &mut self,
        around: &mut S,
        is_of_peer: bool,
        base: BaseHeader,
        answer: Answer,
        arrival: S::Arrival<'_>,
    ) {
        if !is_of_peer || !self.take_answer(around, base, answer, arrival) {
            around.sees(Happening::Dropped);
        }
        if is_of_peer {
            self.pump(around);
        }
    }

    /// Takes a request. One that is not of the peer is declined, as is any while the queue pair takes none.
    pub fn handle_request<S: Surroundings<P, T>>(
        &mut self,
        around: &mut S,
        is_of_peer: bool,
        base: BaseHeader,
        request: &Request,
        arrival: S::Arrival<'_>,
    ) -> Delivery {
        let delivery = self.take_request(around, is_of_peer, base, request, arrival);
        if request.acknowledges().is_some() && self.awaits_answers() {
            self.pump(around);
        }
        delivery
    }

    fn take_request<S: Surroundings<P, T>>(
        &mut self,
        around: &mut S,
        is_of_peer: bool,
        base: BaseHeader,
        request: &Request,
        arrival: S::Arrival<'_>,
    ) -> Delivery {
        let service = around.service();
        if !self.state().receives() || !is_of_peer {
            if service == QpType::ReliableConnection && request.is_declined_aloud(S::length(arrival)) {
                around.decline(self, base, arrival);
            }
            return Delivery::Quiet;
        }
        if self.state() == QpState::ReadyToReceive && !self.established {
            self.established = true;
            around.raise(Event::CommunicationEstablished);
        }
        if let Some(acknowledged) = request.acknowledges() {
            self.take_acknowledge(around, acknowledged);
        }
        if request.is_first() {
            self.give_back_inbound(around);
        }
        if !self.responder.check_sequence(service, base, request) {
            return Delivery::Quiet;
        }
        let found = base.queue().number().is_none_or(|queue| self.turn_to(around, queue, request.is_first()));
        let outcome = match self.responder.check_resources(service, &self.attributes, request) {
            _ if !found => NO_ACCESS,
            Ok(()) => self.execute(around, base, request, arrival),
            Err(refused) => refused,
        };
        tell_of(around, base.psn, request, &outcome);
        match self.responder.conclude(service, base, request, outcome) {
            Conclusion::Quiet => Delivery::Quiet,
            Conclusion::Filled => Delivery::Filled,
            Conclusion::Held => Delivery::Held,
            Conclusion::BreakOff => {
                self.give_back_inbound(around);
                Delivery::Quiet
            }
            Conclusion::End(error) => {
                self.answer(around);
                self.end_refused(around, error);
                Delivery::Quiet
            }
        }
    }

    /// A message is for this shared receive queue; all of its fragments are for the same. False if the domain has it not (annex
    /// A14: an invalid XRCETH is refused as an access that is not allowed).
    fn turn_to<S: Surroundings<P, T>>(&mut self, around: &mut S, queue: SrqNumber, is_first: bool) -> bool {
        if !is_first && self.responder.queue != QueueName::of(queue) {
            return false;
        }
        self.responder.queue = QueueName::of(queue);
        around.turn_to(queue)
    }

    /// A message that broke off leaves its receive to the next.
    pub(super) fn give_back_inbound<S: Surroundings<P, T>>(&mut self, around: &mut S) {
        if let Some(receive) = self.responder.break_off() {
            around.give_back_receive(self, receive);
        }
    }
}

/// What came of a message that was due.
#[inline]
fn tell_of<P, T: Moment, S: Surroundings<P, T>>(
    around: &mut S,
    psn: Psn,
    request: &Request,
    outcome: &Outcome,
) {
    let reliable = around.service() == QpType::ReliableConnection;
    around.sees(match *outcome {
        Outcome::Done(receive) => Happening::Taken { psn, bytes: request.total(), receive },
        Outcome::Retry(refusal) | Outcome::Fatal(refusal, _) if reliable => {
            Happening::Refused { psn, refusal }
        }
        Outcome::Retry(_) | Outcome::Fatal(..) | Outcome::Dropped => Happening::Dropped,
        Outcome::More(..) | Outcome::Hold => return,
    });
}
