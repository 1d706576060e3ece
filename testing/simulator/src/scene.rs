//! Everything of a pair but its two queue pairs: their memory, what carries their messages, and the ledgers.

use nonic_protocol::{Answer, BaseHeader, Body, Message, QpNumber, QpType, Refusal, SrqNumber};

use crate::carrier::{Carried, Carrier};
use crate::chance::Chance;
use crate::ledger::Ledger;
use crate::node::Node;
use crate::pair::Side;

/// What is around two queue pairs.
#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) service: QpType,
    /// Whether it is an extended reliable connection: every request names a shared receive queue.
    pub(crate) extended: bool,
    pub(crate) nodes: [Node; 2],
    /// What each end sends.
    pub(crate) carriers: [Carrier; 2],
    /// What each end asked for.
    pub(crate) ledgers: [Ledger; 2],
    /// There is room again for what an end could not send.
    pub(crate) may_resume: [bool; 2],
    /// Requests that nobody takes, of which an end could not tell the other.
    pub(crate) declined: [Vec<BaseHeader>; 2],
}

impl Scene {
    pub(crate) fn new(chance: &mut Chance) -> Self {
        let service =
            if chance.once_in(5) { QpType::UnreliableConnection } else { QpType::ReliableConnection };
        let unreliable = service == QpType::UnreliableConnection;
        let extended = !unreliable && chance.once_in(4);
        let loses = !unreliable && chance.once_in(4);
        let mut carrier = || Carrier::new(1 + chance.below(12) as usize, loses);
        let nobody = QpNumber(0);
        Self {
            service,
            extended,
            nodes: [Node::new(nobody, nobody), Node::new(nobody, nobody)],
            carriers: [carrier(), carrier()],
            ledgers: [Ledger::new(unreliable, 1), Ledger::new(unreliable, 1)],
            may_resume: [false; 2],
            declined: [Vec::new(), Vec::new()],
        }
    }

    pub(crate) fn is_reliable(&self) -> bool {
        self.service == QpType::ReliableConnection
    }

    /// By whose rules requests are posted.
    pub(crate) fn transport(&self) -> QpType {
        if self.extended { QpType::ExtendedSend } else { self.service }
    }

    /// The shared receive queue that a request names, if any. Now and then it is none of the peer's.
    pub(crate) fn named_by(&self, serial: u64) -> Option<SrqNumber> {
        let number = if serial % 97 == 5 { 3 } else { 1 + serial as u32 % 2 };
        self.extended.then_some(SrqNumber(number))
    }

    /// Says without a queue pair that nobody takes a request; as soon as there is room, if there is none.
    pub(crate) fn refuse(&mut self, side: Side, base: BaseHeader) {
        let body = Body::Answer(Answer::Refuse(Refusal::NoAnswer));
        if self.carriers[side].push(Message { base: base.answer(), body }, Vec::new(), 0) {
            return;
        }
        let declined = &mut self.declined[side];
        match declined.iter_mut().find(|known| known.source == base.source) {
            Some(known) if known.attempt() == base.attempt() => {}
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
