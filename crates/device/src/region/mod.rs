//! Registration: making memory reachable by work requests and by peers.

mod placing;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use nonic_memory::{Access, AddressRange, Entry, Key, KeyPair, RegionAddress};

pub(crate) use self::placing::{Placed, writes};
use nonic_sys::UseCount;

use crate::device_memory::DeviceMemory;
use crate::error::{Busy, RegisterError, WindowError};
use crate::memory_window::Binding;
use crate::program_memory::ProgramAddress;
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
        address: ProgramAddress,
        /// Length in bytes, 1 or more.
        length: usize,
    },
    /// A range of device memory.
    Device {
        /// The device memory.
        memory: Arc<DeviceMemory>,
        /// Offset in bytes.
        offset: u64,
        /// Length in bytes. With 0 the region holds the memory, and its keys lead to no byte.
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
            RegionMemory::Program { address, length } => self.place_program(address.get(), length, access)?,
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
        Busy::unless_closed(&self.users, "region")?;
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
            engine.recycle_keys(self.keys, all_left);
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
