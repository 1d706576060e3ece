//! Shared receive queues.

use core::ffi::c_int;
use std::sync::Arc;

use nonic_device::SharedReceiveQueue;

use crate::abi::{
    IBV_SRQ_INIT_ATTR_CQ, IBV_SRQ_INIT_ATTR_PD, IBV_SRQ_INIT_ATTR_TM, IBV_SRQ_INIT_ATTR_TYPE,
    IBV_SRQ_INIT_ATTR_XRCD, IBV_SRQ_LIMIT, IBV_SRQ_MAX_WR, IBV_SRQT_BASIC, IBV_SRQT_TM, IBV_SRQT_XRC,
    Synchronization, ibv_context, ibv_cq, ibv_pd, ibv_srq, ibv_srq_attr, ibv_srq_init_attr,
    ibv_srq_init_attr_ex, ibv_xrcd,
};
use crate::errno::Errno;
use crate::guard;
use crate::objects::{COMPLETION_QUEUES, EXTENDED_DOMAINS, SHARED_RECEIVE_QUEUES, ZONES};

versions! {
    nonic_ibv_create_srq => "ibv_create_srq@@IBVERBS_1.1";
    nonic_ibv_modify_srq => "ibv_modify_srq@@IBVERBS_1.1";
    nonic_ibv_query_srq => "ibv_query_srq@@IBVERBS_1.1";
    nonic_ibv_destroy_srq => "ibv_destroy_srq@@IBVERBS_1.1";
}

/// `ibv_create_srq(3)`: writes the real sizes back. NULL with `EINVAL` (unknown domain, sizes beyond the
/// device's), `ENOMEM` (no more queues). `srq_limit` means nothing here, says the manual page.
///
/// # Safety
/// `init` is readable and writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_create_srq(pd: *mut ibv_pd, init: *mut ibv_srq_init_attr) -> *mut ibv_srq {
    // SAFETY: the caller's promise is the same.
    guard::or_null(|| unsafe { create(pd, init, None) })
}

/// # Safety
/// `init` is readable and writable.
unsafe fn create(
    pd: *mut ibv_pd,
    init: *mut ibv_srq_init_attr,
    extended: Option<(*mut ibv_xrcd, *mut ibv_cq)>,
) -> Result<*mut ibv_srq, Errno> {
    let zone = ZONES.parent(pd)?;
    // SAFETY: the caller's attributes are readable.
    let (srq_context, asked) = unsafe { ((*init).srq_context, (*init).attr) };
    let reservation = SHARED_RECEIVE_QUEUES.reserve();
    let (sizes, cookie) = ((asked.max_wr, asked.max_sge), reservation.cookie());
    let queue = match extended {
        None => zone.create_shared_receive_queue(sizes.0, sizes.1, 0, cookie)?,
        Some((xrcd, cq)) => {
            let (domain, completions) = (EXTENDED_DOMAINS.parent(xrcd)?, COMPLETION_QUEUES.parent(cq)?);
            zone.create_extended_receive_queue(&domain, &completions, sizes, cookie)?
        }
    };
    let (max_wr, max_sge) = queue.limits();
    // SAFETY: the attributes are writable; the domain is in use by the new queue and so cannot be destroyed.
    let context = unsafe {
        (*init).attr.max_wr = max_wr;
        (*init).attr.max_sge = max_sge;
        (*pd).context
    };
    Ok(reservation.fill(queue, |handle| ibv_srq {
        context,
        srq_context,
        pd,
        handle,
        synchronization: Synchronization::NEW,
        events_completed: 0,
    }))
}

/// `ibv_create_srq_ex(3)`, for what the header does not turn into [`nonic_ibv_create_srq`] itself: queues of an XRC domain. Those
/// for tag matching are not in this release (`EOPNOTSUPP`); unknown bits and types, no domain, and for `IBV_SRQT_XRC` no XRC
/// domain or no completion queue, are `EINVAL`.
///
/// # Safety
/// `init` is readable and writable.
pub(crate) unsafe extern "C" fn create_srq_ex(
    context: *mut ibv_context,
    init: *mut ibv_srq_init_attr_ex,
) -> *mut ibv_srq {
    // SAFETY: the caller's promise is the same.
    guard::or_null(|| unsafe { create_extended(context, init) })
}

/// Creates a queue; as `ibv_create_srq_ex(3)`.
///
/// # Safety
/// `init` is readable and writable.
pub unsafe fn create_extended(
    context: *mut ibv_context,
    init: *mut ibv_srq_init_attr_ex,
) -> Result<*mut ibv_srq, Errno> {
    let known = IBV_SRQ_INIT_ATTR_TYPE
        | IBV_SRQ_INIT_ATTR_PD
        | IBV_SRQ_INIT_ATTR_XRCD
        | IBV_SRQ_INIT_ATTR_CQ
        | IBV_SRQ_INIT_ATTR_TM;
    // SAFETY: the caller's attributes are readable.
    let (mask, kind, pd, extended) =
        unsafe { ((*init).comp_mask, (*init).srq_type, (*init).pd, ((*init).xrcd, (*init).cq)) };
    let kind = if mask & IBV_SRQ_INIT_ATTR_TYPE != 0 { kind } else { IBV_SRQT_BASIC };
    if mask & !known != 0 || mask & IBV_SRQ_INIT_ATTR_PD == 0 {
        return Err(Errno::EINVAL);
    }
    const EXTENDED: u32 = IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
    let extended = match kind {
        IBV_SRQT_BASIC => None,
        IBV_SRQT_XRC if mask & EXTENDED == EXTENDED => Some(extended),
        IBV_SRQT_TM => return Err(Errno::EOPNOTSUPP),
        _ => return Err(Errno::EINVAL),
    };
    ZONES.parent(pd)?;
    // SAFETY: only a domain that was found is followed; the extended attributes begin with the plain
    // ones.
    unsafe { if (*pd).context != context { Err(Errno::EINVAL) } else { create(pd, init.cast(), extended) } }
}

/// `ibv_modify_srq(3)`: 0, `ENOENT` (unknown or overwritten handle), `EINVAL` (unknown bits; a size of 0, beyond the
/// device's, below the number of receives that wait or below an armed limit; a limit above the size). In one call the
/// size comes first; if either is refused, nothing changes.
///
/// # Safety
/// `attr` is readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_modify_srq(
    srq: *mut ibv_srq,
    attr: *mut ibv_srq_attr,
    mask: c_int,
) -> c_int {
    guard::status(|| {
        let queue = SHARED_RECEIVE_QUEUES.find(srq)?;
        if mask & !(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT) != 0 {
            return Err(Errno::EINVAL);
        }
        if mask != 0 {
            // SAFETY: the caller's attributes are readable.
            let ibv_srq_attr { max_wr, srq_limit, .. } = unsafe { *attr };
            let named = |bit, value| (mask & bit != 0).then_some(value);
            queue.modify(named(IBV_SRQ_MAX_WR, max_wr), named(IBV_SRQ_LIMIT, srq_limit))?;
        }
        Ok(())
    })
}

/// `ibv_query_srq(3)`: 0, `ENOENT` (unknown or overwritten handle).
///
/// # Safety
/// `attr` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_query_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr) -> c_int {
    guard::status(|| {
        let queue: Arc<SharedReceiveQueue> = SHARED_RECEIVE_QUEUES.find(srq)?;
        let (max_wr, max_sge) = queue.limits();
        // SAFETY: the caller's place is writable.
        unsafe { attr.write(ibv_srq_attr { max_wr, max_sge, srq_limit: queue.limit() }) };
        Ok(())
    })
}

/// `ibv_destroy_srq(3)`: 0, `ENOENT` (unknown or overwritten handle), `EBUSY` (a queue pair uses it). Waits
/// until every event got for it was acknowledged.
///
/// # Safety
/// No other thread posts to the queue any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_destroy_srq(srq: *mut ibv_srq) -> c_int {
    guard::status(|| destroy(srq))
}

/// Destroys a queue; as [`nonic_ibv_destroy_srq`].
pub fn destroy(srq: *mut ibv_srq) -> Result<(), Errno> {
    let claim = SHARED_RECEIVE_QUEUES.claim(srq)?;
    claim.engine().destroy()?;
    claim.retire();
    Ok(())
}
