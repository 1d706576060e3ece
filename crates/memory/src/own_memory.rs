//! The owner's side of the gate: from a key to bytes of this process.

#![allow(unsafe_code)]

use std::sync::Arc;

use crate::paging::Faults;
use crate::{
    Access, AccessError, AddressRange, Arena, Key, KeyTableView, KeyUse, OperationGuard, OwnSlots, Place,
    Shadows, SharedSlice, Translation, ZoneId, admit, resolve,
};

/// Everything registered in this process.
#[derive(Debug)]
pub struct OwnMemory {
    table: KeyTableView,
    arenas: Vec<Arc<Arena>>,
    slots: OwnSlots,
    shadows: Shadows,
}

impl OwnMemory {
    /// What `table` describes; `arenas` in the order of their devices.
    pub fn new(table: KeyTableView, arenas: Vec<Arc<Arena>>) -> std::io::Result<Self> {
        Ok(Self { table, arenas, slots: OwnSlots::new()?, shadows: Shadows::default() })
    }

    /// Begins an operation.
    #[inline(always)]
    pub fn enter(&self) -> OwnOperation<'_> {
        OwnOperation {
            memory: self,
            _slot: self.slots.enter(nonic_sys::light_fences_are_free),
            faults: Faults::default(),
        }
    }

    /// The slots of this process's own operations, for whoever revokes.
    pub fn slots(&self) -> &OwnSlots {
        &self.slots
    }

    /// The device memory of each device.
    pub fn arenas(&self) -> &[Arc<Arena>] {
        &self.arenas
    }

    /// The table of its keys.
    pub(crate) fn table(&self) -> &KeyTableView {
        &self.table
    }

    /// The shadows of memory that is not coherent.
    pub fn shadows(&self) -> &Shadows {
        &self.shadows
    }

    /// Whether the bytes a local key leads to are paged, so that nobody but this process finds them.
    pub fn is_paged(&self, zone: ZoneId, key: Key, range: AddressRange) -> bool {
        let found = admit(&self.table, zone, key, KeyUse::Local, range, Access::LOCAL_READ);
        let translation = found.map(|place| place.translation());
        matches!(translation, Some(Translation::OnDemand { .. } | Translation::Null))
    }

    /// Whether every byte a local key leads to can be mapped by peers.
    pub fn is_mappable(&self, zone: ZoneId, key: Key, range: AddressRange) -> bool {
        let Ok(place) = resolve(&self.table, zone, key, KeyUse::Local, range, Access::LOCAL_READ) else {
            return false;
        };
        let (Ok(offset), Ok(length)) = (usize::try_from(place.offset()), usize::try_from(place.length()))
        else {
            return false;
        };
        match place.translation() {
            Translation::Adopted { address, pages } => {
                address.checked_add(offset).is_some_and(|start| pages.contain(start, length))
            }
            Translation::Device { .. } => true,
            // A peer may not have been given the file yet.
            Translation::SharedFile { .. }
            | Translation::Plain { .. }
            | Translation::Shadow { .. }
            | Translation::OnDemand { .. }
            | Translation::Null => false,
        }
    }
}

/// An operation on this process's memory: what it finds stands until this is dropped, since whoever takes memory back waits for
/// its slot. Bytes are found by it alone, so none are found under the slot of another memory, or under none.
#[derive(Debug)]
pub struct OwnOperation<'a> {
    memory: &'a OwnMemory,
    _slot: OperationGuard<'a>,
    faults: Faults,
}

impl<'a> OwnOperation<'a> {
    /// The memory it is on.
    #[inline(always)]
    pub fn memory(&self) -> &'a OwnMemory {
        self.memory
    }

    /// Whether bytes that were copied in this operation were not there: memory that is paged on demand, and the program has none.
    #[inline]
    pub fn has_faulted(&self) -> bool {
        self.faults.are_any()
    }

    /// Resolves a key to bytes of this process. No bytes need no key. A shadow's are none: only peers go there.
    pub fn resolve(
        &self,
        zone: ZoneId,
        key: Key,
        key_use: KeyUse,
        range: AddressRange,
        want: Access,
    ) -> Result<SharedSlice<'_>, AccessError> {
        if range.length == 0 {
            return Ok(SharedSlice::EMPTY);
        }
        let place = resolve(&self.memory.table, zone, key, key_use, range, want)?;
        self.bytes(&place).ok_or(AccessError::UnknownKey { key })
    }

    /// The same without the reason, of bytes that stand there: paged ones are left to others. There are bytes.
    #[inline(always)]
    pub fn find(
        &self,
        zone: ZoneId,
        key: Key,
        key_use: KeyUse,
        range: AddressRange,
        want: Access,
    ) -> Option<SharedSlice<'_>> {
        self.standing_bytes(&admit(&self.memory.table, zone, key, key_use, range, want)?)
    }

    /// The bytes a place leads to that was found in this process's own table, unless they are a shadow's. Who copies paged ones
    /// asks afterwards whether they were there ([`OwnOperation::has_faulted`]).
    #[inline]
    pub fn bytes(&self, place: &Place) -> Option<SharedSlice<'_>> {
        match place.translation() {
            Translation::OnDemand { address } => {
                let (offset, length) = (usize::try_from(place.offset()), usize::try_from(place.length()));
                // An address that wraps around is nowhere, which the kernel says.
                let start = address.wrapping_add(offset.ok()?);
                self.faults.watch();
                // SAFETY: the gate placed the range inside a region of this process, which the program named.
                Some(unsafe { SharedSlice::on_demand(start, length.ok()?) })
            }
            Translation::Null => Some(SharedSlice::null(usize::try_from(place.length()).ok()?)),
            _ => self.standing_bytes(place),
        }
    }

    /// The bytes a place leads to that was found in this process's own table, if they stand there for as long as the operation.
    #[inline(always)]
    pub fn standing_bytes(&self, place: &Place) -> Option<SharedSlice<'_>> {
        match place.translation() {
            Translation::Plain { address }
            | Translation::Adopted { address, .. }
            | Translation::SharedFile { address, .. } => {
                let start = address.checked_add(usize::try_from(place.offset()).ok()?)?;
                // SAFETY: the gate placed the range inside a region of this process. Registration found it mapped with
                // the rights the region has, the program keeps it mapped until it deregisters (the contract of every
                // face), and deregistration waits for the slot.
                Some(unsafe { SharedSlice::from_raw(start as *mut u8, place.length() as usize) })
            }
            Translation::Device { device, offset } => self
                .memory
                .arenas
                .get(device as usize)?
                .slice(offset.checked_add(place.offset())?, place.length()),
            Translation::Shadow { .. } | Translation::OnDemand { .. } | Translation::Null => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Entry, KeyTable, RegionAddress};
    use nonic_sys::SharedMapping;
    use proptest::prelude::*;

    #[test]
    fn keys_lead_to_program_and_device_memory_of_this_process() {
        let mapping = Arc::new(SharedMapping::anonymous(4096).unwrap());
        let table = KeyTable::new(KeyTableView::new(mapping, 0, 64));
        let arena = Arc::new(Arena::create(8192).unwrap());
        let own = OwnMemory::new(table.view().clone(), vec![Arc::clone(&arena)]).unwrap();
        let mut program = vec![0u8; 64];
        let enter = |translation| {
            let entry = Entry {
                zone: ZoneId(1),
                access: Access::LOCAL_WRITE,
                base: RegionAddress(0),
                length: 64,
                translation,
                reason: crate::PlainReason::None,
                local_tag: 0,
                remote_tag: 0,
            };
            table.insert(entry).unwrap().local
        };
        let plain = enter(Translation::Plain { address: program.as_mut_ptr() as usize });
        let device = enter(Translation::Device { device: 0, offset: 128 });
        let operation = own.enter();
        let find = |key, start, length| {
            let range = AddressRange::new(start, length);
            operation.resolve(ZoneId(1), key, KeyUse::Local, range, Access::LOCAL_WRITE)
        };
        find(plain, 10, 3).unwrap().write(b"abc");
        find(device, 10, 3).unwrap().write(b"xyz");
        let mut seen = [0; 3];
        arena.slice(138, 3).unwrap().read(&mut seen);
        assert_eq!(&seen, b"xyz");
        assert!(find(plain, 62, 3).is_err());
        assert!(find(Key(0), 0, 1).is_err());
        assert!(find(Key(0), 0, 0).unwrap().is_empty());
        drop(operation);
        assert_eq!(&program[10..13], b"abc");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2048))]

        #[test]
        fn with_a_reason_and_without_a_key_leads_to_the_same_bytes(
            kind in 0..5,
            offset in prop_oneof![3 => 0u64..200, 1 => 8100u64..8200],
            device in prop_oneof![5 => Just(0u32), 1 => 0u32..3],
            (start, length) in (0u64..70, prop_oneof![4 => 0u64..20, 1 => 60u64..70]),
            remote in prop::bool::weighted(0.1),
            (zone, writes) in (prop_oneof![5 => Just(1u32), 1 => Just(2u32)], prop::bool::weighted(0.8)),
        ) {
            let mapping = Arc::new(SharedMapping::anonymous(4096).unwrap());
            let table = KeyTable::new(KeyTableView::new(mapping, 0, 64));
            let arena = Arc::new(Arena::create(8192).unwrap());
            let own = OwnMemory::new(table.view().clone(), vec![Arc::clone(&arena)]).unwrap();
            let mut program = [0u8; 64];
            let address = program.as_mut_ptr() as usize;
            let pages = crate::AdoptedPages { layer: 0, start: 0, end: 0 };
            let entry = Entry {
                zone: ZoneId(1),
                access: if writes { Access::LOCAL_WRITE } else { Access::REMOTE_READ },
                base: RegionAddress(0),
                length: 64,
                translation: match kind {
                    0 => Translation::Plain { address },
                    1 => Translation::Adopted { address, pages },
                    2 => Translation::SharedFile { file: 0, offset: 0, address },
                    3 => Translation::Device { device, offset },
                    _ => Translation::Shadow { shadow: 0, offset },
                },
                reason: crate::PlainReason::None,
                local_tag: 0,
                remote_tag: 0,
            };
            let keys = table.insert(entry).unwrap();
            let key = if remote { keys.remote } else { keys.local };
            let (zone, range, operation) = (ZoneId(zone), AddressRange::new(start, length), own.enter());
            let ends = |bytes: SharedSlice<'_>| (bytes.address(), bytes.length());
            let named = operation.resolve(zone, key, KeyUse::Local, range, Access::LOCAL_WRITE).ok().map(ends);
            let found = operation.find(zone, key, KeyUse::Local, range, Access::LOCAL_WRITE).map(ends);
            if length == 0 {
                // No bytes need no key; whoever is in a hurry asks for some.
                prop_assert_eq!(named, Some(ends(SharedSlice::EMPTY)));
                return Ok(());
            }
            prop_assert_eq!(found, named);
            let allowed = !remote && zone == ZoneId(1) && writes && start + length <= 64;
            let there = match kind {
                0..=2 => Some(address),
                3 if device == 0 && offset + start + length <= 8192 => arena.slice(offset, 1).map(|at| at.address()),
                _ => None,
            };
            let expected = there.filter(|_| allowed).map(|first| (first + start as usize, length as usize));
            prop_assert_eq!(found, expected);
        }
    }
}
