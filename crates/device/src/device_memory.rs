//! Device memory (`ibv_alloc_dm(3)` and its family).

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use nonic_memory::{Access, Entry, KeyPair, PlainReason, RegionAddress, SharedSlice, Translation, ZoneId};
use nonic_sys::UseCount;
use nonic_transport::NamedMemory;

use crate::context::Context;
use crate::engine::lock;
use crate::error::{Busy, DeviceMemoryError, OpenError};
use crate::origin::ForeignBytes;

/// A piece of device memory; zero when allocated.
#[derive(Debug)]
pub struct DeviceMemory {
    context: Arc<Context>,
    offset: u64,
    length: u64,
    pub(crate) users: UseCount,
    /// A peer was stopped inside an operation when a region on it was taken back.
    held_back: AtomicBool,
    /// The zone and the keys by which other processes use it as their own.
    exported: Mutex<Option<(ZoneId, KeyPair)>>,
    /// Another process allocated it.
    foreign: Option<Arc<ForeignBytes>>,
}

impl Context {
    /// Takes `length` bytes of device memory whose start is a multiple of 2^`log_alignment`. In a child of the process that opened
    /// the device it is the child's own, of the device as the child would open it: what the parent has free only the
    /// parent knows.
    pub fn allocate_device_memory(
        self: &Arc<Self>,
        length: u64,
        log_alignment: u32,
    ) -> Result<Arc<DeviceMemory>, DeviceMemoryError> {
        if self.has_failed() {
            return Err(OpenError::Gone.into());
        }
        if !self.is_current() {
            return self.device().open()?.allocate_device_memory(length, log_alignment);
        }
        let offset = self.engine().arena(self.device().index()).allocate(length, log_alignment)?;
        Ok(Arc::new(DeviceMemory {
            context: Arc::clone(self),
            offset,
            length,
            users: UseCount::default(),
            held_back: AtomicBool::new(false),
            exported: Mutex::default(),
            foreign: None,
        }))
    }
}

impl DeviceMemory {
    /// Device memory that another process allocated.
    pub(crate) fn imported(context: &Arc<Context>, bytes: Arc<ForeignBytes>, length: u64) -> Arc<Self> {
        Arc::new(Self {
            context: Arc::clone(context),
            offset: 0,
            length,
            users: UseCount::default(),
            held_back: AtomicBool::new(false),
            exported: Mutex::default(),
            foreign: Some(bytes),
        })
    }

    /// Its bytes, if another process allocated it.
    pub(crate) fn foreign(&self) -> Option<&Arc<ForeignBytes>> {
        self.foreign.as_ref()
    }

    /// How another process names it that uses it as its own, until it is freed: its rights, and how long it is. `None` if there can be
    /// no name for it.
    pub(crate) fn export(&self) -> Option<(NamedMemory, Access, u64)> {
        let mut exported = lock(&self.exported);
        if self.users.is_closed() || self.foreign.is_some() {
            return None;
        }
        let access = Access::LOCAL_WRITE;
        if exported.is_none() {
            let engine = self.context.engine();
            let (zone, device) = (engine.next_zone()?, self.context.device().index());
            let keys = engine.party().segment.keys().insert(Entry {
                zone,
                access,
                base: RegionAddress(0),
                length: self.length,
                translation: Translation::Device { device, offset: self.offset },
                reason: PlainReason::None,
                local_tag: 0,
                remote_tag: 0,
            })?;
            *exported = Some((zone, keys));
        }
        let (zone, keys) = (*exported)?;
        Some((NamedMemory { zone, key: keys.local }, access, self.length))
    }

    /// Other processes reach it no more; false if one may still be inside.
    fn end_export(&self) -> bool {
        let Some((_, keys)) = lock(&self.exported).take() else { return true };
        let engine = self.context.engine();
        engine.party().segment.keys().kill(keys);
        let all_left = engine.wait_for_operations();
        engine.recycle_keys(keys, all_left);
        all_left
    }

    /// Length in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Whether it was given back.
    pub fn is_freed(&self) -> bool {
        self.users.is_closed()
    }

    /// Its device context.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// A region on it was taken back while a peer was stopped inside an operation: whoever gets the memory next must not
    /// be written to.
    pub(crate) fn hold_back(&self) {
        self.held_back.store(true, Ordering::Release);
    }

    fn check(&self, offset: u64, length: u64) -> Result<(), DeviceMemoryError> {
        if self.users.is_closed() {
            return Err(DeviceMemoryError::Freed);
        }
        let out_of_range = DeviceMemoryError::OutOfRange { offset, length, size: self.length };
        if offset.checked_add(length).is_none_or(|end| end > self.length) {
            return Err(out_of_range);
        }
        let granule = self.context.device().config().device_memory_granule;
        if !offset.is_multiple_of(granule) || !length.is_multiple_of(granule) {
            return Err(DeviceMemoryError::NotGranules { offset, length, granule });
        }
        if self.foreign.is_some() && !self.context.is_current() {
            return Err(OpenError::Gone.into());
        }
        Ok(())
    }

    fn slice(&self, offset: u64, length: u64) -> Result<SharedSlice<'_>, DeviceMemoryError> {
        let out_of_range = DeviceMemoryError::OutOfRange { offset, length, size: self.length };
        let arena = self.context.engine().arena(self.context.device().index());
        arena.slice(self.offset + offset, length).ok_or(out_of_range)
    }

    /// Copies `length` bytes from the program to `offset`. Out of range, or not whole granules where
    /// `NONIC_DEVICE_MEMORY_GRANULE` is more than a byte: nothing moves.
    ///
    /// # Safety
    /// `source` is readable for `length` bytes.
    pub unsafe fn copy_in(
        &self,
        offset: u64,
        source: *const u8,
        length: u64,
    ) -> Result<(), DeviceMemoryError> {
        self.check(offset, length)?;
        // SAFETY: the caller vouches for `source`; it is only read.
        let source = unsafe { SharedSlice::from_raw(source.cast_mut(), length as usize) };
        match &self.foreign {
            Some(bytes) if bytes.copy_in(offset, source) => {}
            Some(_) => return Err(DeviceMemoryError::TakenBack),
            None => self.slice(offset, length)?.copy_from(source),
        }
        Ok(())
    }

    /// Copies `length` bytes from `offset` to the program. Out of range, or not whole granules where
    /// `NONIC_DEVICE_MEMORY_GRANULE` is more than a byte: nothing moves.
    ///
    /// # Safety
    /// `destination` is writable for `length` bytes.
    pub unsafe fn copy_out(
        &self,
        destination: *mut u8,
        offset: u64,
        length: u64,
    ) -> Result<(), DeviceMemoryError> {
        self.check(offset, length)?;
        // SAFETY: the caller vouches for `destination`.
        let destination = unsafe { SharedSlice::from_raw(destination, length as usize) };
        match &self.foreign {
            Some(bytes) if bytes.copy_out(offset, destination) => {}
            Some(_) => return Err(DeviceMemoryError::TakenBack),
            None => destination.copy_near_from(self.slice(offset, length)?),
        }
        Ok(())
    }

    /// Gives the memory back; refused while a region is registered on it, and nothing is lost then.
    pub fn free(&self) -> Result<(), Busy> {
        if self.users.is_closed() {
            return Ok(());
        }
        Busy::unless_closed(&self.users, "device memory")?;
        if !self.context.is_current() || self.foreign.is_some() {
            // The parent, or whoever allocated it, goes on to use it.
            return Ok(());
        }
        let all_left = self.end_export() & !self.held_back.load(Ordering::Acquire);
        let device = self.context.device().index();
        self.context.engine().release_device_memory(device, self.offset, self.length, all_left);
        Ok(())
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        let _ = self.free();
    }
}
