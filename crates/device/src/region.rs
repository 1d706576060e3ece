//! Registration: making memory reachable by work requests and by peers.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use nonic_memory::{
    Access, AddressRange, Adoption, Entry, Key, KeyPair, PlainReason, Purpose, RegionAddress, Translation,
};
use nonic_sys::{Backing, MemoryArea, find_area, touch_pages};
use nonic_transport::Tier;

use crate::device_memory::DeviceMemory;
use crate::engine::Engine;
use crate::error::{Busy, RegisterError, WindowError};
use crate::memory_window::Binding;
use crate::shadow::Shadowed;
use crate::use_count::UseCount;
use crate::zone::Zone;

/// What to register.
#[derive(Clone, Debug)]
pub struct RegionRequest {
    /// The memory.
    pub memory: RegionMemory,
    /// Address of the first byte as requests and peers name it; 0 makes the region zero based.
    pub base: u64,
    /// Rights.
    pub access: Access,
}

/// Memory to register.
#[derive(Clone, Debug)]
pub enum RegionMemory {
    /// The program's own.
    Program {
        /// First byte.
        address: usize,
        /// Length in bytes, 1 or more.
        length: usize,
    },
    /// A range of device memory.
    Device {
        /// The device memory.
        memory: Arc<DeviceMemory>,
        /// Offset in bytes.
        offset: u64,
        /// Length in bytes, 1 or more.
        length: u64,
    },
}

/// Registered memory (`ibv_reg_mr(3)`, `ibv_reg_dm_mr(3)`).
#[derive(Debug)]
pub struct Region {
    pub(crate) zone: Arc<Zone>,
    keys: KeyPair,
    pub(crate) base: u64,
    pub(crate) length: u64,
    access: Access,
    /// Windows bound to it.
    pub(crate) users: UseCount,
    /// Until it is deregistered.
    placed: Mutex<Option<Arc<Placed>>>,
}

/// Where the bytes of regions are, and what has to be given back with the last of them.
#[derive(Debug)]
pub(crate) struct Placed {
    pub(crate) translation: Translation,
    reason: PlainReason,
    /// Registration found the memory mapped for writing, or makes it so.
    pub(crate) writable: AtomicBool,
    /// A stopped peer may still be inside, through a region that is gone.
    held: AtomicBool,
    adoption: Option<Adoption>,
    device_memory: Option<Arc<DeviceMemory>>,
    pub(crate) shadow: Option<Shadowed>,
}

impl Placed {
    pub(crate) fn new(translation: Translation, reason: PlainReason) -> Self {
        let (writable, held) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { translation, reason, writable, held, adoption: None, device_memory: None, shadow: None }
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
    /// Registers memory in this zone. Nothing is pinned; the program keeps the memory mapped until it deregisters. Any set of
    /// rights is taken: whether a peer's writes need local write is for the face to say ([`Access::is_consistent`]).
    pub fn register(self: &Arc<Self>, request: RegionRequest) -> Result<Arc<Region>, RegisterError> {
        let RegionRequest { memory, base, access } = request;
        if !self.context().is_current() {
            return Err(RegisterError::Forked);
        }
        let length = match memory {
            RegionMemory::Program { length, .. } => length as u64,
            RegionMemory::Device { length, .. } => length,
        };
        if length > 0 && base.checked_add(length - 1).is_none() {
            return Err(RegisterError::Wraps);
        }
        let mut placed = match memory {
            RegionMemory::Program { address, length } => self.place_program(address, length, access)?,
            RegionMemory::Device { memory, offset, length } => self.place_device(memory, offset, length)?,
        };
        placed.writable = AtomicBool::new(writes(access));
        self.enter(Arc::new(placed), base, length, access)
    }

    /// Makes a region of placed memory.
    pub(crate) fn enter(
        self: &Arc<Self>,
        placed: Arc<Placed>,
        base: u64,
        length: u64,
        access: Access,
    ) -> Result<Arc<Region>, RegisterError> {
        let engine = self.context().engine();
        if !self.users.acquire() {
            Placed::release(placed, engine, true);
            return Err(RegisterError::Closed);
        }
        let Placed { translation, reason, .. } = *placed;
        tracing::debug!(length, ?translation, ?reason, "memory is registered");
        let entry = Entry {
            zone: self.id(),
            access,
            base: RegionAddress(base),
            length,
            translation,
            reason,
            local_tag: 0,
            remote_tag: 0,
        };
        let Some(keys) = engine.party().segment.keys().insert(entry) else {
            self.users.release();
            Placed::release(placed, engine, true);
            return Err(RegisterError::TableFull);
        };
        let (zone, placed) = (Arc::clone(self), Mutex::new(Some(placed)));
        let users = UseCount::default();
        let region = Arc::new(Region { zone, keys, base, length, access, users, placed });
        if access.contains(Access::WINDOW_BIND) {
            engine.windows.add_region(&region);
        }
        Ok(region)
    }

    fn place_program(&self, address: usize, length: usize, access: Access) -> Result<Placed, RegisterError> {
        if length == 0 {
            return Err(RegisterError::Empty);
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

    fn place_device(
        &self,
        memory: Arc<DeviceMemory>,
        offset: u64,
        length: u64,
    ) -> Result<Placed, RegisterError> {
        if length == 0 {
            return Err(RegisterError::Empty);
        }
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
        let translation = Translation::Device { device, offset: memory.offset() + offset };
        Ok(Placed { device_memory: Some(memory), ..Placed::new(translation, PlainReason::None) })
    }
}

/// Whether the program's memory behind a translation may be written to.
fn check_writable(translation: Translation, length: usize) -> Result<(), RegisterError> {
    let (Translation::Plain { address }
    | Translation::Adopted { address, .. }
    | Translation::SharedFile { address, .. }) = translation
    else {
        return Ok(());
    };
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

impl Region {
    /// Registers the same memory once more, in a zone of the same context and with rights of its own. Nothing is looked up or
    /// moved: the bytes are where they are, and are given back with the last region on them. Only if writing is asked for
    /// and was not before, the mapping is looked at.
    pub fn share(&self, zone: &Arc<Zone>, access: Access) -> Result<Arc<Self>, RegisterError> {
        if !zone.context().is_current() {
            return Err(RegisterError::Forked);
        }
        if !Arc::ptr_eq(zone.context(), self.zone.context()) {
            return Err(RegisterError::OtherContext);
        }
        let placed = self.placed().ok_or(RegisterError::Closed)?;
        if writes(access)
            && let Err(error) = placed.check_writable(self.length)
        {
            Placed::release(placed, zone.context().engine(), true);
            return Err(error);
        }
        zone.enter(placed, self.base, self.length, access)
    }

    pub(crate) fn placed(&self) -> Option<Arc<Placed>> {
        self.placed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The key for this process's own work requests.
    pub fn local_key(&self) -> Key {
        self.keys.local
    }

    /// The key for peers; refused there unless the region has remote rights.
    pub fn remote_key(&self) -> Key {
        self.keys.remote
    }

    /// Length in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Its zone.
    pub fn zone(&self) -> &Arc<Zone> {
        &self.zone
    }

    /// What a window on a part of the region publishes; zone and tags are the window's.
    pub(crate) fn entry_of_part(&self, wanted: &Binding) -> Result<Entry, WindowError> {
        let range = AddressRange::new(wanted.address, wanted.length);
        let base = RegionAddress(self.base);
        let offset = range.offset_within(base, self.length).ok_or(WindowError::OutOfRange { range })?;
        let access = wanted.access;
        if !Access::REMOTE.contains(access) || !(access | self.access & Access::LOCAL_WRITE).is_consistent() {
            return Err(WindowError::Rights { wanted: access, given: self.access });
        }
        let placed = self.placed.lock().unwrap_or_else(PoisonError::into_inner);
        let placed = placed.as_ref().ok_or(WindowError::NoRegion)?;
        Ok(Entry {
            zone: self.zone.id(),
            access,
            base: RegionAddress(if wanted.zero_based { 0 } else { wanted.address }),
            length: wanted.length,
            translation: placed.translation.moved_by(offset),
            reason: placed.reason,
            local_tag: 0,
            remote_tag: 0,
        })
    }

    /// Takes the memory back; refused while windows are bound to it. When this returns no operation that used the region is under way, here or in a peer, and
    /// none can begin.
    pub fn deregister(&self) -> Result<(), Busy> {
        self.users.close("region")?;
        let placed = self.placed.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(placed) = placed else { return Ok(()) };
        let context = self.zone.context();
        // A child of the process that registered must not touch the parent's table, nor its pages.
        if context.is_current() {
            let engine = context.engine();
            if self.access.contains(Access::WINDOW_BIND) {
                engine.windows.remove_region(self.keys.local);
            }
            engine.party().segment.keys().kill(self.keys);
            let all_left = engine.wait_for_operations();
            engine.party().segment.keys().recycle(self.keys);
            Placed::release(placed, engine, all_left);
        } else if let Some(Placed { device_memory: Some(memory), .. }) = Arc::into_inner(placed) {
            memory.users.release();
        }
        self.zone.users.release();
        Ok(())
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let _ = self.deregister();
    }
}
