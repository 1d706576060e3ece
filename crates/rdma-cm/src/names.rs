//! Names of ports among processes: who holds which, looks at which, and asks at which.
//!
//! A name stands for a port of a space at one address, or at all addresses of a family: `v4`, `v6`, or GIDs. That a wildcard and an address
//! overlap no name says, so each side looks for the other's. As with Linux, families share a port at an address unless one of them stands
//! for all of this host's: that one does not if both are of one family only. Who is not holds the other family's names, too.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use nonic_roce::Naming;
use nonic_wire_connection::{name_of_ports, wildcard_of};

use crate::PortSpace;
use crate::address::own_addresses;

const V4: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
const V6: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);

/// What is to be bound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) space: PortSpace,
    pub(crate) naming: Naming,
    pub(crate) address: SocketAddr,
    /// It stands for addresses of its own family only, wherever it is: as any of IPv4 does.
    pub(crate) one_family: bool,
    pub(crate) reuse: bool,
}

/// The name of a space's ports at an address.
fn name(space: PortSpace, naming: Naming, ip: IpAddr) -> String {
    let space = match space {
        PortSpace::Ipoib => "ipoib",
        PortSpace::Tcp => "tcp",
        PortSpace::Udp => "udp",
        PortSpace::InfiniBand => "ib",
        PortSpace::Scif => "scif",
    };
    name_of_ports(space, naming, ip)
}

/// What is held beside a name at one address by who is not of one family only, for wildcards of others to see.
fn mark(name: &str) -> String {
    format!("{name}+")
}

/// Where who names an address so asks, one after the other.
pub(crate) fn asked(space: PortSpace, naming: Naming, ip: IpAddr) -> [String; 4] {
    let [own, other] = naming.in_order();
    let any = wildcard_of(ip);
    [(own, ip), (own, any), (other, ip), (other, any)].map(|(naming, ip)| name(space, naming, ip))
}

/// The names of a binding.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Names {
    /// At which it listens.
    pub(crate) own: Vec<String>,
    /// Which it has besides, so that nobody else has them.
    pub(crate) beside: Vec<String>,
    /// Which nobody may have when it is bound.
    pub(crate) seen: Vec<String>,
}

impl Wanted {
    pub(crate) fn names(&self) -> Names {
        let (ip, naming) = (self.address.ip(), self.naming);
        let of = |naming, ip| name(self.space, naming, ip);
        if ip.is_unspecified() { self.names_of_all(of) } else { self.names_at(ip, naming, of) }
    }

    fn names_at(&self, ip: IpAddr, naming: Naming, of: impl Fn(Naming, IpAddr) -> String) -> Names {
        let [_, other] = naming.in_order();
        let own = of(naming, ip);
        let mut names = Names { own: vec![own], beside: Vec::new(), seen: vec![of(naming, wildcard_of(ip))] };
        if !self.one_family {
            let shown = if ip.is_loopback() { of(other, ip) } else { mark(&names.own[0]) };
            names.beside.push(shown);
            let wildcards: &[IpAddr] = if other == Naming::Ip { &[V4, V6] } else { &[V6] };
            names.seen.extend(wildcards.iter().map(|any| of(other, *any)));
        }
        names
    }

    fn names_of_all(&self, of: impl Fn(Naming, IpAddr) -> String) -> Names {
        let (ip, naming) = (self.address.ip(), self.naming);
        let [_, other] = naming.in_order();
        let families = match (naming, ip) {
            (Naming::Ip, IpAddr::V4(_)) => vec![V4],
            (Naming::Ip, IpAddr::V6(_)) if self.one_family => vec![V6],
            // GIDs are of both.
            _ => vec![V6, V4],
        };
        let mut own: Vec<_> = families.iter().map(|ip| of(naming, *ip)).collect();
        own.dedup();
        let beside = match (self.one_family, naming) {
            (true, _) => Vec::new(),
            (false, Naming::Ip) => vec![of(Naming::Gid, V6)],
            (false, Naming::Gid) => vec![of(Naming::Ip, V4), of(Naming::Ip, V6)],
        };
        let all = own_addresses(|_| true);
        let same = all.iter().filter(|ip| families.iter().any(|any| any.is_ipv4() == ip.is_ipv4()));
        let others = all.iter().map(|ip| of(other, *ip));
        let others = others.map(|name| if self.one_family { mark(&name) } else { name });
        let seen = same.map(|ip| of(naming, *ip)).chain(others).collect();
        Names { own, beside, seen }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(naming: Naming, address: &str, one_family: bool) -> Names {
        let address = SocketAddr::new(address.parse().unwrap(), 7);
        Wanted { space: PortSpace::Tcp, naming, address, one_family, reuse: false }.names()
    }

    #[test]
    fn a_port_at_one_address_has_its_familys_name_and_looks_at_wildcards() {
        let four = names(Naming::Ip, "10.0.0.1", true);
        assert_eq!((four.own, four.beside), (vec!["rdma-tcp.10.0.0.1".into()], Vec::<String>::new()));
        assert_eq!(four.seen, ["rdma-tcp.v4"]);
        let gid = names(Naming::Gid, "10.0.0.1", false);
        assert_eq!(
            (gid.own, gid.beside),
            (vec!["rdma-tcp.gid.10.0.0.1".into()], vec!["rdma-tcp.gid.10.0.0.1+".into()])
        );
        assert_eq!(gid.seen, ["rdma-tcp.gid", "rdma-tcp.v4", "rdma-tcp.v6"]);
        let only = names(Naming::Gid, "10.0.0.1", true);
        assert_eq!((only.beside.len(), only.seen), (0, vec!["rdma-tcp.gid".into()]));
    }

    #[test]
    fn who_stands_for_all_addresses_has_the_other_familys_names_unless_it_is_of_one() {
        for (naming, address, beside) in [
            (Naming::Ip, "::", &["rdma-tcp.gid"][..]),
            (Naming::Ip, "::1", &["rdma-tcp.gid.::1"]),
            (Naming::Gid, "::", &["rdma-tcp.v4", "rdma-tcp.v6"]),
            (Naming::Gid, "127.0.0.1", &["rdma-tcp.127.0.0.1"]),
        ] {
            assert_eq!(names(naming, address, false).beside, beside, "{address}");
            assert!(names(naming, address, true).beside.is_empty(), "{address}");
        }
        assert_eq!(names(Naming::Ip, "::", false).own, ["rdma-tcp.v6", "rdma-tcp.v4"]);
        assert_eq!(names(Naming::Gid, "::", true).own, ["rdma-tcp.gid"]);
        // What it looks at is every address, of the other family only those that are not of one, if it is.
        let all = names(Naming::Gid, "::", false).seen;
        assert!(["rdma-tcp.gid.127.0.0.1", "rdma-tcp.::1"].iter().all(|name| all.contains(&(*name).into())));
        let only = names(Naming::Ip, "0.0.0.0", true).seen;
        assert!(
            ["rdma-tcp.127.0.0.1", "rdma-tcp.gid.::1+"].iter().all(|name| only.contains(&(*name).into()))
        );
        assert!(!only.iter().any(|name| name == "rdma-tcp.::1" || name == "rdma-tcp.gid.127.0.0.1"));
    }

    #[test]
    fn who_asks_looks_for_a_listener_of_its_own_family_first() {
        let ip: IpAddr = "10.0.0.1".parse().unwrap();
        let [ours, any, theirs, all] =
            ["rdma-udp.10.0.0.1", "rdma-udp.v4", "rdma-udp.gid.10.0.0.1", "rdma-udp.gid"];
        assert_eq!(asked(PortSpace::Udp, Naming::Ip, ip), [ours, any, theirs, all]);
        assert_eq!(asked(PortSpace::Udp, Naming::Gid, ip), [theirs, all, ours, any]);
    }
}
