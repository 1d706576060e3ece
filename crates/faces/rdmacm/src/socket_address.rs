//! `struct sockaddr`.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use libc::{sockaddr, sockaddr_in, sockaddr_in6, sockaddr_storage};
use nonic_verbs::errno::Errno;

use crate::abi::{AF_IB, sockaddr_ib};

/// The address that a program gives: `EINVAL` for none, and for a family that there is nothing to do with.
///
/// # Safety
/// `address` is NULL or leads to as many bytes as its family has.
pub(crate) unsafe fn read(address: *const sockaddr) -> Result<SocketAddr, Errno> {
    // SAFETY: the caller says so; a program's address may stand at any place.
    unsafe {
        if address.is_null() {
            return Err(Errno::EINVAL);
        }
        match i32::from((&raw const (*address).sa_family).read_unaligned()) {
            libc::AF_INET => {
                let inner = address.cast::<sockaddr_in>().read_unaligned();
                let host = Ipv4Addr::from(u32::from_be(inner.sin_addr.s_addr));
                Ok(SocketAddrV4::new(host, u16::from_be(inner.sin_port)).into())
            }
            libc::AF_INET6 => {
                let inner = address.cast::<sockaddr_in6>().read_unaligned();
                let host = Ipv6Addr::from(inner.sin6_addr.s6_addr);
                let port = u16::from_be(inner.sin6_port);
                Ok(SocketAddrV6::new(host, port, inner.sin6_flowinfo, inner.sin6_scope_id).into())
            }
            _ => Err(Errno::EINVAL),
        }
    }
}

/// The address as programs read it; all zeros if there is none.
pub(crate) fn storage(address: Option<SocketAddr>) -> sockaddr_storage {
    // SAFETY: the structure is made of numbers, for which zeros are values.
    let mut storage: sockaddr_storage = unsafe { core::mem::zeroed() };
    let place = &raw mut storage;
    // SAFETY: a storage has room for, and the alignment of, an address of any family.
    unsafe {
        match address {
            None => {}
            Some(SocketAddr::V4(address)) => {
                let inner = &mut *place.cast::<sockaddr_in>();
                inner.sin_family = libc::AF_INET as u16;
                inner.sin_port = address.port().to_be();
                inner.sin_addr.s_addr = u32::from(*address.ip()).to_be();
            }
            Some(SocketAddr::V6(address)) => {
                let inner = &mut *place.cast::<sockaddr_in6>();
                inner.sin6_family = libc::AF_INET6 as u16;
                inner.sin6_port = address.port().to_be();
                inner.sin6_flowinfo = address.flowinfo();
                inner.sin6_addr.s6_addr = address.ip().octets();
                inner.sin6_scope_id = address.scope_id();
            }
        }
    }
    storage
}

/// The port of an address as it stands there, in network order; 0 for a family without.
pub(crate) fn port(storage: &sockaddr_storage) -> u16 {
    let place = &raw const *storage;
    // SAFETY: a storage is large enough for each of them, and any bytes are values of theirs.
    unsafe {
        match i32::from(storage.ss_family) {
            libc::AF_INET => (*place.cast::<sockaddr_in>()).sin_port,
            libc::AF_INET6 => (*place.cast::<sockaddr_in6>()).sin6_port,
            AF_IB => (u64::from_be((*place.cast::<sockaddr_ib>()).sib_sid) as u16).to_be(),
            _ => 0,
        }
    }
}

/// The GID that stands for an address.
pub(crate) fn gid(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_survives_the_way_there_and_back_and_shows_its_port() {
        for text in ["127.0.0.1:7174", "[::1]:7174", "[fe80::1%3]:9"] {
            let address: SocketAddr = text.parse().expect("it is one");
            let storage = storage(Some(address));
            // SAFETY: the storage is larger than any address.
            assert_eq!(unsafe { read((&raw const storage).cast()) }, Ok(address));
            assert_eq!(u16::from_be(port(&storage)), address.port());
        }
    }

    #[test]
    fn no_address_and_an_unknown_family_are_refused() {
        let none = storage(None);
        // SAFETY: the storage is larger than any address.
        unsafe {
            assert_eq!(read(core::ptr::null()), Err(Errno::EINVAL));
            assert_eq!(read((&raw const none).cast()), Err(Errno::EINVAL));
        }
        assert_eq!(port(&none), 0);
    }
}
