//! How services that other hosts ask for are called among the processes of this host ([`nonic_connection::service_user`]).
//!
//! All processes of a user hear every request, and whoever heard it first has to know whether another one answers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use nonic_roce::PortSpace;

/// The space of services by number: uDAPL's connection qualifiers.
pub const NUMBERS: &str = "dat";

/// The space in which the ports of an address are called; of a wildcard those of all addresses of its family. `space` is the
/// short name of the port space: `tcp`, `udp`, `ib`, `ipoib`.
pub fn name_of_ports(space: &str, ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) if ip.is_unspecified() => format!("rdma-{space}.v4"),
        IpAddr::V6(ip) if ip.is_unspecified() => format!("rdma-{space}.v6"),
        ip => format!("rdma-{space}.{ip}"),
    }
}

/// The wildcard of an address's family.
pub fn wildcard_of(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// The user of this host who offers a service at an address; `None` if nobody does now.
pub fn offering_user(service_id: u64, at: IpAddr) -> Option<u32> {
    if !PortSpace::is_port(service_id) {
        return nonic_connection::service_user(NUMBERS, service_id);
    }
    let space = match PortSpace::of_service(service_id)? {
        PortSpace::Tcp => "tcp",
        PortSpace::Udp => "udp",
        PortSpace::Ib => "ib",
    };
    let port = service_id & 0xffff;
    let user = |ip| nonic_connection::service_user(&name_of_ports(space, ip), port);
    user(at).or_else(|| user(wildcard_of(at)))
}
