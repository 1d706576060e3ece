//! Objects of an open device under another name: a program gives a copy of `cmd_fd` and the `handle` of what it made to a part of it
//! that shares nothing else with it, or to another process.
//!
//! Of another process the name is this process's, and so are its keys; the memory is the owner's. Giving back such a name, also by the
//! calls that destroy, leaves the object to its owner, and what the owner destroys is not reached any more. Handles on a device that
//! another process opened are always that process's.

use core::ptr;
use std::sync::Arc;

use nonic_device::{Context, DeviceMemory, Exported, Region, Wanted};

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

/// What another process that has a copy of a `cmd_fd` asks for.
pub(super) fn find_exported(number: u64, wanted: Wanted) -> Option<Exported> {
    let exports = |context: &Arc<Context>| context.number() == number && context.is_usable();
    match wanted {
        Wanted::Device => CONTEXTS.living(|_| true).into_iter().find(exports).map(Exported::Device),
        Wanted::Zone(handle) => {
            let found = ZONES.by_handle(handle, |zone| exports(zone.context()) && !zone.is_released());
            found.ok().map(Exported::Zone)
        }
        Wanted::Region(handle) => {
            let found = REGIONS.by_handle(handle, |region| exports_region(region, exports));
            found.ok().map(Exported::Region)
        }
        Wanted::DeviceMemory(handle) => {
            let found =
                DEVICE_MEMORIES.by_handle(handle, |memory| exports(memory.context()) && !memory.is_freed());
            found.ok().map(Exported::DeviceMemory)
        }
    }
}

fn exports_region(region: &Region, exports: impl Fn(&Arc<Context>) -> bool) -> bool {
    exports(region.zone().context()) && !region.is_deregistered()
}

/// `ibv_import_pd(3)`: the domain of this device that has the handle. NULL with `EINVAL` (not an open device), `ENOENT` (it has no
/// such domain); on a device of another process also what [`super::context::nonic_ibv_import_device`] says of it.
///
/// # Safety
/// None beyond the signature's: the pointer is looked up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_import_pd(context: *mut ibv_context, handle: u32) -> *mut ibv_pd {
    guard::or_null(|| {
        let engine = CONTEXTS.parent(context)?;
        if engine.is_imported() {
            let zone = engine.import_zone(handle)?;
            return Ok(ZONES.reserve().fill_import(zone, handle, |handle| ibv_pd { context, handle }));
        }
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
/// `EINVAL` (unknown domain), `ENOENT` (the device has no such region). Of another process its keys are others than there, and it may
/// be of any memory but what is paged on demand, of none, or imported itself (`EOPNOTSUPP`).
///
/// # Safety
/// None beyond the signature's: the pointer is looked up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_import_mr(pd: *mut ibv_pd, handle: u32) -> *mut ibv_mr {
    guard::or_null(|| {
        let zone = ZONES.parent(pd)?;
        let of_device = |context: &Arc<Context>| Arc::ptr_eq(context, zone.context());
        let region = match zone.context().is_imported() {
            true => zone.context().import_region(handle)?,
            false => REGIONS.by_handle(handle, |region| exports_region(region, of_device))?,
        };
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
        let of_device = |memory: &Arc<DeviceMemory>| Arc::ptr_eq(memory.context(), &engine);
        let memory = match engine.is_imported() {
            true => engine.import_device_memory(handle)?,
            false => DEVICE_MEMORIES.by_handle(handle, |memory| of_device(memory) && !memory.is_freed())?,
        };
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
