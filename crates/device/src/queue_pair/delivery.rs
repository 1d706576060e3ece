//! What the engine tells a queue pair: a message, a timer, the end of its peer.

use std::sync::Arc;
use std::time::Instant;

use nonic_protocol::{Body, QpNumber, QpState, QpType, Status};
use nonic_transport::{Incoming, Link};

use super::{Delivery, Inner, Path, QueuePair};
use crate::completion_queue::CompletionQueue;
use crate::happening::Happening;

impl QueuePair {
    /// Handles a message that came for this queue pair.
    pub(crate) fn deliver(&self, link: &Arc<Link>, incoming: &Incoming<'_>) -> Delivery {
        let mut inner = self.lock();
        let (base, payload) = (incoming.message.base, incoming.payload);
        match incoming.message.body {
            Body::Answer(answer) => {
                if self.is_peer(&mut inner, link, base.source) {
                    self.take_answer(&mut inner, base, answer, payload);
                } else {
                    self.witness.sees(Happening::Dropped);
                }
                Delivery::Quiet
            }
            Body::Datagram(datagram) => self.take_datagram(&mut inner, base, datagram, payload),
            Body::Request(request) => {
                let delivery = self.take_request(&mut inner, link, base, &request, payload);
                if request.acknowledges().is_some() && inner.awaits_answers() {
                    self.pump(&mut inner);
                }
                delivery
            }
        }
    }

    /// Whether a message of `source` over `link` comes from the queue pair this one is connected to.
    pub(crate) fn is_peer(&self, inner: &mut Inner, link: &Arc<Link>, source: QpNumber) -> bool {
        if self.transport == QpType::UnreliableDatagram || inner.attributes.destination_qp != source {
            return false;
        }
        self.find_path(inner);
        let Some(path) = &inner.path else { return false };
        Arc::ptr_eq(&path.link, link) || path.link.leads_where(link)
    }

    /// Finds the peer's process, if it is on this host and there.
    pub(crate) fn find_path(&self, inner: &mut Inner) {
        if inner.path.as_ref().is_some_and(|path| !path.link.is_dead())
            || self.transport == QpType::UnreliableDatagram
            || !inner.attributes.state.receives()
        {
            return;
        }
        let number = inner.attributes.destination_qp;
        let reachable = inner
            .attributes
            .address_vector
            .is_some_and(|vector| self.context().port_state().reaches(&vector));
        let link = if reachable { self.engine().link_to(number) } else { None };
        if let Some(link) = link {
            inner.path = Some(Path { link, number, slot: None });
        }
    }

    /// Sends what is owed to the peer, if it is more than an acknowledgement: those can wait for company. Returns whether
    /// anything is still owed.
    #[inline]
    pub(crate) fn answer_if_pressing(&self) -> bool {
        let mut inner = self.lock();
        if inner.responder.owes_more() {
            self.answer(&mut inner);
        }
        inner.responder.owes()
    }

    /// Sends what is owed to the peer.
    pub(crate) fn answer_now(&self) {
        self.answer(&mut self.lock());
    }

    /// Goes on after the ring was full.
    pub(crate) fn resume(&self) {
        let mut inner = self.lock();
        self.answer(&mut inner);
        self.pump(&mut inner);
    }

    pub(crate) fn timer_fired(&self, now: Instant) {
        self.take_time(&mut self.lock(), now);
    }

    /// The process behind a link is gone. If it ended in order, what was under way to it gets no answer and fails when its
    /// retries are used up, and nothing else happens, as with a network card: programs that are done must not see their
    /// last requests fail. If it crashed the queue pair goes to error at once, so that a program which only receives
    /// learns of it too.
    pub(crate) fn peer_is_gone(&self, link: &Arc<Link>) {
        let mut inner = self.lock();
        if inner.path.as_ref().is_none_or(|path| !Arc::ptr_eq(&path.link, link)) {
            return;
        }
        // The path stays: another link to the same process may still hold what it sent, and the path tells who it is.
        if self.transport != QpType::ReliableConnection || !inner.state().receives() {
            return;
        }
        if inner.requester.is_held_up() {
            self.take_last_turn(&mut inner);
        }
        let waits = inner.is_sending();
        if link.peer_departed() {
            if waits && inner.requester.wait.is_none() {
                inner.take_back();
                inner.requester.restart();
                self.wait_for_answer(&mut inner);
            }
        } else if waits {
            self.fail_oldest(&mut inner, Status::RetryExceeded);
        } else {
            inner.lost_in_rtr = inner.state() == QpState::ReadyToReceive;
            self.enter_error(&mut inner);
        }
    }

    /// One of its completion queues overran.
    pub(crate) fn queue_overran(&self, queue: &Arc<CompletionQueue>) {
        if Arc::ptr_eq(&self.send_completions, queue) || Arc::ptr_eq(&self.receive_completions, queue) {
            self.enter_error(&mut self.lock());
        }
    }
}
