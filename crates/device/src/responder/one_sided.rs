//! One-sided requests of a peer.

use nonic_memory::{Access, AddressRange, Key, KeyUse, OperationGuard, ShadowBytes, SharedSlice};
use nonic_protocol::{
    AffiliatedError, AtomicChange, AtomicRequest, BaseHeader, CompletionOpcode, Outcome, QpType, ReadRequest,
    Refusal, Response, Status, WriteFragment, WriteNotify,
};

use super::receives::Arrived;
use crate::queue_pair::{Inner, QueuePair};

impl QueuePair {
    pub(super) fn take_write(
        &self,
        inner: &mut Inner,
        base: BaseHeader,
        write: &WriteFragment,
        payload: SharedSlice<'_>,
    ) -> Outcome {
        let WriteFragment { extent, remote, immediate, solicited } = *write;
        if extent.offset == 0 && immediate.is_some() && !self.has_receive(inner) {
            return self.without_receive(inner);
        }
        let guard = self.engine().party().memory.enter();
        // The whole range is judged with every fragment: the region may go at any time.
        let range = AddressRange::new(remote.address, extent.total.into());
        let target = self.remote_bytes(&guard, remote.key, range, Access::REMOTE_WRITE);
        let at = extent.offset as usize;
        if let Some(target) = target {
            target.part(at, payload.length()).copy_near_from(payload);
        } else if let Some(shadow) = self.remote_shadow(&guard, remote.key, range, Access::REMOTE_WRITE) {
            shadow.write(at, payload);
        } else {
            if immediate.is_some()
                && self.transport == QpType::ReliableConnection
                && let Ok(receive) = self.take_receive(inner)
            {
                self.complete_receive(&receive, Status::LocalAccess);
            }
            return Outcome::Fatal(Refusal::Access, Some(AffiliatedError::AccessViolation));
        }
        drop(guard);
        let received = extent.offset + payload.length() as u32;
        if received < extent.total {
            return Outcome::More(received, None);
        }
        let Some(immediate) = immediate else { return Outcome::Done(false) };
        self.take_notice(inner, base, &WriteNotify { total: extent.total, immediate, solicited })
    }

    /// The bytes of a write are there; its immediate data take a receive.
    pub(super) fn take_notice(&self, inner: &mut Inner, base: BaseHeader, write: &WriteNotify) -> Outcome {
        let WriteNotify { total, immediate, solicited } = *write;
        let receive = match self.take_receive(inner) {
            Ok(receive) => receive,
            Err(outcome) => return outcome,
        };
        let (opcode, immediate) = (CompletionOpcode::ReceiveWriteWithImmediate, Some(immediate));
        self.complete_message(receive.id, base, Arrived { opcode, total, immediate, solicited })
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

    pub(super) fn take_read(&self, inner: &mut Inner, base: BaseHeader, read: &ReadRequest) -> Outcome {
        let ReadRequest { remote, total } = *read;
        let guard = self.engine().party().memory.enter();
        let range = AddressRange::new(remote.address, total.into());
        let (key, want) = (remote.key, Access::REMOTE_READ);
        if self.remote_bytes(&guard, key, range, want).is_none()
            && self.remote_shadow(&guard, key, range, want).is_none()
        {
            return Outcome::Fatal(Refusal::Access, Some(AffiliatedError::AccessViolation));
        }
        let BaseHeader { psn, attempt, .. } = base;
        inner.responder.owe(Response::Read { psn, attempt, remote, total, sent: 0 });
        Outcome::Done(false)
    }

    pub(super) fn take_atomic(&self, inner: &mut Inner, base: BaseHeader, atomic: &AtomicRequest) -> Outcome {
        let AtomicRequest { remote, change } = *atomic;
        let guard = self.engine().party().memory.enter();
        let range = AddressRange::new(remote.address, AtomicRequest::LENGTH.into());
        let change = |word: SharedSlice<'_>| match change {
            AtomicChange::CompareSwap { compare, swap } => word.compare_swap(compare, swap),
            AtomicChange::FetchAdd { add } => word.fetch_add(add),
        };
        let (key, want) = (remote.key, Access::REMOTE_ATOMIC);
        let old = if let Some(word) = self.remote_bytes(&guard, key, range, want) {
            word.is_word().then(|| change(word))
        } else if let Some(shadow) = self.remote_shadow(&guard, key, range, want) {
            shadow.change(change)
        } else {
            return Outcome::Fatal(Refusal::Access, Some(AffiliatedError::AccessViolation));
        };
        drop(guard);
        let Some(old) = old else {
            return Outcome::Fatal(Refusal::InvalidRequest, Some(AffiliatedError::InvalidRequest));
        };
        inner.responder.owe(Response::Atomic { psn: base.psn, attempt: base.attempt, old });
        Outcome::Done(false)
    }
}
