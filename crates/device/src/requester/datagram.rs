//! Datagrams: sent into the ring of whoever owns the destination, and forgotten.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrayvec::ArrayVec;
use nonic_memory::SharedSlice;
use nonic_protocol::{Body, Datagram, Message, Operation, Slot, Status, Step};
use nonic_transport::{GroupName, Link};

use crate::bytes::gathered;
use crate::limits::{DATAGRAM_MAX, PIECES_MAX};
use crate::multicast::{GROUP_NUMBER, group_of};
use crate::peer_address::PeerAddress;
use crate::queue_pair::{Inner, Path, QueuePair};

impl QueuePair {
    pub(crate) fn start_datagram(&self, inner: &mut Inner, number: u64, slot: &Slot) -> Step {
        const TOP_BIT: u32 = 1 << 31;
        let Operation::Send { immediate } = slot.operation else {
            return Step::Failed(Status::LocalQpOperation);
        };
        let Some(destination) = inner.send.datagram_destination(number) else {
            return Step::Failed(Status::LocalQpOperation);
        };
        if slot.total > u64::from(DATAGRAM_MAX) {
            return Step::Failed(Status::LocalLength);
        }
        if destination.zone != self.zone.id() {
            return Step::Failed(Status::LocalQpOperation);
        }
        let port = self.context().port_state();
        let carries = port.carries(inner.attributes.pkey_index);
        // To a queue pair there is one way; to a group one to each that is in it, which are found as they are sent to.
        let group = group_of(&destination.vector).filter(|_| destination.qp_number == GROUP_NUMBER);
        let link = match group {
            Some(_) => None,
            None if !carries => None,
            None => PeerAddress::of(port, &destination.vector, destination.qp_number)
                .and_then(|address| self.datagram_link(inner, address)),
        };
        if link.is_none()
            && group.is_none()
            && carries
            && let Some(way) = self.datagram_way(port, &destination)
        {
            return self.send_on_wire(inner, number, slot, &destination, &way);
        }
        if carries
            && group.is_some()
            && let Some(way) = self.group_way(port, &destination)
        {
            let sent = self.send_on_wire(inner, number, slot, &destination, &way);
            if sent != Step::Finished {
                return sent;
            }
        }
        let step = self.with_source(inner, number, slot, |inner, source| {
            let own_key = destination.q_key & TOP_BIT != 0;
            let q_key = if own_key { inner.attributes.q_key } else { destination.q_key };
            let mut global =
                destination.vector.global.map(|route| port.global_header(&route, slot.total as u32));
            // Before what borrows it.
            let mut paged;
            let mut payload = ArrayVec::<SharedSlice<'_>, { PIECES_MAX + 1 }>::new();
            let global_header = global.is_some();
            if let Some(bytes) = &mut global {
                payload.push(SharedSlice::of_private(bytes));
            }
            if source.iter().any(SharedSlice::is_paged) {
                let Some(bytes) = gathered(source) else { return Step::Failed(Status::LocalProtection) };
                paged = bytes;
                payload.push(SharedSlice::of_private(&mut paged));
            } else {
                payload.extend(source.iter().copied());
            }
            let (source_lid, solicited) = (port.lid(), slot.flags.solicited);
            let body = Body::Datagram(Datagram { q_key, source_lid, global_header, immediate, solicited });
            let mut base = inner.base(&self);
            base.destination = destination.qp_number;
            if let Some(group) = group.filter(|_| carries) {
                self.send_to_group(group, Message { base, body }, &payload);
                return Step::Finished;
            }
            // Datagrams to nowhere are lost, which their sender does not learn.
            let Some(link) = &link else { return Step::Finished };
            match link.push(&Message { base, body }, &payload) {
                Ok(()) => Step::Finished,
                Err(_) => {
                    link.add_stalled(self.number);
                    Step::Blocked
                }
            }
        });
        step.unwrap_or(Step::Failed(Status::LocalProtection))
    }

    /// Sends a datagram to each member of a group that has room for it.
    fn send_to_group(&self, group: GroupName, message: Message, payload: &[SharedSlice<'_>]) {
        let skipped = self.skips_own_multicast.load(Ordering::Relaxed).then_some(self.number);
        let skipped = skipped.map(PeerAddress::ThisHost);
        for member in self.engine().members_of(group).addresses().filter(|member| Some(*member) != skipped) {
            let Some(link) = self.engine().link_to(member) else { continue };
            let mut base = message.base;
            base.destination = member.number();
            if link.push(&Message { base, ..message }, payload).is_ok() {
                link.ring_bell();
            }
        }
    }

    /// The link to whoever has this address: the last datagram's, or another, once the last one's peer has been called.
    fn datagram_link(&self, inner: &mut Inner, address: PeerAddress) -> Option<Arc<Link>> {
        let known = |path: &Path| path.address == address && !path.link.is_dead();
        if !inner.path.as_ref().is_some_and(known) {
            let found = self.engine().link_to(address).map(|link| Path {
                link,
                address,
                slot: None,
                neighbour: None,
            });
            if let Some(last) = std::mem::replace(&mut inner.path, found) {
                last.link.ring_bell();
            }
        }
        inner.path.as_ref().map(|path| Arc::clone(&path.link))
    }
}
