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
    /// Queue pairs, and the windows that were bound for them alone, and for no other since.
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

impl Inner {
    fn window(&self, key: Key) -> Option<Arc<MemoryWindow>> {
        self.windows.get(&key.index())?.upgrade()
    }

    fn region(&self, key: Key) -> Option<Arc<Region>> {
        let region = self.regions.get(&key.index())?.upgrade()?;
        (region.local_key() == key).then_some(region)
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
        lock(&self.inner).window(key)
    }

    /// The same, and the region with this local key, if windows can be bound to it: every bind asks for both.
    pub(crate) fn find_both(
        &self,
        key: Key,
        region: Option<Key>,
    ) -> Option<(Arc<MemoryWindow>, Option<Arc<Region>>)> {
        let inner = lock(&self.inner);
        Some((inner.window(key)?, region.and_then(|key| inner.region(key))))
    }

    pub(crate) fn add_region(&self, region: &Arc<Region>) {
        lock(&self.inner).regions.insert(region.local_key().index(), Arc::downgrade(region));
    }

    pub(crate) fn remove_region(&self, key: Key) {
        lock(&self.inner).regions.remove(&key.index());
    }

    /// A window is bound for one queue pair, and was for another before.
    pub(crate) fn note_pair(&self, before: Option<QpNumber>, pair: QpNumber, index: u32) {
        let mut inner = lock(&self.inner);
        if let Some(before) = before {
            inner.bound.remove(&(before, index));
        }
        inner.bound.insert((pair, index));
    }

    /// It will not be again.
    pub(crate) fn forget_pair(&self, pair: QpNumber, index: u32) {
        lock(&self.inner).bound.remove(&(pair, index));
    }

    /// The windows that were bound last for one queue pair: each may have been unbound since.
    pub(crate) fn of_pair(&self, pair: QpNumber) -> Vec<Arc<MemoryWindow>> {
        let inner = lock(&self.inner);
        let places = inner.bound.range((pair, 0)..=(pair, u32::MAX));
        places.filter_map(|(_, index)| inner.windows.get(index)?.upgrade()).collect()
    }
}

#[cfg(test)]
mod tests {
    use nonic_memory::Access;
    use nonic_protocol::QpNumber;

    use crate::memory_window::{Binding, Turn, WindowKind};
    use crate::region::{RegionMemory, RegionRequest};

    #[test]
    fn a_window_is_of_the_queue_pair_it_was_bound_for_last_until_that_goes() {
        let context = crate::devices()[0].open().unwrap();
        let (zone, windows) = (context.allocate_zone().unwrap(), &context.engine().windows);
        let memory = context.allocate_device_memory(4096, 0).unwrap();
        let memory = RegionMemory::Device { memory, offset: 0, length: 4096 };
        let access = Access::LOCAL_WRITE | Access::WINDOW_BIND;
        let region = zone.register(RegionRequest { memory, base: 0, access }).unwrap();
        let window = zone.allocate_window(WindowKind::Type2).unwrap();
        let [one, other] = [1, 2].map(QpNumber);
        let of = |pair| windows.of_pair(pair).len();
        let bind = |pair, tag| {
            let (key, region) = (window.key_with_tag(tag), Some(region.local_key()));
            let (address, length, access) = (0, 64, Access::REMOTE_READ);
            let (found, to) = windows.find_both(key, region).unwrap();
            let wanted = Binding { key, region, address, length, access, zero_based: false };
            assert_eq!(found.bind(pair, zone.id(), &wanted, to), Ok(Turn::Done));
            key
        };
        for tag in 10..13 {
            let key = bind(one, tag);
            assert_eq!(window.invalidate(one, key), Ok(Turn::Done));
        }
        assert_eq!((of(one), of(other)), (1, 0));
        let key = bind(other, 20);
        assert_eq!((of(one), of(other)), (0, 1));
        window.lose_pair(one);
        assert!(window.is_bound_for(other, key), "it is none of its");
        window.lose_pair(other);
        assert!(!window.is_bound_for(other, key) && of(other) == 0);
        bind(one, 30);
        window.release().unwrap();
        assert_eq!(of(one), 0);
        region.deregister().unwrap();
    }
}
