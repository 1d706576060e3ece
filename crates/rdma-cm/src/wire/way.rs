//! The way to another host.

use std::net::IpAddr;

use nonic_device::{AddressVector, Context, GlobalRoute};
use nonic_roce::{Ends, HostAddress};

use super::WireRoute;

/// Hop limit of what goes by the wire.
pub(super) const HOP_LIMIT: u8 = 64;

/// The way from an address of this host to one of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    /// Of this side's address in the GID table.
    pub(crate) index: u32,
    /// Both addresses.
    pub(crate) ends: Ends,
    /// Path MTU, as `enum ibv_mtu`.
    pub(crate) path_mtu: u8,
    /// Traffic class.
    pub(crate) traffic_class: u8,
    /// When packets are sent again that nobody acknowledges: 4.096 us · 2^this.
    pub(crate) ack_timeout: u8,
}

pub(crate) fn host_address(ip: IpAddr) -> HostAddress {
    match ip.to_canonical() {
        IpAddr::V4(four) => HostAddress::V4(four.octets()),
        IpAddr::V6(six) => HostAddress::V6(six.octets()),
    }
}

pub(crate) fn ip_address(address: HostAddress) -> IpAddr {
    match address {
        HostAddress::V4(bytes) => bytes.into(),
        HostAddress::V6(bytes) => bytes.into(),
    }
}

/// The index of an address of an interface in the GID table.
pub(crate) fn index_of(context: &Context, address: HostAddress) -> Option<u32> {
    let gid = address.gid();
    let table = context.gid_table();
    let found = table.iter().find(|entry| entry.gid == gid && entry.interface_index != 0);
    found.map(|entry| entry.index)
}

impl Way {
    /// What queue pairs are told of it.
    pub(crate) fn vector(&self) -> AddressVector {
        AddressVector {
            destination_lid: 0,
            service_level: 0,
            source_path_bits: 0,
            static_rate: 0,
            port: 1,
            global: Some(GlobalRoute {
                destination: self.ends.remote.gid(),
                source_index: self.index as u8,
                flow_label: 0,
                hop_limit: HOP_LIMIT,
                traffic_class: self.traffic_class,
            }),
        }
    }

    /// What programs read of it.
    pub(crate) fn route(&self) -> WireRoute {
        WireRoute {
            source: self.ends.local.gid(),
            destination: self.ends.remote.gid(),
            path_mtu: self.path_mtu,
            traffic_class: self.traffic_class,
            hop_limit: HOP_LIMIT,
        }
    }
}
