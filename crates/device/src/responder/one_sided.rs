//! One-sided requests of a peer.

use nonic_memory::{Access, AddressRange, Key, KeyUse, OwnOperation, ShadowBytes, SharedSlice, ZoneId};
use nonic_protocol::{AtomicChange, AtomicRequest, Extent, FlushRequest, NotChanged, RemoteRange};

use crate::queue_pair::QueuePair;
use crate::requester::Source;

impl QueuePair {
    /// Places a fragment of a write; false if that is not allowed. The whole range is judged with every fragment: the region may go
    /// at any time.
    pub(crate) fn place_write(&self, remote: RemoteRange, extent: Extent, payload: impl Source) -> bool {
        let Some(zone) = self.asked_zone() else { return false };
        let own = self.engine().party().memory.enter();
        let range = AddressRange::new(remote.address, extent.total.into());
        let at = extent.offset as usize;
        if let Some(target) = self.remote_bytes(&own, zone, remote.key, range, Access::REMOTE_WRITE) {
            payload.copy_part(0, &target.part(at, payload.length()));
        } else if let Some(shadow) = self.remote_shadow(&own, zone, remote.key, range, Access::REMOTE_WRITE) {
            payload.write_to(&shadow, at);
        } else {
            return false;
        }
        !own.has_faulted()
    }

    /// Whether a peer may read this.
    pub(crate) fn may_read(&self, remote: RemoteRange, total: u32) -> bool {
        let Some(zone) = self.asked_zone() else { return false };
        let own = self.engine().party().memory.enter();
        let range = AddressRange::new(remote.address, total.into());
        let (key, want) = (remote.key, Access::REMOTE_READ);
        self.remote_bytes(&own, zone, key, range, want).is_some()
            || self.remote_shadow(&own, zone, key, range, want).is_some()
    }

    /// Whether a peer may flush this. What it wrote before is in its place by then, where every processor sees it: its requests are
    /// carried out one after the other.
    pub(crate) fn may_flush(&self, flush: &FlushRequest) -> bool {
        let Some(zone) = self.asked_zone() else { return false };
        let own = self.engine().party().memory.enter();
        own.may_flush(zone, self.number.0, flush)
    }

    /// Carries an atomic out; what the word held before.
    pub(crate) fn change_word(&self, remote: RemoteRange, change: AtomicChange) -> Result<u64, NotChanged> {
        let zone = self.asked_zone().ok_or(NotChanged::NotAllowed)?;
        let own = self.engine().party().memory.enter();
        let range = AddressRange::new(remote.address, AtomicRequest::LENGTH.into());
        let change = |word: SharedSlice<'_>| match change {
            AtomicChange::CompareSwap { compare, swap } => word.compare_swap(compare, swap),
            AtomicChange::FetchAdd { add } => word.fetch_add(add),
        };
        let (key, want) = (remote.key, Access::REMOTE_ATOMIC);
        let old = if let Some(word) = self.remote_bytes(&own, zone, key, range, want) {
            // Nobody can change a word atomically that may be gone meanwhile.
            if word.is_paged() {
                return Err(NotChanged::NotAllowed);
            }
            word.is_word().then(|| change(word))
        } else if let Some(shadow) = self.remote_shadow(&own, zone, key, range, want) {
            shadow.change(change)
        } else {
            return Err(NotChanged::NotAllowed);
        };
        old.ok_or(NotChanged::NoWord)
    }

    /// Bytes of this process that a peer names, unless they are a shadow's.
    pub(crate) fn remote_bytes<'a>(
        &self,
        own: &'a OwnOperation<'_>,
        zone: ZoneId,
        key: Key,
        range: AddressRange,
        want: Access,
    ) -> Option<SharedSlice<'a>> {
        let through = KeyUse::Through(self.number.0);
        own.resolve(zone, key, through, range, want).ok()
    }

    /// The same of a shadow.
    #[cold]
    pub(crate) fn remote_shadow<'a>(
        &self,
        own: &'a OwnOperation<'_>,
        zone: ZoneId,
        key: Key,
        range: AddressRange,
        want: Access,
    ) -> Option<ShadowBytes<'a>> {
        let through = KeyUse::Through(self.number.0);
        own.resolve_shadow(zone, key, through, range, want)
    }
}
