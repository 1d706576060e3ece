//! Registration: making memory reachable by work requests and by peers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nonic_memory::{Access, Entry, Key, KeyPair, RegionAddress, Translation};
use nonic_sys::{Backing, find_area, touch_pages};
use nonic_transport::Tier;

use crate::device_memory::DeviceMemory;
use crate::error::{Busy, RegisterError};
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
    zone: Arc<Zone>,
    keys: KeyPair,
    length: u64,
    device_memory: Option<Arc<DeviceMemory>>,
    file: Option<u32>,
    gone: AtomicBool,
}

impl Zone {
    /// Registers memory in this zone. Nothing is pinned; the program keeps the memory mapped until it deregisters.
    pub fn register(self: &Arc<Self>, request: RegionRequest) -> Result<Arc<Region>, RegisterError> {
        let RegionRequest { memory, base, access } = request;
        if !self.context().is_current() {
            return Err(RegisterError::Forked);
        }
        if !access.is_consistent() {
            return Err(RegisterError::Inconsistent { access });
        }
        let (translation, length, device_memory) = match memory {
            RegionMemory::Program { address, length } => {
                (self.translate_program(address, length, access)?, length as u64, None)
            }
            RegionMemory::Device { memory, offset, length } => {
                (self.translate_device(&memory, offset, length)?, length, Some(memory))
            }
        };
        let file = match translation {
            Translation::SharedFile { file, .. } => Some(file),
            _ => None,
        };
        let give_back = || {
            if let Some(memory) = &device_memory {
                memory.users.release();
            }
            if let Some(file) = file {
                self.context().engine().release_file(file);
            }
        };
        if base.checked_add(length - 1).is_none() {
            give_back();
            return Err(RegisterError::Wraps);
        }
        if !self.users.acquire() {
            give_back();
            return Err(RegisterError::Closed);
        }
        let entry = Entry {
            zone: self.id(),
            access,
            base: RegionAddress(base),
            length,
            translation,
            local_tag: 0,
            remote_tag: 0,
        };
        let Some(keys) = self.context().engine().party().segment.keys().insert(entry) else {
            self.users.release();
            give_back();
            return Err(RegisterError::TableFull);
        };
        let zone = Arc::clone(self);
        Ok(Arc::new(Region { zone, keys, length, device_memory, file, gone: AtomicBool::new(false) }))
    }

    fn translate_program(
        &self,
        address: usize,
        length: usize,
        access: Access,
    ) -> Result<Translation, RegisterError> {
        if length == 0 {
            return Err(RegisterError::Empty);
        }
        let end = address.checked_add(length).ok_or(RegisterError::Wraps)?;
        let write = access.contains(Access::LOCAL_WRITE);
        let mut at = address;
        let mut shared = None;
        while at < end {
            let Ok(found) = find_area(at) else {
                return self.translate_untold(address, length, write);
            };
            let area = found.filter(|area| area.readable).ok_or(RegisterError::NotMapped { address: at })?;
            if write && !area.writable {
                return Err(RegisterError::NotWritable { address: at });
            }
            if at == address && area.end >= end {
                shared = Some(area);
            }
            at = area.end;
        }
        let plain = Translation::Plain { address };
        let engine = self.context().engine();
        if !access.intersects(Access::REMOTE) || engine.party().tier < Tier::Mapped {
            return Ok(plain);
        }
        let Some(area) = shared else { return Ok(plain) };
        let Backing::SharedFile { offset, .. } = area.backing else { return Ok(plain) };
        Ok(match engine.party().files.add(&area) {
            Some(file) => {
                let offset = offset + (address - area.start) as u64;
                Translation::SharedFile { file, offset, address }
            }
            None => plain,
        })
    }

    /// Where the kernel does not tell what is mapped (no `/proc`), every page is touched, which is what pinning does.
    fn translate_untold(
        &self,
        address: usize,
        length: usize,
        write: bool,
    ) -> Result<Translation, RegisterError> {
        touch_pages(address, length, false).map_err(|_| RegisterError::NotMapped { address })?;
        if write {
            touch_pages(address, length, true).map_err(|_| RegisterError::NotWritable { address })?;
        }
        Ok(Translation::Plain { address })
    }

    fn translate_device(
        &self,
        memory: &Arc<DeviceMemory>,
        offset: u64,
        length: u64,
    ) -> Result<Translation, RegisterError> {
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
        Ok(Translation::Device { device: self.context().device().index(), offset: memory.offset() + offset })
    }
}

impl Region {
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

    /// Takes the memory back. When this returns no operation that used the region is under way, here or in a peer, and
    /// none can begin.
    pub fn deregister(&self) -> Result<(), Busy> {
        if self.gone.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let context = self.zone.context();
        // A child of the process that registered must not touch the parent's table.
        if context.is_current() {
            let engine = context.engine();
            engine.party().segment.keys().kill(self.keys);
            engine.wait_for_operations();
            engine.party().segment.keys().recycle(self.keys);
            if let Some(file) = self.file {
                engine.release_file(file);
            }
        }
        if let Some(memory) = &self.device_memory {
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
