//! Regions whose memory is not coherent with their peers: registering one, and passing bytes on, either way.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nonic_memory::{
    Access, AddressRange, InCommon, OwnMemory, PlainReason, RegionAddress, ShadowError, Translation,
};
use nonic_sys::SharedMapping;

use crate::engine::Engine;
use crate::error::RegisterError;
use crate::known_memory::SharedPlace;
use crate::region::{Placed, Region, writes};
use crate::zone::Zone;

/// A shadow, and what it shadows.
#[derive(Debug)]
pub(crate) struct Shadowed {
    number: u32,
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
    /// the new region and windows bound to it, and which nothing keeps the same as the memory but [`Region::synchronize`] and
    /// [`Region::publish`]. All shadows of a byte are one, through whatever region they were made. Its local key leads
    /// nowhere. [`Region::share`] of the new region shares the shadow. With the place of memory that the program shares, the
    /// shadow is one with those of all processes of this user that name that place.
    pub fn shadow(
        &self,
        zone: &Arc<Zone>,
        access: Access,
        place: Option<SharedPlace>,
    ) -> Result<Arc<Self>, RegisterError> {
        if !zone.context().is_usable() {
            return Err(RegisterError::Gone);
        }
        if !Arc::ptr_eq(zone.context(), self.zone.context()) {
            return Err(RegisterError::OtherContext);
        }
        let original = self.placed().ok_or(RegisterError::Closed)?;
        let engine = zone.context().engine();
        let number = match self.make_shadow(engine, &original, access, place) {
            Ok(made) => made,
            Err(error) => {
                Placed::release(original, engine, true);
                return Err(error);
            }
        };
        let mut placed = Placed::new(Translation::Shadow { shadow: number, offset: 0 }, PlainReason::None);
        placed.writable = AtomicBool::new(writes(access));
        placed.shadow = Some(Shadowed { number, original });
        zone.enter(Arc::new(placed), self.base, self.length, access)
    }

    fn make_shadow(
        &self,
        engine: &Engine,
        original: &Placed,
        access: Access,
        place: Option<SharedPlace>,
    ) -> Result<u32, RegisterError> {
        if writes(access) {
            original.check_writable(self.length)?;
        }
        // The kernel knows what is beyond it before the first byte is copied.
        drop(SharedMapping::anonymous(usize::try_from(self.length).unwrap_or(usize::MAX))?);
        let memory = &engine.party().memory;
        let shadow = place.map(|place| memory.shadows().in_common(place.file)).transpose()?;
        let in_common = place.zip(shadow.as_ref());
        let in_common = in_common.map(|(place, shadow)| InCommon { shadow, offset: place.offset });
        Ok(memory.add_shadow(original.translation, self.length, in_common)?)
    }

    /// Makes a range of this shadow and of the program's memory consistent: the program sees what peers wrote, and peers what the
    /// program stored. False, and nothing happens, if the region is gone or is no shadow, or the range is not inside.
    pub fn synchronize(&self, range: AddressRange) -> bool {
        self.with_shadow(range, OwnMemory::synchronize)
    }

    /// Has peers see what the program stored to a range of the memory under this shadow, all but what they wrote themselves and
    /// the program was not shown. False, and nothing happens, as for [`Region::synchronize`].
    pub fn publish(&self, range: AddressRange) -> bool {
        self.with_shadow(range, OwnMemory::publish)
    }

    fn with_shadow(&self, range: AddressRange, run: fn(&OwnMemory, u32, u64, u64)) -> bool {
        let context = self.zone.context();
        let Some(offset) = range.offset_within(RegionAddress(self.base), self.length) else { return false };
        let Some(placed) = self.placed().filter(|_| context.is_current()) else { return false };
        let shadowed = placed.shadow.as_ref();
        if let Some(shadowed) = shadowed {
            run(&context.engine().party().memory, shadowed.number, offset, range.length);
        }
        let done = shadowed.is_some();
        // The region may have gone meanwhile.
        Placed::release(placed, context.engine(), true);
        done
    }
}

impl From<ShadowError> for RegisterError {
    fn from(error: ShadowError) -> Self {
        match error {
            ShadowError::OfShadow => Self::AlreadyShadow,
            ShadowError::NoNumber => Self::TableFull,
            ShadowError::Memory(_) => Self::System(std::io::ErrorKind::OutOfMemory.into()),
            ShadowError::System(error) => Self::System(error),
        }
    }
}
