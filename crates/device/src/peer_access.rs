//! Memory of this process as a peer reaches it, behind the gate: by remote keys for one-sided requests, and by the local keys of a
//! receive for messages.

use nonic_memory::{
    Access, AddressRange, Key, KeyUse, OwnMemory, OwnOperation, ShadowBytes, SharedSlice, ZoneId,
};
use nonic_protocol::{
    AtomicChange, AtomicRequest, Extent, FlushRequest, NotChanged, QpNumber, Receive, RemoteRange,
    ScatterGather,
};

use crate::bytes::{Slices, Source};

/// What a peer may reach by its requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerAccess<'a> {
    pub(crate) memory: &'a OwnMemory,
    /// Whose regions it may name.
    pub(crate) zone: ZoneId,
    /// The queue pair it asks through.
    pub(crate) through: QpNumber,
}

impl PeerAccess<'_> {
    /// Places a fragment of a write; false if that is not allowed. The whole range is judged with every fragment: the region may go
    /// at any time.
    pub(crate) fn write(&self, remote: RemoteRange, extent: Extent, payload: impl Source) -> bool {
        let own = self.memory.enter();
        let range = AddressRange::new(remote.address, extent.total.into());
        let at = extent.offset as usize;
        if let Some(target) = self.bytes(&own, remote.key, range, Access::REMOTE_WRITE) {
            payload.copy_part(0, &target.part(at, payload.length()));
        } else if let Some(shadow) = self.shadow(&own, remote.key, range, Access::REMOTE_WRITE) {
            payload.write_to(&shadow, at);
        } else {
            return false;
        }
        !own.has_faulted()
    }

    /// Whether it may read this.
    pub(crate) fn may_read(&self, remote: RemoteRange, total: u32) -> bool {
        let own = self.memory.enter();
        let range = AddressRange::new(remote.address, total.into());
        let want = Access::REMOTE_READ;
        self.bytes(&own, remote.key, range, want).is_some()
            || self.shadow(&own, remote.key, range, want).is_some()
    }

    /// Puts bytes that it reads into `place`; false if it may not.
    pub(crate) fn read(&self, from: RemoteRange, place: &mut [u8]) -> bool {
        let own = self.memory.enter();
        let range = AddressRange::new(from.address, place.len() as u64);
        if let Some(source) = self.bytes(&own, from.key, range, Access::REMOTE_READ) {
            return source.try_read(place) && !own.has_faulted();
        }
        let Some(shadow) = self.shadow(&own, from.key, range, Access::REMOTE_READ) else { return false };
        place.copy_from_slice(&shadow.read());
        true
    }

    /// Whether it may flush this. What it wrote before is in its place by then, where every processor sees it: its requests are
    /// carried out one after the other.
    pub(crate) fn may_flush(&self, flush: &FlushRequest) -> bool {
        self.memory.enter().may_flush(self.zone, self.through.0, flush)
    }

    /// Carries an atomic out; what the word held before.
    pub(crate) fn change(&self, remote: RemoteRange, change: AtomicChange) -> Result<u64, NotChanged> {
        let own = self.memory.enter();
        let range = AddressRange::new(remote.address, AtomicRequest::LENGTH.into());
        let change = |word: SharedSlice<'_>| match change {
            AtomicChange::CompareSwap { compare, swap } => word.compare_swap(compare, swap),
            AtomicChange::FetchAdd { add } => word.fetch_add(add),
        };
        let (key, want) = (remote.key, Access::REMOTE_ATOMIC);
        let old = if let Some(word) = self.bytes(&own, key, range, want) {
            // Nobody can change a word atomically that may be gone meanwhile.
            if word.is_paged() {
                return Err(NotChanged::NotAllowed);
            }
            word.is_word().then(|| change(word))
        } else if let Some(shadow) = self.shadow(&own, key, range, want) {
            shadow.change(change)
        } else {
            return Err(NotChanged::NotAllowed);
        };
        old.ok_or(NotChanged::NoWord)
    }

    /// Bytes of this process that it names, unless they are a shadow's.
    pub(crate) fn bytes<'a>(
        &self,
        own: &'a OwnOperation<'_>,
        key: Key,
        range: AddressRange,
        want: Access,
    ) -> Option<SharedSlice<'a>> {
        own.resolve(self.zone, key, KeyUse::Through(self.through.0), range, want).ok()
    }

    /// The same of a shadow.
    #[cold]
    pub(crate) fn shadow<'a>(
        &self,
        own: &'a OwnOperation<'_>,
        key: Key,
        range: AddressRange,
        want: Access,
    ) -> Option<ShadowBytes<'a>> {
        own.resolve_shadow(self.zone, key, KeyUse::Through(self.through.0), range, want)
    }
}

/// Puts into `slices` the parts of a receive's pieces that hold `count` bytes from `offset`. False: its keys do not allow it, or it
/// is shorter.
pub(crate) fn receive_bytes<'a>(
    own: &'a OwnOperation<'_>,
    receive: &Receive,
    offset: u64,
    count: u64,
    slices: &mut Slices<'a>,
) -> bool {
    let resolve = |zone: ZoneId, piece: &ScatterGather, skip: u64, length: u64| {
        let range = AddressRange::new(piece.address.checked_add(skip)?, length);
        own.resolve(zone, piece.key, KeyUse::Local, range, Access::LOCAL_WRITE).ok()
    };
    let (mut offset, mut count) = (offset, count);
    for piece in receive.pieces.as_slice() {
        if count == 0 {
            break;
        }
        let length = u64::from(piece.length);
        if offset >= length {
            offset -= length;
            continue;
        }
        let take = count.min(length - offset);
        let Some(slice) = resolve(receive.zone, piece, offset, take) else { return false };
        slices.push(slice);
        (offset, count) = (0, count - take);
    }
    count == 0
}

/// Places bytes of a message in a receive, from `offset` on; false if its keys do not allow it.
pub(crate) fn fill(memory: &OwnMemory, receive: &Receive, offset: u64, payload: impl Source) -> bool {
    let own = memory.enter();
    let mut slices = Slices::new();
    if !receive_bytes(&own, receive, offset, payload.length() as u64, &mut slices) {
        return false;
    }
    let mut at = 0;
    for slice in &slices {
        payload.copy_part(at, slice);
        at += slice.length();
    }
    own.memory().device_wrote(&slices);
    !own.has_faulted()
}
