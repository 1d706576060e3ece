//! Sockets over connections (`rsocket(7)`). Everything about them is `nonic-rsocket`'s; here pointers become values. Each call
//! answers -1 with the `errno` that the crate gives; `EBADF` is a number that is no such socket, `EFAULT` a pointer that is NULL.

pub(crate) mod connecting;
pub(crate) mod mapping;
pub(crate) mod options;
pub(crate) mod receiving;
pub(crate) mod sending;
pub(crate) mod waiting;

use core::ffi::c_int;
use core::net::SocketAddr;

use libc::{sockaddr, sockaddr_in, sockaddr_in6};
use nonic_rdma_cm::Named;
use nonic_rsocket::{PortSpace, SharedSlice};
use nonic_verbs::errno::Errno;
use nonic_verbs::guard;

use crate::abi::{AF_IB, sockaddr_ib};
use crate::socket_address;

/// What the sockets refuse.
fn refused(error: nonic_rsocket::Error) -> Errno {
    Errno(error.errno())
}

/// For calls that answer how many bytes, or -1 with `errno` set.
fn counted(work: impl FnOnce() -> Result<usize, Errno>) -> isize {
    let count = guard::caught(|| Ok(isize::try_from(work()?).unwrap_or(isize::MAX)));
    count.unwrap_or_else(|errno| {
        errno.set();
        -1
    })
}

/// For calls that answer 0, or -1 with `errno` set.
fn zero(work: impl FnOnce() -> nonic_rsocket::Result<()>) -> c_int {
    super::zero(|| work().map_err(refused))
}

/// Bytes of the program: `EFAULT` for none at NULL, `EINVAL` for more than there can be.
///
/// # Safety
/// `address` is NULL or leads to `length` bytes, for as long as the slice is used; they may be written if it is written to.
unsafe fn slice<'a>(address: *const u8, length: usize) -> Result<SharedSlice<'a>, Errno> {
    match length {
        0 => Ok(SharedSlice::EMPTY),
        _ if address.is_null() => Err(Errno::EFAULT),
        length if isize::try_from(length).is_ok() => {
            // SAFETY: the caller says so.
            Ok(unsafe { SharedSlice::from_raw(address.cast_mut(), length) })
        }
        _ => Err(Errno::EINVAL),
    }
}

/// An address for a socket, and its length: `EINVAL` if it is shorter than its family's, and for a GID where the socket has none.
///
/// # Safety
/// `address` is NULL or leads to `length` bytes.
unsafe fn address(socket: c_int, address: *const sockaddr, length: u32) -> Result<SocketAddr, Errno> {
    if (length as usize) < size_of::<libc::sa_family_t>() {
        return Err(Errno::EINVAL);
    }
    if address.is_null() {
        return Err(Errno::EINVAL);
    }
    // SAFETY: the caller says so; the family is there.
    let family = unsafe { (&raw const (*address).sa_family).read_unaligned() };
    let least = match i32::from(family) {
        libc::AF_INET6 => size_of::<sockaddr_in6>(),
        AF_IB => size_of::<sockaddr_ib>(),
        _ => size_of::<sockaddr_in>(),
    };
    if (length as usize) < least {
        return Err(Errno::EINVAL);
    }
    // SAFETY: as many bytes as its family has, checked just now.
    let given = unsafe { socket_address::read_any(address)? };
    let by_gid = nonic_rsocket::is_by_gid(socket).map_err(refused)?;
    match given {
        // A stream has ports of its own space only.
        Named::Gid(named) if PortSpace::Tcp.of_own_service(named.service, named.mask).is_none() => {
            Err(Errno(libc::EPROTONOSUPPORT))
        }
        given if given.is_by_gid() == by_gid => Ok(given.peers()),
        _ => Err(Errno::EINVAL),
    }
}

/// Stores an address of a socket where the program wants it, as much of it as there is room for, and how long it is.
///
/// # Safety
/// `place` is NULL, or `length` leads to how many bytes may be written there.
unsafe fn store_address(socket: c_int, value: Option<SocketAddr>, place: *mut sockaddr, length: *mut u32) {
    if place.is_null() || length.is_null() {
        return;
    }
    let by_gid = value.filter(|_| nonic_rsocket::is_by_gid(socket).unwrap_or(false));
    let storage = match by_gid {
        Some(address) => {
            let service = PortSpace::Tcp.first_service() | u64::from(address.port());
            socket_address::storage_by_gid(address, service)
        }
        None => socket_address::storage(value),
    };
    let bytes = match value {
        Some(_) if by_gid.is_some() => size_of::<sockaddr_ib>(),
        Some(SocketAddr::V4(_)) => size_of::<sockaddr_in>(),
        Some(SocketAddr::V6(_)) => size_of::<sockaddr_in6>(),
        None => 0,
    };
    // SAFETY: the caller says so; the storage is longer than any address.
    unsafe {
        let room = length.read_unaligned() as usize;
        core::ptr::copy_nonoverlapping((&raw const storage).cast::<u8>(), place.cast(), bytes.min(room));
        length.write_unaligned(bytes as u32);
    }
}
