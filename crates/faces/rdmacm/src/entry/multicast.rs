//! Groups. Joined, an identifier knows where to send; its queue pair, if there is one by then, receives.

use core::ffi::{c_int, c_void};

use libc::sockaddr;
use nonic_rdma_cm::DatagramParameters;
use nonic_verbs::entry::multicast;
use nonic_verbs::errno::Errno;

use super::zero;
use crate::abi::{
    RDMA_CM_JOIN_MC_ATTR_ADDRESS, RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS, RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER,
    rdma_cm_id, rdma_cm_join_mc_attr_ex,
};
use crate::errno::refused;
use crate::objects::{Identifier, identifier};
use crate::socket_address;
use crate::synchronous::complete;

/// `rdma_join_multicast(3)`: MULTICAST_JOIN, or -1 with `EINVAL` (no datagrams, no device, connected; not an address).
pub(crate) unsafe extern "C-unwind" fn rdma_join_multicast(
    id: *mut rdma_cm_id,
    addr: *mut sockaddr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the program's promise is the same.
    let begun = zero(|| unsafe { join(id, addr, context, true) });
    // SAFETY: this frame owns nothing.
    unsafe { complete(begun, id) }
}

/// `rdma_join_multicast_ex(3)`: as [`rdma_join_multicast`], and `EOPNOTSUPP` for bits that nobody knows, `EINVAL` for no address or
/// no flags.
pub(crate) unsafe extern "C-unwind" fn rdma_join_multicast_ex(
    id: *mut rdma_cm_id,
    mc_join_attr: *mut rdma_cm_join_mc_attr_ex,
    context: *mut c_void,
) -> c_int {
    let needed = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
    let begun = zero(|| {
        if mc_join_attr.is_null() {
            return Err(Errno::EINVAL);
        }
        // SAFETY: the program's attributes are readable.
        unsafe {
            if (*mc_join_attr).comp_mask & !needed != 0 {
                return Err(Errno::EOPNOTSUPP);
            }
            let known = (*mc_join_attr).join_flags <= RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER;
            if (*mc_join_attr).comp_mask != needed || !known {
                return Err(Errno::EINVAL);
            }
            let receives = (*mc_join_attr).join_flags != RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER;
            join(id, (*mc_join_attr).addr, context, receives)
        }
    });
    // SAFETY: this frame owns nothing.
    unsafe { complete(begun, id) }
}

/// # Safety
/// `addr` is NULL or readable.
unsafe fn join(
    id: *mut rdma_cm_id,
    addr: *const sockaddr,
    context: *mut c_void,
    receives: bool,
) -> Result<(), Errno> {
    let identifier = identifier(id)?;
    // SAFETY: the caller says so.
    let group = unsafe { socket_address::read(addr)? };
    let engine = &identifier.engine;
    if !receives {
        // Before the event comes, which asks.
        identifier.rest().send_only.push(group.ip());
    }
    engine.join_multicast(group.ip(), receives, context.expose_provenance()).map_err(refused).inspect_err(
        |_| {
            if !receives {
                identifier.rest().send_only.pop();
            }
        },
    )
}

/// A group was joined: the queue pair receives from now on, if there is one and it is to.
///
/// # Safety
/// `id` is alive, and this identifier's.
pub(crate) unsafe fn attach(
    id: *mut rdma_cm_id,
    identifier: &Identifier,
    joined: &DatagramParameters,
) -> Result<(), Errno> {
    // SAFETY: the caller says that the structure is alive; the queue pair is looked up.
    let qp = unsafe { (*id).qp };
    let Some(group) =
        identifier.engine.multicast_groups().into_iter().find(|group| group.is_at(&joined.address))
    else {
        return Ok(());
    };
    if qp.is_null() || identifier.rest().send_only.contains(&group.address) {
        return Ok(());
    }
    multicast::attach(qp, group.gid, group.lid)
}

/// `rdma_leave_multicast(3)`: -1 with `EINVAL` (not an address), `EADDRNOTAVAIL` (the group was not joined).
pub(crate) unsafe extern "C-unwind" fn rdma_leave_multicast(
    id: *mut rdma_cm_id,
    addr: *mut sockaddr,
) -> c_int {
    zero(|| {
        let identifier = identifier(id)?;
        // SAFETY: the program's address is readable.
        let address = unsafe { socket_address::read(addr)? }.ip();
        let group = identifier.engine.leave_multicast(address).map_err(refused)?;
        identifier.rest().send_only.retain(|group| *group != address);
        // SAFETY: the identifier was found; the queue pair is looked up.
        let qp = unsafe { (*id).qp };
        if !qp.is_null() {
            // One that was never attached, because it sends only, is as it is to be.
            let _ = multicast::detach(qp, group.gid, group.lid);
        }
        Ok(())
    })
}
