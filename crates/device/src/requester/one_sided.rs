//! One-sided requests, carried out directly on the peer's memory.

use nonic_memory::{Access, AddressRange, Crossing, SharedSlice};
use nonic_protocol::{Direct, Operation, QpState, RemoteRange, Status};
use nonic_transport::{Counter, DirectAccess, DirectRequest};

use super::local::scatter;
use crate::bytes::{Slices, cut};
use crate::queue_pair::{Inner, Path, QueuePair};

impl QueuePair {
    /// What is asked of the peer's tables.
    fn direct_request(
        &self,
        path: &Path,
        remote: RemoteRange,
        offset: u64,
        length: u64,
        want: Access,
    ) -> Option<DirectRequest> {
        Some(DirectRequest {
            source: self.number,
            transport: self.transport,
            target: path.slot?,
            pair: path.address.number(),
            key: remote.key,
            range: AddressRange::new(remote.address.checked_add(offset)?, length),
            want,
        })
    }

    /// The peer's bytes, if the operation is allowed beyond doubt and they can be reached from here.
    pub(super) fn direct<'a>(
        &self,
        path: &'a Path,
        remote: RemoteRange,
        offset: u64,
        length: u64,
        want: Access,
    ) -> Option<DirectAccess<'a>> {
        path.link.direct(&self.direct_request(path, remote, offset, length, want)?)
    }

    /// Whether the peer's bytes can be used from here, beyond doubt.
    pub(crate) fn reaches(&self, path: &Path, remote: RemoteRange, length: u64, want: Access) -> bool {
        let access = self.direct(path, remote, 0, length, want);
        access.is_some_and(|access| want != Access::REMOTE_ATOMIC || access.atomic_word().is_some())
    }

    /// Writes to the peer's memory.
    pub(crate) fn write_directly(
        &self,
        path: &Path,
        remote: RemoteRange,
        total: u64,
        source: &[SharedSlice<'_>],
    ) -> Direct {
        let mut offset = 0;
        // The whole range is judged before the first byte moves.
        let Some(mut access) = self.direct(path, remote, 0, total, Access::REMOTE_WRITE) else {
            return Direct::Declined;
        };
        if total > DIRECT_CHUNK {
            drop(access);
            loop {
                let count = (total - offset).min(DIRECT_CHUNK);
                match self.direct(path, remote, offset, count, Access::REMOTE_WRITE) {
                    Some(part) => access = part,
                    None => return Direct::Declined,
                }
                if access.write(&cut(source, offset as usize, count as usize)).is_err() {
                    return Direct::Fault;
                }
                offset += count;
                if offset == total {
                    return Direct::Done;
                }
                drop(access);
            }
        }
        if access.write(source).is_err() { Direct::Fault } else { Direct::Done }
    }

    /// Writes bytes to the peer's memory now, without a request: they need not be registered, and nothing tells of them. False:
    /// nothing that the peer allows and that can be done from here, and the bytes there are as they were, or some are new. It keeps no
    /// order with requests that are under way, so it is for memory that the peer does not look at until a later request says so.
    /// Of more than a mebibyte at a time nothing is written. `crossing` is that of the memory there.
    pub fn write_now(&self, remote: RemoteRange, bytes: SharedSlice<'_>, crossing: &mut Crossing) -> bool {
        let length = bytes.length() as u64;
        let inner = self.lock();
        let may = self.express && !inner.is_wired() && inner.state() == QpState::ReadyToSend;
        if !may || length > DIRECT_CHUNK || !self.engine().is_usable() {
            return false;
        }
        let Some(path) = &inner.path else { return false };
        let Some(request) = self.direct_request(path, remote, 0, length, Access::REMOTE_WRITE) else {
            return false;
        };
        let own = self.engine().party().memory.enter();
        let done = path.link.at_once(&own, &request, |target| crossing.copy(target, bytes)).is_some()
            || path.link.direct(&request).is_some_and(|access| access.write(&[bytes]).is_ok());
        if done {
            self.witness.counts([Counter::Writes, Counter::WriteBytes], length as u32);
        }
        done
    }

    /// Reads from the peer's memory.
    pub(crate) fn read_directly(
        &self,
        inner: &Inner,
        path: &Path,
        number: u64,
        total: u64,
        remote: RemoteRange,
    ) -> Direct {
        // The whole range is judged before the first byte moves.
        let Some(mut access) = self.direct(path, remote, 0, total, Access::REMOTE_READ) else {
            return Direct::Declined;
        };
        let mut offset = 0;
        while offset < total {
            let count = (total - offset).min(DIRECT_CHUNK);
            if count < total {
                drop(access);
                match self.direct(path, remote, offset, count, Access::REMOTE_READ) {
                    Some(part) => access = part,
                    None => return Direct::Declined,
                }
            }
            let own = self.engine().party().memory.enter();
            let mut target = Slices::new();
            if self.local_bytes(&inner.send, &own, number, Access::LOCAL_WRITE, &mut target).is_err() {
                return Direct::Failed(Status::LocalProtection);
            }
            let target = cut(&target, offset as usize, count as usize);
            let read = access.read(&target);
            own.memory().device_wrote(&target);
            if own.has_faulted() {
                return Direct::Failed(Status::LocalProtection);
            }
            if read.is_err() {
                return Direct::Fault;
            }
            offset += count;
        }
        Direct::Done
    }

    /// Carries an atomic out on the peer's memory.
    pub(crate) fn change_directly(
        &self,
        inner: &Inner,
        path: &Path,
        number: u64,
        operation: &Operation,
        remote: RemoteRange,
    ) -> Direct {
        let Some(access) = self.direct(path, remote, 0, WORD, Access::REMOTE_ATOMIC) else {
            return Direct::Declined;
        };
        let Some(word) = access.atomic_word() else { return Direct::Declined };
        let own = self.engine().party().memory.enter();
        let mut target = Slices::new();
        if self.local_bytes(&inner.send, &own, number, Access::LOCAL_WRITE, &mut target).is_err() {
            return Direct::Failed(Status::LocalProtection);
        }
        let Some(old) = change(word, operation) else { return Direct::Failed(Status::LocalQpOperation) };
        scatter(&target, &old.to_ne_bytes());
        own.memory().device_wrote(&target);
        if own.has_faulted() { Direct::Failed(Status::LocalProtection) } else { Direct::Done }
    }
}

/// Bytes of an atomic.
pub(super) const WORD: u64 = 8;

/// Carries an atomic out on a word; what was there. `None`: the operation is no atomic.
#[inline]
pub(super) fn change(word: SharedSlice<'_>, operation: &Operation) -> Option<u64> {
    match *operation {
        Operation::CompareSwap { compare, swap, .. } => Some(word.compare_swap(compare, swap)),
        Operation::FetchAdd { add, .. } => Some(word.fetch_add(add)),
        _ => None,
    }
}

/// A direct copy looks at the key again after so many bytes, so that revocation never waits longer than one takes.
pub(crate) const DIRECT_CHUNK: u64 = 1 << 20;
