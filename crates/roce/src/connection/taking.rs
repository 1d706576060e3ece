//! Taking what the peer sends. A request takes the steps of the specification in its order: number, opcode in its sequence,
//! operation, length, receive, key, execution, acknowledgement (IBTA vol. 1, 9.6, 9.7.4, 9.7.5).
//!
//! Whether a packet is of the peer, by its address, is the driver's to know, and that its check was right.

use nonic_protocol::{AffiliatedError, Event, Happening, Moment, Psn, QpState, Refusal, SrqNumber};

use super::Connection;
use super::executing::{NO_ACCESS, Outcome};
use super::responder::{KeptAnswer, OwedRead, Portion};
use crate::packet::{Body, FiveBits, Nak, Packet, Request, Syndrome};
use crate::surroundings::Surroundings;

/// The bits of a P_Key that name the partition; the highest one says whether membership is full.
const PARTITION: u16 = 0x7fff;

impl<T: Moment> Connection<T> {
    /// Takes a packet of the peer's for this queue pair, with its payload. What is owed for it is sent by [`Connection::pump`],
    /// once for a batch of packets: one acknowledgement stands for many.
    pub fn handle<S: Surroundings>(&mut self, now: T, around: &mut S, packet: &Packet, payload: &[u8]) {
        // 9.6.1.1: a queue pair that cannot take it, another partition (there is the default one only): silence.
        if !self.state().receives() || packet.base.p_key & PARTITION != PARTITION {
            return around.sees(Happening::Dropped);
        }
        self.silence.has_heard(now);
        let psn = packet.base.psn;
        let asks = packet.base.ack_request;
        let solicited = packet.base.solicited;
        match packet.body {
            Body::Congestion => self.congestion.take_notice(now),
            Body::Request(request) if self.is_reliable() && !self.is_extended() => {
                self.take_request(around, psn, None, request, Arrival { payload, asks, solicited });
            }
            Body::ExtendedRequest(queue, request) if self.is_extended() && self.kind.responds() => {
                self.take_request(around, psn, Some(queue), request, Arrival { payload, asks, solicited });
            }
            Body::Unreliable(request) if !self.is_reliable() => {
                self.take_unreliable(around, psn, request, Arrival { payload, asks, solicited });
            }
            Body::Answer(answer) if self.is_reliable() && !self.is_extended() => {
                if !self.take_answer(now, around, psn, answer, payload) {
                    around.sees(Happening::Dropped);
                }
            }
            Body::ExtendedAnswer(answer) if self.is_extended() && self.kind.requests() => {
                if !self.take_answer(now, around, psn, answer, payload) {
                    around.sees(Happening::Dropped);
                }
            }
            _ => around.sees(Happening::Dropped),
        }
    }

    /// A packet of the peer's came by a way that is congested (annex A17, 17.9: the mark CE in its IP header). The peer is told,
    /// now and then.
    pub fn handle_congestion(&mut self, now: T) {
        if self.state().receives() {
            self.congestion.was_met(now);
        }
    }

    fn take_request<S: Surroundings>(
        &mut self,
        around: &mut S,
        psn: Psn,
        queue: Option<SrqNumber>,
        request: Request,
        arrival: Arrival<'_>,
    ) {
        self.note_established(around);
        // 9.7.4.1.1: the number.
        match psn.ahead_of(self.responder.expected) {
            0 => {}
            ahead @ 1.. => return self.complain(around, ahead.unsigned_abs()),
            behind => return self.take_repeated(around, psn, behind.unsigned_abs(), request),
        }
        (self.responder.complained, self.responder.ahead) = (false, 0);
        let outcome = match queue {
            Some(queue) if !self.turn_to(around, queue) => NO_ACCESS,
            _ => self.execute(around, queue, request, arrival),
        };
        self.conclude(around, psn, arrival, outcome);
    }

    /// The first message: the peer is connected. If it came before the program had the queue pair ready to send, that is an event
    /// (10.3.1: Communication Established).
    pub(super) fn note_established<S: Surroundings>(&mut self, around: &mut S) {
        if !self.established {
            self.established = true;
            around.peer_is_connected();
            if self.state() == QpState::ReadyToReceive {
                around.raise(Event::CommunicationEstablished);
            }
        }
    }

    /// All packets of a message are for the same shared receive queue (annex A14: an invalid XRCETH is refused as an access that
    /// is not allowed).
    fn turn_to<S: Surroundings>(&self, around: &mut S, queue: SrqNumber) -> bool {
        let other = self.responder.inbound.as_ref().is_some_and(|inbound| inbound.queue != Some(queue));
        !other && around.turn_to(queue)
    }

    /// Packets are missing, or there is no receive: the peer is told once, and then everything else is dropped until the packet
    /// comes that is due (9.7.5.2.4). If the peer has gone back since, as it was told, and what is due was lost again, it is told again:
    /// a packet shows it that is less far ahead than the one before.
    fn complain<S: Surroundings>(&mut self, around: &mut S, ahead: u32) {
        around.sees(Happening::Dropped);
        let has_gone_back = ahead < self.responder.ahead;
        self.responder.ahead = ahead;
        if !self.responder.complained || has_gone_back {
            self.responder.complained = true;
            self.responder.refuse(self.responder.expected, Syndrome::Refuse(Nak::Sequence));
        }
    }

    /// What is said of a request that was due (9.7.5).
    fn conclude<S: Surroundings>(
        &mut self,
        around: &mut S,
        psn: Psn,
        arrival: Arrival<'_>,
        outcome: Outcome,
    ) {
        match outcome {
            Outcome::Taken { ends, bytes, receive } => {
                self.responder.has_taken(1, ends);
                if ends {
                    around.sees(Happening::Taken { psn, bytes, receive });
                }
                if arrival.asks {
                    self.responder.acknowledge(psn);
                }
            }
            Outcome::Read { reth, queue } => {
                let (packets, remote, length) = (self.mtu().packets(reth.length), reth.remote, reth.length);
                let kept = KeptAnswer::Read { queue, remote, length };
                self.responder.keep(packets, kept, self.attributes.max_dest_rd_atomic);
                self.responder.has_taken(packets, true);
                self.responder.owe_read(psn, OwedRead { queue, remote, length }, false);
                around.sees(Happening::Taken { psn, bytes: length, receive: false });
            }
            Outcome::Flushed => {
                self.responder.keep(1, KeptAnswer::Flush, self.attributes.max_dest_rd_atomic);
                self.responder.has_taken(1, true);
                self.responder.owe_read(psn, OwedRead::NOTHING, false);
                around.sees(Happening::Taken { psn, bytes: 0, receive: false });
            }
            Outcome::Atomic { old } => {
                let kept = KeptAnswer::Atomic { old };
                self.responder.keep(1, kept, self.attributes.max_dest_rd_atomic);
                self.responder.has_taken(1, true);
                self.responder.owe_old(psn, old, false);
                around.sees(Happening::Taken { psn, bytes: 8, receive: false });
            }
            Outcome::NotReady => {
                let timer = FiveBits::masked(self.attributes.min_rnr_timer);
                let refusal = Refusal::NotReady { timer: timer.get() };
                around.sees(Happening::Refused { psn, refusal });
                self.responder.complained = true;
                self.responder.refuse(psn, Syndrome::NotReady(timer));
            }
            Outcome::Fatal(nak, error) => self.refuse_for_good(around, psn, nak, error),
        }
    }

    /// The request is refused, the peer told, and the connection over (9.9.3).
    pub(super) fn refuse_for_good<S: Surroundings>(
        &mut self,
        around: &mut S,
        psn: Psn,
        nak: Nak,
        error: Option<AffiliatedError>,
    ) {
        let refusal = match nak {
            Nak::InvalidRequest => Refusal::InvalidRequest,
            Nak::RemoteAccess => Refusal::Access,
            _ => Refusal::Operation,
        };
        around.sees(Happening::Refused { psn, refusal });
        self.responder.refuse(psn, Syndrome::Refuse(nak));
        self.end_refused(around, error);
    }
}

/// What a packet brought beside what it says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival<'a> {
    pub(super) payload: &'a [u8],
    /// The sender wants an answer.
    pub(super) asks: bool,
    /// Wake a receiver that waits for solicited events only.
    pub(super) solicited: bool,
}

impl Arrival<'_> {
    /// Bytes of its payload: a packet is no longer than a datagram.
    pub(super) fn length(&self) -> u32 {
        self.payload.len() as u32
    }
}

/// A request that comes in portions.
pub(super) fn portion(request: &Request) -> Option<Portion> {
    match *request {
        Request::Send(part) => Some(Portion::Send(part)),
        Request::Write(part) => Some(Portion::Write(part)),
        Request::Read(_) | Request::Atomic(_) | Request::Flush(_) => None,
    }
}
