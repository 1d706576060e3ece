//! The shared receive queue of an identifier.

use core::ffi::c_int;
use core::ptr;

use nonic_verbs::abi::{
    IBV_QPT_XRC_RECV, IBV_SRQ_INIT_ATTR_CQ, IBV_SRQ_INIT_ATTR_PD, IBV_SRQ_INIT_ATTR_TYPE,
    IBV_SRQ_INIT_ATTR_XRCD, IBV_SRQT_BASIC, IBV_SRQT_XRC,
};
use nonic_verbs::entry::shared_receive_queue;
use nonic_verbs::errno::Errno;
use nonic_verbs::guard;

use super::zero;
use crate::abi::{ibv_pd, ibv_srq_init_attr, ibv_srq_init_attr_ex, rdma_cm_id};
use crate::devices;
use crate::objects::identifier;
use crate::queue_pairs;

/// `rdma_create_srq(3)`: -1 with `EINVAL` (it has one, has no device), and what `ibv_create_srq(3)` refuses. Without a domain the
/// identifier's own is taken. That of an identifier of type `IBV_QPT_XRC_RECV` is of type XRC.
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
            let receives = !id.is_null() && identifier(id).is_ok() && (*id).qp_type == IBV_QPT_XRC_RECV;
            extended.srq_type = if receives { IBV_SRQT_XRC } else { IBV_SRQT_BASIC };
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

/// `rdma_create_srq_ex(3)`: as [`rdma_create_srq`], and `EINVAL` if the type is not named. One of type XRC that names no XRC domain
/// is in that of the device; if it names no completion queue either that of the identifier is taken, made if there is none.
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
        let is_extended = (*init).srq_type == IBV_SRQT_XRC;
        if is_extended && ((*init).comp_mask & IBV_SRQ_INIT_ATTR_XRCD == 0 || (*init).xrcd.is_null()) {
            (*init).xrcd = devices::extended_domain((*id).verbs)?;
            (*init).comp_mask |= IBV_SRQ_INIT_ATTR_XRCD;
        }
        let mut made = 0;
        if is_extended && ((*init).comp_mask & IBV_SRQ_INIT_ATTR_CQ == 0 || (*init).cq.is_null()) {
            if (*id).recv_cq.is_null() {
                made = (*init).attr.max_wr;
                queue_pairs::create_queues(id, 0, made)?;
            }
            (*init).cq = (*id).recv_cq;
            (*init).comp_mask |= IBV_SRQ_INIT_ATTR_CQ;
        }
        let created = shared_receive_queue::create_extended((*id).verbs, init)
            .inspect_err(|_| queue_pairs::destroy_made(id, 0, made));
        (*id).srq = created?;
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
