//! How services that other hosts ask for are called among the processes of this host ([`nonic_connection::service_user`]).
//!
//! All processes of a user hear every request, and whoever heard it first has to know whether another one answers.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use nonic_roce::{Naming, PortSpace};

/// The space of services by number: uDAPL's connection qualifiers.
pub const NUMBERS: &str = "dat";

/// The space in which the ports of an address are called; of a wildcard those of all addresses of its family. `space` is the
/// short name of the port space: `tcp`, `udp`, `ib`, `ipoib`, `scif`. GIDs are a family of their own, whatever addresses they are.
pub fn name_of_ports(space: &str, naming: Naming, ip: IpAddr) -> String {
    match (naming, ip) {
        (Naming::Ip, IpAddr::V4(ip)) if ip.is_unspecified() => format!("rdma-{space}.v4"),
        (Naming::Ip, IpAddr::V6(ip)) if ip.is_unspecified() => format!("rdma-{space}.v6"),
        (Naming::Ip, ip) => format!("rdma-{space}.{ip}"),
        (Naming::Gid, ip) if ip.is_unspecified() => format!("rdma-{space}.gid"),
        (Naming::Gid, ip) => format!("rdma-{space}.gid.{ip}"),
    }
}

/// The wildcard of an address's family.
pub fn wildcard_of(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// The user of this host who offers a service at an address to who has named it so; `None` if nobody does now. An error if that is not to be
/// known: so many ask there that no more can, or this process has no descriptor left.
pub fn offering_user(service_id: u64, naming: Naming, at: IpAddr) -> io::Result<Option<u32>> {
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
    let user = |ip| nonic_connection::service_user(&name_of_ports(space, naming, ip), port);
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
        super::offering_user(service_id, Naming::Ip, at).unwrap()
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
        let listener = listen(&name_of_ports("ib", Naming::Ip, here), port.into(), Arc::new(Deaf)).unwrap();
        assert_eq!([here, other, six].map(|ip| offering_user(service_id, ip)), [own, None, None]);
        assert_eq!(offering_user(PortSpace::Udp.service_id(port), here), None);
        drop(listener);
        let any = wildcard_of(here);
        let _listener = listen(&name_of_ports("ib", Naming::Ip, any), port.into(), Arc::new(Deaf)).unwrap();
        assert_eq!([here, other, six].map(|ip| offering_user(service_id, ip)), [own, own, None]);
        // And SCIF's.
        let scif = listen(&name_of_ports("scif", Naming::Ip, here), port.into(), Arc::new(Deaf)).unwrap();
        let service_id = PortSpace::Scif.service_id(port);
        assert_eq!([here, other].map(|ip| offering_user(service_id, ip)), [own, None]);
        drop(scif);
        // Of a space that is not here.
        assert_eq!(offering_user(0x100_0000 | u64::from(port), here), None);
    }

    #[test]
    fn who_offers_a_port_by_gids_offers_it_to_nobody_who_names_an_address_and_the_reverse() {
        let [four, six] = ["10.0.0.1", "fd00::1"].map(|ip| ip.parse::<IpAddr>().unwrap());
        let port = random_u64() as u16;
        let service_id = PortSpace::Ib.service_id(port);
        let users = |at| {
            [Naming::Ip, Naming::Gid].map(|naming| super::offering_user(service_id, naming, at).unwrap())
        };
        let own = Some(effective_user());
        let offered =
            |naming, at| listen(&name_of_ports("ib", naming, at), port.into(), Arc::new(Deaf)).unwrap();
        let by_gid = offered(Naming::Gid, four);
        assert_eq!((users(four), users(six)), ([None, own], [None; 2]));
        let by_address = offered(Naming::Ip, four);
        assert_eq!(users(four), [own; 2]);
        drop(by_gid);
        assert_eq!(users(four), [own, None]);
        drop(by_address);
        // A wildcard of GIDs is all of them.
        let _all = offered(Naming::Gid, wildcard_of(four));
        assert_eq!([four, six].map(users), [[None, own]; 2]);
    }
}
