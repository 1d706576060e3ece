//! The shadows of this process's memory, and the program's memory under them.

use std::ops::Range;
use std::sync::Arc;

use crate::shadow::{InCommon, Program, Shadow, ShadowError};
use crate::{
    Access, AddressRange, Key, KeyUse, OwnMemory, OwnOperation, Place, SharedSlice, Translation, ZoneId,
    resolve,
};

/// Bytes handed on at most before whoever takes memory back has a turn.
const CHUNK: u64 = 1 << 20;

/// The program's memory under a region.
struct Under<'a> {
    operation: &'a OwnOperation<'a>,
    translation: Translation,
}

impl Program for Under<'_> {
    fn bytes(&self, offsets: Range<u64>) -> Option<SharedSlice<'_>> {
        let length = offsets.end.checked_sub(offsets.start)?;
        self.operation.bytes(&Place::under_shadow(self.translation, offsets.start, length))
    }
}

impl OwnMemory {
    /// Makes a shadow of `length` bytes of memory, alone or in common with other processes; its number.
    pub fn add_shadow(
        &self,
        memory: Translation,
        length: u64,
        in_common: Option<InCommon<'_>>,
    ) -> Result<u32, ShadowError> {
        let operation = self.enter();
        let under = Under { operation: &operation, translation: memory };
        self.shadows().add(memory, length, &under, in_common)
    }

    /// Makes a part of a shadow and the memory under it consistent: the program sees what peers wrote there, and peers what the
    /// program stored. Nothing happens if there is no such part.
    pub fn synchronize(&self, number: u32, offset: u64, length: u64) {
        self.in_chunks(number, offset, length, |shadow, positions, under| {
            self.shadows().synchronize(shadow, positions, under);
        });
    }

    /// Has peers see what the program stored to a part of the memory under a shadow, all but what they wrote themselves and the
    /// program was not shown. Nothing happens if there is no such part.
    pub fn publish(&self, number: u32, offset: u64, length: u64) {
        self.in_chunks(number, offset, length, |shadow, positions, under| {
            // What could not be kept was said.
            let _ = self.shadows().publish(shadow, positions, under);
        });
    }

    fn in_chunks(
        &self,
        number: u32,
        offset: u64,
        length: u64,
        run: impl Fn(&Shadow, Range<u64>, &Under<'_>),
    ) {
        let Some(shadow) = self.shadows().find(number) else { return };
        let Some(all) = shadow.positions(offset, length) else { return };
        let mut at = all.start;
        while at < all.end {
            let end = all.end.min((at / CHUNK + 1) * CHUNK);
            let operation = self.enter();
            run(&shadow, at..end, &Under { operation: &operation, translation: shadow.program });
            at = end;
        }
    }

    /// The device itself wrote these bytes of the program, for a request of this process: peers see them, too.
    #[inline]
    pub fn device_wrote(&self, bytes: &[SharedSlice<'_>]) {
        if !self.shadows().are_none() {
            self.tell_shadows(bytes);
        }
    }

    #[cold]
    fn tell_shadows(&self, bytes: &[SharedSlice<'_>]) {
        for slice in bytes {
            let address = slice.address();
            // Device memory is known by its device.
            let on_device = self.arenas().iter().zip(0..).find_map(|(arena, device)| {
                let first = arena.slice(0, 0)?.address();
                let offset = address.checked_sub(first)? as u64;
                (offset < arena.capacity()).then_some(Translation::Device { device, offset })
            });
            self.shadows().device_wrote(on_device.unwrap_or(Translation::Plain { address }), *slice);
        }
    }
}

impl OwnOperation<'_> {
    /// Resolves a key that a peer named to bytes of a shadow; `None` if that is not where it leads. There are bytes.
    #[cold]
    pub fn resolve_shadow(
        &self,
        zone: ZoneId,
        key: Key,
        key_use: KeyUse,
        range: AddressRange,
        want: Access,
    ) -> Option<ShadowBytes<'_>> {
        let memory = self.memory();
        let place = resolve(memory.table(), zone, key, key_use, range, want).ok()?;
        let Translation::Shadow { shadow, offset } = place.translation() else { return None };
        let shadow = memory.shadows().find(shadow)?;
        let positions = shadow.positions(offset.checked_add(place.offset())?, place.length())?;
        let under = Under { operation: self, translation: shadow.program };
        Some(ShadowBytes { shadow, positions, under })
    }
}

/// Bytes of a shadow that a peer names, for the owner to read or change on its behalf.
pub struct ShadowBytes<'a> {
    shadow: Arc<Shadow>,
    positions: Range<u64>,
    under: Under<'a>,
}

impl ShadowBytes<'_> {
    /// Writes `source` at `at` bytes from the first. Nothing happens if it is not inside.
    pub fn write(&self, at: usize, source: SharedSlice<'_>) {
        let Some(start) = self.positions.start.checked_add(at as u64) else { return };
        if start > self.positions.end || self.positions.end - start < source.length() as u64 {
            return;
        }
        let positions = start..start + source.length() as u64;
        self.under.operation.memory().shadows().write(&self.shadow, positions, source, &self.under);
    }

    /// The bytes.
    pub fn read(&self) -> Vec<u8> {
        let mut bytes = vec![0; (self.positions.end - self.positions.start) as usize];
        self.under.operation.memory().shadows().read(self.positions.clone(), &mut bytes);
        bytes
    }

    /// Runs `change` on the bytes; `None` if they are not the aligned word of an atomic.
    pub fn change<R>(&self, change: impl FnOnce(SharedSlice<'_>) -> R) -> Option<R> {
        self.under.operation.memory().shadows().change(
            &self.shadow,
            self.positions.clone(),
            &self.under,
            change,
        )
    }
}
