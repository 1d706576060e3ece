//! Making, connecting and ending sockets.

use core::ffi::c_int;

use nonic_verbs::guard;

use super::{address, refused, store_address, zero};
use crate::abi::sockaddr;

/// `rsocket`: a descriptor; -1 with `ENOTSUP` for what is neither a stream nor a datagram socket of IPv4 or IPv6, nor a
/// stream of `AF_IB`; `EAFNOSUPPORT` for datagrams of that family.
pub(crate) unsafe extern "C-unwind" fn rsocket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    guard::or_minus_one(|| {
        // These programs open no device by themselves.
        nonic_device::log_to_standard_error();
        nonic_rsocket::socket(domain, kind, protocol).map_err(refused)
    })
}

/// `rbind`: -1 with `EINVAL`, `EADDRNOTAVAIL`, `EADDRINUSE`, `EACCES`.
pub(crate) unsafe extern "C-unwind" fn rbind(socket: c_int, addr: *const sockaddr, addrlen: u32) -> c_int {
    super::super::zero(|| {
        // SAFETY: the program's address has the length that it says.
        let address = unsafe { address(socket, addr, addrlen)? };
        nonic_rsocket::bind(socket, address).map_err(refused)
    })
}

/// `rlisten`: -1 with `EINVAL`, `EADDRINUSE`.
pub(crate) unsafe extern "C-unwind" fn rlisten(socket: c_int, backlog: c_int) -> c_int {
    zero(|| nonic_rsocket::listen(socket, backlog))
}

/// `raccept`: a descriptor; -1 with `EBADF` (nobody listens), `EAGAIN`, `EINTR`.
pub(crate) unsafe extern "C-unwind" fn raccept(
    socket: c_int,
    addr: *mut sockaddr,
    addrlen: *mut u32,
) -> c_int {
    guard::or_minus_one(|| {
        let (number, peer) = nonic_rsocket::accept(socket).map_err(refused)?;
        // SAFETY: the program's place has the length that it says.
        unsafe { store_address(number, peer, addr, addrlen) };
        Ok(number)
    })
}

/// `rconnect`: -1 with `EINPROGRESS`, `ECONNREFUSED`, `ETIMEDOUT`, `EHOSTUNREACH`, `ENETUNREACH`, `EISCONN`, `EINTR`.
pub(crate) unsafe extern "C-unwind" fn rconnect(socket: c_int, addr: *const sockaddr, addrlen: u32) -> c_int {
    super::super::zero(|| {
        // SAFETY: the program's address has the length that it says.
        let address = unsafe { address(socket, addr, addrlen)? };
        nonic_rsocket::connect(socket, address).map_err(refused)
    })
}

/// `rshutdown`: -1 with `ENOTCONN`, `EINVAL`.
pub(crate) unsafe extern "C-unwind" fn rshutdown(socket: c_int, how: c_int) -> c_int {
    zero(|| nonic_rsocket::shut_down(socket, how))
}

/// `rclose`: 0, or `EBADF` itself, as the original answers.
pub(crate) unsafe extern "C-unwind" fn rclose(socket: c_int) -> c_int {
    guard::or_minus_one(|| match nonic_rsocket::close(socket) {
        Ok(()) => Ok(0),
        Err(error) if error.errno() == libc::EBADF => Ok(libc::EBADF),
        Err(error) => Err(refused(error)),
    })
}

/// `rgetpeername`: -1 with `ENOTCONN`.
pub(crate) unsafe extern "C-unwind" fn rgetpeername(
    socket: c_int,
    addr: *mut sockaddr,
    addrlen: *mut u32,
) -> c_int {
    zero(|| {
        let peer = nonic_rsocket::peer_name(socket)?;
        // SAFETY: the program's place has the length that it says.
        unsafe { store_address(socket, Some(peer), addr, addrlen) };
        Ok(())
    })
}

/// `rgetsockname`: the unspecified address while there is none.
pub(crate) unsafe extern "C-unwind" fn rgetsockname(
    socket: c_int,
    addr: *mut sockaddr,
    addrlen: *mut u32,
) -> c_int {
    zero(|| {
        let own = nonic_rsocket::name(socket)?;
        // SAFETY: the program's place has the length that it says.
        unsafe { store_address(socket, Some(own), addr, addrlen) };
        Ok(())
    })
}
