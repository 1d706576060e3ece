//! Protection domains.

use core::ffi::c_int;

use crate::abi::{ibv_context, ibv_pd};
use crate::errno::Errno;
use crate::guard;
use crate::objects::{CONTEXTS, ZONES};

versions! {
    nonic_ibv_alloc_pd => "ibv_alloc_pd@@IBVERBS_1.1";
    nonic_ibv_dealloc_pd => "ibv_dealloc_pd@@IBVERBS_1.1";
}

/// `ibv_alloc_pd(3)`: NULL with `EINVAL` (not an open device) or `ENOMEM` (no more domains).
///
/// # Safety
/// None beyond the signature's: the pointer is looked up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd {
    guard::or_null(|| allocate(context))
}

/// Allocates a domain; as [`nonic_ibv_alloc_pd`].
pub fn allocate(context: *mut ibv_context) -> Result<*mut ibv_pd, Errno> {
    let engine = CONTEXTS.parent(context)?.allocate_zone()?;
    Ok(ZONES.reserve().fill(engine, |handle| ibv_pd { context, handle }))
}

/// The context of a domain; `EINVAL` if there is no such domain.
#[expect(clippy::not_unsafe_ptr_arg_deref, reason = "only what was found is followed")]
pub fn context_of(pd: *const ibv_pd) -> Result<*mut ibv_context, Errno> {
    ZONES.parent(pd)?;
    // SAFETY: the domain was found; a program that deallocates it at this moment in another thread reads memory that is kept.
    Ok(unsafe { (*pd).context })
}

/// `ibv_dealloc_pd(3)`: 0, `ENOENT` (unknown or overwritten handle, or given back by another name), `EBUSY` (a region, queue or address
/// handle is left in it).
///
/// # Safety
/// None beyond the signature's: the pointer is looked up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int {
    guard::status(|| {
        let claim = ZONES.claim(pd)?;
        if claim.engine().is_released() {
            return Err(Errno::ENOENT);
        }
        claim.engine().release()?;
        claim.retire();
        Ok(())
    })
}
