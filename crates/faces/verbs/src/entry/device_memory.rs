//! Device memory. The header reaches all of these through pointers.

use core::ffi::{c_int, c_void};
use core::ptr;
use std::sync::Arc;

use nonic_device::{DeviceMemory, RegionMemory, RegionRequest};

use super::region;
use crate::abi::{IBV_DM_MASK_HANDLE, ibv_alloc_dm_attr, ibv_context, ibv_dm, ibv_mr, ibv_pd};
use crate::convert;
use crate::errno::Errno;
use crate::guard;
use crate::objects::{CONTEXTS, DEVICE_MEMORIES, ZONES};
use crate::registry;

/// `ibv_alloc_dm(3)`: NULL with `EINVAL` (unknown `comp_mask`, no length, above `max_dm_size`, an alignment
/// beyond what the device can keep), `ENOMEM` (no room left). The memory is zero. A child gets memory of its own.
///
/// # Safety
/// `attr` is readable.
pub(crate) unsafe extern "C" fn alloc_dm(
    context: *mut ibv_context,
    attr: *mut ibv_alloc_dm_attr,
) -> *mut ibv_dm {
    guard::or_null(|| {
        let engine = CONTEXTS.parent(context)?;
        // SAFETY: the caller's attributes are readable.
        let (length, log_alignment, comp_mask) =
            unsafe { ((*attr).length, (*attr).log_align_req, (*attr).comp_mask) };
        if comp_mask != 0 {
            return Err(Errno::EINVAL);
        }
        let memory = engine.allocate_device_memory(length as u64, log_alignment)?;
        Ok(DEVICE_MEMORIES.reserve().fill(memory, |handle| face_of(context, handle)))
    })
}

/// What a program sees of device memory.
pub(super) fn face_of(context: *mut ibv_context, handle: u32) -> ibv_dm {
    ibv_dm {
        context,
        memcpy_to_dm: Some(memcpy_to_dm),
        memcpy_from_dm: Some(memcpy_from_dm),
        comp_mask: IBV_DM_MASK_HANDLE,
        handle,
    }
}

/// `ibv_free_dm(3)`: 0, `ENOENT` (unknown or overwritten handle, or freed by another name), `EBUSY` (a region is registered on it). In a child the
/// parent's memory stays the parent's.
///
/// # Safety
/// None beyond the signature's: the pointer is looked up.
pub(crate) unsafe extern "C" fn free_dm(dm: *mut ibv_dm) -> c_int {
    guard::status(|| {
        let claim = DEVICE_MEMORIES.claim(dm)?;
        if claim.engine().is_freed() {
            return Err(Errno::ENOENT);
        }
        claim.engine().free()?;
        claim.retire();
        Ok(())
    })
}

/// `ibv_reg_dm_mr(3)`: a zero-based region of `length` bytes from `offset`, also of none. NULL with `EINVAL` (unknown
/// domain or memory, beyond the memory's end, not zero based, other access bits than local write, remote
/// rights, window binding and optional ones), `ENOMEM` (no more regions).
///
/// # Safety
/// None beyond the signature's: the pointers are looked up.
pub(crate) unsafe extern "C" fn reg_dm_mr(
    pd: *mut ibv_pd,
    dm: *mut ibv_dm,
    offset: u64,
    length: usize,
    access: u32,
) -> *mut ibv_mr {
    guard::or_null(|| {
        let zone = ZONES.parent(pd)?;
        let memory = DEVICE_MEMORIES.parent(dm)?;
        let access = convert::device_memory_rights(access)?;
        let memory = RegionMemory::Device { memory, offset, length: length as u64 };
        let region = zone.register(RegionRequest { memory, base: 0, access })?;
        Ok(region::publish(pd, ptr::null_mut(), length, region))
    })
}

/// `ibv_memcpy_to_dm(3)`: 0, `ENOENT` (freed memory or overwritten handle), `EFAULT` (beyond the end),
/// `EINVAL` (offset or length not a multiple of `NONIC_DEVICE_MEMORY_GRANULE`). A refused copy moves nothing.
///
/// # Safety
/// `source` is readable for `length` bytes.
unsafe extern "C" fn memcpy_to_dm(
    dm: *mut ibv_dm,
    offset: u64,
    source: *const c_void,
    length: usize,
) -> c_int {
    guard::status(|| {
        // SAFETY: the header found this function in the structure, so `dm` came from this library.
        let memory = unsafe { registry::checked::<ibv_dm, Arc<DeviceMemory>>(dm) }?;
        // SAFETY: the caller vouches for the source.
        unsafe { memory.copy_in(offset, source.cast(), length as u64) }?;
        Ok(())
    })
}

/// `ibv_memcpy_from_dm(3)`: errors as for the other direction.
///
/// # Safety
/// `destination` is writable for `length` bytes.
unsafe extern "C" fn memcpy_from_dm(
    destination: *mut c_void,
    dm: *mut ibv_dm,
    offset: u64,
    length: usize,
) -> c_int {
    guard::status(|| {
        // SAFETY: as above.
        let memory = unsafe { registry::checked::<ibv_dm, Arc<DeviceMemory>>(dm) }?;
        // SAFETY: the caller vouches for the destination.
        unsafe { memory.copy_out(destination.cast(), offset, length as u64) }?;
        Ok(())
    })
}
