//! The table as words: how an entry is laid out, published, read and killed.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use nonic_sys::{AtomicU64, SharedMapping, SharedWords};

use super::{Entry, Translation};
use crate::{Access, AddressRange, AdoptedPages, Key, PlainReason, RegionAddress, ZoneId};

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
pub(super) const WINDOW: u64 = 1 << 25;
const KIND_PLAIN: u64 = 1;
const KIND_DEVICE: u64 = 2;
const KIND_SHARED_FILE: u64 = 3;
const KIND_ADOPTED: u64 = 4;
const KIND_SHADOW: u64 = 5;
const KIND_ON_DEMAND: u64 = 6;
const KIND_NULL: u64 = 7;
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

    /// How many entries it has room for.
    pub(super) fn capacity(&self) -> u32 {
        self.capacity
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
            KIND_ON_DEMAND => Translation::OnDemand { address: address as usize },
            KIND_NULL => Translation::Null,
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

    pub(super) fn publish(&self, index: u32, entry: &Entry, kind_of_entry: u64) {
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
            Translation::OnDemand { address } => (KIND_ON_DEMAND, address as u64, 0),
            Translation::Null => (KIND_NULL, 0, 0),
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

    pub(super) fn kill(&self, index: u32) {
        let at = index as usize * ENTRY;
        self.word(at + CONTROL).store(0, Ordering::SeqCst);
    }
}
