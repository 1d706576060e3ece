//! Two ends, what carries their messages, and what can happen to them.

use std::time::Duration;

use nonic_protocol::{
    BaseHeader, Psn, QpNumber, QpState, QpType, ReceiveRequest, ScatterGather, Status, WaitReason, ZoneId,
};

use crate::carrier::{Carried, Carrier};
use crate::chance::Chance;
use crate::ledger::Ledger;
use crate::node::{Gone, KEY, Node, RECEIVE_LENGTH, Terms};

/// Which end.
pub(crate) type Side = usize;

/// How an end is set up next.
#[derive(Clone, Copy, Debug)]
struct SetUp {
    number: QpNumber,
    peer: QpNumber,
    psns: (Psn, Psn),
    terms: Terms,
}

/// Two ends of a connection.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) transport: QpType,
    pub(crate) nodes: [Node; 2],
    /// What each end sends.
    pub(crate) carriers: [Carrier; 2],
    /// What each end asked for.
    pub(crate) ledgers: [Ledger; 2],
    /// There is room again for what an end could not send.
    pub(crate) may_resume: [bool; 2],
    /// Requests that nobody takes, of which an end could not tell the other.
    pub(crate) declined: [Vec<BaseHeader>; 2],
    set_ups: [Option<SetUp>; 2],
    next_number: u32,
    pub(crate) next_serial: u64,
}

impl Pair {
    pub(crate) fn new(chance: &mut Chance) -> Self {
        let transport =
            if chance.once_in(5) { QpType::UnreliableConnection } else { QpType::ReliableConnection };
        let unreliable = transport == QpType::UnreliableConnection;
        let loses = !unreliable && chance.once_in(4);
        let mut carrier = || Carrier::new(1 + chance.below(12) as usize, loses);
        let carriers = [carrier(), carrier()];
        let ledger = || Ledger::new(unreliable, 1);
        let mut pair = Self {
            transport,
            nodes: [Node::new(), Node::new()],
            carriers,
            ledgers: [ledger(), ledger()],
            may_resume: [false; 2],
            declined: [Vec::new(), Vec::new()],
            set_ups: [None; 2],
            next_number: 2,
            next_serial: 1,
        };
        pair.agree(chance);
        pair.follow(0);
        pair.follow(1);
        pair
    }

    pub(crate) fn is_reliable(&self) -> bool {
        self.transport == QpType::ReliableConnection
    }

    // Setting up.

    /// Both are to be set up anew, each when it comes to it.
    pub(crate) fn agree(&mut self, chance: &mut Chance) {
        let numbers = [QpNumber(self.next_number), QpNumber(self.next_number + 1)];
        self.next_number += 2;
        // Near the end of the numbers, so that they wrap; and anywhere.
        let mut psn =
            || Psn(if chance.once_in(2) { chance.below(1 << 24) } else { 0xff_fff0 + chance.below(16) });
        let psns = [psn(), psn()];
        let terms = Terms::by(chance);
        for side in 0..2 {
            self.set_ups[side] = Some(SetUp {
                number: numbers[side],
                peer: numbers[1 - side],
                psns: (psns[side], psns[1 - side]),
                terms,
            });
        }
    }

    /// An end does what was agreed on. What it says before goes out; what it had asked for is forgotten.
    pub(crate) fn follow(&mut self, side: Side) {
        let Some(SetUp { number, peer, psns, terms }) = self.set_ups[side].take() else { return };
        if self.nodes[side].gone.is_some() {
            // What was on its way to a process that has ended ends with it, and what that had to say.
            self.carriers[1 - side].clear();
            self.declined = [Vec::new(), Vec::new()];
        } else {
            self.push_owed(side);
        }
        self.nodes[side].set_up(number, peer, psns, terms);
        self.ledgers[side] = Ledger::new(!self.is_reliable(), self.next_serial);
        self.ledgers[1 - side].forsake();
        if self.nodes[1 - side].gone.is_some() {
            self.ledgers[side].forsake();
        }
        self.may_resume[side] = false;
        // Whoever looks for it finds it again.
        self.nodes[1 - side].alone = false;
    }

    /// Whether an end is about to be set up anew.
    pub(crate) fn is_to_follow(&self, side: Side) -> bool {
        self.set_ups[side].is_some()
    }

    /// Whether it can be: a process in place of one that has ended is met when the end of that was noticed.
    pub(crate) fn can_follow(&self, side: Side) -> bool {
        let other = &self.nodes[1 - side];
        self.is_to_follow(side) && (self.nodes[side].gone.is_none() || other.gone.is_some() || other.alone)
    }

    /// Whether the two have the same connection in mind.
    pub(crate) fn are_connected(&self) -> bool {
        let [one, two] = &self.nodes;
        one.connection.attributes.destination_qp == two.number
            && two.connection.attributes.destination_qp == one.number
    }

    // What programs do.

    pub(crate) fn post_receive(&mut self, side: Side) {
        let node = &mut self.nodes[side];
        if node.connection.state() == QpState::Error {
            return;
        }
        let id = self.next_serial;
        let pieces = [ScatterGather { address: 0, length: RECEIVE_LENGTH, key: KEY }];
        if node.connection.receives.post(&ReceiveRequest { id, pieces: &pieces }, ZoneId(1)).is_ok() {
            self.next_serial += 1;
            node.receives.push_back(id);
        }
    }

    /// The program has the queue pair drained, or has drained it long enough (10.3.1).
    pub(crate) fn drain(&mut self, side: Side, chance: &mut Chance, now: Duration) {
        let connection = &mut self.nodes[side].connection;
        match connection.state() {
            QpState::ReadyToSend => {
                connection.requester.drain_until = connection.begun();
                connection.requester.drained_reported = false;
                connection.attributes.state = QpState::SendQueueDrain;
            }
            QpState::SendQueueDrain => connection.attributes.state = QpState::ReadyToSend,
            _ => return,
        }
        self.pump(side, chance, now);
    }

    /// The program takes it to error.
    pub(crate) fn give_up(&mut self, side: Side) {
        self.push_owed(side);
        self.enter_error(side);
    }

    /// An end learns that the other is gone.
    pub(crate) fn notice(&mut self, side: Side, now: Duration) {
        let Some(gone) = self.nodes[1 - side].gone.filter(|_| !self.nodes[side].alone) else { return };
        // All that came before is taken first.
        if !self.carriers[1 - side].is_empty() {
            return;
        }
        let node = &mut self.nodes[side];
        node.alone = true;
        if !self.is_reliable() || !self.nodes[side].connection.state().receives() {
            return;
        }
        let connection = &mut self.nodes[side].connection;
        let waits = connection.is_sending();
        match gone {
            Gone::Left if waits && connection.requester.wait.is_none() => {
                connection.take_back();
                connection.requester.restart();
                self.wait_for_answer(side, now);
            }
            Gone::Left => {}
            Gone::Killed if waits => self.fail_oldest(side, Status::RetryExceeded),
            Gone::Killed => self.enter_error(side),
        }
    }

    // Ends of requests.

    /// The oldest request ends.
    pub(crate) fn finish(&mut self, side: Side, status: Status) {
        let send = &mut self.nodes[side].connection.send;
        let serial = send.slot(send.finished).id;
        send.finished += 1;
        send.started = send.started.max(send.finished);
        self.ledgers[side].ended(serial, status);
    }

    pub(crate) fn flush_sends(&mut self, side: Side) {
        while !self.nodes[side].connection.send.is_empty() {
            self.finish(side, Status::Flushed);
        }
    }

    pub(crate) fn fail_oldest(&mut self, side: Side, status: Status) {
        if !self.nodes[side].connection.send.is_empty() {
            self.finish(side, status);
        }
        self.enter_error(side);
    }

    pub(crate) fn enter_error(&mut self, side: Side) {
        let node = &mut self.nodes[side];
        if matches!(node.connection.state(), QpState::Error | QpState::Reset) {
            return;
        }
        node.connection.attributes.state = QpState::Error;
        node.connection.requester.stop();
        if let Some(receive) = node.connection.responder.stop() {
            node.receive_ended(receive.id);
        }
        while let Some(receive) = node.connection.receives.take() {
            node.receive_ended(receive.id);
        }
        self.flush_sends(side);
    }

    // Waiting.

    pub(crate) fn wait(&mut self, side: Side, now: Duration, wait: Duration, reason: WaitReason) {
        self.nodes[side].connection.requester.wait(now, wait, reason);
    }

    pub(crate) fn wait_for_answer(&mut self, side: Side, now: Duration) {
        let wait = self.nodes[side].connection.answer_wait();
        self.wait(side, now, wait, WaitReason::NoAnswer);
    }

    /// A process ends.
    pub(crate) fn end(&mut self, side: Side, how: Gone) {
        self.nodes[side].gone = Some(how);
        self.ledgers[1 - side].forsake();
    }

    /// The first message that is on its way to an end.
    pub(crate) fn first_for(&self, side: Side) -> Option<Carried> {
        self.carriers[1 - side].first().cloned()
    }

    /// It was taken, or lost; whoever had no room has some now.
    pub(crate) fn passed_for(&mut self, side: Side) {
        let carrier = &mut self.carriers[1 - side];
        carrier.pass_first();
        self.may_resume[1 - side] |= std::mem::take(&mut carrier.was_full);
    }
}
