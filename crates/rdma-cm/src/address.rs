//! Addresses of this host.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use nonic_sys::{interface_addresses, is_own_address};
use nonic_wire_connection::{route_from, wildcard_of};

use crate::Error;

/// An IPv4 address that stands as an IPv6 one is the IPv4 one.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V6(six) => match six.ip().to_ipv4_mapped() {
            Some(four) => SocketAddr::new(four.into(), six.port()),
            None => address,
        },
        SocketAddr::V4(_) => address,
    }
}

/// Checks that an address is this host's, or a wildcard.
pub(crate) fn check_own(address: SocketAddr) -> Result<(), Error> {
    let ip = address.ip();
    if let SocketAddr::V6(six) = address
        && six.ip().is_unicast_link_local()
        && six.scope_id() == 0
    {
        return Err(Error::Argument("a link-local address needs a scope"));
    }
    if ip.is_unspecified() || is_own_address(ip) { Ok(()) } else { Err(Error::AddressNotOwn(ip)) }
}

/// All that a wildcard of a family stands for.
pub(crate) fn own_addresses(wanted: impl Fn(IpAddr) -> bool) -> Vec<IpAddr> {
    let mut all: Vec<_> = interface_addresses().into_iter().map(|found| found.address).collect();
    all.extend([IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)]);
    all.retain(|ip| wanted(*ip));
    all.sort();
    all.dedup();
    all
}

/// What a destination means: a wildcard is this host's loopback address.
pub(crate) fn meant(destination: SocketAddr) -> SocketAddr {
    let loopback = |ip: IpAddr| SocketAddr::new(ip, destination.port());
    match destination.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => loopback(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => loopback(Ipv6Addr::LOCALHOST.into()),
        _ => destination,
    }
}

/// Asks the kernel whether there is a route; nothing is sent.
pub(crate) fn check_route(destination: SocketAddr) -> Result<(), Error> {
    match route_from(wildcard_of(destination.ip()), destination) {
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable) =>
        {
            Err(Error::Unreachable(destination.ip()))
        }
        // What else may fail says nothing of the route.
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_addresses_of_this_host_are_own_and_others_are_not() {
        assert!(is_own_address("127.0.0.1".parse().unwrap()));
        assert!(is_own_address("127.9.8.7".parse().unwrap()));
        assert!(is_own_address("::1".parse().unwrap()));
        assert!(!is_own_address("192.0.2.1".parse().unwrap()));
        for found in interface_addresses() {
            assert!(is_own_address(found.address));
        }
    }

    #[test]
    fn a_wildcard_is_own_and_a_link_local_address_needs_a_scope() {
        assert!(check_own("0.0.0.0:0".parse().unwrap()).is_ok());
        assert!(check_own("[::]:7".parse().unwrap()).is_ok());
        assert!(matches!(check_own("[fe80::1]:7".parse().unwrap()), Err(Error::Argument(_))));
        assert!(matches!(check_own("192.0.2.1:7".parse().unwrap()), Err(Error::AddressNotOwn(_))));
    }

    #[test]
    fn a_wildcard_as_destination_means_loopback_and_a_mapped_address_the_one_it_maps() {
        assert_eq!(meant("0.0.0.0:5".parse().unwrap()), "127.0.0.1:5".parse().unwrap());
        assert_eq!(meant("[::]:5".parse().unwrap()), "[::1]:5".parse().unwrap());
        assert_eq!(canonical("[::ffff:10.0.0.1]:5".parse().unwrap()), "10.0.0.1:5".parse().unwrap());
    }
}
