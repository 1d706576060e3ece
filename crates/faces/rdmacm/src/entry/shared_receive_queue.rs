//! The shared receive queue of an identifier.

use core::ffi::c_int;
use core::ptr;

use nonic_verbs::abi::{IBV_SRQ_INIT_ATTR_PD, IBV_SRQ_INIT_ATTR_TYPE, IBV_SRQT_BASIC};
use nonic_verbs::entry::shared_receive_queue;
use nonic_verbs::errno::Errno;
use nonic_verbs::guard;

use super::zero;
use crate::abi::{ibv_pd, ibv_srq_init_attr, ibv_srq_init_attr_ex, rdma_cm_id};
use crate::objects::identifier;
use crate::queue_pairs;

/// `rdma_create_srq(3)`: -1 with `EINVAL` (it has one, has no device), and what `ibv_create_srq(3)` refuses. Without a domain the
/// identifier's own is taken.
pub(crate) unsafe extern "C-unwind" fn rdma_create_srq(
    id: *mut rdma_cm_id,
    pd: *mut ibv_pd,
    attr: *mut ibv_srq_init_attr,
) -> c_int {
    zero(|| {
        if attr.is_null() {
            return Err(Errno::EINVAL);
        }
        // SAFETY: the program's attributes are readable and writable. Zeros are values of every member.
        unsafe {
            let mut extended: ibv_srq_init_attr_ex = core::mem::zeroed();
            extended.srq_context = (*attr).srq_context;
            extended.attr = (*attr).attr;
            extended.srq_type = IBV_SRQT_BASIC;
            extended.comp_mask = IBV_SRQ_INIT_ATTR_TYPE;
            if !pd.is_null() {
                extended.pd = pd;
                extended.comp_mask |= IBV_SRQ_INIT_ATTR_PD;
            }
            create(id, &raw mut extended)?;
            (*attr).attr = extended.attr;
        }
        Ok(())
    })
}

/// `rdma_create_srq_ex(3)`: as [`rdma_create_srq`], and `EINVAL` if the type is not named. Queues for XRC are not in this release
/// (`EOPNOTSUPP`).
pub(crate) unsafe extern "C-unwind" fn rdma_create_srq_ex(
    id: *mut rdma_cm_id,
    attr: *mut ibv_srq_init_attr_ex,
) -> c_int {
    // SAFETY: the program's promise is the same.
    zero(|| unsafe { create(id, attr) })
}

/// # Safety
/// `init` is NULL, or readable and writable.
unsafe fn create(id: *mut rdma_cm_id, init: *mut ibv_srq_init_attr_ex) -> Result<(), Errno> {
    identifier(id)?;
    // SAFETY: the caller says so; the identifier was found.
    unsafe {
        if init.is_null() || (*init).comp_mask & IBV_SRQ_INIT_ATTR_TYPE == 0 || !(*id).srq.is_null() {
            return Err(Errno::EINVAL);
        }
        if (*init).comp_mask & IBV_SRQ_INIT_ATTR_PD == 0 || (*init).pd.is_null() {
            (*init).pd = (*id).pd;
            (*init).comp_mask |= IBV_SRQ_INIT_ATTR_PD;
        }
        (*id).srq = shared_receive_queue::create_extended((*id).verbs, init)?;
        if (*id).pd.is_null() {
            (*id).pd = (*init).pd;
        }
    }
    Ok(())
}

/// `rdma_destroy_srq(3)`.
pub(crate) unsafe extern "C-unwind" fn rdma_destroy_srq(id: *mut rdma_cm_id) {
    guard::silent(|| destroy(id));
}

/// Destroys the shared receive queue of an identifier, if there is one.
pub(crate) fn destroy(id: *mut rdma_cm_id) {
    if identifier(id).is_err() {
        return;
    }
    // SAFETY: the identifier was found; the queue is looked up.
    unsafe {
        let _ = shared_receive_queue::destroy(ptr::replace(&raw mut (*id).srq, ptr::null_mut()));
        if (*id).qp.is_null() {
            queue_pairs::destroy_queues(id);
        }
    }
}
