//! Endpoints: synchronous identifiers made in one call.

use core::ffi::c_int;
use core::ptr;

use nonic_rdma_cm::{EventKind, IdOption};
use nonic_verbs::errno::Errno;
use nonic_verbs::guard;

use super::{address, identifier as identifiers, option, queue_pair, shared_receive_queue, zero};
use crate::abi::{RAI_PASSIVE, ibv_pd, ibv_qp_init_attr, rdma_addrinfo, rdma_cm_id};
use crate::connection_parameters::private_data;
use crate::errno::refused;
use crate::objects::{EVENTS, Template, identifier};
use crate::synchronous::{acknowledge_last, complete, judge, next};

/// Milliseconds that an address, and then a route, may take.
const RESOLVE_TIME: c_int = 2000;

/// `rdma_create_ep(3)`: -1 with what the calls it stands for refuse: to create an identifier, and to bind it, or to resolve
/// address and route and to create a queue pair.
pub(crate) unsafe extern "C-unwind" fn rdma_create_ep(
    id: *mut *mut rdma_cm_id,
    res: *mut rdma_addrinfo,
    pd: *mut ibv_pd,
    qp_init_attr: *mut ibv_qp_init_attr,
) -> c_int {
    let mut new = ptr::null_mut();
    // SAFETY: the program's promise is the same; this frame owns nothing.
    unsafe {
        let begun = begin(&raw mut new, id, res);
        let made = if begun != 0 {
            begun
        } else if (*res).ai_flags & RAI_PASSIVE != 0 {
            zero(|| passive(new, res, pd, qp_init_attr))
        } else {
            active(new, res, pd, qp_init_attr)
        };
        if made == 0 {
            id.write(new);
        } else if !new.is_null() {
            let errno = *libc::__errno_location();
            guard::silent(|| destroy(new));
            Errno(errno).set();
        }
        made
    }
}

/// # Safety
/// `new` is writable, `res` NULL or readable.
unsafe fn begin(new: *mut *mut rdma_cm_id, id: *const *mut rdma_cm_id, res: *const rdma_addrinfo) -> c_int {
    zero(|| {
        if id.is_null() || res.is_null() {
            return Err(Errno::EINVAL);
        }
        // SAFETY: the caller says so.
        unsafe {
            let space = identifiers::space((*res).ai_port_space)?;
            new.write(identifiers::create(ptr::null_mut(), ptr::null_mut(), space, (*res).ai_qp_type)?);
        }
        Ok(())
    })
}

/// # Safety
/// `id` is alive, `res` readable, `init` NULL or readable.
unsafe fn passive(
    id: *mut rdma_cm_id,
    res: *const rdma_addrinfo,
    pd: *mut ibv_pd,
    init: *const ibv_qp_init_attr,
) -> Result<(), Errno> {
    // SAFETY: the caller says so.
    unsafe {
        address::bind(id, (*res).ai_src_addr)?;
        if !pd.is_null() {
            (*id).pd = pd;
        }
        if !init.is_null() {
            let mut template = init.read();
            template.qp_type = (*res).ai_qp_type;
            identifier(id)?.rest().template = Some(Template(template));
        }
    }
    Ok(())
}

/// # Safety
/// `id` is alive, `res` readable, `init` NULL, or readable and writable. No frame between the program's and this call owns anything.
unsafe extern "C-unwind" fn active(
    id: *mut rdma_cm_id,
    res: *const rdma_addrinfo,
    pd: *mut ibv_pd,
    init: *mut ibv_qp_init_attr,
) -> c_int {
    // SAFETY: the caller says so.
    unsafe {
        let resolved = address::rdma_resolve_addr(id, (*res).ai_src_addr, (*res).ai_dst_addr, RESOLVE_TIME);
        if resolved != 0 {
            return resolved;
        }
        let routed = if (*res).ai_route_len == 0 {
            address::rdma_resolve_route(id, RESOLVE_TIME)
        } else {
            let set = zero(|| {
                option::check_path((*res).ai_route, (*res).ai_route_len)?;
                identifier(id)?.engine.set_option(IdOption::Path).map_err(refused)
            });
            complete(set, id)
        };
        if routed != 0 {
            return routed;
        }
        zero(|| {
            if !init.is_null() {
                (*init).qp_type = (*res).ai_qp_type;
                queue_pair::create(id, pd, init)?;
            }
            let length = u8::try_from((*res).ai_connect_len).map_err(|_| Errno::EINVAL)?;
            identifier(id)?.rest().connect_data = private_data((*res).ai_connect, length);
            Ok(())
        })
    }
}

/// `rdma_destroy_ep(3)`: with queue pair and shared receive queue.
pub(crate) unsafe extern "C-unwind" fn rdma_destroy_ep(id: *mut rdma_cm_id) {
    guard::silent(|| destroy(id));
}

fn destroy(id: *mut rdma_cm_id) {
    queue_pair::destroy(id);
    shared_receive_queue::destroy(id);
    let _ = identifiers::destroy(id);
}

/// `rdma_get_request(3)`: the identifier of the next request, with a queue pair if the endpoint was created with attributes for
/// it; -1 with `EINVAL` (not synchronous), and what the queue pair is refused for. The listener keeps an event that was none.
pub(crate) unsafe extern "C-unwind" fn rdma_get_request(
    listen: *mut rdma_cm_id,
    id: *mut *mut rdma_cm_id,
) -> c_int {
    let begun = zero(|| {
        if id.is_null() || !identifier(listen)?.is_synchronous() {
            return Err(Errno::EINVAL);
        }
        // SAFETY: the identifier was found.
        unsafe { acknowledge_last(listen) };
        Ok(())
    });
    if begun != 0 {
        return begun;
    }
    // SAFETY: the identifier was found; this frame owns nothing.
    unsafe {
        if next(listen) != 0 {
            return -1;
        }
        zero(|| take(listen, id))
    }
}

/// # Safety
/// `listener` is alive, `id` writable.
unsafe fn take(listener: *mut rdma_cm_id, id: *mut *mut rdma_cm_id) -> Result<(), Errno> {
    // SAFETY: the caller says so; the event was written just now.
    unsafe {
        let event = (*listener).event;
        judge(event)?;
        if EVENTS.parent(event)?.kind != EventKind::ConnectRequest {
            return Err(Errno::EINVAL);
        }
        let new = (*event).id;
        let template = identifier(listener)?.rest().template;
        if let Some(Template(mut init)) = template {
            queue_pair::create(new, (*listener).pd, &raw mut init)?;
        }
        (*listener).event = ptr::null_mut();
        (*new).event = event;
        id.write(new);
    }
    Ok(())
}
