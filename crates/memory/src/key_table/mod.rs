//! The key table: every region and memory window of a process, in memory that trusted peers can read.
//!
//! Only the owner writes. A reader inside an operation slot sees an entry either live and whole or not at all: the
//! owner kills the control word first and does not reuse an entry before every such reader has left.

mod chance;
mod entry;
mod fresh_places;
mod tags;
mod view;

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use self::chance::Chance;
pub use self::entry::{Entry, Translation};
use self::fresh_places::FreshPlaces;
use self::tags::Tags;
pub use self::view::KeyTableView;
pub(crate) use self::view::Protection;
use self::view::WINDOW;
use crate::Key;

/// The table as its owner fills it.
#[derive(Debug)]
pub struct KeyTable {
    view: KeyTableView,
    tags: Tags,
    indices: Mutex<Indices>,
}

#[derive(Debug)]
struct Indices {
    chance: Chance,
    fresh: FreshPlaces,
    /// Freed entries with the generation, a pair of tags, to use next; those that were freed last at the end.
    freed: VecDeque<(u32, u8)>,
    /// Entries of which windows have used up all tags, oldest first.
    used_up: VecDeque<u32>,
}

/// Freed entries that rest before one is used again: a stale key then meets a dead entry rather than a new one.
const RESTING: usize = 64;
/// Freed entries among which chance chooses the next, so that who had one's key does not know when it is used again.
const CHOICE: usize = 1 << 12;
/// Generations of a place. Each has two tags.
const GENERATIONS: u8 = 1 << 7;
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
        let fresh = FreshPlaces::of(view.capacity());
        Self {
            view,
            tags: Tags::by_chance(),
            indices: Mutex::new(Indices {
                chance: Chance::new(),
                fresh,
                freed: VecDeque::new(),
                used_up: VecDeque::new(),
            }),
        }
    }

    /// For lookups.
    pub fn view(&self) -> &KeyTableView {
        &self.view
    }

    /// Enters a region; the tags of `entry` are chosen here. `None` if the table is full.
    pub fn insert(&self, mut entry: Entry) -> Option<KeyPair> {
        let (index, generation) = self.take_index()?;
        entry.local_tag = self.tags.tag(index, generation << 1);
        entry.remote_tag = self.tags.tag(index, generation << 1 | 1);
        self.view.publish(index, &entry, 0);
        Some(KeyPair { local: Key::new(index, entry.local_tag), remote: Key::new(index, entry.remote_tag) })
    }

    /// The key that is number `nth` of those of a place, 0 to 255.
    pub fn key(&self, index: u32, nth: u8) -> Key {
        Key::new(index, self.tags.tag(index, nth))
    }

    /// Which number a key has among those of its place.
    pub fn number(&self, key: Key) -> u8 {
        self.tags.number(key.index(), key.tag())
    }

    fn indices(&self) -> MutexGuard<'_, Indices> {
        self.indices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place in the table, and the generation of its tags.
    fn take_index(&self) -> Option<(u32, u8)> {
        let mut indices = self.indices();
        let Indices { chance, fresh, freed, used_up } = &mut *indices;
        if freed.len() >= RESTING + CHOICE {
            let rested = freed.len() - RESTING;
            // The oldest stands for the one that is taken, in front of those that rest as well.
            freed.swap(0, chance.draw() as usize % rested);
            return freed.pop_front();
        }
        if let Some(index) = fresh.take(chance) {
            return Some((index, 0));
        }
        // Rather a key that comes back early than none.
        freed.pop_front().or_else(|| Some((used_up.pop_front()?, 0)))
    }

    /// Takes a place for a memory window; its key leads nowhere until the window is bound. The keys of the place are this one
    /// and those with a higher number. `None` if the table is full.
    pub fn insert_window(&self) -> Option<Key> {
        let (index, generation) = self.take_index()?;
        Some(self.key(index, generation << 1 | 1))
    }

    /// The same for a window that has used up the tags of its place: none of the keys was in use for long. `None` if there is no
    /// such place.
    pub fn insert_window_again(&self) -> Option<Key> {
        let mut indices = self.indices();
        let Indices { chance, fresh, used_up, .. } = &mut *indices;
        let rested = if used_up.len() > USED_UP_RESTING { used_up.pop_front() } else { None };
        Some(self.key(rested.or_else(|| fresh.take(chance))?, 1))
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
        let generation = ((self.number(keys.local) >> 1) + 1) % GENERATIONS;
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
    fn who_had_a_key_does_not_know_the_next_of_its_place() {
        let table = table(1 << 16);
        let mut last = std::collections::HashMap::new();
        let (mut again, mut beside) = (0, 0);
        for _ in 0..20_000 {
            let keys = table.insert(entry()).unwrap();
            if let Some(before) = last.insert(keys.remote.index(), keys.remote.tag()) {
                again += 1;
                beside += u32::from(keys.remote.tag().wrapping_sub(before) <= 2);
            }
            table.kill(keys);
            table.recycle(keys);
        }
        // Places are used again after 4,160, and two of 255 tags are one or two above the one before.
        assert!(again > 10_000 && beside < 1000, "{again} places again, {beside} with a tag beside the last");
    }

    #[test]
    fn which_place_is_used_again_is_chance() {
        let table = table(1 << 16);
        let next = || {
            let keys = table.insert(entry()).unwrap();
            table.kill(keys);
            table.recycle(keys);
            keys.remote.index()
        };
        let first: Vec<_> = (0..RESTING + CHOICE).map(|_| next()).collect();
        let then: Vec<_> = (0..100).map(|_| next()).collect();
        assert!(then.iter().all(|place| first.contains(place)), "no place is used first while many rest");
        assert_ne!(then, first[..100]);
        assert!(then.iter().collect::<std::collections::HashSet<_>>().len() > 90, "{then:?}");
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
