//! The queue pair of an identifier.

use core::ffi::c_int;
use core::ptr;

use nonic_device::{Capabilities, QpState};
use nonic_verbs::abi::{IBV_QP_INIT_ATTR_PD, IBV_QP_INIT_ATTR_XRCD, IBV_QPT_XRC_RECV};
use nonic_verbs::convert;
use nonic_verbs::entry::{queue_pair, zone};
use nonic_verbs::errno::Errno;
use nonic_verbs::guard;

use super::zero;
use crate::abi::{ibv_cq, ibv_pd, ibv_qp_attr, ibv_qp_init_attr, ibv_qp_init_attr_ex, rdma_cm_id};
use crate::devices;
use crate::errno::refused;
use crate::objects::identifier;
use crate::queue_pairs;

/// `rdma_create_qp(3)`: -1 with `EINVAL` (it has one, has no device, a domain of another context, completion queues that are not
/// the identifier's), and what `ibv_create_qp(3)` refuses. Without a domain the identifier's own is taken; completion queues that
/// are missing are made, and a channel for each. The queue pair is in INIT then, of datagrams in RTS.
pub(crate) unsafe extern "C-unwind" fn rdma_create_qp(
    id: *mut rdma_cm_id,
    pd: *mut ibv_pd,
    qp_init_attr: *mut ibv_qp_init_attr,
) -> c_int {
    // SAFETY: the program's promise is the same.
    zero(|| unsafe { create(id, pd, qp_init_attr) })
}

/// # Safety
/// `init` is NULL, or readable and writable.
pub(crate) unsafe fn create(
    id: *mut rdma_cm_id,
    pd: *mut ibv_pd,
    init: *mut ibv_qp_init_attr,
) -> Result<(), Errno> {
    identifier(id)?;
    if init.is_null() {
        return Err(Errno::EINVAL);
    }
    // SAFETY: the caller says so; the identifier was found. Zeros are values of every member.
    unsafe {
        let mut extended: ibv_qp_init_attr_ex = core::mem::zeroed();
        let begin = (&raw mut extended).cast::<ibv_qp_init_attr>();
        begin.write(init.read());
        // Behind the plain attributes' last member, where these have nothing.
        extended.comp_mask = IBV_QP_INIT_ATTR_PD;
        extended.pd = if pd.is_null() { (*id).pd } else { pd };
        create_extended(id, &raw mut extended)?;
        let made = begin.read();
        (*init).send_cq = made.send_cq;
        (*init).recv_cq = made.recv_cq;
        (*init).srq = made.srq;
        (*init).cap = made.cap;
    }
    Ok(())
}

/// `rdma_create_qp_ex(3)`: as [`rdma_create_qp`]. That of an identifier of type `IBV_QPT_XRC_RECV` is in the XRC domain of the device
/// if it names none.
pub(crate) unsafe extern "C-unwind" fn rdma_create_qp_ex(
    id: *mut rdma_cm_id,
    qp_init_attr: *mut ibv_qp_init_attr_ex,
) -> c_int {
    // SAFETY: the program's promise is the same.
    zero(|| unsafe { create_extended(id, qp_init_attr) })
}

/// # Safety
/// `init` is NULL, or readable and writable.
unsafe fn create_extended(id: *mut rdma_cm_id, init: *mut ibv_qp_init_attr_ex) -> Result<(), Errno> {
    let identifier = identifier(id)?;
    // SAFETY: the caller says so; the identifier was found, and its queue pair is looked up before it is used.
    unsafe {
        if init.is_null() || !(*id).qp.is_null() || (*id).verbs.is_null() {
            return Err(Errno::EINVAL);
        }
        let pd = if (*init).comp_mask & IBV_QP_INIT_ATTR_PD == 0 { (*id).pd } else { (*init).pd };
        if zone::context_of(pd)? != (*id).verbs {
            return Err(Errno::EINVAL);
        }
        let differ =
            |own: *mut ibv_cq, given: *mut ibv_cq| !own.is_null() && !given.is_null() && own != given;
        if differ((*id).recv_cq, (*init).recv_cq) || differ((*id).send_cq, (*init).send_cq) {
            return Err(Errno::EINVAL);
        }
        let is_target = (*id).qp_type == IBV_QPT_XRC_RECV;
        if is_target && ((*init).comp_mask & IBV_QP_INIT_ATTR_XRCD == 0 || (*init).xrcd.is_null()) {
            (*init).xrcd = devices::extended_domain((*id).verbs)?;
            (*init).comp_mask |= IBV_QP_INIT_ATTR_XRCD;
        }
        // Its receives complete where the shared receive queue's do, which brings its own.
        let missing = |own: *mut ibv_cq, given: *mut ibv_cq, entries| {
            if own.is_null() && given.is_null() && !is_target { entries } else { 0 }
        };
        let send = missing((*id).send_cq, (*init).send_cq, (*init).cap.max_send_wr);
        let receive = missing((*id).recv_cq, (*init).recv_cq, (*init).cap.max_recv_wr);
        queue_pairs::create_queues(id, send, receive)?;
        let before = ((*init).send_cq, (*init).recv_cq, (*init).srq);
        let or = |given: *mut ibv_cq, own: *mut ibv_cq| if given.is_null() { own } else { given };
        (*init).send_cq = or((*init).send_cq, (*id).send_cq);
        (*init).recv_cq = or((*init).recv_cq, (*id).recv_cq);
        if (*init).srq.is_null() {
            (*init).srq = (*id).srq;
        }
        (*init).comp_mask |= IBV_QP_INIT_ATTR_PD;
        (*init).pd = pd;
        let made = queue_pair::create_extended((*id).verbs, init).and_then(|qp| {
            let prepared = queue_pairs::prepare(qp, (*id).qp_type, &identifier.engine);
            if prepared.is_err() {
                let _ = queue_pair::destroy(qp);
            }
            prepared.map(|()| qp)
        });
        match made {
            Ok(qp) => {
                (*id).pd = pd;
                (*id).qp = qp;
                Ok(())
            }
            Err(errno) => {
                ((*init).send_cq, (*init).recv_cq, (*init).srq) = before;
                queue_pairs::destroy_made(id, send, receive);
                Err(errno)
            }
        }
    }
}

/// `rdma_destroy_qp(3)`: with the completion queues that were made for it.
pub(crate) unsafe extern "C-unwind" fn rdma_destroy_qp(id: *mut rdma_cm_id) {
    guard::silent(|| destroy(id));
}

/// Destroys the queue pair of an identifier, if there is one.
pub(crate) fn destroy(id: *mut rdma_cm_id) {
    if identifier(id).is_err() {
        return;
    }
    // SAFETY: the identifier was found; the queue pair is looked up.
    unsafe {
        let _ = queue_pair::destroy(ptr::replace(&raw mut (*id).qp, ptr::null_mut()));
        // The shared receive queue of an XRC domain still completes to one of them.
        if (*id).qp_type != IBV_QPT_XRC_RECV || (*id).srq.is_null() {
            queue_pairs::destroy_queues(id);
        }
    }
}

/// `rdma_init_qp_attr(3)`: -1 with `EINVAL` (no device, no peer yet, a state that there are no attributes for).
pub(crate) unsafe extern "C-unwind" fn rdma_init_qp_attr(
    id: *mut rdma_cm_id,
    qp_attr: *mut ibv_qp_attr,
    qp_attr_mask: *mut c_int,
) -> c_int {
    zero(|| {
        let identifier = identifier(id)?;
        // SAFETY: the identifier was found.
        if qp_attr.is_null() || qp_attr_mask.is_null() || unsafe { (*id).verbs.is_null() } {
            return Err(Errno::EINVAL);
        }
        // SAFETY: the program's attributes are readable.
        let number = unsafe { (*qp_attr).qp_state };
        let state = u32::try_from(number).ok().and_then(QpState::from_number).ok_or(Errno::EINVAL)?;
        let (attributes, mask) = identifier.engine.queue_pair_attributes(state).map_err(refused)?;
        // SAFETY: the program's places are writable.
        unsafe {
            qp_attr.write(convert::query_answer(&attributes, &Capabilities::default()));
            qp_attr_mask.write(mask.0 as c_int);
        }
        Ok(())
    })
}
