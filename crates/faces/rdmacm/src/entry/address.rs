//! Addresses and the ways between them.

use core::ffi::c_int;
use core::time::Duration;

use libc::sockaddr;
use nonic_rdma_cm::Named;
use nonic_verbs::errno::Errno;

use super::zero;
use crate::abi::rdma_cm_id;
use crate::errno::refused;
use crate::objects::identifier;
use crate::synchronous::complete;
use crate::{route, socket_address};

/// Milliseconds as the kernel takes them: a negative number is a very long time.
fn milliseconds(count: c_int) -> Duration {
    Duration::from_millis(u64::from(count as u32))
}

/// `rdma_bind_addr(3)`: -1 with `EINVAL` (bound already, no family we know, a link-local address without scope),
/// `EPROTONOSUPPORT` (a GID with a service that is none of its space's ports), `EADDRNOTAVAIL` (not of this host, or overlaps with another's), `EADDRINUSE`, `EACCES`.
pub(crate) unsafe extern "C-unwind" fn rdma_bind_addr(id: *mut rdma_cm_id, addr: *mut sockaddr) -> c_int {
    // SAFETY: the program's promise is the same.
    zero(|| unsafe { bind(id, addr) })
}

/// # Safety
/// `addr` is NULL or readable.
pub(crate) unsafe fn bind(id: *mut rdma_cm_id, addr: *const sockaddr) -> Result<(), Errno> {
    let identifier = identifier(id)?;
    // SAFETY: the caller says so; the identifier was found.
    unsafe {
        identifier.engine.bind_named(socket_address::read_any(addr)?).map_err(refused)?;
        route::show(id, &identifier)
    }
}

/// `rdma_resolve_addr(3)`: -1 with `EINVAL` (no family we know, two families, resolved already), `EADDRNOTAVAIL` (the source is
/// not of this host), `ENETUNREACH`, `EPROTONOSUPPORT` (a source with a service that is none of its space's ports); then ADDR_RESOLVED or ADDR_ERROR.
pub(crate) unsafe extern "C-unwind" fn rdma_resolve_addr(
    id: *mut rdma_cm_id,
    src_addr: *mut sockaddr,
    dst_addr: *mut sockaddr,
    timeout_ms: c_int,
) -> c_int {
    // SAFETY: the program's promise is the same.
    let begun = zero(|| unsafe { resolve(id, src_addr, dst_addr, timeout_ms) });
    // SAFETY: this frame owns nothing.
    unsafe { complete(begun, id) }
}

/// # Safety
/// The addresses are NULL or readable.
unsafe fn resolve(
    id: *mut rdma_cm_id,
    src_addr: *const sockaddr,
    dst_addr: *const sockaddr,
    timeout_ms: c_int,
) -> Result<(), Errno> {
    let identifier = identifier(id)?;
    // SAFETY: the caller says so; the identifier was found.
    unsafe {
        let engine = &identifier.engine;
        let destination = socket_address::read_any(dst_addr)?;
        // A family of 0 is what a source of zeros has, which programs give for none.
        let given = !src_addr.is_null() && (&raw const (*src_addr).sa_family).read_unaligned() != 0;
        let source = if given { Some(socket_address::read_any(src_addr)?) } else { None };
        engine.resolve_named(source, destination, milliseconds(timeout_ms)).map_err(refused)?;
        let shown = match destination {
            Named::Ip(address) => socket_address::storage(Some(address)),
            Named::Gid(peer) => socket_address::storage_by_gid(destination.peers(), peer.service),
        };
        (*id).route.addr.dst_storage = shown;
    }
    Ok(())
}

/// `rdma_resolve_route(3)`: -1 with `EINVAL` (no address resolved, no time); then ROUTE_RESOLVED or ROUTE_ERROR.
pub(crate) unsafe extern "C-unwind" fn rdma_resolve_route(id: *mut rdma_cm_id, timeout_ms: c_int) -> c_int {
    let begun = zero(|| identifier(id)?.engine.resolve_route(milliseconds(timeout_ms)).map_err(refused));
    // SAFETY: this frame owns nothing.
    unsafe { complete(begun, id) }
}
