//! Addresses of the program, and addresses for it.

use core::mem::MaybeUninit;
use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use core::ptr;

use libc::{sa_family_t, sockaddr, sockaddr_in, sockaddr_in6};

/// An address of IPv4 or IPv6; `None` for any other, and for one that is too short.
///
/// # Safety
/// `address` is NULL or leads to `length` bytes.
pub(crate) unsafe fn read(address: *const sockaddr, length: u32) -> Option<SocketAddr> {
    let length = length as usize;
    if address.is_null() || length < size_of::<sa_family_t>() {
        return None;
    }
    // SAFETY: the caller says so; as many bytes as the length says are read, and never more.
    unsafe {
        match i32::from((&raw const (*address).sa_family).read_unaligned()) {
            libc::AF_INET if length >= size_of::<sockaddr_in>() => {
                let v4 = address.cast::<sockaddr_in>().read_unaligned();
                let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
                Some(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
            }
            libc::AF_INET6 if length >= size_of::<sockaddr_in6>() => {
                let v6 = address.cast::<sockaddr_in6>().read_unaligned();
                let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
                let port = u16::from_be(v6.sin6_port);
                Some(SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into())
            }
            _ => None,
        }
    }
}

/// Stores an address where the program wants it, as much of it as there is room for, and how long it is.
///
/// # Safety
/// `place` is NULL, or `length` is NULL or leads to how many bytes may be written there.
pub(crate) unsafe fn store(value: Option<SocketAddr>, place: *mut sockaddr, length: *mut u32) {
    if place.is_null() || length.is_null() {
        return;
    }
    let mut storage = MaybeUninit::<sockaddr_in6>::zeroed();
    let whole = match value {
        None => 0,
        Some(SocketAddr::V4(v4)) => {
            let address = sockaddr_in {
                sin_family: libc::AF_INET as sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from(*v4.ip()).to_be() },
                sin_zero: [0; 8],
            };
            // SAFETY: an address of IPv6 is longer and needs no less alignment.
            unsafe { storage.as_mut_ptr().cast::<sockaddr_in>().write(address) };
            size_of::<sockaddr_in>()
        }
        Some(SocketAddr::V6(v6)) => {
            storage.write(sockaddr_in6 {
                sin6_family: libc::AF_INET6 as sa_family_t,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                sin6_scope_id: v6.scope_id(),
            });
            size_of::<sockaddr_in6>()
        }
    };
    // SAFETY: the caller says so; the storage is as long as any address.
    unsafe {
        let room = length.read_unaligned() as usize;
        ptr::copy_nonoverlapping(storage.as_ptr().cast::<u8>(), place.cast(), whole.min(room));
        length.write_unaligned(whole as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_it_was_stored_and_cut_where_there_is_no_room() {
        for text in ["127.0.0.1:80", "[::ffff:10.1.2.3]:65535"] {
            let address: SocketAddr = text.parse().unwrap();
            let mut place = MaybeUninit::<sockaddr_in6>::zeroed();
            let (start, mut length) = (place.as_mut_ptr().cast::<sockaddr>(), 28);
            // SAFETY: the place is as long as is said.
            unsafe {
                store(Some(address), start, &raw mut length);
                assert_eq!(read(start, length), Some(address));
                assert_eq!(read(start, length - 1), None);
                let (mut short, whole) = (1, length);
                store(Some(address), start, &raw mut short);
                assert_eq!(short, whole);
            }
        }
    }
}
