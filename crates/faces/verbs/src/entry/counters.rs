//! Counters of flow rules. There are no such rules here, so a counter is what it is on a card before a rule has it: it can be made,
//! set up and read, and says 0.

use core::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::abi::{
    IBV_COUNTER_BYTES, IBV_READ_COUNTERS_ATTR_PREFER_CACHED, Opaque, ibv_context, ibv_counter_attach_attr,
    ibv_counters, ibv_counters_init_attr,
};
use crate::errno::Errno;
use crate::guard;
use crate::objects::{COUNTERS, working};

/// Counters of an object at most.
const COUNTERS_MAX: u32 = 64;

/// How many places of an object have been set up: all before the last one are there, too.
#[derive(Debug, Default)]
pub(crate) struct Counted(AtomicU32);

/// `ibv_create_counters(3)`: NULL with `EINVAL` (not an open device, unknown bits of `comp_mask`).
///
/// # Safety
/// `attr` is readable.
pub(crate) unsafe extern "C" fn create_counters(
    context: *mut ibv_context,
    attr: *mut ibv_counters_init_attr,
) -> *mut ibv_counters {
    guard::or_null(|| {
        working(context)?;
        // SAFETY: the caller's structure is readable.
        if unsafe { (*attr).comp_mask } != 0 {
            return Err(Errno::EINVAL);
        }
        Ok(COUNTERS.reserve().fill(Arc::default(), |_| ibv_counters { context }))
    })
}

/// `ibv_destroy_counters(3)`: 0, `ENOENT` (unknown counters).
///
/// # Safety
/// None beyond the signature's: the pointer is looked up.
pub(crate) unsafe extern "C" fn destroy_counters(counters: *mut ibv_counters) -> c_int {
    guard::status(|| {
        COUNTERS.claim(counters)?.retire();
        Ok(())
    })
}

/// `ibv_attach_counters_point_flow(3)`: 0, and the place counts packets or bytes as soon as a rule is made with the object. `ENOENT`
/// (unknown counters), `ENOTSUP` (something else to count), `EINVAL` (a rule, for there is none; unknown bits of `comp_mask`; a place
/// beyond the 64th).
///
/// # Safety
/// `attr` is readable.
pub(crate) unsafe extern "C" fn attach_counters_point_flow(
    counters: *mut ibv_counters,
    attr: *mut ibv_counter_attach_attr,
    flow: *mut Opaque,
) -> c_int {
    guard::status(|| {
        let counted = COUNTERS.find(counters)?;
        // SAFETY: the caller's structure is readable.
        let (what, index, mask) = unsafe { ((*attr).counter_desc, (*attr).index, (*attr).comp_mask) };
        if mask != 0 || !flow.is_null() || index >= COUNTERS_MAX {
            return Err(Errno::EINVAL);
        }
        if !(0..=IBV_COUNTER_BYTES).contains(&what) {
            return Err(Errno::EOPNOTSUPP);
        }
        counted.0.fetch_max(index + 1, Ordering::Relaxed);
        Ok(())
    })
}

/// `ibv_read_counters(3)`: 0, and as many values as were asked for, each 0. `ENOENT` (unknown counters), `EINVAL` (more than were set up,
/// unknown flags): nothing is written.
///
/// # Safety
/// `values` is writable for `count` values.
pub(crate) unsafe extern "C" fn read_counters(
    counters: *mut ibv_counters,
    values: *mut u64,
    count: u32,
    flags: u32,
) -> c_int {
    guard::status(|| {
        let counted = COUNTERS.find(counters)?;
        if count > counted.0.load(Ordering::Relaxed) || flags & !IBV_READ_COUNTERS_ATTR_PREFER_CACHED != 0 {
            return Err(Errno::EINVAL);
        }
        for place in 0..count as usize {
            // SAFETY: the caller's array has room.
            unsafe { values.add(place).write(0) };
        }
        Ok(())
    })
}
