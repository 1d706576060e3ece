//! Addresses of the family `AF_IB`: GIDs. That of an interface's address is the address itself; the port's own leads to this host.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

use nonic_device::GidEntry;

use crate::id::device_context;

/// An address as the family `AF_IB` names it (`struct sockaddr_ib`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GidAddress {
    /// Where.
    pub gid: [u8; 16],
    /// The number of a service.
    pub service: u64,
    /// Which of its bits count, of an identifier's own address.
    pub mask: u64,
}

/// An address as a program names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// By IP.
    Ip(SocketAddr),
    /// By a GID.
    Gid(GidAddress),
}

impl Named {
    /// Whether it is of the family `AF_IB`.
    pub fn is_by_gid(self) -> bool {
        matches!(self, Self::Gid(_))
    }

    /// An identifier's own address, of which only the bits of the mask count.
    pub(crate) fn own(self) -> SocketAddr {
        match self {
            Self::Ip(address) => address,
            Self::Gid(named) => address_of_gid(named.gid, (named.service & named.mask) as u16),
        }
    }

    /// A peer's.
    pub fn peers(self) -> SocketAddr {
        match self {
            Self::Ip(address) => address,
            Self::Gid(named) => address_of_gid(named.gid, named.service as u16),
        }
    }
}

/// The address that a GID stands for. Of a link-local one the device's table says on which interface it is.
pub fn address_of_gid(gid: [u8; 16], port: u16) -> SocketAddr {
    address_in(&gid_table(), gid, port)
}

/// The GID that stands for an address.
pub fn gid_of_address(ip: IpAddr) -> [u8; 16] {
    gid_in(&gid_table(), ip)
}

/// The device's; empty if there is none.
fn gid_table() -> Vec<GidEntry> {
    device_context().map(|context| context.gid_table().into_owned()).unwrap_or_default()
}

fn address_in(table: &[GidEntry], gid: [u8; 16], port: u16) -> SocketAddr {
    let ip = Ipv6Addr::from(gid);
    match (ip.to_canonical(), table.iter().find(|entry| entry.gid == gid)) {
        (_, Some(entry)) if entry.interface_index == 0 => (Ipv6Addr::LOCALHOST, port).into(),
        (IpAddr::V6(ip), Some(entry)) if ip.is_unicast_link_local() => {
            SocketAddrV6::new(ip, port, 0, entry.interface_index).into()
        }
        (ip, _) => (ip, port).into(),
    }
}

fn gid_in(table: &[GidEntry], ip: IpAddr) -> [u8; 16] {
    let own = || table.iter().find(|entry| entry.interface_index == 0).map(|entry| entry.gid);
    match ip.to_canonical() {
        IpAddr::V6(ip) if ip.is_loopback() => own().unwrap_or(ip.octets()),
        IpAddr::V6(ip) => ip.octets(),
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
    }
}

#[cfg(test)]
mod tests {
    use nonic_device::GidKind;

    use super::*;

    #[test]
    fn a_gid_leads_to_an_address_and_back() {
        let entry = |index, text: &str, interface_index| {
            let gid = text.parse::<Ipv6Addr>().unwrap().octets();
            GidEntry { index, gid, kind: GidKind::InfiniBand, interface_index }
        };
        let table = [entry(0, "fe80::5:6", 0), entry(1, "fe80::7", 3), entry(2, "::ffff:10.0.0.1", 3)];
        for (gid, address) in [
            ("fe80::5:6", "[::1]:9"),
            ("fe80::7", "[fe80::7%3]:9"),
            ("::ffff:10.0.0.1", "10.0.0.1:9"),
            ("::ffff:127.0.0.1", "127.0.0.1:9"),
            ("2001:db8::1", "[2001:db8::1]:9"),
            ("::", "[::]:9"),
        ] {
            let bytes = gid.parse::<Ipv6Addr>().unwrap().octets();
            let found = address_in(&table, bytes, 9);
            assert_eq!(found, address.parse().unwrap(), "{gid}");
            assert_eq!(gid_in(&table, found.ip()), bytes, "{gid}");
        }
        // Loopback is the host, and so is the port's own GID.
        assert_eq!(address_in(&table, Ipv6Addr::LOCALHOST.octets(), 9), "[::1]:9".parse().unwrap());
    }
}
