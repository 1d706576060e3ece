//! The key table: every region and memory window of a process, in memory that trusted peers can read.
//!
//! Only the owner writes. A reader inside an operation slot sees an entry either live and whole or not at all: the
//! owner kills the control word first and does not reuse an entry before every such reader has left.

mod entry;
mod view;

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use self::entry::{Entry, Translation};
pub use self::view::KeyTableView;
pub(crate) use self::view::Protection;
use self::view::WINDOW;
use crate::Key;

/// The table as its owner fills it.
#[derive(Debug)]
pub struct KeyTable {
    view: KeyTableView,
    indices: Mutex<Indices>,
}

#[derive(Debug)]
struct Indices {
    /// Lowest index never used.
    fresh: u32,
    /// Freed entries with the tag generation to use next, oldest first.
    freed: VecDeque<(u32, u8)>,
    /// Entries of which windows have used up all tags, oldest first.
    used_up: VecDeque<u32>,
}

impl Indices {
    fn take_fresh(&mut self, capacity: u32) -> Option<u32> {
        let index = self.fresh;
        (index < capacity).then(|| {
            self.fresh += 1;
            index
        })
    }
}

/// Freed entries that rest before the oldest is used again: a stale key then meets a dead entry rather than a new one.
const RESTING: usize = 64;
/// The same of entries whose tags windows have used up. Each has given some 250 keys, so a window can be bound more than 2^24
/// times before a key comes back.
const USED_UP_RESTING: usize = 1 << 17;

/// A region's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyPair {
    /// For the process that registered.
    pub local: Key,
    /// For peers.
    pub remote: Key,
}

impl KeyTable {
    /// An empty table.
    pub fn new(view: KeyTableView) -> Self {
        Self {
            view,
            indices: Mutex::new(Indices { fresh: 1, freed: VecDeque::new(), used_up: VecDeque::new() }),
        }
    }

    /// For lookups.
    pub fn view(&self) -> &KeyTableView {
        &self.view
    }

    /// Enters a region; the tags of `entry` are chosen here. `None` if the table is full.
    pub fn insert(&self, mut entry: Entry) -> Option<KeyPair> {
        let (index, generation) = self.take_index()?;
        entry.local_tag = generation << 1;
        entry.remote_tag = generation << 1 | 1;
        self.view.publish(index, &entry, 0);
        Some(KeyPair { local: Key::new(index, entry.local_tag), remote: Key::new(index, entry.remote_tag) })
    }

    fn indices(&self) -> MutexGuard<'_, Indices> {
        self.indices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place in the table, and the generation of its tags.
    fn take_index(&self) -> Option<(u32, u8)> {
        let mut indices = self.indices();
        if indices.freed.len() > RESTING
            && let Some(again) = indices.freed.pop_front()
        {
            return Some(again);
        }
        let fresh = indices.take_fresh(self.view.capacity()).map(|index| (index, 1));
        // Rather a key that comes back early than none.
        fresh.or_else(|| indices.freed.pop_front()).or_else(|| Some((indices.used_up.pop_front()?, 0)))
    }

    /// Takes a place for a memory window; its key leads nowhere until the window is bound. The keys of the place are this one
    /// and those with a higher tag. `None` if the table is full.
    pub fn insert_window(&self) -> Option<Key> {
        let (index, generation) = self.take_index()?;
        Some(Key::new(index, generation << 1 | 1))
    }

    /// The same for a window that has used up the tags of its place: none of the keys was in use for long. `None` if there is no
    /// such place.
    pub fn insert_window_again(&self) -> Option<Key> {
        let mut indices = self.indices();
        let rested = if indices.used_up.len() > USED_UP_RESTING { indices.used_up.pop_front() } else { None };
        if let Some(index) = rested {
            return Some(Key::new(index, 1));
        }
        let index = indices.take_fresh(self.view.capacity())?;
        Some(Key::new(index, 1))
    }

    /// Gives a place back whose tags were used up, and whose window is not bound there.
    pub fn remove_used_up(&self, index: u32) {
        self.indices().used_up.push_back(index);
    }

    /// Binds a window: from now on `key`, whose index is the window's, leads to what `entry` says. The tags of `entry` do not
    /// count. The window is unbound, and whoever was inside an operation through its last key has left.
    pub fn bind_window(&self, key: Key, entry: &Entry) {
        let entry = Entry { local_tag: 0, remote_tag: key.tag(), ..*entry };
        self.view.publish(key.index(), &entry, WINDOW);
    }

    /// Unbinds a window: no lookup that begins after this finds it, and those that began before have taken their operation
    /// slots for all to see (`gate`): no heavy fence is needed to see who is inside.
    pub fn unbind_window(&self, key: Key) {
        self.view.kill(key.index());
        nonic_sys::full_fence();
    }

    /// Gives the place of an unbound window back; `key` is its last.
    pub fn remove_window(&self, key: Key) {
        self.recycle(KeyPair { local: key, remote: key });
    }

    /// Kills an entry: no lookup that begins after this finds it. The caller then waits for the lookups that began
    /// before, and only then calls [`KeyTable::recycle`].
    pub fn kill(&self, keys: KeyPair) {
        self.view.kill(keys.local.index());
    }

    /// Has the keys of a killed entry lead to another; the tags of `entry` do not count. Whoever was looking at the one before has
    /// left.
    pub fn renew(&self, keys: KeyPair, entry: &Entry) {
        let entry = Entry { local_tag: keys.local.tag(), remote_tag: keys.remote.tag(), ..*entry };
        self.view.publish(keys.local.index(), &entry, 0);
    }

    /// Lets a killed entry be used again, later, under other tags.
    pub fn recycle(&self, keys: KeyPair) {
        let generation = (keys.local.tag() >> 1).wrapping_add(1) & 0x7f;
        self.indices().freed.push_back((keys.local.index(), generation));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use nonic_sys::SharedMapping;

    use super::*;
    use crate::{Access, AdoptedPages, PlainReason, RegionAddress, ZoneId};

    fn table(capacity: u32) -> KeyTable {
        let mapping = Arc::new(SharedMapping::anonymous(KeyTableView::length(capacity).max(4096)).unwrap());
        KeyTable::new(KeyTableView::new(mapping, 0, capacity))
    }

    fn entry() -> Entry {
        Entry {
            zone: ZoneId(3),
            access: Access::LOCAL_WRITE | Access::REMOTE_READ,
            base: RegionAddress(0x1000),
            length: 64,
            translation: Translation::SharedFile { file: 9, offset: 8192, address: 0x7000 },
            reason: PlainReason::None,
            local_tag: 0,
            remote_tag: 0,
        }
    }

    #[test]
    fn what_is_entered_is_found_until_it_is_killed() {
        let table = table(64);
        let keys = table.insert(entry()).unwrap();
        assert_ne!(keys.local, keys.remote);
        let found = table.view().read(keys.remote.index()).unwrap();
        assert_eq!(Entry { local_tag: 0, remote_tag: 0, ..found }, entry());
        assert_eq!((found.local_tag, found.remote_tag), (keys.local.tag(), keys.remote.tag()));
        table.kill(keys);
        assert_eq!(table.view().read(keys.local.index()), None);
    }

    #[test]
    fn every_translation_survives_its_words() {
        let pages = AdoptedPages { layer: 3, start: 0x7f12_3456_7000, end: 0x7f12_3456_a000 };
        for (translation, reason) in [
            (Translation::Plain { address: 0x7f00 }, PlainReason::Stack),
            (Translation::Adopted { address: 0x7f12_3456_6f01, pages }, PlainReason::None),
            (Translation::Device { device: 15, offset: 1 << 35 }, PlainReason::None),
            (Translation::SharedFile { file: u32::MAX, offset: 1, address: 2 }, PlainReason::NotOrdinary),
            (Translation::Shadow { shadow: u32::MAX, offset: 1 << 40 }, PlainReason::None),
            (Translation::OnDemand { address: 0 }, PlainReason::None),
            (Translation::OnDemand { address: usize::MAX }, PlainReason::None),
            (Translation::Null, PlainReason::None),
        ] {
            let table = table(64);
            let keys = table.insert(Entry { translation, reason, ..entry() }).unwrap();
            let found = table.view().read(keys.local.index()).unwrap();
            assert_eq!((found.translation, found.reason), (translation, reason));
        }
    }

    #[test]
    fn no_key_comes_back_soon() {
        let table = table(1024);
        let mut seen = std::collections::HashSet::new();
        for _ in 0..5000 {
            let keys = table.insert(entry()).unwrap();
            assert!(seen.insert(keys.local) && seen.insert(keys.remote), "{keys:?} again");
            table.kill(keys);
            table.recycle(keys);
        }
    }

    #[test]
    fn a_full_table_refuses_and_takes_again_after_one_is_freed() {
        let table = table(8);
        let all: Vec<_> = (0..7).map(|_| table.insert(entry()).unwrap()).collect();
        assert_eq!(table.insert(entry()), None);
        table.kill(all[3]);
        table.recycle(all[3]);
        assert!(table.insert(entry()).is_some());
        assert_eq!(table.insert(entry()), None);
    }

    #[test]
    fn a_place_whose_tags_windows_used_up_rests_for_long() {
        let capacity = 1 << 18;
        let table = table(capacity);
        let first = table.insert_window().unwrap().index();
        table.remove_used_up(first);
        let mut places = 0u32;
        loop {
            let again = table.insert_window_again().unwrap();
            if again.index() == first {
                break;
            }
            table.remove_used_up(again.index());
            places += 1;
        }
        // Tags 1 to 255 of each.
        assert!(places as usize == USED_UP_RESTING && places * 255 > 1 << 24, "{places} places");
        // Regions take what is left when nothing else is.
        let regions = (0..).map_while(|_| table.insert(entry())).count();
        assert_eq!(regions as u32, capacity - 2, "all but the first place, and the one in use");
    }

    #[test]
    fn index_zero_and_indices_outside_are_never_live() {
        let table = table(8);
        assert_eq!(table.view().read(0), None);
        assert_eq!(table.view().read(8), None);
        assert_eq!(table.view().read(u32::MAX), None);
    }
}
