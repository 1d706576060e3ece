//! What the engine tells a queue pair: a message, a timer, the end of its peer.

use std::sync::Arc;
use std::time::Instant;

use nonic_memory::SharedSlice;
use nonic_protocol::{Body, Delivery, QpNumber, QpType, QueueName};
use nonic_transport::{Incoming, Link, Tier};

use super::{Inner, Path, QueuePair};
use crate::completion_queue::CompletionQueue;
use crate::peer_address::PeerAddress;

/// Bytes that came with a message, and the link over which they came.
#[derive(Clone, Copy)]
pub(crate) struct Arrival<'a> {
    pub(crate) link: &'a Arc<Link>,
    pub(crate) bytes: SharedSlice<'a>,
}

impl QueuePair {
    /// Handles a message that came for this queue pair. (Not in line: whoever looks at a ring takes short sends by a way of their
    /// own, which would suffer from all that this does.)
    #[inline(never)]
    pub(crate) fn deliver(&self, link: &Arc<Link>, incoming: &Incoming<'_>) -> Delivery {
        let mut inner = self.lock();
        let (base, payload) = (incoming.message.base, incoming.payload);
        let arrival = Arrival { link, bytes: payload };
        match incoming.message.body {
            Body::Answer(answer) => {
                let is_of_peer =
                    self.is_peer(&mut inner, link, base.source) || self.is_late(&inner, link, base.source);
                inner.handle_answer(&mut { self }, is_of_peer, base, answer, arrival);
                Delivery::Quiet
            }
            Body::Datagram(datagram) => self.take_datagram(&mut inner, base, datagram, payload),
            Body::Request(request) => {
                let fits = match self.transport {
                    QpType::ExtendedSend => false,
                    transport => (transport == QpType::ExtendedReceive) == (base.queue() != QueueName::NONE),
                };
                let is_of_peer = fits && self.is_peer(&mut inner, link, base.source);
                if let Some(psn) = request.acknowledges().filter(|_| !is_of_peer)
                    && self.is_late(&inner, link, base.source)
                {
                    // The message does not get in, but what it says of those before it is an answer.
                    inner.take_acknowledge(&mut { self }, psn);
                }
                inner.handle_request(&mut { self }, is_of_peer, base, &request, arrival)
            }
        }
    }

    /// Whether a message of `source` over `link` comes from the queue pair this one is connected to.
    fn is_peer(&self, inner: &mut Inner, link: &Arc<Link>, source: QpNumber) -> bool {
        if self.transport == QpType::UnreliableDatagram || inner.attributes.destination_qp != source {
            return false;
        }
        self.find_path(inner);
        inner.path.as_ref().is_some_and(|path| path.link.leads_where(link))
    }

    /// Finds the peer's process, if it is there.
    pub(crate) fn find_path(&self, inner: &mut Inner) {
        if inner.path.as_ref().is_some_and(|path| !path.link.is_dead())
            || self.transport == QpType::UnreliableDatagram
            || !inner.attributes.state.receives()
        {
            return;
        }
        let (port, number) = (self.context().port_state(), inner.attributes.destination_qp);
        if !port.serves(&inner.attributes) {
            return;
        }
        let vector = inner.attributes.address_vector;
        let Some(address) = vector.and_then(|vector| PeerAddress::of(port, &vector, number)) else { return };
        if let Some(link) = self.engine().living_link_to(address) {
            let within = link.is_loopback() && self.engine().party().tier > Tier::Ring;
            let neighbour = if within { self.engine().find_pair(number) } else { None };
            let neighbour = neighbour.as_ref().map(Arc::downgrade);
            inner.path = Some(Path { link, address, slot: None, neighbour });
        }
    }

    /// Sends what is owed to the peer, if it is more than an acknowledgement: those can wait for company. Returns whether
    /// anything is still owed.
    #[inline]
    pub(crate) fn answer_if_pressing(&self) -> bool {
        let mut inner = self.lock();
        if inner.responder.owes_more() {
            inner.answer(&mut { self });
        }
        inner.responder.owes()
    }

    /// Sends what is owed to the peer.
    pub(crate) fn answer_now(&self) {
        let mut core = self.lock();
        if core.is_wired() {
            return self.settle_on_wire(&mut core);
        }
        core.answer(&mut { self });
    }

    /// Goes on after the ring was full.
    pub(crate) fn resume(&self) {
        self.lock().resume(&mut { self });
    }

    pub(crate) fn timer_fired(&self, now: Instant) {
        let mut inner = self.lock();
        if inner.is_wired() {
            return self.wire_timer_fired(&mut inner, now);
        }
        inner.handle_time(&mut { self }, now);
    }

    /// The process behind a link is gone. The path stays: another link to the same process may still hold what it sent, and the
    /// path tells who it is.
    pub(crate) fn peer_is_gone(&self, link: &Arc<Link>) {
        let mut inner = self.lock();
        if inner.path.as_ref().is_some_and(|path| Arc::ptr_eq(&path.link, link)) || self.was_closed_to(link) {
            inner.lose_peer(&mut { self }, link.peer_departed());
        }
    }

    /// One of its completion queues overran.
    pub(crate) fn queue_overran(&self, queue: &Arc<CompletionQueue>) {
        if Arc::ptr_eq(&self.send_completions, queue) || self.receives_complete_to(queue) {
            let mut inner = self.lock();
            if inner.is_wired() {
                self.fail_on_wire(&mut inner);
            } else {
                inner.fail(&mut { self });
            }
        }
    }
}
