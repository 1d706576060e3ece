//! Device memory (`ibv_alloc_dm(3)` and its family).

#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nonic_memory::SharedSlice;
use nonic_sys::UseCount;

use crate::context::Context;
use crate::error::{Busy, DeviceMemoryError, OpenError};

/// A piece of device memory; zero when allocated.
#[derive(Debug)]
pub struct DeviceMemory {
    context: Arc<Context>,
    offset: u64,
    length: u64,
    pub(crate) users: UseCount,
    /// A peer was stopped inside an operation when a region on it was taken back.
    held_back: AtomicBool,
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
        }))
    }
}

impl DeviceMemory {
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

    fn slice(&self, offset: u64, length: u64) -> Result<SharedSlice<'_>, DeviceMemoryError> {
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
        let target = self.slice(offset, length)?;
        // SAFETY: the caller vouches for `source`; it is only read.
        target.copy_from(unsafe { SharedSlice::from_raw(source.cast_mut(), length as usize) });
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
        let source = self.slice(offset, length)?;
        // SAFETY: the caller vouches for `destination`.
        unsafe { SharedSlice::from_raw(destination, length as usize) }.copy_near_from(source);
        Ok(())
    }

    /// Gives the memory back; refused while a region is registered on it, and nothing is lost then.
    pub fn free(&self) -> Result<(), Busy> {
        if self.users.is_closed() {
            return Ok(());
        }
        Busy::unless_closed(&self.users, "device memory")?;
        if !self.context.is_current() {
            // The parent goes on to use it.
            return Ok(());
        }
        let all_left = !self.held_back.load(Ordering::Acquire);
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
