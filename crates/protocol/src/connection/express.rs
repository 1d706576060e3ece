//! What the express ways may do, and what they have to note: those of requests and messages that are over in a moment and meet
//! nothing that has to be waited for. They skip steps of the ordinary ways, and none of their conditions.

use super::Connection;
use crate::number::Psn;
use crate::state::QpState;
use crate::work_request::{SendFlags, SendRequest};

impl<P, T> Connection<P, T> {
    /// Whether nothing is under way, waits or is owed to the peer, so that a one-sided request that is posted now may be carried
    /// out at once.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.send.is_empty() && self.may_start() && !self.responder.owes()
    }

    /// Whether a send that is posted now may be given to the carrier before it is noted: it is the next to start, and its slot is
    /// there.
    #[inline]
    pub fn may_send_at_once(&self, flags: SendFlags) -> bool {
        self.send.started == self.send.posted
            && self.send.has_slots(flags.inline)
            && self.may_start()
            && self.requester.sent == 0
            && !self.responder.owes_more()
            && !(flags.fence && self.requester.reads > 0)
    }

    /// Such a send was given to the carrier, and said what was owed; it is noted for the case that it has to be repeated.
    #[inline]
    pub fn has_sent_at_once(&mut self, request: &SendRequest<'_>, pieces_max: u32) {
        let psn = self.requester.next;
        self.responder.has_acknowledged();
        self.requester.rings = true;
        self.requester.next = psn.next();
        self.send.note_sent(request, pieces_max, psn);
    }

    /// Whether a whole send with this number may be taken at once: it is due, and nothing has to be told of it first.
    #[inline]
    pub fn may_take_at_once(&self, psn: Psn) -> bool {
        let ready = match self.state() {
            QpState::ReadyToSend => true,
            QpState::ReadyToReceive => self.established,
            _ => false,
        };
        self.responder.is_next(psn) && ready
    }

    /// Such a send went to the oldest receive of the queue pair's own.
    #[inline]
    pub fn has_taken_at_once(&mut self, psn: Psn) {
        self.receives.pass_first();
        self.responder.has_taken(psn);
    }

    /// A send was carried out by the peer and answered before it was noted; nothing was under way.
    #[inline]
    pub fn has_been_answered_at_once(&mut self) {
        let psn = self.requester.next;
        self.requester.next = psn.next();
        self.was_answered(psn);
        self.send.skip_one();
    }

    /// Such a send went to the oldest receive of the queue pair's own.
    #[inline]
    pub fn has_answered_at_once(&mut self, psn: Psn) {
        self.has_taken_at_once(psn);
        self.responder.has_acknowledged();
    }
}
