//! The MTU that a port says it has.

use nonic_roce::PathMtu;
use nonic_sys::InterfaceAddress;

use crate::config::{Config, WirePolicy};

/// Where datagrams are to go to other hosts unasked, what all interfaces carry that lead there: a program makes them as long as that, and
/// there is no shorter way for one of them. Never more than was asked for.
pub(crate) fn active_mtu(config: &Config, addresses: &[InterfaceAddress]) -> PathMtu {
    let leads_out = |address: &&InterfaceAddress| config.wire == WirePolicy::Roce && !address.loopback;
    let mtus = addresses.iter().filter(leads_out).filter_map(|address| nonic_wire::largest_mtu(address.mtu));
    mtus.min().map_or(config.mtu, |mtu| mtu.min(config.mtu))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_for_other_hosts_has_the_mtu_that_all_interfaces_carry_that_lead_there() {
        let carries = |mtu, loopback| {
            let address = "10.1.2.3".parse().unwrap();
            InterfaceAddress { name: "x".into(), index: 2, address, loopback, mtu }
        };
        let all = [carries(9000, false), carries(100, true), carries(1500, false), carries(70, false)];
        let active = |wire, mtu, addresses: &[InterfaceAddress]| {
            active_mtu(&Config { wire, mtu, ..Config::default() }, addresses)
        };
        let (roce, most) = (WirePolicy::Roce, PathMtu::Bytes4096);
        assert_eq!((active(roce, most, &all), active(roce, most, &all[..1])), (PathMtu::Bytes1024, most));
        // Where nothing leads out, and where only who is asked for goes by the wire.
        assert_eq!((active(roce, most, &all[1..2]), active(WirePolicy::Auto, most, &all)), (most, most));
        let less = PathMtu::Bytes512;
        assert_eq!((active(roce, less, &all), active(WirePolicy::Auto, less, &all)), (less, less));
    }
}
