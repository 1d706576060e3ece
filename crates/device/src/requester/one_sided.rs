//! One-sided requests: directly on the peer's memory where that is allowed beyond doubt, else through its responder.

use nonic_memory::{Access, AddressRange, SharedSlice};
use nonic_protocol::{
    AtomicChange, AtomicRequest, Operation, QpType, ReadRequest, RemoteRange, Request, Slot, Status,
    WaitReason, WriteFragment, WriteNotify,
};
use nonic_transport::{DirectAccess, DirectRequest, FRAGMENT, Link};

use super::local::{cut, scatter};
use super::{Slices, Step};
use crate::happening::Happening;
use crate::queue_pair::{Inner, Path, QueuePair};

impl QueuePair {
    pub(super) fn direct<'a>(
        &self,
        path: &'a Path,
        remote: RemoteRange,
        offset: u64,
        length: u64,
        want: Access,
    ) -> Option<DirectAccess<'a>> {
        let request = DirectRequest {
            source: self.number,
            transport: self.transport,
            target: path.slot?,
            pair: path.number,
            key: remote.key,
            range: AddressRange::new(remote.address.checked_add(offset)?, length),
            want,
        };
        path.link.direct(&request)
    }

    /// Whether a one-sided request may run directly without overtaking an older one of its queue pair. An unreliable
    /// message is done for its sender once it stands in the ring, so for those the ring must have been read.
    fn may_go_directly(&self, inner: &Inner, link: &Link) -> bool {
        inner.send.nothing_in_flight()
            && (self.transport == QpType::ReliableConnection || link.everything_was_read())
    }

    pub(super) fn start_write(
        &self,
        inner: &mut Inner,
        path: &Path,
        number: u64,
        slot: &Slot,
        remote: RemoteRange,
        immediate: Option<u32>,
    ) -> Step {
        let (total, solicited) = (slot.total as u32, slot.flags.solicited);
        let step = self.with_source(inner, number, slot, |inner, source| {
            // Once a fragment is in the ring the rest must follow it there.
            if inner.requester.sent == 0 && slot.total > 0 {
                if self.may_go_directly(inner, &path.link) {
                    match self.write_directly(path, remote, slot.total, source) {
                        Direct::Done => {
                            self.witness.sees(Happening::Moved { bytes: slot.total });
                            let Some(immediate) = immediate else { return Step::Finished };
                            let notice = WriteNotify { total, immediate, solicited };
                            let message = self.message(inner, Request::WriteNotify(notice));
                            return match path.link.push(&message, &[]) {
                                Ok(()) => self.sent(),
                                Err(_) => self.blocked(&path.link),
                            };
                        }
                        Direct::Fault => return self.fault(),
                        Direct::Declined | Direct::LocalRefused => {}
                    }
                } else if slot.total > FRAGMENT as u64
                    && self.direct(path, remote, 0, slot.total, Access::REMOTE_WRITE).is_some()
                {
                    // An unreliable queue pair has nothing under way whose answer would start it again: the peer rings
                    // when it has read the ring.
                    let reliable = self.transport == QpType::ReliableConnection;
                    return if reliable { Step::Later } else { self.blocked(&path.link) };
                }
            }
            let step = self.push_fragments(inner, &path.link, total, source, |extent| {
                Request::Write(WriteFragment { extent, remote, immediate, solicited })
            });
            if matches!(step, Step::InFlight | Step::Finished) {
                self.witness.sees(Happening::Asked);
            }
            step
        });
        step.unwrap_or(Step::Failed(Status::LocalProtection))
    }

    /// The kernel found the peer's memory gone. An unreliable service never knows.
    pub(super) fn fault(&self) -> Step {
        if self.transport == QpType::ReliableConnection { Step::Fault } else { Step::Finished }
    }

    /// A direct copy failed.
    pub(super) fn take_fault(&self, inner: &mut Inner) {
        match inner.requester.take_fault() {
            Some(wait) => self.wait(inner, wait, WaitReason::Fault),
            None => self.fail_oldest(inner, Status::RemoteOperation),
        }
    }

    pub(super) fn write_directly(
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

    pub(super) fn start_read(
        &self,
        inner: &mut Inner,
        path: &Path,
        number: u64,
        slot: &Slot,
        remote: RemoteRange,
    ) -> Step {
        if inner.attributes.max_rd_atomic == 0 {
            return Step::Failed(Status::LocalQpOperation);
        }
        if slot.total > 0 {
            if inner.send.nothing_in_flight() {
                match self.read_directly(inner, path, number, slot.total, remote) {
                    Direct::Done => {
                        self.witness.sees(Happening::Moved { bytes: slot.total });
                        return Step::Finished;
                    }
                    Direct::LocalRefused => return Step::Failed(Status::LocalProtection),
                    Direct::Fault => return self.fault(),
                    Direct::Declined => {}
                }
            } else if self.direct(path, remote, 0, slot.total, Access::REMOTE_READ).is_some() {
                return Step::Later;
            }
        }
        let read = ReadRequest { remote, total: slot.total as u32 };
        self.push_read(inner, &path.link, Request::Read(read))
    }

    pub(super) fn push_read(&self, inner: &Inner, link: &Link, request: Request) -> Step {
        if inner.requester.reads >= inner.attributes.max_rd_atomic {
            return Step::Later;
        }
        match link.push(&self.message(inner, request), &[]) {
            Ok(()) => {
                self.witness.sees(Happening::Asked);
                Step::InFlight
            }
            Err(_) => self.blocked(link),
        }
    }

    pub(super) fn read_directly(
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
            let guard = self.engine().party().memory.enter();
            let mut target = Slices::new();
            if self.local_bytes(inner, &guard, number, Access::LOCAL_WRITE, &mut target).is_err() {
                return Direct::LocalRefused;
            }
            let target = cut(&target, offset as usize, count as usize);
            let read = access.read(&target);
            self.engine().party().memory.device_wrote(&target);
            if read.is_err() {
                return Direct::Fault;
            }
            offset += count;
        }
        Direct::Done
    }

    pub(super) fn start_atomic(
        &self,
        inner: &mut Inner,
        path: &Path,
        number: u64,
        slot: &Slot,
        remote: RemoteRange,
    ) -> Step {
        if inner.attributes.max_rd_atomic == 0 {
            return Step::Failed(Status::LocalQpOperation);
        }
        if slot.total != WORD {
            return Step::Failed(Status::LocalLength);
        }
        // Judged by the peer: its refusal names the cause.
        if remote.address.is_multiple_of(WORD)
            && let Some(access) = self.direct(path, remote, 0, WORD, Access::REMOTE_ATOMIC)
            && let Some(word) = access.atomic_word()
        {
            if !inner.send.nothing_in_flight() {
                return Step::Later;
            }
            let guard = self.engine().party().memory.enter();
            let mut target = Slices::new();
            if self.local_bytes(inner, &guard, number, Access::LOCAL_WRITE, &mut target).is_err() {
                return Step::Failed(Status::LocalProtection);
            }
            let Some(old) = change(word, &slot.operation) else {
                return Step::Failed(Status::LocalQpOperation);
            };
            scatter(&target, &old.to_ne_bytes());
            self.engine().party().memory.device_wrote(&target);
            self.witness.sees(Happening::Moved { bytes: WORD });
            return Step::Finished;
        }
        let change = match slot.operation {
            // The peer judges first, and then this side has no place for the result: the word must not change.
            _ if !self.takes_result(inner, number) => AtomicChange::FetchAdd { add: 0 },
            Operation::CompareSwap { compare, swap, .. } => AtomicChange::CompareSwap { compare, swap },
            Operation::FetchAdd { add, .. } => AtomicChange::FetchAdd { add },
            _ => return Step::Failed(Status::LocalQpOperation),
        };
        self.push_read(inner, &path.link, Request::Atomic(AtomicRequest { remote, change }))
    }

    /// Whether the local keys of a request let its result be placed.
    pub(super) fn takes_result(&self, inner: &Inner, number: u64) -> bool {
        let guard = self.engine().party().memory.enter();
        self.local_bytes(inner, &guard, number, Access::LOCAL_WRITE, &mut Slices::new()).is_ok()
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

/// What trying a request directly came to.
pub(super) enum Direct {
    Done,
    /// Not possible, or not allowed beyond doubt: ask the peer.
    Declined,
    /// The local memory is not allowed.
    LocalRefused,
    /// The peer's memory is not there.
    Fault,
}
