//! Socket addresses as the header has them.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use libc::{sa_family_t, sockaddr_in, sockaddr_in6, sockaddr_storage};

/// The same address in C.
pub(super) fn written(address: SocketAddr) -> sockaddr_storage {
    // SAFETY: all zeros is a socket address, of no family.
    let mut storage: sockaddr_storage = unsafe { std::mem::zeroed() };
    let place = &raw mut storage;
    match address {
        SocketAddr::V4(address) => {
            // SAFETY: the storage has room and alignment for an address of any family.
            let place = unsafe { &mut *place.cast::<sockaddr_in>() };
            place.sin_family = libc::AF_INET as sa_family_t;
            place.sin_port = address.port().to_be();
            place.sin_addr.s_addr = u32::from_ne_bytes(address.ip().octets());
        }
        SocketAddr::V6(address) => {
            // SAFETY: as above.
            let place = unsafe { &mut *place.cast::<sockaddr_in6>() };
            place.sin6_family = libc::AF_INET6 as sa_family_t;
            place.sin6_port = address.port().to_be();
            place.sin6_addr.s6_addr = address.ip().octets();
            place.sin6_scope_id = address.scope_id();
        }
    }
    storage
}

/// The address in such a storage, if it is one of IP.
pub(super) fn read(storage: &sockaddr_storage) -> Option<SocketAddr> {
    let place = &raw const *storage;
    match i32::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the storage has room and alignment for an address of any family, and any bytes are one.
            let raw = unsafe { &*place.cast::<sockaddr_in>() };
            let ip = Ipv4Addr::from(raw.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddrV4::new(ip, u16::from_be(raw.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let raw = unsafe { &*place.cast::<sockaddr_in6>() };
            let ip = Ipv6Addr::from(raw.sin6_addr.s6_addr);
            Some(SocketAddrV6::new(ip, u16::from_be(raw.sin6_port), 0, raw.sin6_scope_id).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_the_same_in_c_and_back() {
        for text in ["127.0.0.1:48000", "[::1]:1", "[fe80::1%3]:65535"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(read(&written(address)), Some(address));
        }
        let storage = written("127.0.0.2:258".parse().unwrap());
        // SAFETY: written above.
        let bytes: [u8; 8] = unsafe { (&raw const storage).cast::<[u8; 8]>().read() };
        assert_eq!(bytes[2..], [1, 2, 127, 0, 0, 2]);
        // SAFETY: all zeros is a socket address, of no family.
        assert_eq!(read(&unsafe { std::mem::zeroed() }), None);
    }
}
