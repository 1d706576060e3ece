//! Connected services: what a request becomes on the way to its one peer.

use nonic_memory::SharedSlice;
use nonic_protocol::{
    BaseHeader, Body, Extent, MESSAGE_MAX, Message, Operation, QpType, Request, SendFragment, SendPull, Slot,
    Status,
};
use nonic_transport::{FRAGMENT, Link};

use super::Step;
use super::local::cut;
use crate::queue_pair::{Inner, Path, QueuePair};

impl QueuePair {
    pub(super) fn start_connected(&self, inner: &mut Inner, number: u64, slot: &Slot) -> Step {
        if slot.operation.is_local() {
            return self.start_locally(inner, slot);
        }
        self.find_path(inner);
        // Taken out for as long as the request needs it, so that its counts need not change; then put back.
        let Some(mut path) = inner.path.take() else { return self.unreachable() };
        let step = if path.link.is_dead() {
            self.unreachable()
        } else {
            if path.slot.is_none() {
                path.slot = path.link.view().and_then(|view| view.segment.slot_place(path.number));
            }
            self.start_on(inner, &path, number, slot)
        };
        inner.path = Some(path);
        step
    }

    /// Nobody is there. An unreliable service never knows.
    fn unreachable(&self) -> Step {
        if self.transport == QpType::ReliableConnection { Step::Unreachable } else { Step::Finished }
    }

    fn start_on(&self, inner: &mut Inner, path: &Path, number: u64, slot: &Slot) -> Step {
        if slot.total > u64::from(MESSAGE_MAX) {
            return Step::Failed(Status::LocalLength);
        }
        if slot.flags.fence && inner.requester.reads > 0 {
            return Step::Later;
        }
        match slot.operation {
            Operation::Send { immediate } => self.start_send(inner, path, number, slot, immediate),
            Operation::Write { remote, immediate } => {
                self.start_write(inner, path, number, slot, remote, immediate)
            }
            Operation::Read { remote } => self.start_read(inner, path, number, slot, remote),
            Operation::CompareSwap { remote, .. } | Operation::FetchAdd { remote, .. } => {
                self.start_atomic(inner, path, number, slot, remote)
            }
            Operation::SendInvalidate { key } => self.start_send_invalidate(inner, path, number, slot, key),
            Operation::Bind { .. } | Operation::Invalidate { .. } => self.start_locally(inner, slot),
        }
    }

    /// What the next request to the peer begins with.
    #[inline]
    pub(super) fn base(&self, inner: &Inner) -> BaseHeader {
        let destination = inner.attributes.destination_qp;
        let (psn, attempt) = (inner.requester.next, inner.requester.attempt);
        BaseHeader { destination, source: self.number, psn, attempt }
    }

    /// The next request to the peer.
    #[inline]
    pub(super) fn message(&self, inner: &Inner, request: Request) -> Message {
        Message { base: self.base(inner), body: Body::Request(request) }
    }

    /// What a request comes to once all of it stands in the ring.
    pub(super) fn sent(&self) -> Step {
        if self.transport == QpType::ReliableConnection { Step::InFlight } else { Step::Finished }
    }

    pub(super) fn start_send(
        &self,
        inner: &mut Inner,
        path: &Path,
        number: u64,
        slot: &Slot,
        immediate: Option<u32>,
    ) -> Step {
        let sent = self.with_source(inner, number, slot, |inner, source| {
            let solicited = slot.flags.solicited;
            // A message that is sent whole and has no immediate data can say what is owed besides.
            let says_more = immediate.is_none() && slot.total <= FRAGMENT as u64;
            let acknowledges = if says_more { inner.responder.acknowledge() } else { None };
            // Once a fragment is in the ring the rest must follow it there.
            let step = if inner.requester.sent == 0 && self.may_be_pulled(inner, &path.link, number, slot) {
                let total = slot.total as u32;
                let send = SendPull { total, immediate, solicited, acknowledges };
                self.push_list(inner, &path.link, send, number)
            } else {
                self.push_fragments(inner, &path.link, slot.total as u32, source, |extent| {
                    Request::Send(SendFragment { extent, immediate, solicited, acknowledges })
                })
            };
            if acknowledges.is_some() && !matches!(step, Step::Blocked) {
                inner.responder.has_acknowledged();
            }
            step
        });
        sent.unwrap_or(Step::Failed(Status::LocalProtection))
    }

    pub(super) fn blocked(&self, link: &Link) -> Step {
        link.add_stalled(self.number);
        Step::Blocked
    }

    /// Pushes a message in fragments, from where the last attempt stopped.
    pub(super) fn push_fragments(
        &self,
        inner: &mut Inner,
        link: &Link,
        total: u32,
        source: &[SharedSlice<'_>],
        request: impl Fn(Extent) -> Request,
    ) -> Step {
        let (base, length, total) = (self.base(inner), total, u64::from(total));
        loop {
            let offset = inner.requester.sent;
            assert!(offset <= total, "{offset} bytes are sent of a message of {total}");
            let count = (total - offset).min(FRAGMENT as u64);
            let extent = Extent { total: length, offset: offset as u32 };
            let message = Message { base, body: Body::Request(request(extent)) };
            let pushed = if count == total {
                link.push(&message, source)
            } else {
                link.push(&message, &cut(source, offset as usize, count as usize))
            };
            if pushed.is_err() {
                return self.blocked(link);
            }
            inner.requester.sent += count;
            if inner.requester.sent >= total {
                inner.requester.sent = 0;
                return self.sent();
            }
        }
    }
}
