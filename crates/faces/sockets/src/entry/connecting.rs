//! Taking sockets over, listening, accepting, connecting, naming.

use core::ffi::{c_int, c_uint};

use libc::sockaddr;
use nonic_sockets::Way;

use super::{answered, silent};
use crate::address;

/// Takes a new TCP socket over: 1 if it is taken.
pub(crate) unsafe extern "C" fn adopt(number: c_int, domain: c_int, nonblocking: c_int) -> c_int {
    answered(|| {
        nonic_device::log_to_standard_error();
        let adopted = nonic_sockets::adopt(number, domain == libc::AF_INET6, nonblocking != 0);
        Ok(Way::Done(adopted.into()))
    })
}

/// The socket is about to listen in the kernel, by this name.
pub(crate) unsafe extern "C" fn listen(
    number: c_int,
    backlog: c_int,
    name: *const sockaddr,
    length: c_uint,
    only_v6: c_int,
) -> c_int {
    silent(|| {
        // SAFETY: the library passes what the kernel has told it.
        if let Some(name) = unsafe { address::read(name, length) } {
            nonic_sockets::listen(number, backlog, name, only_v6 != 0);
        }
    })
}

/// The kernel refused to.
pub(crate) unsafe extern "C" fn cease_to_listen(number: c_int) -> c_int {
    silent(|| nonic_sockets::cease_to_listen(number))
}

/// `accept4`.
pub(crate) unsafe extern "C" fn accept(
    number: c_int,
    address: *mut sockaddr,
    length: *mut c_uint,
    flags: c_int,
) -> c_int {
    answered(|| {
        let (nonblocking, inherited) = (flags & libc::SOCK_NONBLOCK != 0, flags & libc::SOCK_CLOEXEC == 0);
        Ok(match nonic_sockets::accept(number, nonblocking, inherited)? {
            Way::Done((number, peer)) => {
                // SAFETY: the program's place has the length that it says.
                unsafe { address::store(peer, address, length) };
                Way::Done(number)
            }
            Way::Kernel => Way::Kernel,
        })
    })
}

/// `connect`, of a socket that is bound by the name given, if any.
pub(crate) unsafe extern "C" fn connect(
    number: c_int,
    address: *const sockaddr,
    length: c_uint,
    name: *const sockaddr,
    name_length: c_uint,
) -> c_int {
    answered(|| {
        // SAFETY: the program's address has the length that it says; the library passes the name that the kernel has told it.
        let (address, name) = unsafe { (address::read(address, length), address::read(name, name_length)) };
        let Some(address) = address else { return Ok(Way::Kernel) };
        Ok(match nonic_sockets::connect(number, address, name)? {
            Way::Done(()) => Way::Done(0),
            Way::Kernel => Way::Kernel,
        })
    })
}

/// The kernel connects it, or has: it is the kernel's from now on.
pub(crate) unsafe extern "C" fn forget(number: c_int) -> c_int {
    silent(|| nonic_sockets::forget(number))
}

/// `getsockname`.
pub(crate) unsafe extern "C" fn name(number: c_int, place: *mut sockaddr, length: *mut c_uint) -> c_int {
    answered(|| {
        let name = nonic_sockets::name(number)?;
        // SAFETY: the program's place has the length that it says.
        Ok(unsafe { told(name, place, length) })
    })
}

/// `getpeername`.
pub(crate) unsafe extern "C" fn peer_name(number: c_int, place: *mut sockaddr, length: *mut c_uint) -> c_int {
    answered(|| {
        let name = nonic_sockets::peer_name(number)?;
        // SAFETY: the program's place has the length that it says.
        Ok(unsafe { told(name, place, length) })
    })
}

/// # Safety
/// As `address::store` asks.
unsafe fn told(name: Way<core::net::SocketAddr>, place: *mut sockaddr, length: *mut c_uint) -> Way<c_int> {
    match name {
        Way::Done(name) => {
            // SAFETY: the caller says so.
            unsafe { address::store(Some(name), place, length) };
            Way::Done(0)
        }
        Way::Kernel => Way::Kernel,
    }
}
