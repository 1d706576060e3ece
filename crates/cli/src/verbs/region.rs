//! Registered memory: the program's, and the device's.

use std::ffi::{c_int, c_void};
use std::mem::offset_of;
use std::ops::Range;
use std::ptr::{NonNull, null_mut};
use std::rc::Rc;

use super::abi;
use super::buffer::Buffer;
use super::library::CallError;
use super::session::{Rights, Session, missing};

impl Session {
    /// Registers a buffer.
    pub(crate) fn register(
        self: &Rc<Self>,
        buffer: &Rc<Buffer>,
        rights: Rights,
    ) -> Result<Region, CallError> {
        self.register_part(buffer, 0..buffer.len(), rights)
    }

    /// Registers a range of a buffer.
    ///
    /// # Panics
    /// Panics if the buffer is shorter.
    pub(crate) fn register_part(
        self: &Rc<Self>,
        buffer: &Rc<Buffer>,
        range: Range<usize>,
        rights: Rights,
    ) -> Result<Region, CallError> {
        assert!(range.start <= range.end && range.end <= buffer.len(), "{range:?} of {}", buffer.len());
        // SAFETY: inside the buffer (asserted above), which the region holds from here on, and which it deregisters
        // before it lets go.
        let region = unsafe {
            let start = buffer.as_ptr().add(range.start).cast();
            (self.library.functions.reg_mr)(self.domain.as_ptr(), start, range.len(), rights.bits() as c_int)
        };
        let region = NonNull::new(region).ok_or_else(|| CallError::last("ibv_reg_mr"))?;
        let base = (buffer.as_ptr().addr() + range.start) as u64;
        let memory = Memory::Program(Rc::clone(buffer));
        Ok(Region { session: Rc::clone(self), region, base, length: range.len(), memory })
    }

    /// Allocates device memory.
    pub(crate) fn allocate_device_memory(
        self: &Rc<Self>,
        length: usize,
    ) -> Result<Rc<DeviceMemory>, CallError> {
        const CALL: &str = "ibv_alloc_dm";
        let allocate =
            self.extended(CALL, offset_of!(abi::verbs_context, alloc_dm), |around| around.alloc_dm)?;
        let mut attributes = abi::ibv_alloc_dm_attr { length, log_align_req: 0, comp_mask: 0 };
        // SAFETY: an open context and a filled structure.
        let memory = unsafe { allocate(self.context.as_ptr(), &mut attributes) };
        let memory = NonNull::new(memory).ok_or_else(|| CallError::last(CALL))?;
        Ok(Rc::new(DeviceMemory { session: Rc::clone(self), memory }))
    }

    /// Registers a range of device memory; zero based as it must be, or not, to see it refused.
    pub(crate) fn register_device_memory(
        self: &Rc<Self>,
        memory: &Rc<DeviceMemory>,
        offset: usize,
        length: usize,
        zero_based: bool,
    ) -> Result<Region, CallError> {
        const CALL: &str = "ibv_reg_dm_mr";
        let register =
            self.extended(CALL, offset_of!(abi::verbs_context, reg_dm_mr), |around| around.reg_dm_mr)?;
        let access = Rights::Remote.bits() | if zero_based { abi::IBV_ACCESS_ZERO_BASED } else { 0 };
        // SAFETY: domain and memory are alive; the library checks the range.
        let region =
            unsafe { register(self.domain.as_ptr(), memory.memory.as_ptr(), offset as u64, length, access) };
        let region = NonNull::new(region).ok_or_else(|| CallError::last(CALL))?;
        let memory = Memory::Device { _memory: Rc::clone(memory) };
        Ok(Region { session: Rc::clone(self), region, base: 0, length, memory })
    }
}

/// What is behind a region; lives until it is deregistered.
enum Memory {
    Program(Rc<Buffer>),
    /// Kept so that it outlives the region.
    Device {
        _memory: Rc<DeviceMemory>,
    },
}

/// Registered memory.
pub(crate) struct Region {
    session: Rc<Session>,
    pub(super) region: NonNull<abi::ibv_mr>,
    base: u64,
    length: usize,
    memory: Memory,
}

impl Region {
    /// The program's memory in it.
    ///
    /// # Panics
    /// Panics if it is device memory, which programs cannot touch.
    pub(crate) fn buffer(&self) -> &Buffer {
        match &self.memory {
            Memory::Program(buffer) => buffer,
            Memory::Device { .. } => panic!("device memory has no bytes the program could touch"),
        }
    }

    /// Gives peers other rights.
    pub(crate) fn change_rights(&self, rights: Rights) -> Result<(), CallError> {
        // SAFETY: registered; neither memory nor domain changes.
        let answer = unsafe {
            (self.session.library.functions.rereg_mr)(
                self.region.as_ptr(),
                abi::IBV_REREG_MR_CHANGE_ACCESS as c_int,
                null_mut(),
                null_mut(),
                0,
                rights.bits() as c_int,
            )
        };
        CallError::check("ibv_rereg_mr", answer)
    }

    /// Bytes in it.
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// The address that peers and requests use for its first byte.
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// The key for this process's requests.
    pub(super) fn local_key(&self) -> u32 {
        // SAFETY: alive until this region is dropped; the library does not change it.
        unsafe { self.region.as_ref() }.lkey
    }

    /// The key for peers.
    pub(crate) fn remote_key(&self) -> u32 {
        // SAFETY: as above.
        unsafe { self.region.as_ref() }.rkey
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: registered, and deregistered once; the memory behind it lives until after this.
        let answer = unsafe { (self.session.library.functions.dereg_mr)(self.region.as_ptr()) };
        if let (true, Memory::Program(buffer)) = (answer != 0, &self.memory) {
            // Still registered: peers may go on writing, so this memory must never be given to someone else.
            std::mem::forget(Rc::clone(buffer));
        }
    }
}

/// Memory of the device.
pub(crate) struct DeviceMemory {
    session: Rc<Session>,
    memory: NonNull<abi::ibv_dm>,
}

impl DeviceMemory {
    /// Copies the whole of `source` in, from the first byte on.
    pub(crate) fn copy_in(&self, offset: usize, source: &Buffer) -> Result<(), CallError> {
        const CALL: &str = "ibv_memcpy_to_dm";
        // SAFETY: alive until this is dropped.
        let copy = unsafe { self.memory.as_ref() }.memcpy_to_dm.ok_or(missing(CALL))?;
        let from = source.as_ptr().cast::<c_void>();
        // SAFETY: the source is as long as is said; the library checks the range in device memory.
        CallError::check(CALL, unsafe { copy(self.memory.as_ptr(), offset as u64, from, source.len()) })
    }

    /// Copies out as many bytes as `destination` has.
    pub(crate) fn copy_out(&self, destination: &Buffer, offset: usize) -> Result<(), CallError> {
        const CALL: &str = "ibv_memcpy_from_dm";
        // SAFETY: alive until this is dropped.
        let copy = unsafe { self.memory.as_ref() }.memcpy_from_dm.ok_or(missing(CALL))?;
        let to = destination.as_ptr().cast::<c_void>();
        // SAFETY: the destination is as long as is said; the library writes only there and checks the range it reads.
        CallError::check(CALL, unsafe { copy(to, self.memory.as_ptr(), offset as u64, destination.len()) })
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        let free = self
            .session
            .extended("ibv_free_dm", offset_of!(abi::verbs_context, free_dm), |around| around.free_dm);
        if let Ok(free) = free {
            // SAFETY: allocated, freed once, and every region on it holds an Rc of it, so none is left.
            unsafe { free(self.memory.as_ptr()) };
        }
    }
}
