//! Sending requests: in the order in which they were posted, cut into packets of the path's MTU, as far as states, waits, what is
//! under way and room allow (IBTA vol. 1, 9.7.3, 9.7.7.2, 10.8.2, 10.8.3).

use nonic_protocol::{
    AtomicChange, AtomicRequest, Event, FlushRequest, Happening, LocalTurn, MESSAGE_MAX, Moment, Operation,
    Psn, QpState, RemoteRange, Slot, Status,
};

use super::Connection;
use super::requester::WaitReason;
use super::waiting::LOOK_AGAIN;
use crate::congestion::WINDOW_MAX;
use crate::packet::{Base, Body, Flush, Packet, Part, Request, Reth, Tail, UnreliableRequest};
use crate::surroundings::{Payload, Sent, Surroundings};

/// An answer is asked for at the end of every message and after so many packets, so that a long one is acknowledged on its way.
const ASK_EVERY: u32 = 64;
/// The same once packets were lost, or met congestion: so are answers, and what was asked for rarely is waited for longer.
const ASK_EVERY_AFTER_LOSS: u32 = 16;

/// Packets under way at most, answers of reads included: half of the numbers (9.7.2).
const NUMBERS_MAX: u32 = 1 << 23;

/// What came of the next packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// It was sent.
    Sent,
    /// The request is done.
    Finished,
    /// Something older must end first.
    Later,
    /// There is no room.
    Blocked,
    /// The request failed here.
    Failed(Status),
}

impl<T: Moment> Connection<T> {
    /// Sends what is owed, and everything that can be sent of what was posted. To be called when requests were posted, when what
    /// came was handled, and when there is room again.
    pub fn pump<S: Surroundings>(&mut self, now: T, around: &mut S) {
        // An acknowledgement goes behind the first packet of a request: it is shorter, and may so end a run of datagrams.
        let mut owes = self.responder.owes_acknowledgement_alone() && self.has_next();
        if !owes && !self.push_owed(around) {
            return around.await_room();
        }
        while self.has_next() {
            match self.send_next(now, around) {
                Step::Sent if owes => {
                    owes = false;
                    if !self.push_owed(around) {
                        around.await_room();
                        break;
                    }
                }
                Step::Sent => {}
                Step::Finished => self.finish(around, Status::Success),
                Step::Later => break,
                Step::Blocked => {
                    around.await_room();
                    break;
                }
                Step::Failed(_) if !self.send.nothing_in_flight() => break,
                Step::Failed(status) => {
                    self.fail_oldest(around, status);
                    break;
                }
            }
        }
        if owes && !self.push_owed(around) {
            around.await_room();
        }
        self.arm(now);
        self.watch_silence(now);
        if self.has_just_drained() {
            around.raise(Event::SendQueueDrained);
        }
    }

    /// Goes back to the oldest packet that was not answered: it and all behind it are sent again.
    pub(super) fn go_back(&mut self) {
        if self.oldest().is_some_and(|slot| matches!(slot.operation, Operation::Flush { .. })) {
            // The peer may make its check in the other way, and have dropped it for that.
            self.requester.flush_check = self.requester.flush_check.other();
        }
        self.requester.take_back();
        self.send.started = self.send.finished;
        self.requester.sent = if self.send.finished < self.requester.numbered {
            self.requester.unanswered.distance_from(self.send.slot(self.send.finished).psn)
        } else {
            0
        };
    }

    fn send_next<S: Surroundings>(&mut self, now: T, around: &mut S) -> Step {
        let number = self.send.started;
        let slot = *self.send.slot(number);
        if slot.operation.is_local() {
            return self.start_locally(now, around, &slot);
        }
        if self.requester.sent == 0
            && let Err(step) = self.may_begin(&slot)
        {
            return step;
        }
        let packets = self.packets_of(&slot);
        if self.is_reliable() {
            let under_way = self.requester.under_way();
            let numbers = self.numbers_of_next(&slot, packets);
            if under_way >= self.window()
                || under_way + numbers > NUMBERS_MAX
                || slot.awaits_data() && !self.may_ask_for(numbers)
            {
                return Step::Later;
            }
        }
        let psn = self.requester.next;
        let (request, payload) = self.next_packet(around, number, &slot, packets);
        let mut base = Base::new(self.attributes.destination_qp, psn);
        base.solicited = slot.flags.solicited && request.ends();
        base.ack_request = self.asks(&request);
        let packet = Packet { base, body: self.body(number, request) };
        let payload = match payload {
            Some((offset, count)) => Payload::Request { send: &self.send, number, offset, count },
            None => Payload::None,
        };
        match around.send(&packet, payload) {
            Sent::NoRoom => return Step::Blocked,
            Sent::Gone => return Step::Failed(Status::LocalProtection),
            Sent::Sent => {}
        }
        around.sees(Happening::Started { psn });
        self.has_sent_packet(number, &slot, packets, &request, base.ack_request)
    }

    /// A packet of a request is on its way.
    fn has_sent_packet(
        &mut self,
        number: u64,
        slot: &Slot,
        packets: u32,
        request: &Request,
        asked: bool,
    ) -> Step {
        if number == self.requester.numbered {
            self.send.set_psn(number, self.requester.next);
            self.requester.numbered += 1;
        }
        self.requester.unasked = if asked { 0 } else { self.requester.unasked + 1 };
        let numbers = self.numbers_of_next(slot, packets);
        if slot.awaits_data() {
            self.requester.has_asked_for(numbers);
        }
        self.requester.pass(numbers);
        self.requester.sent += numbers;
        if !self.is_reliable() {
            self.requester.unanswered = self.requester.next;
        }
        if !request.ends() {
            return Step::Sent;
        }
        self.requester.has_sent();
        if self.requester.sent < packets {
            return Step::Sent;
        }
        self.requester.sent = 0;
        self.send.started += 1;
        if self.is_reliable() { Step::Sent } else { Step::Finished }
    }

    /// Packets of a request; of a read, of its answer.
    pub(super) fn packets_of(&self, slot: &Slot) -> u32 {
        // Longer ones are never begun.
        self.mtu().packets(slot.total.min(MESSAGE_MAX.into()) as u32)
    }

    /// Whether the first packet of a request may be sent.
    fn may_begin(&self, slot: &Slot) -> Result<(), Step> {
        let reads = self.requester.reads;
        if slot.total > u64::from(MESSAGE_MAX) {
            return Err(Step::Failed(Status::LocalLength));
        }
        match slot.operation {
            _ if slot.awaits_data() && (self.attributes.max_rd_atomic == 0 || !self.is_reliable()) => {
                return Err(Step::Failed(Status::LocalQpOperation));
            }
            Operation::CompareSwap { .. } | Operation::FetchAdd { .. }
                if slot.total != u64::from(AtomicRequest::LENGTH) =>
            {
                return Err(Step::Failed(Status::LocalLength));
            }
            _ => {}
        }
        let waits = match slot.operation {
            // 10.8.3.3: a fence waits for reads and atomics.
            _ if slot.flags.fence => reads > 0,
            // What this side still reads may be read through the key that is taken out of use.
            Operation::SendInvalidate { .. } => reads > 0,
            _ => false,
        };
        let takes_receive = matches!(
            slot.operation,
            Operation::Send { .. }
                | Operation::SendInvalidate { .. }
                | Operation::Write { immediate: Some(_), .. }
        );
        if waits || takes_receive && self.is_reliable() && !self.requester.has_credit() {
            return Err(Step::Later);
        }
        Ok(())
    }

    /// The next packet of a request, and which of its bytes go with it: their offset and count.
    fn next_packet<S: Surroundings>(
        &self,
        around: &mut S,
        number: u64,
        slot: &Slot,
        packets: u32,
    ) -> (Request, Option<(u32, u32)>) {
        let (sent, total) = (self.requester.sent, slot.total as u32);
        assert!(sent < packets, "{sent} packets are sent of a message of {packets}");
        let offset = sent * self.mtu().bytes();
        let count = (total - offset).min(self.mtu().bytes());
        let is_last = sent + 1 == packets;
        let reth = |remote| Reth { remote, length: total };
        let request = match slot.operation {
            Operation::Write { remote, immediate } => {
                Request::Write(part(sent == 0, is_last, reth(remote), immediate))
            }
            // Its own opcode (annex A19) is not spoken: a write of an aligned word, which everybody stores at once.
            Operation::AtomicWrite { remote } => Request::Write(part(sent == 0, is_last, reth(remote), None)),
            Operation::SendInvalidate { key } => {
                Request::Send(part(sent == 0, is_last, (), Tail::Invalidate(key)))
            }
            Operation::Send { immediate } => {
                let tail = immediate.map_or(Tail::Plain, Tail::Immediate);
                Request::Send(part(sent == 0, is_last, (), tail))
            }
            Operation::Read { remote } => {
                // One whose answer broke off goes on where it did (9.7.6).
                let remote = RemoteRange { address: remote.address.wrapping_add(offset.into()), ..remote };
                let length = (total - offset).min(self.left_of_piece(packets) * self.mtu().bytes());
                return (Request::Read(Reth { remote, length }), None);
            }
            Operation::Flush { flush: FlushRequest { remote, length, placement, selectivity } } => {
                let flush = Flush {
                    reth: Reth { remote, length },
                    placement: placement.bits(),
                    selectivity: selectivity as u8,
                    check: self.requester.flush_check,
                };
                return (Request::Flush(flush), None);
            }
            Operation::CompareSwap { remote, .. } | Operation::FetchAdd { remote, .. } => {
                let change = match slot.operation {
                    // The peer judges first, and then this side has no place for the result: the word must not change.
                    _ if !around.takes_result(&self.send, number) => AtomicChange::FetchAdd { add: 0 },
                    Operation::CompareSwap { compare, swap, .. } => {
                        AtomicChange::CompareSwap { compare, swap }
                    }
                    Operation::FetchAdd { add, .. } => AtomicChange::FetchAdd { add },
                    _ => unreachable!("the operation is an atomic"),
                };
                return (Request::Atomic(AtomicRequest { remote, change }), None);
            }
            Operation::Bind { .. } | Operation::Invalidate { .. } => {
                unreachable!("nothing is sent of what happens on this side")
            }
        };
        (request, Some((offset, count)))
    }

    /// Packets that may be under way.
    fn window(&self) -> u32 {
        if self.requester.probes > 0 { 1 } else { self.congestion.window() }
    }

    /// Whether, in that state, requests are under way whose answers have this side look again for what it may send.
    pub fn awaits_answer(&self, state: QpState) -> bool {
        self.is_reliable() && state == QpState::ReadyToSend && self.requester.under_way() > 0
    }

    /// Whether the next packet asks for an answer.
    fn asks(&self, request: &Request) -> bool {
        let full = self.requester.under_way() + 1 >= self.window();
        let every = if self.window() < WINDOW_MAX { ASK_EVERY_AFTER_LOSS } else { ASK_EVERY };
        self.is_reliable() && (request.ends() || self.requester.unasked + 1 >= every || full)
    }

    /// A request, as it travels on a connection of this kind.
    fn body(&self, number: u64, request: Request) -> Body {
        if !self.is_reliable() {
            return Body::Unreliable(match request {
                Request::Write(part) => UnreliableRequest::Write(part),
                Request::Send(part) => UnreliableRequest::Send(without_key(part)),
                Request::Read(_) | Request::Atomic(_) | Request::Flush(_) => {
                    unreachable!("an unreliable connection begins none: `may_begin`")
                }
            });
        }
        match self.send.destination_queue(number).number() {
            Some(queue) => Body::ExtendedRequest(queue, request),
            None => Body::Request(request),
        }
    }

    /// Carries out a request of which nothing happens at the peer. It waits for everything older, and everything newer waits for
    /// it (10.8.3.3).
    fn start_locally<S: Surroundings>(&mut self, now: T, around: &mut S, slot: &Slot) -> Step {
        if !self.send.nothing_in_flight() {
            return Step::Later;
        }
        match around.take_turn(&slot.operation) {
            LocalTurn::Done => {
                self.send.started += 1;
                Step::Finished
            }
            LocalTurn::Wait => {
                self.requester.wait = Some((now + LOOK_AGAIN, WaitReason::Occupied));
                Step::Later
            }
            LocalTurn::Failed => Step::Failed(Status::WindowBind),
        }
    }

    /// Number of the oldest packet of which nothing has been heard.
    pub fn unanswered(&self) -> Psn {
        self.requester.unanswered
    }
}

fn part<F, L>(is_first: bool, is_last: bool, first: F, last: L) -> Part<F, L> {
    match (is_first, is_last) {
        (true, false) => Part::First(first),
        (false, false) => Part::Middle,
        (false, true) => Part::Last(last),
        (true, true) => Part::Only(first, last),
    }
}

/// A packet of a send on an unreliable connection, which has no invalidation: posting one there is refused.
fn without_key(part: Part<(), Tail>) -> Part<(), Option<u32>> {
    let immediate = |tail| if let Tail::Immediate(immediate) = tail { Some(immediate) } else { None };
    match part {
        Part::First(()) => Part::First(()),
        Part::Middle => Part::Middle,
        Part::Last(tail) => Part::Last(immediate(tail)),
        Part::Only((), tail) => Part::Only((), immediate(tail)),
    }
}
