//! Thread domains, and parent domains, which are protection domains by another name.

use core::ffi::c_int;

use crate::abi::{
    IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS, IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT, ibv_context,
    ibv_parent_domain_init_attr, ibv_pd, ibv_td, ibv_td_init_attr,
};
use crate::errno::Errno;
use crate::guard;
use crate::objects::{CONTEXTS, THREAD_DOMAINS, ZONES};

/// `ibv_alloc_td(3)`: NULL with `EINVAL` (not an open device, unknown bits of `comp_mask`).
///
/// # Safety
/// `attr` is readable.
pub(crate) unsafe extern "C" fn alloc_td(
    context: *mut ibv_context,
    attr: *mut ibv_td_init_attr,
) -> *mut ibv_td {
    guard::or_null(|| {
        let engine = CONTEXTS.parent(context)?;
        // SAFETY: the caller's structure is readable.
        if unsafe { (*attr).comp_mask } != 0 {
            return Err(Errno::EINVAL);
        }
        Ok(THREAD_DOMAINS.reserve().fill(engine.allocate_thread_domain()?, |_| ibv_td { context }))
    })
}

/// `ibv_dealloc_td(3)`: 0, `ENOENT` (unknown thread domain), `EBUSY` (a parent domain has it).
///
/// # Safety
/// None beyond the signature's: the pointer is looked up.
pub(crate) unsafe extern "C" fn dealloc_td(td: *mut ibv_td) -> c_int {
    guard::status(|| {
        let claim = THREAD_DOMAINS.claim(td)?;
        claim.engine().release()?;
        claim.retire();
        Ok(())
    })
}

/// `ibv_alloc_parent_domain(3)`: another name for a domain; it goes with `ibv_dealloc_pd`, before the one it is a name for. NULL
/// with `EINVAL` (not an open device, no or an unknown domain, an unknown thread domain, one of another context, unknown bits of
/// `comp_mask`).
///
/// A program's allocators are taken and never called: they are for the rings that it shares with a card, and here is none that it
/// shares. What queues hold are the library's own values, and memory of an allocator may be another process's, too.
///
/// # Safety
/// `attr` is readable.
pub(crate) unsafe extern "C" fn alloc_parent_domain(
    context: *mut ibv_context,
    attr: *mut ibv_parent_domain_init_attr,
) -> *mut ibv_pd {
    guard::or_null(|| {
        let engine = CONTEXTS.parent(context)?;
        // SAFETY: the caller's structure is readable.
        let (pd, td, mask) = unsafe { ((*attr).pd, (*attr).td, (*attr).comp_mask) };
        let known = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
        if mask & !known != 0 {
            return Err(Errno::EINVAL);
        }
        let zone = ZONES.parent(pd)?;
        if !std::sync::Arc::ptr_eq(zone.context(), &engine) {
            return Err(Errno::EINVAL);
        }
        let threads = if td.is_null() { None } else { Some(THREAD_DOMAINS.parent(td)?) };
        let derived = zone.derive(threads.as_ref())?;
        Ok(ZONES.reserve().fill(derived, |handle| ibv_pd { context, handle }))
    })
}
