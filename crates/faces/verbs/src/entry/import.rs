//! Objects of an open device under another name: a program gives a copy of `cmd_fd` and the `handle` of what it made to a part of it
//! that shares nothing else with it. Within a process: memory keys and queue pairs are each process's own here, so what another
//! process made cannot be had.

use core::ptr;
use std::sync::Arc;

use nonic_device::Context;

use super::device_memory;
use crate::abi::{ibv_context, ibv_dm, ibv_mr, ibv_pd};
use crate::guard;
use crate::objects::{CONTEXTS, DEVICE_MEMORIES, REGIONS, ZONES};

versions! {
    nonic_ibv_import_pd => "ibv_import_pd@@IBVERBS_1.10";
    nonic_ibv_unimport_pd => "ibv_unimport_pd@@IBVERBS_1.10";
    nonic_ibv_import_mr => "ibv_import_mr@@IBVERBS_1.10";
    nonic_ibv_unimport_mr => "ibv_unimport_mr@@IBVERBS_1.10";
    nonic_ibv_import_dm => "ibv_import_dm@@IBVERBS_1.13";
    nonic_ibv_unimport_dm => "ibv_unimport_dm@@IBVERBS_1.13";
}

/// `ibv_import_pd(3)`: the domain of this device that has the handle. NULL with `EINVAL` (not an open device), `ENOENT` (it has no
/// such domain).
///
/// # Safety
/// None beyond the signature's: the pointer is looked up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_import_pd(context: *mut ibv_context, handle: u32) -> *mut ibv_pd {
    guard::or_null(|| {
        let engine = CONTEXTS.parent(context)?;
        let zone =
            ZONES.by_handle(handle, |zone| Arc::ptr_eq(zone.context(), &engine) && !zone.is_released())?;
        Ok(ZONES.reserve().fill_import(zone, handle, |handle| ibv_pd { context, handle }))
    })
}

/// `ibv_unimport_pd(3)`: the domain stays. Of what was not imported everything stays.
///
/// # Safety
/// None: the pointer is looked up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_unimport_pd(pd: *mut ibv_pd) {
    guard::silent(|| ZONES.unimport(pd));
}

/// `ibv_import_mr(3)`: the region of the domain's device that has the handle, in whatever domain it is; `addr` is NULL. NULL with
/// `EINVAL` (unknown domain), `ENOENT` (the device has no such region).
///
/// # Safety
/// None beyond the signature's: the pointer is looked up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_import_mr(pd: *mut ibv_pd, handle: u32) -> *mut ibv_mr {
    guard::or_null(|| {
        let zone = ZONES.parent(pd)?;
        let of_device = |context: &Arc<Context>| Arc::ptr_eq(context, zone.context());
        let region = REGIONS
            .by_handle(handle, |region| of_device(region.zone().context()) && !region.is_deregistered())?;
        // SAFETY: the domain was found a moment ago; memory of one that goes meanwhile is kept.
        let context = unsafe { (*pd).context };
        let (lkey, rkey) = (region.local_key().0, region.remote_key().0);
        let length = region.length() as usize;
        let face = |handle| ibv_mr { context, pd, addr: ptr::null_mut(), length, handle, lkey, rkey };
        Ok(REGIONS.reserve().fill_import(region, handle, face))
    })
}

/// `ibv_unimport_mr(3)`: the region stays. Of what was not imported everything stays.
///
/// # Safety
/// None: the pointer is looked up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_unimport_mr(mr: *mut ibv_mr) {
    guard::silent(|| REGIONS.unimport(mr));
}

/// `ibv_import_dm(3)`: the device memory of this device that has the handle. NULL with `EINVAL` (not an open device), `ENOENT` (it has
/// no such memory).
///
/// # Safety
/// None beyond the signature's: the pointer is looked up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_import_dm(context: *mut ibv_context, handle: u32) -> *mut ibv_dm {
    guard::or_null(|| {
        let engine = CONTEXTS.parent(context)?;
        let memory = DEVICE_MEMORIES
            .by_handle(handle, |memory| Arc::ptr_eq(memory.context(), &engine) && !memory.is_freed())?;
        let face = |handle| device_memory::face_of(context, handle);
        Ok(DEVICE_MEMORIES.reserve().fill_import(memory, handle, face))
    })
}

/// `ibv_unimport_dm(3)`: the memory stays. Of what was not imported everything stays.
///
/// # Safety
/// None: the pointer is looked up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_unimport_dm(dm: *mut ibv_dm) {
    guard::silent(|| DEVICE_MEMORIES.unimport(dm));
}
