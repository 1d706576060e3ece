//! The way to another network namespace of this host that is met in a folder: through memory, though by addresses.

use std::net::{IpAddr, SocketAddr};

use nonic_device::{AddressVector, Context, GlobalRoute};
use nonic_meeting::Namespace;
use nonic_sys::interface_addresses;

use crate::services::wildcard_of;
use crate::way::{host_address, index_of, route_from};

/// Packets within a host have no length of their own: `IBV_MTU_4096`.
const PATH_MTU: u8 = 5;
/// And pass no router.
const HOP_LIMIT: u8 = 1;

/// The way from an address of this namespace to one of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetWay {
    /// The other namespace.
    pub namespace: Namespace,
    /// Of this side's address in the GID table.
    pub index: u32,
    /// This side's address.
    pub source: IpAddr,
    /// The other's.
    pub destination: IpAddr,
}

impl MetWay {
    /// Whether an address is another namespace's that is met.
    pub fn leads_to(address: IpAddr) -> bool {
        namespace_of(address).is_some()
    }

    /// The way between two addresses, if the second is another namespace's that is met, and the first one of the device's.
    pub fn between(context: &Context, source: IpAddr, destination: IpAddr) -> Option<Self> {
        let namespace = namespace_of(destination)?;
        Some(Self { namespace, index: index_of(context, host_address(source))?, source, destination })
    }

    /// The same from whichever address is the nearest: by the kernel's routes, or any that others may know.
    pub fn to(context: &Context, destination: SocketAddr) -> Option<Self> {
        let namespace = namespace_of(destination.ip())?;
        let source = near(destination)?;
        let index = index_of(context, host_address(source))?;
        Some(Self { namespace, index, source, destination: destination.ip() })
    }

    /// Path MTU, as `enum ibv_mtu`.
    pub fn path_mtu(&self) -> u8 {
        PATH_MTU
    }

    /// Hop limit.
    pub fn hop_limit(&self) -> u8 {
        HOP_LIMIT
    }

    /// What queue pairs are told of it.
    pub fn vector(&self) -> AddressVector {
        AddressVector::along(GlobalRoute {
            destination: host_address(self.destination).gid(),
            source_index: self.index as u8,
            flow_label: 0,
            hop_limit: HOP_LIMIT,
            traffic_class: 0,
        })
    }
}

/// The namespace, other than this one, that an address is met in. Looks into the folder, if there is one.
fn namespace_of(address: IpAddr) -> Option<Namespace> {
    nonic_meeting::place()?.namespace_now(&host_address(address).gid())
}

/// The address from which another namespace's is reached.
pub fn near(destination: SocketAddr) -> Option<IpAddr> {
    let ip = destination.ip();
    if let Ok(own) = route_from(wildcard_of(ip), destination)
        && !own.is_loopback()
    {
        return Some(own);
    }
    let mut own = interface_addresses().into_iter().filter(|found| !found.loopback);
    own.find(|found| found.address.is_ipv4() == ip.is_ipv4()).map(|found| found.address)
}
