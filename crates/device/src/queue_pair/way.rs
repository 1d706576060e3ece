//! The way to the peer of a queue pair, while its port is closed to it and when it opens again.

use std::sync::Arc;

use nonic_protocol::{QpNumber, QpType};
use nonic_transport::Link;

use super::{Inner, QueuePair};
use crate::engine::lock;

impl QueuePair {
    /// Goes by what the port is now; whether it is closed to this queue pair.
    ///
    /// Closed, peers find nothing that it takes, and it has no way to its peer: whatever is posted or comes takes the ordinary ways,
    /// which find that out. What was sent before arrives, and is answered.
    pub(crate) fn port_changed(&self) -> bool {
        let mut inner = self.lock();
        if self.is_destroyed() || !inner.state().receives() {
            return false;
        }
        if inner.is_wired() {
            return self.port_changed_on_wire(&mut inner);
        }
        let port = self.context().port_state();
        let open = match self.transport {
            QpType::UnreliableDatagram => port.carries(inner.attributes.pkey_index),
            _ => port.serves(&inner.attributes),
        };
        if open {
            self.open_way(&mut inner);
        } else {
            self.close_way(&mut inner);
        }
        !open
    }

    fn close_way(&self, inner: &mut Inner) {
        self.withdraw();
        inner.lose_way(&mut { self });
        if let Some(path) = inner.path.take() {
            *lock(&self.closed_way) = Some(path);
        }
        inner.pump(&mut { self });
    }

    fn open_way(&self, inner: &mut Inner) {
        self.publish(inner);
        let before = lock(&self.closed_way).take();
        if let Some(path) = before.filter(|_| inner.path.is_none()) {
            let lost = path.link.is_dead().then(|| path.link.peer_departed());
            inner.path = Some(path);
            if let Some(in_order) = lost {
                // It went meanwhile.
                inner.lose_peer(&mut { self }, in_order);
            }
        }
        inner.pump(&mut { self });
    }

    /// It has no peer any more.
    pub(super) fn forget_way(&self) {
        lock(&self.closed_way).take();
        lock(&self.turned_away).take();
    }

    /// A queue pair of that number was declined, whose requests came over `link`.
    pub(crate) fn turns_away(&self, link: &Arc<Link>, number: QpNumber) {
        *lock(&self.turned_away) = Some((Arc::downgrade(link), number));
    }

    /// Its peer is known from now on; if that was declined before, it is owed the word that it no longer is.
    pub(super) fn calls_back(&self, inner: &mut Inner) {
        let Some((link, number)) = lock(&self.turned_away).take() else { return };
        let Some(path) = inner.path.as_ref().filter(|_| inner.attributes.destination_qp == number) else {
            return;
        };
        if link.upgrade().is_some_and(|link| path.link.leads_where(&link)) {
            inner.responder.owe_readiness();
        }
    }

    /// Whether an answer that comes over `link` is the peer's to something that was sent before the port closed.
    pub(super) fn is_late(&self, inner: &Inner, link: &Arc<Link>, source: QpNumber) -> bool {
        inner.path.is_none()
            && self.transport != QpType::UnreliableDatagram
            && inner.attributes.destination_qp == source
            && lock(&self.closed_way).as_ref().is_some_and(|path| path.link.leads_where(link))
    }

    /// The link to its peer before its port closed, if it leads where `link` does.
    pub(crate) fn link_before(&self, link: &Arc<Link>) -> Option<Arc<Link>> {
        let closed = lock(&self.closed_way);
        let before = closed.as_ref().map(|path| &*path.link).filter(|before| !before.is_dead());
        before.filter(|before| before.leads_where(link)).cloned()
    }

    /// Whether its port closed while its peer was at the other end of `link`.
    pub(super) fn was_closed_to(&self, link: &Arc<Link>) -> bool {
        lock(&self.closed_way).as_ref().is_some_and(|path| Arc::ptr_eq(&path.link, link))
    }

    /// Whether it owes its peer data.
    pub(crate) fn owes_data(&self) -> bool {
        self.lock().responder.owes_data()
    }
}
