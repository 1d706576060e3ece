//! Two queue pairs that are connected, and what can happen to them.

use std::time::Duration;

use nonic_protocol::{
    Body, Destination, Extent, FlushRequest, Message, Operation, Placement, Psn, QpNumber, QpState,
    ReceiveRequest, RemoteRange, Request, ScatterGather, Selectivity, SendFlags, SendFragment, SendRequest,
    ZoneId,
};

use crate::around::Around;
use crate::carrier::{Carried, FRAGMENT};
use crate::chance::Chance;
use crate::ledger::Ledger;
use crate::node::{
    AREA, CAPABILITIES, Gone, KEY, LOOSE_KEY, Node, QueuePair, RECEIVE_LENGTH, SetUp, Terms, WORD, contents,
};
use crate::scene::Scene;

/// Which end.
pub(crate) type Side = usize;

/// Two ends of a connection.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) pairs: [QueuePair; 2],
    pub(crate) scene: Scene,
    set_ups: [Option<SetUp>; 2],
    next_number: u32,
    next_serial: u64,
}

impl Pair {
    pub(crate) fn new(chance: &mut Chance) -> Self {
        let mut pair = Self {
            pairs: [QueuePair::new(&CAPABILITIES), QueuePair::new(&CAPABILITIES)],
            scene: Scene::new(chance),
            set_ups: [None; 2],
            next_number: 2,
            next_serial: 1,
        };
        pair.agree(chance);
        pair.follow(0, chance, Duration::ZERO);
        pair.follow(1, chance, Duration::ZERO);
        pair
    }

    /// An end does something.
    fn act<R>(
        &mut self,
        side: Side,
        chance: &mut Chance,
        now: Duration,
        what: impl FnOnce(&mut QueuePair, &mut Around<'_>) -> R,
    ) -> R {
        let [first, second] = &mut self.pairs;
        let (pair, peer) = if side == 0 { (first, second) } else { (second, first) };
        pair.path = (!self.scene.nodes[side].alone).then_some(());
        let scene = &mut self.scene;
        let mut around = Around {
            scene,
            peer,
            side,
            chance,
            now,
            starting: 0,
            arriving: None,
            owes_poll: false,
            denied: false,
        };
        what(pair, &mut around)
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
    pub(crate) fn follow(&mut self, side: Side, chance: &mut Chance, now: Duration) {
        let Some(set_up) = self.set_ups[side].take() else { return };
        if self.scene.nodes[side].gone.is_some() {
            // What was on its way to a process that has ended ends with it, and what that had to say.
            self.scene.carriers[1 - side].clear();
            self.scene.declined = [Vec::new(), Vec::new()];
        } else {
            self.answer(side, chance, now);
        }
        self.pairs[side] = set_up.queue_pair();
        let scene = &mut self.scene;
        scene.nodes[side] = Node::new(set_up.number, set_up.peer);
        scene.ledgers[side] = Ledger::new(!scene.is_reliable(), self.next_serial);
        scene.ledgers[1 - side].forsake();
        if scene.nodes[1 - side].gone.is_some() {
            scene.ledgers[side].forsake();
        }
        scene.may_resume[side] = false;
        // Whoever looks for it finds it again.
        scene.nodes[1 - side].alone = false;
    }

    /// Whether an end is about to be set up anew.
    pub(crate) fn is_to_follow(&self, side: Side) -> bool {
        self.set_ups[side].is_some()
    }

    /// Whether it can be: a process in place of one that has ended is met when the end of that was noticed.
    pub(crate) fn can_follow(&self, side: Side) -> bool {
        let [own, other] = [side, 1 - side].map(|side| &self.scene.nodes[side]);
        self.is_to_follow(side) && (own.gone.is_none() || other.gone.is_some() || other.alone)
    }

    // What programs do.

    pub(crate) fn post_receive(&mut self, side: Side) {
        let (pair, node) = (&mut self.pairs[side], &mut self.scene.nodes[side]);
        if pair.state() == QpState::Error {
            return;
        }
        let id = self.next_serial;
        let pieces = [ScatterGather { address: 0, length: RECEIVE_LENGTH, key: KEY }];
        let request = ReceiveRequest { id, pieces: &pieces };
        let (queue, known) = if self.scene.extended {
            let shorter = node.shorter().0;
            let (queue, known) = &mut node.shared[shorter];
            (queue, known)
        } else {
            (&mut pair.receives, &mut node.receives)
        };
        if queue.post(&request, ZoneId(1)).is_ok() {
            self.next_serial += 1;
            known.push_back(id);
        }
    }

    /// The program posts a request, and nothing is done about it yet; false if there is no room.
    pub(crate) fn post(&mut self, side: Side, chance: &mut Chance, now: Duration) -> bool {
        let reliable = self.scene.is_reliable();
        let length = match chance.below(8) {
            0 => 0,
            1..6 => 1 + chance.below(FRAGMENT as u32),
            6 => chance.below(4 * FRAGMENT as u32),
            _ => chance.below(5 * FRAGMENT as u32),
        };
        let at = |address| RemoteRange { address, key: KEY };
        let anywhere = u64::from(chance.below((AREA - 5 * FRAGMENT) as u32));
        let immediate = chance.once_in(4).then_some(5);
        let serial = self.next_serial;
        let (operation, length) = match chance.below(if reliable { 17 } else { 8 }) {
            0..5 => (Operation::Send { immediate }, length),
            5 | 6 => (Operation::Write { remote: at(anywhere), immediate }, length),
            7 | 8 => (Operation::Write { remote: at(anywhere), immediate: None }, length),
            9..12 => (Operation::Read { remote: at(AREA + anywhere) }, length),
            12 | 13 => (Operation::FetchAdd { remote: at(WORD), add: 1 }, 8),
            14 => (Operation::SendInvalidate { key: LOOSE_KEY }, length),
            15 => {
                let (placement, selectivity) = (Placement::GLOBAL, Selectivity::Range);
                let remote = at(AREA + anywhere);
                (Operation::Flush { flush: FlushRequest { remote, length, placement, selectivity } }, 0)
            }
            _ => (Operation::Invalidate { key: nonic_protocol::Key(serial as u32) }, 0),
        };
        let flags = SendFlags { fence: chance.once_in(8), ..SendFlags::default() };
        let one = [ScatterGather { address: 0, length, key: KEY }];
        let pieces: &[_] = if operation.has_bytes() { &one } else { &[] };
        let destination = self.scene.named_by(serial).map(Destination::Queue);
        let request = SendRequest { id: serial, operation, flags, pieces, destination };
        if chance.once_in(2) && self.post_at_once(side, &request, length.into()) {
            return true;
        }
        let transport = self.scene.transport();
        let send = &mut self.pairs[side].send;
        if send.post(&request, &CAPABILITIES, transport, send.finished, |_| ()).is_err() {
            return false;
        }
        self.next_serial += 1;
        self.scene.ledgers[side].posted(serial);
        if self.pairs[side].state() == QpState::Error {
            self.act(side, chance, now, |pair, around| pair.flush_sends(around));
        }
        true
    }

    /// The express way of a short send: on its way before it is noted.
    fn post_at_once(&mut self, side: Side, request: &SendRequest<'_>, length: u64) -> bool {
        let (pair, node) = (&mut self.pairs[side], &self.scene.nodes[side]);
        let plain = matches!(request.operation, Operation::Send { immediate: None })
            && self.scene.is_reliable()
            && !self.scene.extended
            && (1..=FRAGMENT).contains(&length)
            && !node.alone;
        let next =
            pair.send.has_room(&CAPABILITIES, pair.send.finished) && pair.may_send_at_once(request.flags);
        if !plain || !next {
            return false;
        }
        let (psn, attempt) = (pair.requester.next, pair.requester.attempt);
        let acknowledges = pair.responder.acknowledge();
        let extent = Extent::whole(length as u32);
        let fragment = SendFragment { extent, immediate: None, solicited: false, acknowledges };
        let base = nonic_protocol::BaseHeader::new(node.peer, node.number, psn, attempt);
        let message = Message { base, body: Body::Request(Request::Send(fragment)) };
        // Asked for before anybody can do it.
        self.scene.ledgers[side].posted(request.id);
        if !self.scene.carriers[side].push(message, contents(request.id, 0..length), request.id) {
            self.scene.ledgers[side].not_posted();
            return false;
        }
        self.next_serial += 1;
        pair.has_sent_at_once(request, CAPABILITIES.send_pieces);
        true
    }

    /// The program has the queue pair drained, or has drained it long enough (10.3.1).
    pub(crate) fn drain(&mut self, side: Side, chance: &mut Chance, now: Duration) {
        let pair = &mut self.pairs[side];
        match pair.state() {
            QpState::ReadyToSend => {
                pair.requester.drain_until = pair.begun();
                pair.requester.drained_reported = false;
                pair.attributes.state = QpState::SendQueueDrain;
            }
            QpState::SendQueueDrain => pair.attributes.state = QpState::ReadyToSend,
            _ => return,
        }
        self.pump(side, chance, now);
    }

    /// The program takes it to error.
    pub(crate) fn give_up(&mut self, side: Side, chance: &mut Chance, now: Duration) {
        self.act(side, chance, now, |pair, around| {
            pair.answer(around);
            pair.stop(around);
        });
    }

    // What happens to an end.

    /// An end takes the first message that is on its way to it; false if there is none, or it has to wait.
    pub(crate) fn deliver(&mut self, side: Side, chance: &mut Chance, now: Duration) -> bool {
        if !self.scene.nodes[side].acts() {
            return false;
        }
        let Some(carried) = self.scene.first_for(side) else { return false };
        if self.scene.carriers[1 - side].loses && carried.is_middle() && chance.once_in(8) {
            // Nobody notices before the next message of the same end; there may be none.
            self.scene.nodes[1 - side].unheard = true;
            self.scene.ledgers[1 - side].met_nobody();
            self.scene.passed_for(side);
            return true;
        }
        let held = self.act(side, chance, now, |pair, around| take(pair, around, &carried));
        if !held {
            self.scene.passed_for(side);
        }
        !held
    }

    /// An end learns that the other is gone.
    pub(crate) fn notice(&mut self, side: Side, chance: &mut Chance, now: Duration) {
        let gone = self.scene.nodes[1 - side].gone.filter(|_| !self.scene.nodes[side].alone);
        // All that came before is taken first.
        let Some(gone) = gone.filter(|_| self.scene.carriers[1 - side].is_empty()) else { return };
        self.scene.nodes[side].alone = true;
        self.act(side, chance, now, |pair, around| pair.lose_peer(around, gone == Gone::Left));
    }

    /// Starts everything that can start.
    pub(crate) fn pump(&mut self, side: Side, chance: &mut Chance, now: Duration) {
        self.act(side, chance, now, |pair, around| pair.pump(around));
    }

    /// Sends what is owed as far as there is room.
    pub(crate) fn answer(&mut self, side: Side, chance: &mut Chance, now: Duration) {
        self.act(side, chance, now, |pair, around| pair.answer(around));
    }

    /// There is room again.
    pub(crate) fn resume(&mut self, side: Side, chance: &mut Chance, now: Duration) {
        self.scene.may_resume[side] = false;
        self.scene.refuse_declined(side);
        self.act(side, chance, now, |pair, around| pair.resume(around));
    }

    /// Time has passed.
    pub(crate) fn take_time(&mut self, side: Side, chance: &mut Chance, now: Duration) {
        self.act(side, chance, now, |pair, around| pair.handle_time(around, now));
    }

    /// A process ends.
    pub(crate) fn end(&mut self, side: Side, how: Gone) {
        self.scene.nodes[side].gone = Some(how);
        self.scene.ledgers[1 - side].forsake();
    }
}

/// An end takes a message; true if it has to wait where it is.
fn take(pair: &mut QueuePair, around: &mut Around<'_>, carried: &Carried) -> bool {
    let Message { base, body } = carried.message;
    let is_of_peer = around.scene.nodes[around.side].is_from_peer(base);
    match body {
        Body::Answer(answer) => {
            pair.handle_answer(around, is_of_peer, base, answer, carried);
            false
        }
        Body::Request(request) => {
            (around.arriving, around.owes_poll) = (Some(carried.serial), around.chance.once_in(4));
            if around.chance.once_in(2) && is_of_peer && take_at_once(pair, around, carried, &request) {
                return false;
            }
            let delivery = pair.handle_request(around, is_of_peer, base, &request, carried);
            delivery == nonic_protocol::Delivery::Held
        }
        Body::Datagram(_) => panic!("these queue pairs are connected"),
    }
}

/// The express way of a short send that is the next.
fn take_at_once(pair: &mut QueuePair, around: &mut Around<'_>, carried: &Carried, request: &Request) -> bool {
    let Request::Send(send) = request else { return false };
    if around.scene.extended {
        return false;
    }
    let whole = send.extent.is_whole(carried.payload.len() as u32) && !carried.payload.is_empty();
    let plain = around.scene.is_reliable() && whole && send.immediate.is_none();
    let next = pair.may_take_at_once(carried.message.base.psn);
    let Some(id) = pair.receives.first().map(|receive| receive.id) else { return false };
    if !plain || !next || pair.path.is_none() {
        return false;
    }
    pair.has_taken_at_once(carried.message.base.psn);
    around.took_at_once(id, carried);
    if let Some(psn) = send.acknowledges {
        pair.take_acknowledge(around, psn);
        if pair.awaits_answers() {
            pair.pump(around);
        }
    }
    true
}
