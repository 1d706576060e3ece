//! What an end owes the other, and the sending of it.

use nonic_protocol::{Answer, BaseHeader, Body, Extent, Message, OwedRefusal, Psn, Response, Status};

use crate::carrier::FRAGMENT;
use crate::node::{Node, WORD, contents};
use crate::pair::{Pair, Side};

impl Pair {
    /// Sends what is owed as far as there is room.
    pub(crate) fn push_owed(&mut self, side: Side) {
        if !self.nodes[side].connection.responder.owes() {
            return;
        }
        if self.nodes[side].alone {
            return;
        }
        if !self.push_responses(side) {
            return;
        }
        let responder = &self.nodes[side].connection.responder;
        let (acknowledge, refusal) = (responder.acknowledge(), responder.owed_refusal());
        if let Some(psn) = acknowledge {
            if !self.push_answer(side, psn, 0, Answer::Acknowledge, Vec::new()) {
                return;
            }
            self.nodes[side].connection.responder.has_acknowledged();
        }
        if let Some(OwedRefusal { psn, attempt, refusal }) = refusal
            && self.push_answer(side, psn, attempt, Answer::Refuse(refusal), Vec::new())
        {
            self.nodes[side].connection.responder.has_refused();
        }
    }

    fn push_answer(&mut self, side: Side, psn: Psn, attempt: u8, answer: Answer, payload: Vec<u8>) -> bool {
        let node = &self.nodes[side];
        let destination = node.connection.attributes.destination_qp;
        let base = BaseHeader { destination, source: node.number, psn, attempt };
        self.carriers[side].push(Message { base, body: Body::Answer(answer) }, payload, 0)
    }

    /// Answers with data, in their order; whether all of them were sent.
    fn push_responses(&mut self, side: Side) -> bool {
        while let Some(response) = self.nodes[side].connection.responder.first_response().copied() {
            match response {
                Response::Atomic { psn, attempt, old } => {
                    if !self.push_answer(side, psn, attempt, Answer::AtomicResponse { old }, Vec::new()) {
                        return false;
                    }
                }
                Response::Read { psn, attempt, remote, total, sent } => {
                    let count = (total - sent).min(FRAGMENT as u32);
                    let address = remote.address + u64::from(sent);
                    if !self.nodes[side].allows(remote.key, address, count.into(), WORD) {
                        self.cannot_respond(side);
                        return true;
                    }
                    let answer = Answer::ReadResponse(Extent { total, offset: sent });
                    let payload = contents(0, address..address + u64::from(count));
                    if !self.push_answer(side, psn, attempt, answer, payload) {
                        return false;
                    }
                    if sent + count < total {
                        let rest = Response::Read { psn, attempt, remote, total, sent: sent + count };
                        if let Some(first) = self.nodes[side].connection.responder.first_response() {
                            *first = rest;
                        }
                        continue;
                    }
                }
            }
            self.nodes[side].connection.responder.has_responded();
            self.nodes[side].owed.pop_front();
        }
        true
    }

    /// The memory of an answer is there no more.
    fn cannot_respond(&mut self, side: Side) {
        let serial = self.nodes[side].owed.pop_front().expect("an answer is owed for a request");
        self.ledgers[1 - side].refused(serial, Status::RemoteAccess);
        self.nodes[side].connection.responder.cannot_respond();
        if self.nodes[side].connection.state().receives() {
            self.enter_error(side);
        }
    }
}

impl Node {
    /// An answer with data is owed for a request.
    pub(crate) fn owe(&mut self, response: Response, serial: u64) {
        self.connection.responder.owe(response);
        self.owed.push_back(serial);
    }
}
