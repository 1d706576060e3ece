//! The way to another host.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};

use nonic_device::{AddressVector, Context, GlobalRoute, ManagementError};
use nonic_roce::{Ends, HostAddress};

use crate::services::wildcard_of;
use crate::wire::Wire;

/// Hop limit of what goes by the wire.
pub(crate) const HOP_LIMIT: u8 = 64;

/// The way from an address of this host to one of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// Of this side's address in the GID table.
    pub index: u32,
    /// Both addresses.
    pub ends: Ends,
    /// Path MTU, as `enum ibv_mtu`.
    pub path_mtu: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// When packets are sent again that nobody acknowledges: 4.096 us · 2^this.
    pub ack_timeout: u8,
}

/// Why there is no way to an address.
#[derive(Debug, thiserror::Error)]
pub enum NoWay {
    /// The kernel has none.
    #[error("the kernel knows no way there: {0}")]
    NoRoute(#[from] io::Error),
    /// The device does not have the address that it begins at.
    #[error("{0} is not in the device's GID table")]
    NotInTable(IpAddr),
    /// It is not open.
    #[error("{0}")]
    NotOpen(#[from] ManagementError),
    /// Its packets are too short.
    #[error("the way carries no packet of RoCEv2")]
    NoPacket,
}

/// An address as packets have it.
pub fn host_address(ip: IpAddr) -> HostAddress {
    match ip.to_canonical() {
        IpAddr::V4(four) => HostAddress::V4(four.octets()),
        IpAddr::V6(six) => HostAddress::V6(six.octets()),
    }
}

/// An address of packets as programs have it.
pub fn ip_address(address: HostAddress) -> IpAddr {
    match address {
        HostAddress::V4(bytes) => bytes.into(),
        HostAddress::V6(bytes) => bytes.into(),
    }
}

/// The index of an address of an interface in the GID table.
pub fn index_of(context: &Context, address: HostAddress) -> Option<u32> {
    let gid = address.gid();
    let table = context.gid_table();
    let found = table.iter().find(|entry| entry.gid == gid && entry.interface_index != 0);
    found.map(|entry| entry.index)
}

/// Who counts as one where places are shared out: an address of IPv4, a network of IPv6.
pub fn number_of_host(ends: Ends) -> u32 {
    let gid = Ipv6Addr::from(ends.remote.gid());
    match gid.to_ipv4_mapped() {
        Some(four) => four.into(),
        None => {
            let network = (u128::from(gid) >> 64) as u64;
            (network ^ network >> 32) as u32
        }
    }
}

/// Asks the kernel from which address a destination is reached, if from that one, or from any; nothing is sent.
pub fn route_from(from: IpAddr, destination: SocketAddr) -> io::Result<IpAddr> {
    let scope = match destination {
        SocketAddr::V6(six) if matches!(from, IpAddr::V6(own) if own.is_unicast_link_local()) => {
            six.scope_id()
        }
        _ => 0,
    };
    let source = match from {
        IpAddr::V4(_) => SocketAddr::new(from, 0),
        IpAddr::V6(own) => SocketAddrV6::new(own, 0, 0, scope).into(),
    };
    let socket = UdpSocket::bind(source)?;
    let mut to = destination;
    to.set_port(destination.port().max(1));
    socket.connect(to)?;
    Ok(socket.local_addr()?.ip())
}

impl Wire {
    /// The way to an address of another host, from `given` if that says where from. The address that it begins at is listened at
    /// from now on. Whether the other host is there, nobody is asked.
    pub fn find_way(
        &self,
        given: Option<IpAddr>,
        destination: SocketAddr,
        traffic_class: u8,
    ) -> Result<Way, NoWay> {
        let source = route_from(given.unwrap_or(wildcard_of(destination.ip())), destination)?;
        let (local, remote) = (host_address(source), host_address(destination.ip()));
        let index = index_of(self.context(), local).or_else(|| {
            // It may have come since the device was opened.
            self.context().look_for_addresses();
            index_of(self.context(), local)
        });
        let index = index.ok_or(NoWay::NotInTable(source))?;
        let path_mtu = self.path_mtu(index, remote)?.ok_or(NoWay::NoPacket)?;
        let ends = Ends { local, remote };
        Ok(Way { index, ends, path_mtu, traffic_class, ack_timeout: self.ack_timeout() })
    }
}

impl Way {
    /// Hop limit.
    pub fn hop_limit(&self) -> u8 {
        HOP_LIMIT
    }

    /// What queue pairs are told of it.
    pub fn vector(&self) -> AddressVector {
        AddressVector::along(GlobalRoute {
            destination: self.ends.remote.gid(),
            source_index: self.index as u8,
            flow_label: 0,
            hop_limit: HOP_LIMIT,
            traffic_class: self.traffic_class,
        })
    }
}
