//! The key table: every region and memory window of a process, in memory that trusted peers can read.
//!
//! Only the owner writes. A reader inside an operation slot sees an entry either live and whole or not at all: the
//! owner kills the control word first and does not reuse an entry before every such reader has left.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nonic_sys::{AtomicU64, SharedMapping, SharedWords};

use crate::{Access, AddressRange, AdoptedPages, Key, PlainReason, RegionAddress, ZoneId};

/// Where a region's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Translation {
    /// Private memory of the owner, from this address of the owner's address space.
    Plain {
        /// First byte.
        address: usize,
    },
    /// Private memory of which some pages were moved into the owner's file of adopted pages.
    Adopted {
        /// First byte.
        address: usize,
        /// The pages in the file. The region may begin before them and end after them.
        pages: AdoptedPages,
    },
    /// Device memory, from this offset of the device's arena.
    Device {
        /// Which device.
        device: u32,
        /// Offset in bytes.
        offset: u64,
    },
    /// Memory the program shares already: a file of the owner's list, and where the owner has it.
    SharedFile {
        /// Number of the file in the owner's list.
        file: u32,
        /// Offset of the first byte in the file.
        offset: u64,
        /// First byte in the owner's address space.
        address: usize,
    },
    /// A shadow of the owner's: what peers see of memory that is not coherent. Only the owner goes there, on their behalf.
    Shadow {
        /// Number of the shadow in the owner's list.
        shadow: u32,
        /// Offset in bytes.
        offset: u64,
    },
}

impl Translation {
    /// The translation of what begins `offset` bytes further on, inside the same region.
    pub fn moved_by(self, by: u64) -> Self {
        match self {
            Self::Plain { address } => Self::Plain { address: address + by as usize },
            Self::Adopted { address, pages } => Self::Adopted { address: address + by as usize, pages },
            Self::Device { device, offset } => Self::Device { device, offset: offset + by },
            Self::SharedFile { file, offset, address } => {
                Self::SharedFile { file, offset: offset + by, address: address + by as usize }
            }
            Self::Shadow { shadow, offset } => Self::Shadow { shadow, offset: offset + by },
        }
    }
}

/// What protects and translates one region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The zone that may use it.
    pub zone: ZoneId,
    /// Rights.
    pub access: Access,
    /// Address of the first byte as requests name it.
    pub base: RegionAddress,
    /// Length in bytes.
    pub length: u64,
    /// Where the bytes are.
    pub translation: Translation,
    /// Why not all of it is adopted.
    pub reason: PlainReason,
    /// Tag of the local key.
    pub local_tag: u8,
    /// Tag of the remote key.
    pub remote_tag: u8,
}

const ENTRY: usize = 64;
const CONTROL: usize = 0;
const BASE: usize = 8;
const LENGTH: usize = 16;
const ADDRESS: usize = 24;
const KIND: usize = 32;
const OFFSET: usize = 40;
const PAGES_START: usize = 48;
const PAGES_END: usize = 56;

const LIVE: u64 = 1 << 24;
/// The entry is a memory window: it has no local key, and whoever finds it looks twice (`gate`).
const WINDOW: u64 = 1 << 25;
const KIND_PLAIN: u64 = 1;
const KIND_DEVICE: u64 = 2;
const KIND_SHARED_FILE: u64 = 3;
const KIND_ADOPTED: u64 = 4;
const KIND_SHADOW: u64 = 5;
const REASON_SHIFT: u32 = 8;

/// The part of an entry that says who may do what, and where the entry is.
pub(crate) struct Protection {
    at: usize,
    pub(crate) zone: ZoneId,
    pub(crate) access: Access,
    pub(crate) base: RegionAddress,
    pub(crate) length: u64,
    pub(crate) local_tag: u8,
    pub(crate) remote_tag: u8,
    pub(crate) is_window: bool,
}

/// The table as owner and peers read it.
#[derive(Clone, Debug)]
pub struct KeyTableView {
    words: SharedWords,
    capacity: u32,
}

impl KeyTableView {
    /// Bytes of one entry.
    pub const ENTRY: usize = ENTRY;

    /// Bytes a table of `capacity` entries takes.
    pub const fn length(capacity: u32) -> usize {
        capacity as usize * ENTRY
    }

    /// The table of `capacity` entries, a power of two, at `offset` of `mapping`.
    pub fn new(mapping: Arc<SharedMapping>, offset: usize, capacity: u32) -> Self {
        Self { words: SharedWords::new(mapping, offset, Self::length(capacity) / 8), capacity }
    }

    /// The word of a field, of the entry that begins at byte `at` of the table.
    #[inline(always)]
    fn word(&self, at: usize) -> &AtomicU64 {
        self.words.at(at / 8)
    }

    /// What protects the live entry at `index`. Every word is loaded once and then checked.
    #[inline(always)]
    pub(crate) fn protection(&self, index: u32) -> Option<Protection> {
        // Entry 0 is never given out, so that no key is 0.
        if index == 0 || index >= self.capacity {
            return None;
        }
        let at = index as usize * ENTRY;
        // After the store that took the reader's operation slot: a fence stands between (see `operation_slots`).
        let control = self.word(at + CONTROL).load(Ordering::Acquire);
        if control & LIVE == 0 {
            return None;
        }
        let load = |field| self.word(at + field).load(Ordering::Relaxed);
        Some(Protection {
            at,
            zone: ZoneId((control >> 32) as u32),
            access: Access::from_bits((control >> 16) as u32 & 0xff)?,
            base: RegionAddress(load(BASE)),
            length: load(LENGTH),
            local_tag: control as u8,
            remote_tag: (control >> 8) as u8,
            is_window: control & WINDOW != 0,
        })
    }

    /// Where the bytes of an entry are whose protection was read before, in the same operation slot.
    #[inline(always)]
    pub(crate) fn translation(&self, protection: &Protection) -> Option<Translation> {
        let load = |field| self.word(protection.at + field).load(Ordering::Relaxed);
        let (address, offset, kind) = (load(ADDRESS), load(OFFSET), load(KIND));
        let number = (kind >> 32) as u32;
        Some(match kind & 0xff {
            KIND_PLAIN => Translation::Plain { address: address as usize },
            KIND_ADOPTED => Translation::Adopted {
                address: address as usize,
                pages: AdoptedPages::from_words(load(PAGES_START), load(PAGES_END)),
            },
            KIND_DEVICE => Translation::Device { device: number, offset },
            KIND_SHARED_FILE => Translation::SharedFile { file: number, offset, address: address as usize },
            KIND_SHADOW => Translation::Shadow { shadow: number, offset },
            _ => return None,
        })
    }

    /// Zone and rights of the region with the local key `key`, if the whole range is inside it, in whatever zone. For who only
    /// wants to know: nothing is reached by it.
    #[inline]
    pub fn region_around(&self, key: Key, range: AddressRange) -> Option<(ZoneId, Access)> {
        let entry = self.protection(key.index())?;
        let inside = entry.local_tag == key.tag() && range.offset_within(entry.base, entry.length).is_some();
        (inside && !entry.is_window).then_some((entry.zone, entry.access))
    }

    /// Whether an entry is live at `index`, whatever it says.
    pub fn is_live(&self, index: u32) -> bool {
        let at = index as usize * ENTRY;
        index < self.capacity && self.word(at + CONTROL).load(Ordering::Acquire) & LIVE != 0
    }

    /// Whether a memory window is bound at `index`.
    pub fn is_window(&self, index: u32) -> bool {
        self.protection(index).is_some_and(|protection| protection.is_window)
    }

    /// The live entry at `index`.
    pub fn read(&self, index: u32) -> Option<Entry> {
        let protection = self.protection(index)?;
        let kind = self.word(protection.at + KIND).load(Ordering::Relaxed);
        Some(Entry {
            zone: protection.zone,
            access: protection.access,
            base: protection.base,
            length: protection.length,
            translation: self.translation(&protection)?,
            reason: PlainReason::from_number((kind >> REASON_SHIFT) as u8).unwrap_or_default(),
            local_tag: protection.local_tag,
            remote_tag: protection.remote_tag,
        })
    }

    fn publish(&self, index: u32, entry: &Entry, kind_of_entry: u64) {
        let at = index as usize * ENTRY;
        let store = |field, value| self.word(at + field).store(value, Ordering::Relaxed);
        let (kind, address, offset) = match entry.translation {
            Translation::Plain { address } => (KIND_PLAIN, address as u64, 0),
            Translation::Adopted { address, pages } => {
                let (start, end) = pages.to_words();
                store(PAGES_START, start);
                store(PAGES_END, end);
                (KIND_ADOPTED, address as u64, 0)
            }
            Translation::Device { device, offset } => (KIND_DEVICE | u64::from(device) << 32, 0, offset),
            Translation::SharedFile { file, offset, address } => {
                (KIND_SHARED_FILE | u64::from(file) << 32, address as u64, offset)
            }
            Translation::Shadow { shadow, offset } => (KIND_SHADOW | u64::from(shadow) << 32, 0, offset),
        };
        store(BASE, entry.base.0);
        store(LENGTH, entry.length);
        store(ADDRESS, address);
        store(KIND, kind | (entry.reason as u64) << REASON_SHIFT);
        store(OFFSET, offset);
        let control = u64::from(entry.zone.0) << 32
            | LIVE
            | kind_of_entry
            | u64::from(entry.access.bits()) << 16
            | u64::from(entry.remote_tag) << 8
            | u64::from(entry.local_tag);
        self.word(at + CONTROL).store(control, Ordering::Release);
    }

    fn kill(&self, index: u32) {
        let at = index as usize * ENTRY;
        self.word(at + CONTROL).store(0, Ordering::SeqCst);
    }
}

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
        let fresh = indices.take_fresh(self.view.capacity).map(|index| (index, 1));
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
        let index = indices.take_fresh(self.view.capacity)?;
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
        nonic_sys::light_fence(false);
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

    /// Lets a killed entry be used again, later, under other tags.
    pub fn recycle(&self, keys: KeyPair) {
        let generation = (keys.local.tag() >> 1).wrapping_add(1) & 0x7f;
        self.indices().freed.push_back((keys.local.index(), generation));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
