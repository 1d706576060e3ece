//! How services that other hosts ask for are called among the processes of this host ([`nonic_connection::service_user`]).
//!
//! All processes of a user hear every request, and whoever heard it first has to know whether another one answers.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use nonic_roce::PortSpace;

/// The space of services by number: uDAPL's connection qualifiers.
pub const NUMBERS: &str = "dat";

/// The space in which the ports of an address are called; of a wildcard those of all addresses of its family. `space` is the
/// short name of the port space: `tcp`, `udp`, `ib`, `ipoib`, `scif`.
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

/// The user of this host who offers a service at an address; `None` if nobody does now. An error if that is not to be known: so many ask
/// there that no more can, or this process has no descriptor left.
pub fn offering_user(service_id: u64, at: IpAddr) -> io::Result<Option<u32>> {
    if !PortSpace::is_port(service_id) {
        return nonic_connection::service_user(NUMBERS, service_id);
    }
    let space = match PortSpace::of_service(service_id) {
        Some(PortSpace::Tcp) => "tcp",
        Some(PortSpace::Udp) => "udp",
        Some(PortSpace::Ib) => "ib",
        Some(PortSpace::Scif) => "scif",
        None => return Ok(None),
    };
    let port = service_id & 0xffff;
    let user = |ip| nonic_connection::service_user(&name_of_ports(space, ip), port);
    match user(at)? {
        None => user(wildcard_of(at)),
        found => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use nonic_connection::{Request, ServiceSink, listen};
    use nonic_sys::{effective_user, random_u64};

    use super::*;

    /// Nobody keeps these services busy.
    fn offering_user(service_id: u64, at: IpAddr) -> Option<u32> {
        super::offering_user(service_id, at).unwrap()
    }

    struct Deaf;

    impl ServiceSink for Deaf {
        fn request(&self, _: Request) {}
    }

    #[test]
    fn a_service_by_number_is_found_at_every_address_and_a_port_at_its_own_or_all_of_its_family() {
        let [here, other] = ["10.0.0.1", "10.0.0.2"].map(|ip| ip.parse::<IpAddr>().unwrap());
        let six: IpAddr = "fd00::1".parse().unwrap();
        let own = Some(effective_user());
        let number = random_u64() | 1 << 63;
        assert_eq!(offering_user(number, here), None);
        let listener = listen(NUMBERS, number, Arc::new(Deaf)).unwrap();
        assert_eq!([here, other, six].map(|ip| offering_user(number, ip)), [own; 3]);
        drop(listener);
        assert_eq!(offering_user(number, here), None);

        // InfiniBand's own ports: nobody else here listens at one of them.
        let port = random_u64() as u16;
        let service_id = PortSpace::Ib.service_id(port);
        let listener = listen(&name_of_ports("ib", here), port.into(), Arc::new(Deaf)).unwrap();
        assert_eq!([here, other, six].map(|ip| offering_user(service_id, ip)), [own, None, None]);
        assert_eq!(offering_user(PortSpace::Udp.service_id(port), here), None);
        drop(listener);
        let any = wildcard_of(here);
        let _listener = listen(&name_of_ports("ib", any), port.into(), Arc::new(Deaf)).unwrap();
        assert_eq!([here, other, six].map(|ip| offering_user(service_id, ip)), [own, own, None]);
        // And SCIF's.
        let scif = listen(&name_of_ports("scif", here), port.into(), Arc::new(Deaf)).unwrap();
        let service_id = PortSpace::Scif.service_id(port);
        assert_eq!([here, other].map(|ip| offering_user(service_id, ip)), [own, None]);
        drop(scif);
        // Of a space that is not here.
        assert_eq!(offering_user(0x100_0000 | u64::from(port), here), None);
    }
}
