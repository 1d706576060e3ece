//! Where a peer is that is on another host, or in another network namespace.

use std::net::IpAddr;

use nonic_protocol::AddressVector;
use nonic_roce::HostAddress;
use nonic_wire::{Location, Route};

use crate::gid_table::GidEntry;
use crate::port::Port;

/// Where packets from a GID come from; `None` if it is no address of an interface.
pub(crate) fn location_of(entry: &GidEntry) -> Option<Location> {
    let location = Location { address: HostAddress::of_gid(entry.gid), interface: entry.interface_index };
    (entry.interface_index != 0).then_some(location)
}

/// Whether an address can be reached from there as far as versions of IP are concerned.
pub(crate) fn is_of_family(from: &Location, to: HostAddress) -> bool {
    matches!(
        (from.address, to),
        (HostAddress::V4(_), HostAddress::V4(_)) | (HostAddress::V6(_), HostAddress::V6(_))
    )
}

/// Whether nobody outside is reached from there.
pub(crate) fn is_loopback(location: &Location) -> bool {
    ip_address(location.address).is_loopback()
}

/// An address, for people.
pub(crate) fn ip_address(address: HostAddress) -> IpAddr {
    match address {
        HostAddress::V4(bytes) => bytes.into(),
        HostAddress::V6(bytes) => bytes.into(),
    }
}

/// From which address of this host, and to which other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WireAddress {
    pub(crate) from: Location,
    pub(crate) route: Route,
}

impl WireAddress {
    /// The other host, for people.
    pub(crate) fn to(&self) -> IpAddr {
        ip_address(self.route.to)
    }

    /// Where `vector` leads from `port`, if that is an address of IP of another host: `None` if it leads to this one, or by LID, or
    /// from a GID that is no address.
    pub(crate) fn of(port: &Port, vector: &AddressVector) -> Option<Self> {
        // Of a path that says nothing of its length what any needs.
        Self::on_the_way(port, vector, 64).filter(|address| !address.route.to.is_group())
    }

    /// The same if that is a group's address: who has joined it on the network of `from` is reached. A path that says nothing of its length
    /// ends there.
    pub(crate) fn of_group(port: &Port, vector: &AddressVector) -> Option<Self> {
        Self::on_the_way(port, vector, 1)
            .filter(|address| address.route.to.is_group() && !is_loopback(&address.from))
    }

    fn on_the_way(port: &Port, vector: &AddressVector, least_hops: u8) -> Option<Self> {
        let global = vector.global.as_ref()?;
        if port.is_of_host(vector) || port.meets(vector).is_some() {
            return None;
        }
        let to = HostAddress::of_gid(global.destination);
        let from = location_of(&port.gid_entry(global.source_index.into())?)?;
        if !is_of_family(&from, to) {
            return None;
        }
        let hop_limit = if global.hop_limit == 0 { least_hops } else { global.hop_limit };
        Some(Self { from, route: Route { to, traffic_class: global.traffic_class, hop_limit } })
    }
}
