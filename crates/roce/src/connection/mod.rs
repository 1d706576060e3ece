//! A connected queue pair as a machine that speaks in packets: it takes them ([`Connection::handle`]) and the passing of time
//! ([`Connection::handle_timeout`]), and sends what was posted and what is owed ([`Connection::pump`]). What it does about them
//! it does to its [`Surroundings`](crate::Surroundings).
//!
//! It is to the packets of a wire what `nonic_protocol::Connection` is to messages that nobody loses, and shares with it the queues,
//! the attributes, the states, the order in which requests end, and what each end is called. What differs is what packets bring
//! with them: numbers that count packets, answers that are lost, repetitions that are answered again from what was kept.
//!
//! The files follow the specification (IBTA vol. 1): `sending` the requester (9.7.3), `answers` the completer (9.7.6), `waiting`
//! timers (9.9.2), `silence` what no timer tells of, `taking`, `repeated` and `executing` the responder (9.7.4, 9.4), `owing` its answers (9.7.5), `unreliable` the
//! receiver of an unreliable connection (9.8.2), `ending` errors and flushing (9.9, 10.3.1).

mod answers;
mod ending;
mod executing;
mod owing;
mod pieces;
mod repeated;
mod requester;
mod responder;
mod sending;
mod silence;
mod taking;
mod unreliable;
mod waiting;

use nonic_protocol::{Capabilities, Psn, QpAttributes, QpState, QpType, Receive, ReceiveQueue, SendQueue};

use crate::congestion::{Congestion, CongestionCounts};
use crate::packet::{Nak, Syndrome};
use crate::path_mtu::PathMtu;
use requester::Requester;
use responder::Responder;
use silence::Silence;

/// What changes while a connected queue pair lives whose peer is on a wire. `T` is an instant of the caller's clock.
#[derive(Debug)]
pub struct Connection<T> {
    kind: QpType,
    /// State, and everything that was set.
    pub attributes: QpAttributes,
    /// Receives of its own.
    pub receives: ReceiveQueue,
    /// Requests. Whoever posts some calls [`Connection::pump`].
    pub send: SendQueue,
    requester: Requester<T>,
    responder: Responder,
    congestion: Congestion<T>,
    silence: Silence<T>,
    has_little_room: bool,
    established: bool,
}

impl<T> Connection<T> {
    /// A queue pair in RESET, of any kind that has a connection.
    pub fn new(kind: QpType, capabilities: &Capabilities) -> Self {
        let attributes = QpAttributes::default();
        Self {
            kind,
            attributes,
            receives: ReceiveQueue::new(capabilities.receive_requests, capabilities.receive_pieces),
            send: SendQueue::new(),
            requester: Requester::new(&attributes, 0),
            responder: Responder::new(Psn(0)),
            congestion: Congestion::new(),
            silence: Silence::new(),
            has_little_room: true,
            established: false,
        }
    }

    /// Its state (10.3.1).
    pub fn state(&self) -> QpState {
        self.attributes.state
    }

    /// It goes to RTR: what the peer sends is taken from the attributes' first number on.
    pub fn begin_to_receive(&mut self) {
        self.attributes.state = QpState::ReadyToReceive;
        self.responder = Responder::new(Psn(self.attributes.receive_psn));
        self.established = false;
        self.silence.forget();
    }

    /// The peer has sent before it received: it is asked to begin again, as after a gap in its numbers, which spares it a timeout.
    pub fn ask_again(&mut self) {
        if self.is_reliable() {
            self.responder.complained = true;
            self.responder.refuse(self.responder.expected, Syndrome::Refuse(Nak::Sequence));
        }
    }

    /// It goes from RTR to RTS: what is posted is sent from the attributes' first number on.
    pub fn begin_to_send(&mut self) {
        self.attributes.state = QpState::ReadyToSend;
        self.requester = Requester::new(&self.attributes, self.send.finished);
        self.congestion = Congestion::new();
    }

    /// It goes from RTS to SQD: no request is begun any more that was not (10.3.1).
    pub fn begin_to_drain(&mut self) {
        self.attributes.state = QpState::SendQueueDrain;
        let held_up = u64::from(self.requester.is_held_up());
        self.requester.drain_until = self.requester.numbered.max(self.send.started + held_up);
        self.requester.drained_reported = false;
    }

    /// It goes back from SQD to RTS.
    pub fn go_on_sending(&mut self) {
        self.attributes.state = QpState::ReadyToSend;
    }

    /// Number of the packet of the peer's that is due.
    pub fn expected(&self) -> Psn {
        self.responder.expected
    }

    /// Whether a receive is being filled.
    pub fn is_receiving(&self) -> bool {
        self.responder.is_filling()
    }

    /// It takes nothing more; the receive that was being filled.
    pub fn stop_receiving(&mut self) -> Option<Receive> {
        self.responder.break_off()
    }

    /// How often the oldest request may still go unanswered before it fails (9.7.5.1.1).
    pub fn retries_left(&self) -> u8 {
        self.requester.retries
    }

    /// How often there was congestion on its way.
    pub fn congestion_counts(&self) -> CongestionCounts {
        self.congestion.counts
    }

    /// Whether something is owed to the peer, which [`Connection::pump`] sends.
    pub fn owes(&self) -> bool {
        self.responder.owes() || self.congestion.owes_notice()
    }

    /// Whether an acknowledgement is all that is owed, and nothing else is to be sent: a request of the program's would take it along.
    pub fn may_wait_to_acknowledge(&self) -> bool {
        self.responder.owes_acknowledgement_alone() && !self.congestion.owes_notice() && !self.has_next()
    }

    /// Bytes of a packet's payload.
    fn mtu(&self) -> PathMtu {
        // Nothing is sent or taken before RTR, which asks for one.
        PathMtu::from_number(self.attributes.path_mtu).unwrap_or(PathMtu::Bytes256)
    }

    fn is_reliable(&self) -> bool {
        self.kind.service() == QpType::ReliableConnection
    }

    fn is_extended(&self) -> bool {
        matches!(self.kind, QpType::ExtendedSend | QpType::ExtendedReceive)
    }

    /// Whether the oldest request is under way, or would be if nothing had to be waited for.
    fn is_sending(&self) -> bool {
        match self.state() {
            QpState::ReadyToSend => self.send.finished < self.send.posted,
            QpState::SendQueueDrain => self.send.finished < self.requester.drain_until,
            _ => false,
        }
    }

    /// Whether there is a request that may be started now, or gone on with (10.3.1: in RTS, and in SQD those that were begun).
    fn has_next(&self) -> bool {
        let end = match self.state() {
            QpState::ReadyToSend => self.send.posted,
            QpState::SendQueueDrain => self.requester.drain_until,
            _ => return false,
        };
        self.requester.wait.is_none() && self.send.started < end
    }

    /// Whether the program is to be told now that the queue is drained: once, when everything that was begun has ended
    /// (10.3.1).
    fn has_just_drained(&mut self) -> bool {
        let drained = self.state() == QpState::SendQueueDrain && !self.is_sending();
        let tell = drained && self.attributes.drained_notify && !self.requester.drained_reported;
        self.requester.drained_reported |= tell;
        tell
    }
}
