//! Regions whose memory is not coherent with their peers: registering one, and passing bytes on, either way.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nonic_memory::{Access, AddressRange, Place, PlainReason, RegionAddress, Shadow, Translation};

use crate::engine::Engine;
use crate::error::RegisterError;
use crate::region::{Placed, Region, writes};
use crate::zone::Zone;

/// A shadow, and what it shadows.
#[derive(Debug)]
pub(crate) struct Shadowed {
    number: u32,
    shadow: Arc<Shadow>,
    pub(crate) original: Arc<Placed>,
}

impl Shadowed {
    /// The last region on it has gone.
    pub(crate) fn give_back(self, engine: &Engine, all_left: bool) {
        engine.party().memory.shadows().remove(self.number);
        Placed::release(self.original, engine, all_left);
    }
}

impl Region {
    /// Registers a shadow of the same memory, in a zone of the same context: a copy, made now, which is all that peers see through
    /// the new region and windows bound to it, and which nothing keeps the same as the memory but [`Region::show_writes`] and
    /// [`Region::publish`]. Its local key leads nowhere. [`Region::share`] of the new region shares the shadow.
    pub fn shadow(&self, zone: &Arc<Zone>, access: Access) -> Result<Arc<Self>, RegisterError> {
        if !zone.context().is_current() {
            return Err(RegisterError::Forked);
        }
        if !Arc::ptr_eq(zone.context(), self.zone.context()) {
            return Err(RegisterError::OtherContext);
        }
        let original = self.placed().ok_or(RegisterError::Closed)?;
        let engine = zone.context().engine();
        let shadowed = self.make_shadow(engine, &original, access);
        let (number, shadow) = match shadowed {
            Ok(made) => made,
            Err(error) => {
                Placed::release(original, engine, true);
                return Err(error);
            }
        };
        let mut placed = Placed::new(Translation::Shadow { shadow: number, offset: 0 }, PlainReason::None);
        placed.writable = AtomicBool::new(writes(access));
        placed.shadow = Some(Shadowed { number, shadow, original });
        zone.enter(Arc::new(placed), self.base, self.length, access)
    }

    fn make_shadow(
        &self,
        engine: &Engine,
        original: &Placed,
        access: Access,
    ) -> Result<(u32, Arc<Shadow>), RegisterError> {
        if writes(access) {
            original.check_writable(self.length)?;
        }
        let address = match original.translation {
            Translation::Plain { address }
            | Translation::Adopted { address, .. }
            | Translation::SharedFile { address, .. } => address as u64,
            Translation::Device { offset, .. } => offset,
            Translation::Shadow { .. } => return Err(RegisterError::AlreadyShadow),
        };
        let shadow = Arc::new(Shadow::create(address, self.length)?);
        copy_out(engine, original, &shadow, 0..self.length);
        let number =
            engine.party().memory.shadows().add(Arc::clone(&shadow)).ok_or(RegisterError::TableFull)?;
        Ok((number, shadow))
    }

    /// Shows the program what peers wrote to a range of this shadow: it is copied to the program's memory. The cost follows what was
    /// written, not the length of the range. False, and nothing happens, if the region is gone or is no shadow, or the
    /// range is not inside.
    pub fn show_writes(&self, range: AddressRange) -> bool {
        self.with_shadow(range, |engine, shadowed, range| {
            shadowed.shadow.take_written(range, |offset, bytes| {
                let memory = &engine.party().memory;
                let guard = memory.enter();
                let place = Place { translation: shadowed.original.translation, offset };
                if let Some(target) = memory.bytes(&guard, &place, bytes.length() as u64) {
                    target.copy_from(bytes);
                }
            });
        })
    }

    /// Has peers see what the program wrote to a range of the memory under this shadow, all but what they wrote themselves and
    /// the program was not shown. False, and nothing happens, as for [`Region::show_writes`].
    pub fn publish(&self, range: AddressRange) -> bool {
        self.with_shadow(range, |engine, shadowed, range| {
            copy_out(engine, &shadowed.original, &shadowed.shadow, range);
        })
    }

    fn with_shadow(&self, range: AddressRange, run: impl FnOnce(&Engine, &Shadowed, Range<u64>)) -> bool {
        let context = self.zone.context();
        let Some(offset) = range.offset_within(RegionAddress(self.base), self.length) else { return false };
        let Some(placed) = self.placed().filter(|_| context.is_current()) else { return false };
        let shadowed = placed.shadow.as_ref();
        if let Some(shadowed) = shadowed {
            run(context.engine(), shadowed, offset..offset + range.length);
        }
        let done = shadowed.is_some();
        // The region may have gone meanwhile.
        Placed::release(placed, context.engine(), true);
        done
    }
}

/// Copies a range of the program's memory to its shadow, all but what peers wrote there.
fn copy_out(engine: &Engine, original: &Placed, shadow: &Shadow, range: Range<u64>) {
    shadow.publish(range, |offset, place| {
        let memory = &engine.party().memory;
        let guard = memory.enter();
        let source = Place { translation: original.translation, offset };
        if let Some(source) = memory.bytes(&guard, &source, place.length() as u64) {
            place.copy_from(source);
        }
    });
}
