//! The Ethernet address of whoever has a GID (`ibv_resolve_eth_l2_from_gid(3)`): what the system knows, and nobody is asked.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use nonic_sys::interface_addresses;

use crate::context::Context;

/// Why there is no Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EthernetError {
    /// The port is an InfiniBand port.
    #[error("the port is no Ethernet port (NONIC_LINK_LAYER)")]
    NotEthernet,
    /// The system does not know who has the address.
    #[error("no neighbour of that address is known")]
    Unknown,
}

impl Context {
    /// The Ethernet address of who has a GID: of a group, of an interface of this host, of a neighbour that the system has heard of
    /// lately, or the one that a link-local address was made from.
    pub fn ethernet_address(&self, gid: [u8; 16]) -> Result<[u8; 6], EthernetError> {
        if !self.port().ethernet {
            return Err(EthernetError::NotEthernet);
        }
        let six = Ipv6Addr::from(gid);
        let address = six.to_ipv4_mapped().map_or(IpAddr::V6(six), IpAddr::V4);
        if let Some(group) = of_group(address) {
            return Ok(group);
        }
        let own = interface_addresses();
        if let Some(interface) = own.iter().find(|interface| interface.address == address) {
            return of_interface(&interface.name).ok_or(EthernetError::Unknown);
        }
        if self.gid_table().iter().any(|entry| entry.gid == gid) {
            // The port's own, which no interface has: any of this host leads there.
            return own.iter().find_map(|one| of_interface(&one.name)).ok_or(EthernetError::Unknown);
        }
        let known = match address {
            IpAddr::V4(four) => {
                of_neighbour(&std::fs::read_to_string("/proc/net/arp").unwrap_or_default(), four)
            }
            IpAddr::V6(six) => inside(six),
        };
        known.ok_or(EthernetError::Unknown)
    }
}

/// That of a group (RFC 1112, 6.4; RFC 2464, 7).
fn of_group(address: IpAddr) -> Option<[u8; 6]> {
    match address {
        IpAddr::V4(four) => {
            let [_, b, c, d] = four.octets();
            four.is_multicast().then_some([0x01, 0, 0x5e, b & 0x7f, c, d])
        }
        IpAddr::V6(six) => {
            let [.., a, b, c, d] = six.octets();
            six.is_multicast().then_some([0x33, 0x33, a, b, c, d])
        }
    }
}

/// That of an interface of this host.
fn of_interface(name: &str) -> Option<[u8; 6]> {
    parse(std::fs::read_to_string(format!("/sys/class/net/{name}/address")).ok()?.trim())
}

/// That of a neighbour in the system's table, if it is complete: proc(5), `/proc/net/arp`.
fn of_neighbour(table: &str, address: Ipv4Addr) -> Option<[u8; 6]> {
    const COMPLETE: u32 = 2;
    table.lines().skip(1).find_map(|line| {
        let words: Vec<_> = line.split_ascii_whitespace().collect();
        let [of, _, flags, ethernet, ..] = words[..] else { return None };
        let flags = u32::from_str_radix(flags.strip_prefix("0x")?, 16).ok()?;
        (of.parse() == Ok(address) && flags & COMPLETE != 0).then(|| parse(ethernet))?
    })
}

/// The one that a link-local address was made from (RFC 4291, appendix A).
fn inside(address: Ipv6Addr) -> Option<[u8; 6]> {
    let [.., a, b, c, 0xff, 0xfe, d, e, f] = address.octets() else { return None };
    address.is_unicast_link_local().then_some([a ^ 2, b, c, d, e, f])
}

fn parse(text: &str) -> Option<[u8; 6]> {
    let bytes: Vec<_> =
        text.split(':').map(|part| u8::from_str_radix(part, 16).ok()).collect::<Option<_>>()?;
    bytes.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_the_addresses_of_their_standards() {
        assert_eq!(of_group("239.129.2.3".parse().unwrap()), Some([1, 0, 0x5e, 1, 2, 3]));
        assert_eq!(of_group("ff12::1:203".parse().unwrap()), Some([0x33, 0x33, 0, 1, 2, 3]));
        assert_eq!(of_group("10.0.0.1".parse().unwrap()), None);
    }

    #[test]
    fn a_neighbour_is_found_if_the_system_has_heard_of_it() {
        let table = "IP address       HW type     Flags       HW address            Mask     Device\n\
                     10.0.0.7         0x1         0x2         52:54:00:12:34:56     *        eth0\n\
                     10.0.0.8         0x1         0x0         00:00:00:00:00:00     *        eth0\n";
        let find = |text: &str| of_neighbour(table, text.parse().unwrap());
        assert_eq!(find("10.0.0.7"), Some([0x52, 0x54, 0, 0x12, 0x34, 0x56]));
        assert_eq!((find("10.0.0.8"), find("10.0.0.9")), (None, None));
        assert_eq!(of_neighbour("", "10.0.0.7".parse().unwrap()), None);
    }

    #[test]
    fn a_link_local_address_shows_what_it_was_made_from() {
        let address = "fe80::5054:ff:fe12:3456".parse().unwrap();
        assert_eq!(inside(address), Some([0x52, 0x54, 0, 0x12, 0x34, 0x56]));
        assert_eq!(inside("fe80::1".parse().unwrap()), None);
        assert_eq!(inside("2001:db8::5054:ff:fe12:3456".parse().unwrap()), None);
        assert_eq!(parse("52:54:00:12:34"), None);
    }
}
