//! The memory windows of a process, and the regions they can be bound to, as requests name them.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};

use nonic_memory::Key;
use nonic_protocol::{QpNumber, WindowId};

use super::lock;
use crate::memory_window::MemoryWindow;
use crate::region::Region;

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct WindowTable {
    inner: Mutex<Inner>,
    ids: AtomicU32,
}

#[derive(Debug, Default)]
struct Inner {
    /// By their places in the key table.
    windows: ByPlace<Weak<MemoryWindow>>,
    /// Regions with the right to bind, by their places.
    regions: ByPlace<Weak<Region>>,
    /// Queue pairs, and the windows bound for them alone.
    bound: BTreeSet<(QpNumber, u32)>,
}

type ByPlace<T> = HashMap<u32, T, BuildHasherDefault<PlaceHasher>>;

/// Every bind looks up two places. They are this process's own small numbers, which nobody chooses for their hashes.
#[derive(Debug, Default)]
struct PlaceHasher(u64);

impl Hasher for PlaceHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(self.0 as u32 ^ u32::from(*byte)));
    }

    #[inline]
    fn write_u32(&mut self, place: u32) {
        // Spreads them over all bits (the golden ratio).
        self.0 = u64::from(place).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl WindowTable {
    pub(crate) fn next_id(&self) -> WindowId {
        WindowId(self.ids.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn add(&self, index: u32, window: &Arc<MemoryWindow>) {
        lock(&self.inner).windows.insert(index, Arc::downgrade(window));
    }

    /// The window at `index` is at `another` place, too.
    pub(crate) fn add_place(&self, index: u32, another: u32) {
        let mut inner = lock(&self.inner);
        if let Some(window) = inner.windows.get(&index).cloned() {
            inner.windows.insert(another, window);
        }
    }

    pub(crate) fn remove(&self, index: u32) {
        lock(&self.inner).windows.remove(&index);
    }

    /// The window a key belongs, or belonged, to.
    pub(crate) fn find(&self, key: Key) -> Option<Arc<MemoryWindow>> {
        lock(&self.inner).windows.get(&key.index())?.upgrade()
    }

    pub(crate) fn add_region(&self, region: &Arc<Region>) {
        lock(&self.inner).regions.insert(region.local_key().index(), Arc::downgrade(region));
    }

    pub(crate) fn remove_region(&self, key: Key) {
        lock(&self.inner).regions.remove(&key.index());
    }

    /// The region with this local key, if windows can be bound to it.
    pub(crate) fn region(&self, key: Key) -> Option<Arc<Region>> {
        let region = lock(&self.inner).regions.get(&key.index())?.upgrade()?;
        (region.local_key() == key).then_some(region)
    }

    /// A window was bound for one queue pair.
    pub(crate) fn note_pair(&self, pair: QpNumber, index: u32) {
        lock(&self.inner).bound.insert((pair, index));
    }

    /// It was unbound.
    pub(crate) fn forget_pair(&self, pair: QpNumber, index: u32) {
        lock(&self.inner).bound.remove(&(pair, index));
    }

    /// The windows bound for one queue pair.
    pub(crate) fn of_pair(&self, pair: QpNumber) -> Vec<Arc<MemoryWindow>> {
        let inner = lock(&self.inner);
        let places = inner.bound.range((pair, 0)..=(pair, u32::MAX));
        places.filter_map(|(_, index)| inner.windows.get(index)?.upgrade()).collect()
    }
}
