//! Where the bytes of a region are: found when it is registered, given back when it ends.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nonic_memory::{Access, Adoption, PlainReason, Purpose, Translation, is_foreign};
use nonic_sys::{Backing, MemoryArea, find_area, touch_pages};
use nonic_transport::Tier;

use crate::device_memory::DeviceMemory;
use crate::engine::Engine;
use crate::error::RegisterError;
use crate::origin::ForeignBytes;
use crate::program_memory::ProgramAddress;
use crate::shadow::Shadowed;
use crate::zone::Zone;

/// Where the bytes of regions are, and what has to be given back with the last of them.
#[derive(Debug)]
pub(crate) struct Placed {
    pub(crate) translation: Translation,
    pub(super) reason: PlainReason,
    /// Registration found the memory mapped for writing, or makes it so.
    pub(crate) writable: AtomicBool,
    /// A stopped peer may still be inside, through a region that is gone.
    held: AtomicBool,
    adoption: Option<Adoption>,
    pub(super) device_memory: Option<Arc<DeviceMemory>>,
    pub(crate) shadow: Option<Shadowed>,
    /// Another process has the bytes.
    _foreign: Option<Arc<ForeignBytes>>,
}

impl Placed {
    pub(crate) fn new(translation: Translation, reason: PlainReason) -> Self {
        let (writable, held) = (AtomicBool::new(false), AtomicBool::new(false));
        Self {
            translation,
            reason,
            writable,
            held,
            adoption: None,
            device_memory: None,
            shadow: None,
            _foreign: None,
        }
    }

    /// Memory of another process, from this offset on: paged, so that only this process looks for it.
    pub(super) fn foreign(bytes: Arc<ForeignBytes>, offset: u64) -> Self {
        let translation = Translation::OnDemand { address: bytes.start() + offset as usize };
        Self { _foreign: Some(bytes), ..Self::new(translation, PlainReason::None) }
    }

    fn plain(address: usize, reason: PlainReason) -> Self {
        Self::new(Translation::Plain { address }, reason)
    }

    fn adopted(address: usize, adoption: Adoption) -> Self {
        let mut placed = Self::plain(address, adoption.reason);
        if let Some(pages) = adoption.pages {
            placed.translation = Translation::Adopted { address, pages };
        }
        placed.adoption = Some(adoption);
        placed
    }

    /// Where the program's memory begins that it is of, if it is, and whether that is looked for when it is used.
    pub(super) fn program_memory(&self) -> Option<(ProgramAddress, bool)> {
        let (address, on_demand) = match self.translation {
            Translation::Plain { address }
            | Translation::Adopted { address, .. }
            | Translation::SharedFile { address, .. } => (address, false),
            Translation::OnDemand { address } if !is_foreign(address) => (address, true),
            Translation::Device { .. }
            | Translation::Shadow { .. }
            | Translation::OnDemand { .. }
            | Translation::Null => return None,
        };
        Some((ProgramAddress::again(address), on_demand))
    }

    /// One region on it goes; with the last everything is given back. `all_left` says whether every peer has left the bytes,
    /// as far as they were reached through this region.
    pub(crate) fn release(this: Arc<Self>, engine: &Engine, all_left: bool) {
        if !all_left {
            this.held.store(true, Ordering::Release);
        }
        if let Some(mut last) = Arc::into_inner(this) {
            let all_left = !*last.held.get_mut();
            last.give_back(engine, all_left);
        }
    }

    /// Gives everything back. `all_left` says whether every peer has left the bytes.
    fn give_back(&mut self, engine: &Engine, all_left: bool) {
        if let Some(adoption) = self.adoption.take() {
            engine.give_back(adoption, all_left);
        }
        if let Translation::SharedFile { file, .. } = self.translation {
            engine.release_file(file);
        }
        if let Some(memory) = self.device_memory.take() {
            if !all_left {
                memory.hold_back();
            }
            memory.users.release();
        }
        if let Some(shadowed) = self.shadow.take() {
            shadowed.give_back(engine, all_left);
        }
    }

    /// Whether the program's memory may be written to, which is found out once.
    pub(crate) fn check_writable(&self, length: u64) -> Result<(), RegisterError> {
        if self.writable.load(Ordering::Relaxed) {
            return Ok(());
        }
        if let Some(shadowed) = &self.shadow {
            shadowed.original.check_writable(length)?;
        }
        check_writable(self.translation, length as usize)?;
        self.writable.store(true, Ordering::Relaxed);
        Ok(())
    }
}

impl Zone {
    pub(super) fn place_program(
        &self,
        address: usize,
        length: usize,
        access: Access,
    ) -> Result<Placed, RegisterError> {
        if length == 0 {
            return Ok(Placed::plain(address, PlainReason::None));
        }
        let end = address.checked_add(length).ok_or(RegisterError::Wraps)?;
        let write = writes(access);
        let party = self.context().engine().party();
        // Through a window peers reach it, too.
        let remote = access.intersects(Access::REMOTE | Access::WINDOW_BIND);
        let purpose = if remote { Purpose::Remote } else { Purpose::Local };
        if let Some(adoption) = party.adopter.adopt_covered(address, length, write, purpose) {
            return Ok(Placed::adopted(address, adoption));
        }
        let Ok(area) = walk(address, end, write)? else {
            return self.place_untold(address, length, write);
        };
        // Adopted memory looks like this, too.
        let shared = Some(area).filter(|area| area.end >= end);
        let shared = shared.filter(|area| {
            matches!(area.backing, Backing::SharedFile { .. }) && !party.is_adopted(&area.backing)
        });
        if let Some(area) = shared {
            let mut placed = Placed::plain(address, PlainReason::NotOrdinary);
            if remote
                && party.tier == Tier::Mapped
                && let Backing::SharedFile { offset, .. } = area.backing
                && let Some(file) = party.files.add(&area)
            {
                let offset = offset + (address - area.start) as u64;
                placed.translation = Translation::SharedFile { file, offset, address };
                placed.reason = PlainReason::None;
            } else {
                placed.adoption = Some(party.adopter.leave_plain(address, length, purpose));
            }
            return Ok(placed);
        }
        Ok(Placed::adopted(address, party.adopter.adopt(address, length, purpose)))
    }

    /// Where the kernel does not tell what is mapped (no `/proc`), every page is touched, which is what pinning does.
    fn place_untold(&self, address: usize, length: usize, write: bool) -> Result<Placed, RegisterError> {
        touch_pages(address, length, false).map_err(|_| RegisterError::NotMapped { address })?;
        if write {
            touch_pages(address, length, true).map_err(|_| RegisterError::NotWritable { address })?;
        }
        Ok(Placed::plain(address, PlainReason::Failed))
    }

    pub(super) fn place_device(
        &self,
        memory: Arc<DeviceMemory>,
        offset: u64,
        length: u64,
    ) -> Result<Placed, RegisterError> {
        if !Arc::ptr_eq(memory.context(), self.context()) {
            return Err(RegisterError::OtherContext);
        }
        if offset.checked_add(length).is_none_or(|end| end > memory.length()) {
            return Err(RegisterError::BeyondDeviceMemory);
        }
        if !memory.users.acquire() {
            return Err(RegisterError::Closed);
        }
        let device = self.context().device().index();
        if let Some(bytes) = memory.foreign() {
            let placed = Placed::foreign(Arc::clone(bytes), offset);
            return Ok(Placed { device_memory: Some(memory), ..placed });
        }
        let translation = Translation::Device { device, offset: memory.offset() + offset };
        Ok(Placed { device_memory: Some(memory), ..Placed::new(translation, PlainReason::None) })
    }
}

/// Memory of the program that is looked for when it is used. A sandbox may forbid this process to have the kernel copy for it.
pub(super) fn place_on_demand(address: usize, length: u64) -> Result<Placed, RegisterError> {
    if usize::try_from(length).ok().and_then(|length| address.checked_add(length)).is_none() {
        return Err(RegisterError::Wraps);
    }
    if !nonic_sys::copies_own_memory() {
        return Err(RegisterError::NoPaging);
    }
    Ok(Placed::new(Translation::OnDemand { address }, PlainReason::None))
}

/// Whether the program's memory behind a translation may be written to.
fn check_writable(translation: Translation, length: usize) -> Result<(), RegisterError> {
    let (Translation::Plain { address }
    | Translation::Adopted { address, .. }
    | Translation::SharedFile { address, .. }) = translation
    else {
        return Ok(());
    };
    if length == 0 {
        return Ok(());
    }
    match walk(address, address + length, true)? {
        Ok(_) => Ok(()),
        Err(_) => touch_pages(address, length, true).map_err(|_| RegisterError::NotWritable { address }),
    }
}

/// Whether a region with these rights is written to.
pub(crate) fn writes(access: Access) -> bool {
    access.intersects(Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC)
}

/// The area at `address`, if everything from there to `end` is mapped with the rights that are wanted. The inner error: the
/// kernel does not tell.
fn walk(address: usize, end: usize, write: bool) -> Result<io::Result<MemoryArea>, RegisterError> {
    let (mut at, mut first) = (address, None);
    loop {
        let area = match find_area(at) {
            Ok(found) => found,
            Err(error) => return Ok(Err(error)),
        };
        let area = area.filter(|area| area.readable).ok_or(RegisterError::NotMapped { address: at })?;
        if write && !area.writable {
            return Err(RegisterError::NotWritable { address: at });
        }
        at = area.end;
        let first = first.get_or_insert(area);
        if at >= end {
            return Ok(Ok(*first));
        }
    }
}
