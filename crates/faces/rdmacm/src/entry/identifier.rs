//! Identifiers.

use core::ffi::{c_int, c_void};
use core::ptr;

use nonic_rdma_cm::{Id, PortSpace};
use nonic_verbs::abi::{IBV_QPT_RC, IBV_QPT_UD};
use nonic_verbs::entry::multicast;
use nonic_verbs::errno::Errno;

use super::{channel, zero};
use crate::abi::{ibv_gid, rdma_addr, rdma_cm_id, rdma_event_channel, rdma_ib_addr, rdma_route};
use crate::errno::refused;
use crate::objects::{CHANNELS, IDENTIFIERS, Identifier, identifier};
use crate::socket_address;
use crate::synchronous::acknowledge_last;

/// `rdma_create_id(3)`: -1 with `EINVAL` (no such port space, no such channel), `ENODEV`, or what the system lacked. Without a
/// channel the identifier is synchronous.
pub(crate) unsafe extern "C-unwind" fn rdma_create_id(
    channel: *mut rdma_event_channel,
    id: *mut *mut rdma_cm_id,
    context: *mut c_void,
    ps: c_int,
) -> c_int {
    zero(|| {
        if id.is_null() {
            return Err(Errno::EINVAL);
        }
        let space = space(ps)?;
        let qp_type = if space.is_datagram() { IBV_QPT_UD } else { IBV_QPT_RC };
        // SAFETY: the program's place is writable.
        unsafe { id.write(create(channel, context, space, qp_type)?) };
        Ok(())
    })
}

/// The port space of a number; `EINVAL` if there is none.
pub(crate) fn space(number: c_int) -> Result<PortSpace, Errno> {
    let space = u32::try_from(number).ok().and_then(PortSpace::from_number);
    space.filter(|space| space.is_for_programs()).ok_or(Errno::EINVAL)
}

/// Creates an identifier; without a channel it is synchronous.
pub(crate) fn create(
    given: *mut rdma_event_channel,
    context: *mut c_void,
    space: PortSpace,
    qp_type: c_int,
) -> Result<*mut rdma_cm_id, Errno> {
    let synchronous = given.is_null();
    let events = if synchronous { channel::create()? } else { given };
    let reservation = IDENTIFIERS.reserve();
    let made = CHANNELS.parent(events).and_then(|channel| {
        let cookie = reservation.cookie();
        let made = match space {
            // Only there the kind of queue pair says what it is.
            PortSpace::InfiniBand => Id::create_for_services(&channel, qp_type == IBV_QPT_UD, cookie),
            _ => Id::create(&channel, space, cookie),
        };
        made.map_err(refused)
    });
    match made {
        Ok(engine) => {
            let face = blank(events, context, space as c_int, qp_type);
            Ok(reservation.fill(Identifier::new(engine, synchronous), |_| face))
        }
        Err(errno) => {
            if synchronous {
                channel::destroy(events);
            }
            Err(errno)
        }
    }
}

/// The structure of an identifier that has nothing yet.
pub(crate) fn blank(
    channel: *mut rdma_event_channel,
    context: *mut c_void,
    ps: c_int,
    qp_type: c_int,
) -> rdma_cm_id {
    let none = socket_address::storage(None);
    let gid = ibv_gid { raw: [0; 16] };
    let addr = rdma_addr {
        src_storage: none,
        dst_storage: none,
        ibaddr: rdma_ib_addr { sgid: gid, dgid: gid, pkey: 0 },
    };
    rdma_cm_id {
        verbs: ptr::null_mut(),
        channel,
        context,
        qp: ptr::null_mut(),
        route: rdma_route { addr, path_rec: ptr::null_mut(), num_paths: 0 },
        ps,
        port_num: 0,
        event: ptr::null_mut(),
        send_cq_channel: ptr::null_mut(),
        send_cq: ptr::null_mut(),
        recv_cq_channel: ptr::null_mut(),
        recv_cq: ptr::null_mut(),
        srq: ptr::null_mut(),
        pd: ptr::null_mut(),
        qp_type,
    }
}

/// `rdma_destroy_id(3)`: -1 with `EINVAL` (no such identifier, or another thread destroys it). Waits until every event that was
/// got for it is acknowledged. Its queue pair stays.
pub(crate) unsafe extern "C-unwind" fn rdma_destroy_id(id: *mut rdma_cm_id) -> c_int {
    zero(|| destroy(id))
}

/// Destroys an identifier.
pub(crate) fn destroy(id: *mut rdma_cm_id) -> Result<(), Errno> {
    let claim = IDENTIFIERS.claim(id).map_err(|_| Errno::EINVAL)?;
    // SAFETY: claimed, so nobody else destroys it.
    let channel = unsafe {
        acknowledge_last(id);
        (*id).channel
    };
    for group in claim.engine().engine.multicast_groups() {
        // SAFETY: as above; the queue pair is looked up.
        let _ = multicast::detach(unsafe { (*id).qp }, group.gid, group.lid);
    }
    claim.engine().engine.destroy();
    let synchronous = claim.engine().is_synchronous();
    claim.retire();
    if synchronous {
        channel::destroy(channel);
    }
    Ok(())
}

/// Drops an identifier that the program was never told of.
pub(crate) fn forget(id: *mut rdma_cm_id) {
    if let Ok(claim) = IDENTIFIERS.claim(id) {
        // SAFETY: claimed, so nobody else destroys it.
        let (channel, synchronous) = (unsafe { (*id).channel }, claim.engine().is_synchronous());
        claim.retire();
        if synchronous {
            channel::destroy(channel);
        }
    }
}

/// `rdma_migrate_id(3)`: -1 with `EINVAL` (no such identifier or channel; it is synchronous already, and is to be). Waits until
/// the events that were got on the channel before are acknowledged.
pub(crate) unsafe extern "C-unwind" fn rdma_migrate_id(
    id: *mut rdma_cm_id,
    channel: *mut rdma_event_channel,
) -> c_int {
    zero(|| {
        let identifier = identifier(id)?;
        let (was_synchronous, synchronous) = (identifier.is_synchronous(), channel.is_null());
        if was_synchronous && synchronous {
            return Err(Errno::EINVAL);
        }
        let target = if synchronous { channel::create()? } else { channel };
        let events = CHANNELS.parent(target)?;
        // SAFETY: the identifier was found. Its channel is written first: requests that come while it moves are for the new one.
        let before = unsafe {
            if was_synchronous {
                acknowledge_last(id);
            }
            ptr::replace(&raw mut (*id).channel, target)
        };
        if let Err(error) = identifier.engine.migrate(&events) {
            // SAFETY: as above.
            unsafe { (*id).channel = before };
            if synchronous {
                channel::destroy(target);
            }
            return Err(refused(error));
        }
        identifier.rest().synchronous = synchronous;
        if was_synchronous {
            channel::destroy(before);
        }
        Ok(())
    })
}

/// `rdma_get_src_port(3)`: network order; 0 if it has no address, or is none.
pub(crate) unsafe extern "C-unwind" fn rdma_get_src_port(id: *mut rdma_cm_id) -> u16 {
    port_of(id, |addr| &addr.src_storage)
}

/// `rdma_get_dst_port(3)`: network order; 0 if it has no peer, or is none.
pub(crate) unsafe extern "C-unwind" fn rdma_get_dst_port(id: *mut rdma_cm_id) -> u16 {
    port_of(id, |addr| &addr.dst_storage)
}

fn port_of(id: *mut rdma_cm_id, which: impl Fn(&rdma_addr) -> &libc::sockaddr_storage) -> u16 {
    let mut port = 0;
    nonic_verbs::guard::silent(|| {
        if identifier(id).is_ok() {
            // SAFETY: the identifier was found.
            let addr = unsafe { (*id).route.addr };
            port = socket_address::port(which(&addr));
        }
    });
    port
}
