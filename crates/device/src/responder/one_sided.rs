//! One-sided requests of a peer.

use nonic_memory::{Access, AddressRange, Key, KeyUse, OperationGuard, ShadowBytes, SharedSlice};
use nonic_queue::{QpType, Status};
use nonic_transport::{Header, Incoming, Refusal};

use super::{Outcome, Response, inbound};
use crate::async_event::AsyncEventKind;
use crate::queue_pair::{Inner, QueuePair};

impl QueuePair {
    pub(super) fn take_write(&self, inner: &mut Inner, incoming: &Incoming<'_>) -> Outcome {
        let header = &incoming.header;
        if header.is_first() {
            if !inner.attributes.access.contains(Access::REMOTE_WRITE) {
                return Outcome::Fatal(Refusal::InvalidRequest, Some(AsyncEventKind::QpAccessError));
            }
            if header.immediate.is_some() && !self.has_receive(inner) {
                return self.without_receive(inner);
            }
        }
        let guard = self.engine().party().memory.enter();
        // The whole range is judged with every fragment: the region may go at any time.
        let range = AddressRange::new(header.address, header.total.into());
        let target = self.remote_bytes(&guard, header.key, range, Access::REMOTE_WRITE);
        let (at, payload) = (header.offset as usize, incoming.payload);
        if let Some(target) = target {
            target.part(at, payload.length()).copy_near_from(payload);
        } else if let Some(shadow) = self.remote_shadow(&guard, header.key, range, Access::REMOTE_WRITE) {
            shadow.write(at, payload);
        } else {
            if header.immediate.is_some()
                && self.transport == QpType::ReliableConnection
                && let Ok(receive) = self.take_receive(inner)
            {
                self.complete_receive(&receive, Status::LocalAccess);
            }
            return Outcome::Fatal(Refusal::Access, Some(AsyncEventKind::QpAccessError));
        }
        drop(guard);
        let received = header.offset + incoming.payload.length() as u32;
        if received < header.total {
            inner.responder.inbound = Some(inbound(header, received, None));
            return Outcome::More;
        }
        if header.immediate.is_none() {
            return Outcome::Done(false);
        }
        match self.take_receive(inner) {
            Ok(receive) => self.complete_write(receive.id, header),
            Err(outcome) => outcome,
        }
    }

    /// Bytes of this process that a peer names, unless they are a shadow's.
    pub(super) fn remote_bytes<'a>(
        &'a self,
        guard: &'a OperationGuard<'_>,
        key: Key,
        range: AddressRange,
        want: Access,
    ) -> Option<SharedSlice<'a>> {
        let through = KeyUse::Through(self.number.0);
        self.engine().party().memory.resolve(guard, self.zone.id(), key, through, range, want).ok()
    }

    /// The same of a shadow.
    #[cold]
    pub(super) fn remote_shadow<'a>(
        &'a self,
        guard: &'a OperationGuard<'a>,
        key: Key,
        range: AddressRange,
        want: Access,
    ) -> Option<ShadowBytes<'a>> {
        let through = KeyUse::Through(self.number.0);
        self.engine().party().memory.resolve_shadow(guard, self.zone.id(), key, through, range, want)
    }

    /// Whether one more read or atomic can be taken on.
    pub(super) fn check_read(&self, inner: &Inner, want: Access) -> Result<(), Outcome> {
        if self.transport != QpType::ReliableConnection {
            return Err(Outcome::Dropped);
        }
        if !inner.attributes.access.contains(want) {
            return Err(Outcome::Fatal(Refusal::InvalidRequest, Some(AsyncEventKind::QpAccessError)));
        }
        if inner.responder.responses.len() >= usize::from(inner.attributes.max_dest_rd_atomic) {
            return Err(Outcome::Fatal(Refusal::InvalidRequest, Some(AsyncEventKind::QpRequestError)));
        }
        Ok(())
    }

    pub(super) fn take_read(&self, inner: &mut Inner, header: &Header) -> Outcome {
        if let Err(outcome) = self.check_read(inner, Access::REMOTE_READ) {
            return outcome;
        }
        let guard = self.engine().party().memory.enter();
        let range = AddressRange::new(header.address, header.total.into());
        let (key, want) = (header.key, Access::REMOTE_READ);
        if self.remote_bytes(&guard, key, range, want).is_none()
            && self.remote_shadow(&guard, key, range, want).is_none()
        {
            return Outcome::Fatal(Refusal::Access, Some(AsyncEventKind::QpAccessError));
        }
        let (psn, attempt) = (header.psn, header.attempt);
        let (address, key, total) = (header.address, header.key, header.total);
        self.owe(inner, Response::Read { psn, attempt, address, key, total, sent: 0 });
        Outcome::Done(false)
    }

    pub(super) fn take_atomic(&self, inner: &mut Inner, header: &Header) -> Outcome {
        let misaligned = Outcome::Fatal(Refusal::InvalidRequest, Some(AsyncEventKind::QpRequestError));
        if !header.address.is_multiple_of(8) {
            return misaligned;
        }
        if let Err(outcome) = self.check_read(inner, Access::REMOTE_ATOMIC) {
            return outcome;
        }
        let guard = self.engine().party().memory.enter();
        let range = AddressRange::new(header.address, 8);
        let change = |word: SharedSlice<'_>| match header.swap {
            Some(swap) => word.compare_swap(header.operand, swap),
            None => word.fetch_add(header.operand),
        };
        let (key, want) = (header.key, Access::REMOTE_ATOMIC);
        let old = if let Some(word) = self.remote_bytes(&guard, key, range, want) {
            word.is_word().then(|| change(word))
        } else if let Some(shadow) = self.remote_shadow(&guard, key, range, want) {
            shadow.change(change)
        } else {
            return Outcome::Fatal(Refusal::Access, Some(AsyncEventKind::QpAccessError));
        };
        drop(guard);
        let Some(old) = old else { return misaligned };
        self.owe(inner, Response::Atomic { psn: header.psn, attempt: header.attempt, old });
        Outcome::Done(false)
    }

    pub(super) fn owe(&self, inner: &mut Inner, response: Response) {
        inner.responder.responses.push_back(response);
    }
}
