//! What an end does about what comes to it. The order of the steps is the device's.

use std::time::Duration;

use nonic_protocol::{
    AffiliatedError, Answer, BaseHeader, Body, Conclusion, Extent, Message, Outcome, QpState, Receive,
    Refusal, RemoteRange, Request, Response, Status,
};

use crate::carrier::{Carried, FRAGMENT};
use crate::chance::Chance;
use crate::node::{AREA, WORD, contents};
use crate::pair::{Pair, Side};

/// When a message comes, and whether the program is about to post receives then.
#[derive(Clone, Copy, Debug)]
struct Moment {
    now: Duration,
    owes_poll: bool,
}

impl Pair {
    /// An end takes the first message that is on its way to it; false if there is none, or it has to wait.
    pub(crate) fn deliver(&mut self, side: Side, chance: &mut Chance, now: Duration) -> bool {
        if !self.nodes[side].acts() {
            return false;
        }
        let Some(carried) = self.first_for(side) else { return false };
        if self.carriers[1 - side].loses && carried.is_middle() && chance.once_in(8) {
            // Nobody notices before the next message of the same end; there may be none.
            self.nodes[1 - side].unheard = true;
            self.ledgers[1 - side].met_nobody();
            self.passed_for(side);
            return true;
        }
        let Message { base, body } = carried.message;
        match body {
            Body::Answer(answer) => self.take_answer(side, base, answer, &carried.payload, chance, now),
            Body::Request(request) => {
                let plain = chance.once_in(2);
                let held = !(plain && self.take_at_once(side, &carried, &request, chance, now))
                    && self.take_request(side, &carried, &request, chance, now);
                if held {
                    return false;
                }
            }
            Body::Datagram(_) => unreachable!("these queue pairs are connected"),
        }
        self.passed_for(side);
        true
    }

    /// The express way of a short send that is the next.
    fn take_at_once(
        &mut self,
        side: Side,
        carried: &Carried,
        request: &Request,
        chance: &mut Chance,
        now: Duration,
    ) -> bool {
        let (base, reliable) = (carried.message.base, self.is_reliable());
        let Request::Send(send) = request else { return false };
        let node = &mut self.nodes[side];
        let from_peer = node.is_from_peer(base);
        let connection = &mut node.connection;
        let whole = send.extent.is_whole(carried.payload.len() as u32) && !carried.payload.is_empty();
        let plain = reliable && whole && send.immediate.is_none() && carried.payload.len() as u64 <= FRAGMENT;
        let ready = connection.state() == QpState::ReadyToSend && connection.responder.is_next(base.psn);
        let Some(id) = connection.receives.first().map(|receive| receive.id) else { return false };
        if !plain || !from_peer || !ready || node.alone {
            return false;
        }
        connection.receives.pass_first();
        connection.responder.has_taken(base.psn);
        node.receive_ended(id);
        node.received = carried.payload.clone();
        self.check_received(side, carried.serial, send.extent.total);
        self.ledgers[1 - side].executed(carried.serial, None);
        if let Some(psn) = send.acknowledges {
            self.take_acknowledge(side, psn);
            if self.nodes[side].connection.awaits_answers() {
                self.pump(side, chance, now);
            }
        }
        true
    }

    /// Takes a request; true if it has to wait where it is.
    fn take_request(
        &mut self,
        side: Side,
        carried: &Carried,
        request: &Request,
        chance: &mut Chance,
        now: Duration,
    ) -> bool {
        let base = carried.message.base;
        let node = &self.nodes[side];
        let is_peer = node.is_from_peer(base);
        if !is_peer || !node.connection.state().receives() {
            if self.is_reliable() && request.is_declined_aloud(carried.payload.len() as u32) {
                self.decline(side, base, is_peer);
            }
            return false;
        }
        if let Some(psn) = request.acknowledges() {
            self.take_acknowledge(side, psn);
        }
        let held = self.judge(side, carried, request, chance, now);
        if request.acknowledges().is_some() && self.nodes[side].connection.awaits_answers() {
            self.pump(side, chance, now);
        }
        held
    }

    /// Whoever asked is told that nobody takes its requests.
    fn decline(&mut self, side: Side, base: BaseHeader, is_peer: bool) {
        self.ledgers[1 - side].met_nobody();
        if is_peer {
            self.nodes[side].connection.responder.decline(base);
            self.push_owed(side);
            return;
        }
        self.refuse(side, base);
    }

    /// Says so without a queue pair; as soon as there is room, if there is none.
    fn refuse(&mut self, side: Side, base: BaseHeader) {
        let body = Body::Answer(Answer::Refuse(Refusal::NoAnswer));
        if self.carriers[side].push(Message { base: base.answer(), body }, Vec::new(), 0) {
            return;
        }
        let declined = &mut self.declined[side];
        match declined.iter_mut().find(|known| known.source == base.source) {
            Some(known) if known.attempt == base.attempt => {}
            Some(known) => *known = base,
            None => declined.push(base),
        }
    }

    /// There is room to say what could not be said.
    pub(crate) fn refuse_declined(&mut self, side: Side) {
        for base in std::mem::take(&mut self.declined[side]) {
            self.refuse(side, base);
        }
    }

    fn judge(
        &mut self,
        side: Side,
        carried: &Carried,
        request: &Request,
        chance: &mut Chance,
        now: Duration,
    ) -> bool {
        let (base, transport) = (carried.message.base, self.transport);
        if request.is_first() {
            self.break_off(side);
        }
        if !self.nodes[side].connection.responder.check_sequence(transport, base, request) {
            return false;
        }
        let connection = &self.nodes[side].connection;
        let moment = Moment { now, owes_poll: chance.once_in(4) };
        let outcome = match connection.responder.check_resources(transport, &connection.attributes, request) {
            Ok(()) => self.execute(side, carried, request, moment),
            Err(outcome) => outcome,
        };
        match outcome {
            Outcome::Done(_) if !matches!(request, Request::Atomic(_)) => {
                self.ledgers[1 - side].executed(carried.serial, None);
            }
            Outcome::Fatal(refusal, _) => {
                let status = match refusal {
                    Refusal::Access => Status::RemoteAccess,
                    Refusal::InvalidRequest => Status::RemoteInvalidRequest,
                    _ => Status::RemoteOperation,
                };
                self.ledgers[1 - side].refused(carried.serial, status);
            }
            _ => {}
        }
        match self.nodes[side].connection.responder.conclude(transport, base, request, outcome) {
            Conclusion::Quiet | Conclusion::Filled => false,
            Conclusion::Held => true,
            Conclusion::BreakOff => {
                self.break_off(side);
                false
            }
            Conclusion::End(_) => {
                self.push_owed(side);
                self.enter_error(side);
                false
            }
        }
    }

    /// A message that broke off leaves its receive to the next.
    fn break_off(&mut self, side: Side) {
        let connection = &mut self.nodes[side].connection;
        if let Some(receive) = connection.responder.break_off() {
            connection.receives.give_back(receive);
        }
    }

    fn execute(&mut self, side: Side, carried: &Carried, request: &Request, moment: Moment) -> Outcome {
        let base = carried.message.base;
        match request {
            Request::Send(send) => self.take_send(side, carried, send.extent, moment),
            Request::Write(write) => {
                self.take_write(side, carried, write.extent, write.remote, write.immediate.is_some(), moment)
            }
            Request::WriteNotify(_) => self.take_notice(side, moment),
            Request::Read(read) => {
                let RemoteRange { address, key } = read.remote;
                let node = &mut self.nodes[side];
                if !node.allows(key, address, read.total.into(), WORD) {
                    return Outcome::Fatal(Refusal::Access, Some(AffiliatedError::AccessViolation));
                }
                let BaseHeader { psn, attempt, .. } = base;
                let response =
                    Response::Read { psn, attempt, remote: read.remote, total: read.total, sent: 0 };
                node.owe(response, carried.serial);
                Outcome::Done(false)
            }
            Request::Atomic(atomic) => {
                let RemoteRange { address, key } = atomic.remote;
                let node = &mut self.nodes[side];
                if !node.allows(key, address, 8, WORD + 8) {
                    return Outcome::Fatal(Refusal::Access, Some(AffiliatedError::AccessViolation));
                }
                let old = node.word;
                node.word += 1;
                node.owe(Response::Atomic { psn: base.psn, attempt: base.attempt, old }, carried.serial);
                self.ledgers[1 - side].executed(carried.serial, Some(old));
                Outcome::Done(false)
            }
            _ => unreachable!("{request:?} is not sent here"),
        }
    }

    fn take_receive(&mut self, side: Side, moment: Moment) -> Result<Receive, Outcome> {
        let transport = self.transport;
        let connection = &mut self.nodes[side].connection;
        if let Some(receive) = connection.receives.take() {
            connection.responder.found_receive();
            return Ok(receive);
        }
        let timer = connection.attributes.min_rnr_timer;
        Err(connection.responder.without_receive(transport, timer, || moment.owes_poll, || moment.now))
    }

    fn take_send(&mut self, side: Side, carried: &Carried, extent: Extent, moment: Moment) -> Outcome {
        let receive = match self.nodes[side].connection.responder.break_off() {
            Some(receive) => receive,
            None => {
                let receive = match self.take_receive(side, moment) {
                    Ok(receive) => receive,
                    Err(outcome) => return outcome,
                };
                if u64::from(extent.total) > receive.pieces.length() {
                    if self.is_reliable() {
                        self.nodes[side].receive_ended(receive.id);
                        return Outcome::Fatal(Refusal::InvalidRequest, None);
                    }
                    self.nodes[side].connection.receives.give_back(receive);
                    return Outcome::Dropped;
                }
                self.nodes[side].received.clear();
                receive
            }
        };
        let node = &mut self.nodes[side];
        assert_eq!(node.received.len(), extent.offset as usize, "fragments with a gap");
        node.received.extend_from_slice(&carried.payload);
        let received = node.received.len() as u32;
        if received < extent.total {
            return Outcome::More(received, Some(receive));
        }
        node.receive_ended(receive.id);
        self.check_received(side, carried.serial, extent.total);
        Outcome::Done(true)
    }

    fn check_received(&self, side: Side, serial: u64, total: u32) {
        assert_eq!(self.nodes[side].received, contents(serial, 0..total.into()), "a message has other bytes");
    }

    fn take_write(
        &mut self,
        side: Side,
        carried: &Carried,
        extent: Extent,
        remote: RemoteRange,
        takes_receive: bool,
        moment: Moment,
    ) -> Outcome {
        if extent.offset == 0 && takes_receive && self.nodes[side].connection.receives.length() == 0 {
            return match self.take_receive(side, moment) {
                Ok(_) => unreachable!("there is none"),
                Err(outcome) => outcome,
            };
        }
        let node = &mut self.nodes[side];
        if !node.allows(remote.key, remote.address, extent.total.into(), AREA) {
            if takes_receive
                && self.is_reliable()
                && let Ok(receive) = self.take_receive(side, moment)
            {
                self.nodes[side].receive_ended(receive.id);
            }
            return Outcome::Fatal(Refusal::Access, Some(AffiliatedError::AccessViolation));
        }
        let start = remote.address as usize;
        let at = start + extent.offset as usize;
        node.memory[at..at + carried.payload.len()].copy_from_slice(&carried.payload);
        let received = extent.offset + carried.payload.len() as u32;
        if received < extent.total {
            return Outcome::More(received, None);
        }
        let written = &node.memory[start..start + extent.total as usize];
        assert_eq!(written, contents(carried.serial, 0..extent.total.into()), "a write has other bytes");
        if takes_receive { self.take_notice(side, moment) } else { Outcome::Done(false) }
    }

    fn take_notice(&mut self, side: Side, moment: Moment) -> Outcome {
        match self.take_receive(side, moment) {
            Ok(receive) => {
                self.nodes[side].receive_ended(receive.id);
                Outcome::Done(true)
            }
            Err(outcome) => outcome,
        }
    }
}
