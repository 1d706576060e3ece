//! What an end asks of the other, and what it makes of the answers. The order of the steps is the device's.

use std::time::Duration;

use nonic_protocol::{
    AfterWait, Answer, AtomicChange, AtomicRequest, BaseHeader, Body, Extent, Message, Operation, Psn,
    ReadRequest, Refusal, Refused, RemoteRange, Request, ResponseStep, ScatterGather, SendFlags,
    SendFragment, SendRequest, Slot, Status, WaitReason, WriteFragment, WriteNotify,
};

use crate::carrier::FRAGMENT;
use crate::chance::Chance;
use crate::node::{AREA, CAPABILITIES, Gone, KEY, WORD, content, contents};
use crate::pair::{Pair, Side};

/// What starting a request came to.
enum Step {
    Finished,
    InFlight,
    Blocked,
    Later,
    Unreachable,
    Fault,
}

impl Pair {
    /// The program posts a request, and nothing is done about it yet; false if there is no room.
    pub(crate) fn post(&mut self, side: Side, chance: &mut Chance) -> bool {
        let reliable = self.is_reliable();
        let length = match chance.below(8) {
            0 => 0,
            1..6 => 1 + chance.below(FRAGMENT as u32),
            6 => chance.below(4 * FRAGMENT as u32),
            _ => chance.below(5 * FRAGMENT as u32),
        };
        let length = u64::from(length);
        let at = |address| RemoteRange { address, key: KEY };
        let anywhere = u64::from(chance.below((AREA - 5 * FRAGMENT) as u32));
        let immediate = chance.once_in(4).then_some(5);
        let (operation, length) = match chance.below(if reliable { 6 } else { 3 }) {
            0 | 1 => (Operation::Send { immediate }, length),
            2 => (Operation::Write { remote: at(anywhere), immediate }, length),
            3 => (Operation::Write { remote: at(anywhere), immediate: None }, length),
            4 => (Operation::Read { remote: at(AREA + anywhere) }, length),
            _ => (Operation::FetchAdd { remote: at(WORD), add: 1 }, 8),
        };
        let serial = self.next_serial;
        let flags = SendFlags { fence: chance.once_in(8), ..SendFlags::default() };
        let pieces = [ScatterGather { address: 0, length: length as u32, key: KEY }];
        let request = SendRequest { id: serial, operation, flags, pieces: &pieces, destination: None };
        let express = chance.once_in(2);
        if express && self.post_at_once(side, &request, length) {
            return true;
        }
        let send = &mut self.nodes[side].connection.send;
        let freed = send.finished;
        if send.post(&request, &CAPABILITIES, self.transport, freed, |_| ()).is_err() {
            return false;
        }
        self.next_serial += 1;
        self.ledgers[side].posted(serial);
        if self.nodes[side].connection.state() == nonic_protocol::QpState::Error {
            self.flush_sends(side);
        }
        true
    }

    /// The express way of a short send: on its way before it is noted.
    fn post_at_once(&mut self, side: Side, request: &SendRequest<'_>, length: u64) -> bool {
        let node = &self.nodes[side];
        let connection = &node.connection;
        let plain = matches!(request.operation, Operation::Send { immediate: None })
            && self.is_reliable()
            && (1..=FRAGMENT).contains(&length)
            && !node.alone;
        let next = connection.send.started == connection.send.posted
            && connection.send.has_slots(false)
            && connection.send.has_room(&CAPABILITIES, connection.send.finished)
            && connection.may_start()
            && connection.requester.sent == 0
            && !connection.responder.owes_more()
            && !(request.flags.fence && connection.requester.reads > 0);
        if !plain || !next {
            return false;
        }
        let (psn, acknowledges) = (connection.requester.next, connection.responder.acknowledge());
        let extent = Extent::whole(length as u32);
        let fragment = SendFragment { extent, immediate: None, solicited: false, acknowledges };
        let message = self.message(side, Request::Send(fragment));
        // Asked for before anybody can do it.
        self.ledgers[side].posted(request.id);
        if !self.carriers[side].push(message, contents(request.id, 0..length), request.id) {
            self.ledgers[side].not_posted();
            return false;
        }
        self.next_serial += 1;
        let connection = &mut self.nodes[side].connection;
        connection.responder.has_acknowledged();
        connection.requester.next = psn.next();
        connection.send.note_sent(request, CAPABILITIES.send_pieces, psn);
        true
    }

    fn base(&self, side: Side) -> BaseHeader {
        let node = &self.nodes[side];
        let (destination, requester) =
            (node.connection.attributes.destination_qp, &node.connection.requester);
        BaseHeader { destination, source: node.number, psn: requester.next, attempt: requester.attempt }
    }

    fn message(&self, side: Side, request: Request) -> Message {
        Message { base: self.base(side), body: Body::Request(request) }
    }

    /// Starts everything that can start.
    pub(crate) fn pump(&mut self, side: Side, chance: &mut Chance, now: Duration) {
        if !self.nodes[side].connection.next_says_what_is_owed(self.transport, FRAGMENT) {
            self.push_owed(side);
        }
        while self.nodes[side].connection.has_next() {
            let connection = &self.nodes[side].connection;
            let slot = *connection.send.slot(connection.send.started);
            match self.start(side, &slot, chance) {
                Step::Finished => {
                    let connection = &mut self.nodes[side].connection;
                    connection.send.started += 1;
                    connection.requester.has_copied();
                    self.finish(side, Status::Success);
                }
                Step::InFlight => self.nodes[side].connection.has_sent(),
                Step::Blocked | Step::Later => break,
                Step::Fault => {
                    match self.nodes[side].connection.requester.take_fault() {
                        Some(wait) => self.wait(side, now, wait, WaitReason::Fault),
                        None => self.fail_oldest(side, Status::RetryExceeded),
                    }
                    break;
                }
                Step::Unreachable => {
                    if self.nodes[side].connection.send.nothing_in_flight() {
                        self.wait_for_answer(side, now);
                    }
                    break;
                }
            }
        }
        self.push_owed(side);
        self.nodes[side].connection.has_just_drained();
    }

    fn start(&mut self, side: Side, slot: &Slot, chance: &mut Chance) -> Step {
        if self.nodes[side].alone {
            return if self.is_reliable() { Step::Unreachable } else { Step::Finished };
        }
        if slot.flags.fence && self.nodes[side].connection.requester.reads > 0 {
            return Step::Later;
        }
        let fresh = self.nodes[side].connection.requester.sent == 0;
        let idle = self.nodes[side].connection.send.nothing_in_flight()
            && (self.is_reliable() || self.carriers[side].is_empty());
        if fresh
            && idle
            && slot.total > 0
            && chance.once_in(3)
            && let Some(step) = self.start_directly(side, slot)
        {
            return step;
        }
        let remote = slot.operation.remote();
        match (slot.operation, remote) {
            (Operation::Send { immediate }, _) => {
                let says_more = immediate.is_none() && slot.total <= FRAGMENT;
                let owed = self.nodes[side].connection.responder.acknowledge();
                let acknowledges = owed.filter(|_| says_more);
                let step = self.push_fragments(side, slot, |extent| {
                    Request::Send(SendFragment { extent, immediate, solicited: false, acknowledges })
                });
                if acknowledges.is_some() && !matches!(step, Step::Blocked) {
                    self.nodes[side].connection.responder.has_acknowledged();
                }
                step
            }
            (Operation::Write { immediate, .. }, Some(remote)) => self.push_fragments(side, slot, |extent| {
                Request::Write(WriteFragment { extent, remote, immediate, solicited: false })
            }),
            (Operation::Read { .. }, Some(remote)) => {
                self.push_read(side, slot, Request::Read(ReadRequest { remote, total: slot.total as u32 }))
            }
            (_, Some(remote)) => {
                let change = AtomicChange::FetchAdd { add: 1 };
                self.push_read(side, slot, Request::Atomic(AtomicRequest { remote, change }))
            }
            (operation, None) => unreachable!("{operation:?} is not posted here"),
        }
    }

    fn sent(&self) -> Step {
        if self.is_reliable() { Step::InFlight } else { Step::Finished }
    }

    fn push_fragments(&mut self, side: Side, slot: &Slot, request: impl Fn(Extent) -> Request) -> Step {
        loop {
            let sent = self.nodes[side].connection.requester.sent;
            let count = (slot.total - sent).min(FRAGMENT);
            let extent = Extent { total: slot.total as u32, offset: sent as u32 };
            let message = self.message(side, request(extent));
            let payload = contents(slot.id, sent..sent + count);
            if !self.carriers[side].push(message, payload, slot.id) {
                return Step::Blocked;
            }
            let requester = &mut self.nodes[side].connection.requester;
            requester.sent += count;
            if requester.sent >= slot.total {
                requester.sent = 0;
                return self.sent();
            }
        }
    }

    fn push_read(&mut self, side: Side, slot: &Slot, request: Request) -> Step {
        let connection = &self.nodes[side].connection;
        if connection.requester.reads >= connection.attributes.max_rd_atomic {
            return Step::Later;
        }
        let message = self.message(side, request);
        if self.carriers[side].push(message, Vec::new(), slot.id) { Step::InFlight } else { Step::Blocked }
    }

    /// On the peer's memory, if that allows it beyond doubt.
    fn start_directly(&mut self, side: Side, slot: &Slot) -> Option<Step> {
        let remote = slot.operation.remote()?;
        let there = &self.nodes[1 - side];
        if there.gone == Some(Gone::Killed) {
            return self.is_reliable().then_some(Step::Fault);
        }
        let end = if matches!(slot.operation, Operation::Write { .. }) { AREA } else { WORD + 8 };
        let allowed = there.allows(remote.key, remote.address, slot.total, end);
        if !allowed || !self.are_connected() || !there.connection.state().receives() || there.gone.is_some() {
            return None;
        }
        let there = &mut self.nodes[1 - side];
        match slot.operation {
            Operation::Write { immediate, .. } => {
                let start = remote.address as usize;
                there.memory[start..start + slot.total as usize]
                    .copy_from_slice(&contents(slot.id, 0..slot.total));
                if let Some(immediate) = immediate {
                    let notice = WriteNotify { total: slot.total as u32, immediate, solicited: false };
                    let message = self.message(side, Request::WriteNotify(notice));
                    let pushed = self.carriers[side].push(message, Vec::new(), slot.id);
                    return Some(if pushed { self.sent() } else { Step::Blocked });
                }
                self.ledgers[side].executed(slot.id, None);
            }
            Operation::Read { .. } => self.ledgers[side].executed(slot.id, None),
            _ => {
                let old = there.word;
                there.word += 1;
                self.ledgers[side].executed(slot.id, Some(old));
            }
        }
        Some(Step::Finished)
    }

    // Answers.

    pub(crate) fn take_answer(
        &mut self,
        side: Side,
        base: BaseHeader,
        answer: Answer,
        payload: &[u8],
        chance: &mut Chance,
        now: Duration,
    ) {
        let node = &self.nodes[side];
        if !node.is_from_peer(base) {
            return;
        }
        match answer {
            Answer::Acknowledge => self.take_acknowledge(side, base.psn),
            Answer::Refuse(refusal) => self.take_refusal(side, base, refusal, now),
            Answer::ReadResponse(extent) => self.take_data(side, base, payload, |pair| {
                pair.nodes[side].connection.take_read_response(extent, payload.len() as u32)
            }),
            Answer::AtomicResponse { old } => self.take_data(side, base, &old.to_ne_bytes(), |pair| {
                pair.nodes[side].connection.take_atomic_response()
            }),
        }
        self.pump(side, chance, now);
    }

    fn finish_before(&mut self, side: Side, psn: Psn) {
        while self.nodes[side].connection.passes_oldest(psn) {
            self.finish(side, Status::Success);
        }
    }

    pub(crate) fn take_acknowledge(&mut self, side: Side, psn: Psn) {
        if self.nodes[side].connection.is_under_way(psn) {
            self.finish_before(side, psn.next());
        }
    }

    fn take_refusal(&mut self, side: Side, base: BaseHeader, refusal: Refusal, now: Duration) {
        if !self.nodes[side].connection.is_refused(base) {
            return;
        }
        if refusal.is_judgement() {
            self.finish_before(side, base.psn);
        }
        match self.nodes[side].connection.take_refusal(base.psn, refusal) {
            Refused::Nothing => {}
            Refused::Nonsense => panic!(
                "{refusal:?} of {base:?} makes no sense: {}, {:?}",
                self.describe(side),
                self.nodes[side].connection.requester
            ),
            Refused::WaitForAnswer => self.wait_for_answer(side, now),
            Refused::WaitForReceive(wait) => self.wait(side, now, wait, WaitReason::NotReady),
            Refused::RepeatWithBytes => panic!("nothing is pulled here"),
            Refused::Fail(status) => self.fail_oldest(side, status),
        }
    }

    fn take_data(
        &mut self,
        side: Side,
        base: BaseHeader,
        data: &[u8],
        judge: impl FnOnce(&mut Self) -> ResponseStep,
    ) {
        if self.nodes[side].connection.is_outdated(base)
            || !self.nodes[side].connection.is_under_way(base.psn)
        {
            return;
        }
        self.finish_before(side, base.psn);
        let connection = &self.nodes[side].connection;
        if !connection.answers_oldest(base.psn) {
            // Behind a read that is repeated.
            return;
        }
        let slot = *connection.send.slot(connection.send.finished);
        if connection.requester.read_received == 0 {
            self.nodes[side].fetched.clear();
        }
        match judge(self) {
            ResponseStep::Place { last } => {
                self.nodes[side].fetched.extend_from_slice(data);
                if last {
                    self.check_fetched(side, &slot);
                    self.nodes[side].connection.has_its_data(base.psn);
                    self.finish(side, Status::Success);
                }
            }
            step => panic!("{step:?} for {slot:?}"),
        }
    }

    /// What a read or an atomic brought is what there was.
    fn check_fetched(&mut self, side: Side, slot: &Slot) {
        let fetched = std::mem::take(&mut self.nodes[side].fetched);
        match slot.operation {
            Operation::Read { remote } => {
                let there: Vec<u8> = (0..slot.total).map(|at| content(0, remote.address + at)).collect();
                assert_eq!(fetched, there, "a read brought what was not there: {slot:?}");
            }
            _ => {
                let old = u64::from_ne_bytes(fetched.try_into().expect("a word"));
                assert_eq!(self.ledgers[side].found(slot.id), Some(old), "{slot:?}");
            }
        }
    }

    /// Time has passed.
    pub(crate) fn take_time(&mut self, side: Side, chance: &mut Chance, now: Duration) {
        match self.nodes[side].connection.take_time(now) {
            AfterWait::Nothing => {}
            AfterWait::Repeat => self.pump(side, chance, now),
            AfterWait::Fail(status) => self.fail_oldest(side, status),
        }
    }

    /// There is room again.
    pub(crate) fn resume(&mut self, side: Side, chance: &mut Chance, now: Duration) {
        self.may_resume[side] = false;
        self.refuse_declined(side);
        self.push_owed(side);
        self.pump(side, chance, now);
    }
}
