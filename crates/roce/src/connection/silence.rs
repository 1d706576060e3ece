//! A peer that may be gone: who only receives would wait for it for ever, since only requests are missed (IBTA vol. 1, 9.9.2.1).
//!
//! A queue pair that has nothing under way and has heard nothing of its peer for a while *asks*: it sends a packet with the number before
//! its next one, an RDMA Write of no bytes. Whoever is connected acknowledges it, since it came before, and does nothing else
//! (9.7.5.1.4); so does the Linux kernel, and so do network cards. Whatever the peer sends counts as an answer.

use core::time::Duration;

use nonic_protocol::{Key, Moment, QpState, QpType, RemoteRange};

use super::Connection;
use crate::packet::{Base, Body, Packet, Part, Request, Reth};
use crate::surroundings::{Payload, Sent, Surroundings};

/// So many are asked in vain before the peer counts as gone: of ten packets lost in a hundred, these never are.
const ASKS: u32 = 12;
/// Parts of the time that is waited for a peer: the first of these are waited for before it is asked, each of the others after one.
const PARTS: u32 = 16;
const PARTS_BEFORE: u32 = PARTS - ASKS;

/// How long nothing was heard of the peer.
#[derive(Debug)]
pub(super) struct Silence<T> {
    /// How long the peer may be silent though it is asked; `None`: for ever.
    limit: Option<Duration>,
    heard: Option<T>,
    /// When to look again.
    look: Option<T>,
    asked: u32,
}

impl<T> Silence<T> {
    pub(super) const fn new() -> Self {
        Self { limit: None, heard: None, look: None, asked: 0 }
    }

    /// Something came of the peer.
    #[inline]
    pub(super) fn has_heard(&mut self, now: T) {
        self.heard = Some(now);
        self.asked = 0;
    }

    /// From now on the peer's silence is not counted, until the queue pair sends again.
    pub(super) fn forget(&mut self) {
        (self.heard, self.look, self.asked) = (None, None, 0);
    }
}

impl<T: Moment> Silence<T> {
    pub(super) fn look(&self) -> Option<T> {
        self.look
    }

    fn parts(&self, count: u32) -> Option<Duration> {
        self.limit.map(|limit| limit / PARTS * count)
    }
}

impl<T: Moment> Connection<T> {
    /// A peer of which nothing was heard for so long, though it was asked, is gone: the connection is over. `None`: it is not asked, which is
    /// the default. Without effect on kinds other than the reliable connection, of which both sides can ask.
    pub fn limit_silence(&mut self, limit: Option<Duration>) {
        self.silence.limit = limit.filter(|_| self.kind == QpType::ReliableConnection);
    }

    /// The peer cannot be heard for a reason of this side's: its silence counts from now on.
    pub fn excuse_silence(&mut self, now: T) {
        self.silence.has_heard(now);
    }

    /// From now on it is looked whether the peer is there, if that is not so yet.
    pub(super) fn watch_silence(&mut self, now: T) {
        if self.silence.look.is_none()
            && self.may_ask()
            && let Some(wait) = self.silence.parts(PARTS_BEFORE)
        {
            self.silence.heard.get_or_insert(now);
            self.silence.look = Some(now + wait);
        }
    }

    fn may_ask(&self) -> bool {
        matches!(self.state(), QpState::ReadyToSend | QpState::SendQueueDrain)
    }

    /// It is time to look whether the peer is there.
    pub(super) fn look_for_peer<S: Surroundings>(&mut self, now: T, around: &mut S) {
        self.silence.look = None;
        let (Some(before), Some(part)) = (self.silence.parts(PARTS_BEFORE), self.silence.parts(1)) else {
            return;
        };
        let Some(heard) = self.silence.heard.filter(|_| self.may_ask()) else { return };
        let is_idle = self.requester.outstanding() == 0 && self.requester.wait.is_none();
        if heard + before > now {
            self.silence.look = Some(heard + before);
        } else if !is_idle {
            // What is under way is missed as the program has asked for.
            self.silence.asked = 0;
            self.silence.look = Some(now + part);
        } else if self.silence.asked >= ASKS {
            around.peer_is_silent();
            self.fail(around);
        } else {
            if self.ask(around) {
                self.silence.asked += 1;
            }
            self.silence.look = Some(now + part);
        }
    }

    /// Asks whether the peer is there.
    fn ask<S: Surroundings>(&self, around: &mut S) -> bool {
        let nothing = Reth { remote: RemoteRange { address: 0, key: Key(0) }, length: 0 };
        let old = self.requester.next.before();
        let base = Base { ack_request: true, ..Base::new(self.attributes.destination_qp, old) };
        let body = Body::Request(Request::Write(Part::Only(nothing, None)));
        around.send(&Packet { base, body }, Payload::None) == Sent::Sent
    }
}
