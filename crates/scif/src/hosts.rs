//! Hosts that are nodes: the list that all of them are given.

use std::net::IpAddr;

use nonic_sys::interface_addresses;

/// Entries at most: clients of SCIF have tables of that many nodes.
const MOST: usize = 256;

/// The addresses of nodes 0 and up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hosts {
    addresses: Vec<IpAddr>,
    /// Which of them are of this host and network namespace.
    own: Vec<bool>,
}

impl Hosts {
    /// The list as `NONIC_SCIF_HOSTS` has it: addresses of IPv4 and IPv6 with commas between them. `Err` says what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let own: Vec<IpAddr> = interface_addresses().into_iter().map(|found| found.address).collect();
        Self::parse_beside(text, &own)
    }

    fn parse_beside(text: &str, own: &[IpAddr]) -> Result<Self, String> {
        let mut hosts = Self::default();
        for word in text.split(',').map(str::trim) {
            let address: IpAddr = word.parse().map_err(|_| format!("'{word}' is no address"))?;
            let address = address.to_canonical();
            if address.is_unspecified() || address.is_multicast() {
                return Err(format!("'{word}' is no address of a host"));
            }
            hosts.own.push(address.is_loopback() || own.contains(&address));
            hosts.addresses.push(address);
        }
        if hosts.addresses.len() > MOST {
            return Err(format!("there are more than {MOST} nodes"));
        }
        if !hosts.own.contains(&true) {
            return Err("none of the addresses is of this host".to_owned());
        }
        Ok(hosts)
    }

    /// The nodes that there are.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = u16> {
        0..self.addresses.len() as u16
    }

    /// The first node that is of this host.
    pub(crate) fn first_own(&self) -> Option<u16> {
        self.nodes().find(|node| self.is_own(*node))
    }

    /// Whether a node is of this host and namespace.
    pub(crate) fn is_own(&self, node: u16) -> bool {
        self.own.get(usize::from(node)).copied().unwrap_or(false)
    }

    /// The address of a node.
    pub(crate) fn address(&self, node: u16) -> Option<IpAddr> {
        self.addresses.get(usize::from(node)).copied()
    }

    /// The address of a node of another host.
    pub(crate) fn elsewhere(&self, node: u16) -> Option<IpAddr> {
        self.address(node).filter(|_| !self.is_own(node))
    }

    /// The first node of another host that has an address.
    pub(crate) fn node_elsewhere(&self, address: IpAddr) -> Option<u16> {
        let address = address.to_canonical();
        self.nodes().find(|node| self.elsewhere(*node) == Some(address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Hosts, String> {
        Hosts::parse_beside(text, &["10.0.0.2".parse().unwrap(), "fd00::2".parse().unwrap()])
    }

    #[test]
    fn entries_are_nodes_in_order_and_those_of_this_host_are_known_by_their_addresses() {
        let hosts = parse("10.0.0.1, 10.0.0.2,fd00::3,fd00::2").unwrap();
        assert_eq!(hosts.nodes().collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert_eq!(hosts.first_own(), Some(1));
        assert_eq!([0, 1, 2, 3, 4].map(|node| hosts.is_own(node)), [false, true, false, true, false]);
        assert_eq!(hosts.elsewhere(2), Some("fd00::3".parse().unwrap()));
        assert_eq!((hosts.elsewhere(1), hosts.elsewhere(4)), (None, None));
    }

    #[test]
    fn a_stranger_and_this_host_itself_are_no_node_elsewhere() {
        let hosts = parse("10.0.0.1,10.0.0.2").unwrap();
        let node = |text: &str| hosts.node_elsewhere(text.parse().unwrap());
        assert_eq!(node("10.0.0.1"), Some(0));
        assert_eq!(node("::ffff:10.0.0.1"), Some(0));
        assert_eq!((node("10.0.0.2"), node("10.0.0.9")), (None, None));
    }

    #[test]
    fn a_list_that_names_no_hosts_or_not_this_one_is_refused() {
        for text in ["", "10.0.0.1,", "host", "10.0.0.1,10.0.0.3", "10.0.0.2,0.0.0.0", "10.0.0.2,224.0.0.1"] {
            assert!(parse(text).is_err(), "{text:?}");
        }
        let many = vec!["10.0.0.2"; MOST + 1].join(",");
        assert!(parse(&many).is_err());
    }
}
