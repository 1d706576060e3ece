//! The one gate into registered memory: every access, from every face and every wire, passes here.

use crate::key_table::{KeyTableView, Protection, Translation};
use crate::{Access, AddressRange, Key, ZoneId};

/// Which of a region's two keys a request may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyUse {
    /// Its own memory, in a work request.
    Local,
    /// A peer's memory, by the key of a region.
    Remote,
    /// A peer's memory, through this queue pair of the peer's: the key may be that of a memory window too.
    Through(u32),
}

/// Why an access was refused. The order of the variants is the order of the checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// No such key, or one that was given back.
    #[error("key {key} names no region")]
    UnknownKey {
        /// The key.
        key: Key,
    },
    /// The region belongs to another zone.
    #[error("the region of key {key} belongs to another protection domain")]
    OtherZone {
        /// The key.
        key: Key,
    },
    /// A byte outside the region.
    #[error("{range:?} is not inside the region of key {key}")]
    OutOfRange {
        /// The key.
        key: Key,
        /// What was asked for.
        range: AddressRange,
    },
    /// A right the region does not give.
    #[error("the region of key {key} gives {given}; {wanted} was wanted")]
    NotAllowed {
        /// The key.
        key: Key,
        /// What it gives.
        given: Access,
        /// What was wanted.
        wanted: Access,
    },
    /// Memory that is paged on demand, of which the program has not all, or may not do with it what was wanted. Only whoever
    /// copies finds out.
    #[error("memory that is paged on demand is not there, or not to be written to")]
    NotThere,
}

/// Where an allowed access leads. Only the gate makes one, so whoever has none cannot name the bytes; nor can whoever has one name
/// others, since it says how many they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    translation: Translation,
    offset: u64,
    length: u64,
}

impl Place {
    /// A part of the program's memory under a shadow, which was registered as the shadow was.
    #[cfg(not(loom))]
    pub(crate) fn under_shadow(program: Translation, offset: u64, length: u64) -> Self {
        Self { translation: program, offset, length }
    }

    /// The region's translation.
    #[inline(always)]
    pub fn translation(&self) -> Translation {
        self.translation
    }

    /// Offset of the access within the region, in bytes; all of it is inside.
    #[inline(always)]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Length of the access in bytes.
    #[inline(always)]
    pub fn length(&self) -> u64 {
        self.length
    }
}

/// Resolves a key to bytes: the only gate into registered memory.
///
/// Checks, in order: key known and current, zone, range (no wraparound), rights. Addresses and lengths are in bytes. The
/// caller holds an operation slot of the table's owner, so that what is found stands until the slot is freed. A
/// zero-length access is the caller's to leave out: the gate checks it like any other.
pub fn resolve(
    table: &KeyTableView,
    zone: ZoneId,
    key: Key,
    key_use: KeyUse,
    range: AddressRange,
    want: Access,
) -> Result<Place, AccessError> {
    judge(table, zone, key, key_use, range, want).map_err(|fault| match fault {
        Fault::UnknownKey => AccessError::UnknownKey { key },
        Fault::OtherZone => AccessError::OtherZone { key },
        Fault::OutOfRange => AccessError::OutOfRange { key, range },
        Fault::NotAllowed { given } => AccessError::NotAllowed { key, given, wanted: want },
    })
}

/// The same without the reason: for those who leave a refusal to others, and are in a hurry.
#[inline(always)]
pub fn admit(
    table: &KeyTableView,
    zone: ZoneId,
    key: Key,
    key_use: KeyUse,
    range: AddressRange,
    want: Access,
) -> Option<Place> {
    judge(table, zone, key, key_use, range, want).ok()
}

/// An access error without what the caller knows.
enum Fault {
    UnknownKey,
    OtherZone,
    OutOfRange,
    NotAllowed { given: Access },
}

// Always in line: every result is then a matter of registers, where a returned one would go through memory.
#[inline(always)]
fn judge(
    table: &KeyTableView,
    zone: ZoneId,
    key: Key,
    key_use: KeyUse,
    range: AddressRange,
    want: Access,
) -> Result<Place, Fault> {
    let entry = table.protection(key.index()).ok_or(Fault::UnknownKey)?;
    if entry.is_window {
        return judge_window(table, zone, key, key_use, range, want);
    }
    let tag = match key_use {
        KeyUse::Local => entry.local_tag,
        KeyUse::Remote | KeyUse::Through(_) => entry.remote_tag,
    };
    if tag != key.tag() {
        return Err(Fault::UnknownKey);
    }
    if entry.zone != zone {
        return Err(Fault::OtherZone);
    }
    within(table, &entry, range, want)
}

/// What is checked last, whatever the entry: range, then rights.
#[inline(always)]
fn within(
    table: &KeyTableView,
    entry: &Protection,
    range: AddressRange,
    want: Access,
) -> Result<Place, Fault> {
    let offset = range.offset_within(entry.base, entry.length).ok_or(Fault::OutOfRange)?;
    if !entry.access.contains(want) {
        return Err(Fault::NotAllowed { given: entry.access });
    }
    let translation = table.translation(entry).ok_or(Fault::UnknownKey)?;
    Ok(Place { translation, offset, length: range.length })
}

/// The same for memory windows, which come and go often: taking one back passes no heavy fence. So whoever uses one passes
/// an ordinary fence behind taking its operation slot, and looks the key up again: then it finds the key dead, or whoever
/// unbinds finds the slot taken.
#[cold]
fn judge_window(
    table: &KeyTableView,
    zone: ZoneId,
    key: Key,
    key_use: KeyUse,
    range: AddressRange,
    want: Access,
) -> Result<Place, Fault> {
    nonic_sys::full_fence();
    let entry = table.protection(key.index()).ok_or(Fault::UnknownKey)?;
    let KeyUse::Through(pair) = key_use else { return Err(Fault::UnknownKey) };
    if !entry.is_window || entry.remote_tag != key.tag() {
        return Err(Fault::UnknownKey);
    }
    if entry.zone != zone && entry.zone != ZoneId::of_one_pair(pair) {
        return Err(Fault::OtherZone);
    }
    within(table, &entry, range, want)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Entry, KeyTable, RegionAddress};
    use nonic_sys::SharedMapping;
    use proptest::prelude::*;
    use std::sync::Arc;

    const ZONE: ZoneId = ZoneId(5);

    fn table_with(access: Access) -> (KeyTable, crate::KeyPair) {
        let mapping = Arc::new(SharedMapping::anonymous(8192).unwrap());
        let table = KeyTable::new(KeyTableView::new(mapping, 0, 128));
        let keys = table
            .insert(Entry {
                zone: ZONE,
                access,
                base: RegionAddress(0x1000),
                length: 0x100,
                translation: Translation::Plain { address: 0xabc000 },
                reason: crate::PlainReason::None,
                local_tag: 0,
                remote_tag: 0,
            })
            .unwrap();
        (table, keys)
    }

    #[test]
    fn a_rightful_access_leads_to_its_bytes() {
        let (table, keys) = table_with(Access::REMOTE_READ);
        let range = AddressRange::new(0x1010, 0xf0);
        let place =
            resolve(table.view(), ZONE, keys.remote, KeyUse::Remote, range, Access::REMOTE_READ).unwrap();
        let translation = Translation::Plain { address: 0xabc000 };
        assert_eq!(place, Place { translation, offset: 0x10, length: 0xf0 });
    }

    #[test]
    fn local_and_remote_keys_do_not_stand_for_each_other() {
        let (table, keys) = table_with(Access::REMOTE_READ);
        let range = AddressRange::new(0x1000, 1);
        let mixed = resolve(table.view(), ZONE, keys.local, KeyUse::Remote, range, Access::REMOTE_READ);
        assert_eq!(mixed, Err(AccessError::UnknownKey { key: keys.local }));
        let mixed = resolve(table.view(), ZONE, keys.remote, KeyUse::Local, range, Access::LOCAL_READ);
        assert_eq!(mixed, Err(AccessError::UnknownKey { key: keys.remote }));
    }

    #[test]
    fn each_fault_is_named_and_an_earlier_check_wins() {
        let (table, keys) = table_with(Access::REMOTE_READ);
        let ask = |zone, key, start, length, want| {
            resolve(table.view(), zone, key, KeyUse::Remote, AddressRange::new(start, length), want)
                .unwrap_err()
        };
        let other = ZoneId(6);
        let stale = Key::new(keys.remote.index(), keys.remote.tag().wrapping_add(2));
        assert!(matches!(ask(other, stale, 0, 9999, Access::REMOTE_WRITE), AccessError::UnknownKey { .. }));
        assert!(matches!(
            ask(other, keys.remote, 0, 9999, Access::REMOTE_WRITE),
            AccessError::OtherZone { .. }
        ));
        for (start, length) in [(0xfff, 1), (0x1000, 0x101), (0x1100, 1), (0x1080, u64::MAX - 0x1000)] {
            let refused = ask(ZONE, keys.remote, start, length, Access::REMOTE_WRITE);
            assert!(matches!(refused, AccessError::OutOfRange { .. }), "{start:#x}+{length:#x}");
        }
        assert!(matches!(
            ask(ZONE, keys.remote, 0x1000, 8, Access::REMOTE_WRITE),
            AccessError::NotAllowed { .. }
        ));
    }

    #[test]
    fn a_killed_key_leads_nowhere() {
        let (table, keys) = table_with(Access::REMOTE_READ);
        table.kill(keys);
        let range = AddressRange::new(0x1000, 1);
        let refused = resolve(table.view(), ZONE, keys.remote, KeyUse::Remote, range, Access::REMOTE_READ);
        assert_eq!(refused, Err(AccessError::UnknownKey { key: keys.remote }));
    }

    /// The gate once more, from the book: what an access to an entry comes to.
    fn by_the_book(
        entry: &Entry,
        is_window: bool,
        zone: ZoneId,
        (key, key_use): (Key, KeyUse),
        range: AddressRange,
        want: Access,
    ) -> Result<Place, AccessError> {
        let tag = match key_use {
            KeyUse::Local | KeyUse::Remote if is_window => None,
            KeyUse::Local => Some(entry.local_tag),
            KeyUse::Remote | KeyUse::Through(_) => Some(entry.remote_tag),
        };
        if tag != Some(key.tag()) {
            return Err(AccessError::UnknownKey { key });
        }
        let serves_the_pair = matches!(key_use, KeyUse::Through(pair)
            if is_window && entry.zone == ZoneId::of_one_pair(pair));
        if entry.zone != zone && !serves_the_pair {
            return Err(AccessError::OtherZone { key });
        }
        let (first, end) = (u128::from(entry.base.0), u128::from(entry.base.0) + u128::from(entry.length));
        let (from, to) = (u128::from(range.start.0), u128::from(range.start.0) + u128::from(range.length));
        if from < first || to > end {
            return Err(AccessError::OutOfRange { key, range });
        }
        let missing = (0..7).any(|bit| want.bits() & !entry.access.bits() & 1 << bit != 0);
        if missing {
            return Err(AccessError::NotAllowed { key, given: entry.access, wanted: want });
        }
        let (translation, offset) = (entry.translation, range.start.0 - entry.base.0);
        Ok(Place { translation, offset, length: range.length })
    }

    fn rights() -> impl Strategy<Value = Access> {
        (0u32..128).prop_filter_map("bits with a meaning", Access::from_bits)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn with_a_reason_and_without_the_gate_says_what_the_book_says(
            is_window: bool,
            zone in prop_oneof![3 => Just(ZONE), 1 => Just(ZoneId(6)), 1 => Just(ZoneId::of_one_pair(9))],
            given in prop_oneof![1 => Just(Access::from_bits(0b111_1111).unwrap()), 1 => rights()],
            base in prop_oneof![Just(0u64), Just(0x1000), Just(u64::MAX - 0x100)],
            from in -2i64..0x103,
            length in prop_oneof![4 => 0u64..0x20, 2 => 0xfe_u64..0x103, 1 => any::<u64>()],
            key_use in prop_oneof![
                Just(KeyUse::Local), Just(KeyUse::Remote), Just(KeyUse::Through(9)), Just(KeyUse::Through(8))
            ],
            want in prop_oneof![2 => (0u32..7).prop_map(|bit| Access::from_bits(1 << bit).unwrap()), 1 => rights()],
            key_of_the_other_kind in prop::bool::weighted(0.1),
            age in prop_oneof![8 => Just(0u8), 1 => any::<u8>()],
        ) {
            let (table, _) = table_with(Access::LOCAL_READ);
            let mut entry = Entry {
                zone,
                access: given,
                base: RegionAddress(base),
                length: 0x100,
                translation: Translation::Plain { address: 0xabc000 },
                reason: crate::PlainReason::None,
                local_tag: 0,
                remote_tag: 0,
            };
            let keys = if is_window {
                let key = table.insert_window().unwrap();
                table.bind_window(key, &entry);
                entry.remote_tag = key.tag();
                crate::KeyPair { local: Key::new(key.index(), 0), remote: key }
            } else {
                let keys = table.insert(entry).unwrap();
                (entry.local_tag, entry.remote_tag) = (keys.local.tag(), keys.remote.tag());
                keys
            };
            let fitting = if (key_use == KeyUse::Local) != key_of_the_other_kind { keys.local } else { keys.remote };
            let key = Key::new(fitting.index(), fitting.tag().wrapping_add(age));
            let range = AddressRange::new(base.wrapping_add_signed(from), length);
            let expected = by_the_book(&entry, is_window, ZONE, (key, key_use), range, want);
            let said = resolve(table.view(), ZONE, key, key_use, range, want);
            prop_assert_eq!(said, expected);
            prop_assert_eq!(admit(table.view(), ZONE, key, key_use, range, want), said.ok());
        }
    }
}
