//! `struct sockaddr`.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use libc::{sockaddr, sockaddr_in, sockaddr_in6, sockaddr_storage};
use nonic_rdma_cm::{GidAddress, Id, Named};
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

/// The same, also of the family `AF_IB`. What such a one says of a partition has no effect, as there is one.
///
/// # Safety
/// As for [`read`].
pub(crate) unsafe fn read_any(address: *const sockaddr) -> Result<Named, Errno> {
    // SAFETY: the caller says so.
    unsafe {
        let is_gid =
            !address.is_null() && i32::from((&raw const (*address).sa_family).read_unaligned()) == AF_IB;
        if !is_gid {
            return Ok(Named::Ip(read(address)?));
        }
        let inner = address.cast::<sockaddr_ib>().read_unaligned();
        Ok(Named::Gid(GidAddress {
            gid: inner.sib_addr,
            service: u64::from_be(inner.sib_sid),
            mask: u64::from_be(inner.sib_sid_mask),
        }))
    }
}

/// Both addresses of an identifier as programs read them, its own first: by GIDs if that is how it names them.
pub(crate) fn both(engine: &Id) -> [sockaddr_storage; 2] {
    let addresses = [engine.source(), engine.destination()];
    if !engine.is_by_gid() {
        return addresses.map(storage);
    }
    let [own, peers] = engine.services();
    let [source, destination] = addresses;
    let shown =
        |address: Option<_>, service| address.map_or_else(|| storage(None), |of| storage_by_gid(of, service));
    [shown(source, own), shown(destination, peers)]
}

/// The address, with the number of its service, as one of the family `AF_IB`. Of no service no bit counts.
pub(crate) fn storage_by_gid(address: SocketAddr, service: u64) -> sockaddr_storage {
    let mut storage = storage(None);
    let scope = match address {
        SocketAddr::V6(six) => six.scope_id(),
        SocketAddr::V4(_) => 0,
    };
    let named = sockaddr_ib {
        sib_family: AF_IB as u16,
        sib_pkey: PARTITION,
        sib_flowinfo: 0,
        sib_addr: nonic_rdma_cm::gid_of_address(address.ip()),
        sib_sid: service.to_be(),
        sib_sid_mask: if service == 0 { 0 } else { u64::MAX },
        sib_scope_id: scope.into(),
    };
    // SAFETY: a storage has room for, and the alignment of, an address of any family.
    unsafe { (&raw mut storage).cast::<sockaddr_ib>().write(named) };
    storage
}

/// The one partition.
const PARTITION: u16 = 0xffff;

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
    fn a_gid_is_read_with_its_service_and_shown_as_it_was() {
        let address: SocketAddr = "10.0.0.1:7174".parse().expect("it is one");
        let storage = storage_by_gid(address, 0x0106_1c06);
        let place = (&raw const storage).cast();
        // SAFETY: the storage is larger than any address.
        unsafe {
            let gid = gid(address.ip());
            let named = Named::Gid(GidAddress { gid, service: 0x0106_1c06, mask: u64::MAX });
            assert_eq!(read_any(place), Ok(named));
            assert_eq!(named.peers(), address);
            // Calls that know nothing of GIDs.
            assert_eq!(read(place), Err(Errno::EINVAL));
        }
        assert_eq!(u16::from_be(port(&storage)), 7174);
        let none = storage_by_gid(address, 0);
        // SAFETY: as above.
        let read = unsafe { read_any((&raw const none).cast()) };
        assert!(matches!(read, Ok(Named::Gid(GidAddress { service: 0, mask: 0, .. }))));
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
