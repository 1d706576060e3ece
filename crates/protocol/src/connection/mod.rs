//! A queue pair as a machine: it takes messages ([`Connection::handle_request`], [`Connection::handle_answer`]), the passing of
//! time ([`Connection::handle_time`]) and the end of its peer ([`Connection::lose_peer`]), and starts what was posted
//! ([`Connection::pump`]). What it does about them it does to its [`Surroundings`](crate::Surroundings).
//!
//! The files follow the specification (IBTA vol. 1): `requests` and `sending` the requester (9.7.3), `taking` and `executing` the
//! responder (9.7.4, 9.4), `owing` its answers (9.7.5), `answers` the completer (9.7.6), `waiting` timers (9.9.2), `ending` errors
//! and flushing (9.9, 10.3.1). `express` is for those in a hurry.

mod answers;
mod ending;
mod executing;
mod express;
mod owing;
mod requests;
mod sending;
mod taking;
mod waiting;

pub use executing::fail_receive;

use crate::attributes::{Capabilities, QpAttributes};
use crate::number::Psn;
use crate::receive_queue::ReceiveQueue;
use crate::requester::Requester;
use crate::responder::Responder;
use crate::send_queue::SendQueue;
use crate::state::{QpState, QpType};
use crate::work_request::Operation;

/// What changes while a queue pair lives. `P` is its way to the peer, of which nothing is known here; `T` is an instant of the
/// caller's clock.
#[derive(Debug)]
pub struct Connection<P, T> {
    /// State, and everything that was set.
    pub attributes: QpAttributes,
    /// Where the peer is.
    pub path: Option<P>,
    /// Receives of its own.
    pub receives: ReceiveQueue,
    /// Requests.
    pub send: SendQueue,
    /// What is under way to the peer.
    pub requester: Requester<T>,
    /// What came from the peer, and what is owed to it.
    pub responder: Responder<T>,
    /// A message came before the program had it ready to send.
    pub established: bool,
    /// The peer crashed in RTR, between the two steps of connecting: the second still succeeds.
    pub lost_in_rtr: bool,
}

impl<P, T> Connection<P, T> {
    /// A queue pair in RESET.
    pub fn new(capabilities: &Capabilities) -> Self {
        Self {
            attributes: QpAttributes::default(),
            path: None,
            receives: ReceiveQueue::new(capabilities.receive_requests, capabilities.receive_pieces),
            send: SendQueue::new(),
            requester: Requester::default(),
            responder: Responder::default(),
            established: false,
            lost_in_rtr: false,
        }
    }

    /// Its state (10.3.1).
    #[inline]
    pub fn state(&self) -> QpState {
        self.attributes.state
    }

    /// Whether requests may be started now (10.3.1: in RTS, and in SQD those that were begun).
    #[inline]
    pub(super) fn may_start(&self) -> bool {
        (self.state() == QpState::ReadyToSend || self.drains()) && self.requester.wait.is_none()
    }

    /// Whether there is a request that may be started now.
    #[inline]
    pub(super) fn has_next(&self) -> bool {
        self.may_start() && self.send.started < self.send.posted
    }

    /// Whether an answer may let requests start, or end the draining of the queue.
    #[inline]
    pub fn awaits_answers(&self) -> bool {
        self.send.started < self.send.posted || self.state() == QpState::SendQueueDrain
    }

    /// Whether the queue is being drained and the next request is one that was begun before.
    #[inline]
    fn drains(&self) -> bool {
        self.state() == QpState::SendQueueDrain && self.send.started < self.requester.drain_until
    }

    /// Whether the oldest request is under way, or would be if nothing had to be waited for.
    pub fn is_sending(&self) -> bool {
        match self.state() {
            QpState::ReadyToSend => self.send.finished < self.send.posted,
            QpState::SendQueueDrain => self.send.finished < self.requester.drain_until,
            _ => false,
        }
    }

    /// Whether the next request will be a message that can say all that is owed to the peer, if it is no longer than `most`
    /// bytes.
    #[inline]
    pub(super) fn next_says_what_is_owed(&self, transport: QpType, most: u64) -> bool {
        self.responder.owes()
            && !self.responder.owes_more()
            && transport == QpType::ReliableConnection
            && self.requester.sent == 0
            && self.has_next()
            && {
                let slot = self.send.slot(self.send.started);
                matches!(slot.operation, Operation::Send { immediate: None }) && slot.total <= most
            }
    }

    /// The next request is on its way under the next number (9.7.3).
    #[inline]
    pub(super) fn has_sent(&mut self) {
        let number = self.send.started;
        self.send.set_psn(number, self.requester.next);
        self.requester.next = self.requester.next.next();
        self.requester.reads += u8::from(self.send.slot(number).awaits_data());
        self.send.started += 1;
    }

    /// The first request that was never begun: what is under way, what was and is to be repeated, and what is half sent.
    pub fn begun(&self) -> u64 {
        let half_sent = self.requester.sent > 0 || self.requester.wait.is_some();
        let begun = self.send.started.max(self.requester.begun).max(self.send.started + u64::from(half_sent));
        begun.min(self.send.posted)
    }

    /// Nothing that is under way was done: all of it is repeated, or fails.
    pub fn take_back(&mut self) {
        self.requester.begun = self.begun();
        self.send.started = self.send.finished;
    }

    /// Whether the program is to be told now that the queue is drained: once, when everything that was begun has ended
    /// (10.3.1).
    pub(super) fn has_just_drained(&mut self) -> bool {
        let drained = self.state() == QpState::SendQueueDrain && !self.is_sending();
        let tell = drained && self.attributes.drained_notify && !self.requester.drained_reported;
        self.requester.drained_reported |= tell;
        tell
    }

    /// Number of the oldest request under way, if it has one.
    #[inline]
    fn oldest_psn(&self) -> Option<Psn> {
        (!self.send.nothing_in_flight()).then(|| self.send.slot(self.send.finished).psn)
    }
}

#[cfg(test)]
mod tests;
