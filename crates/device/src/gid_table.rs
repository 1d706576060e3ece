//! The GID table of a port, as nobody changed it: the port's own GID, and the addresses of the host's interfaces.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

use nonic_sys::InterfaceAddress;

use crate::config::{Config, WirePolicy};

/// Entries of the GID table, valid or not.
pub(crate) const GIDS: usize = 64;
/// What a GID is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GidKind {
    /// Subnet prefix and port GUID, or an address that no other host reaches, on an InfiniBand port.
    InfiniBand,
    /// What leads to other hosts by RoCEv2: an address of an interface; on an Ethernet port every entry.
    RoceV2,
}

/// A valid entry of the GID table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GidEntry {
    /// Its index.
    pub index: u32,
    /// The GID, in network order.
    pub gid: [u8; 16],
    /// What it is made of.
    pub kind: GidKind,
    /// The network interface with this address, 0 for the port's own GID.
    pub interface_index: u32,
}

/// The table. It grows by addresses that come, and an entry stays what it is.
#[derive(Debug)]
pub(crate) struct GidTable {
    /// What was there at first.
    first: Vec<GidEntry>,
    /// All, once more have come.
    grown: RwLock<Vec<GidEntry>>,
    has_grown: AtomicBool,
}

impl GidTable {
    /// The one of a port with the GID `own`.
    pub(crate) fn new(config: &Config, own: [u8; 16], addresses: &[InterfaceAddress]) -> Self {
        let kind = if config.ethernet { GidKind::RoceV2 } else { GidKind::InfiniBand };
        let mut first = vec![GidEntry { index: 0, gid: own, kind, interface_index: 0 }];
        // Loopback last: programs take the first address that looks routable.
        let (loopback, others): (Vec<_>, Vec<_>) = addresses.iter().partition(|address| address.loopback);
        for address in others.into_iter().chain(loopback) {
            first.extend(new_entry(config, &first, address));
        }
        Self { first, grown: RwLock::default(), has_grown: AtomicBool::new(false) }
    }

    /// The valid entries, in order.
    pub(crate) fn entries(&self) -> Cow<'_, [GidEntry]> {
        if !self.has_grown.load(Ordering::Acquire) {
            return Cow::Borrowed(&self.first);
        }
        Cow::Owned(self.grown.read().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// Takes in addresses that came since; whether there are any. One that is gone keeps its entry, so that no index leads anywhere else
    /// than before.
    pub(crate) fn take_addresses(&self, config: &Config, addresses: &[InterfaceAddress]) -> bool {
        let mut grown = self.grown.write().unwrap_or_else(PoisonError::into_inner);
        let mut all = if grown.is_empty() { self.first.clone() } else { grown.clone() };
        let before = all.len();
        for address in addresses {
            all.extend(new_entry(config, &all, address));
        }
        if all.len() == before {
            return false;
        }
        *grown = all;
        self.has_grown.store(true, Ordering::Release);
        true
    }
}

/// The entry of an address that is not in the table yet, if there is room.
fn new_entry(config: &Config, table: &[GidEntry], address: &InterfaceAddress) -> Option<GidEntry> {
    let gid = address_gid(address.address);
    if table.len() >= GIDS || table.iter().any(|entry| entry.gid == gid) {
        return None;
    }
    let leads_out = !address.loopback && config.wire != WirePolicy::Off;
    let kind = if config.ethernet || leads_out { GidKind::RoceV2 } else { GidKind::InfiniBand };
    Some(GidEntry { index: table.len() as u32, gid, kind, interface_index: address.index })
}

pub(crate) fn address_gid(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str, index: u32, loopback: bool) -> InterfaceAddress {
        InterfaceAddress { name: "x".into(), index, address: text.parse().unwrap(), loopback, mtu: 1500 }
    }

    #[test]
    fn a_gid_says_whether_it_leads_to_other_hosts() {
        let addresses = [address("127.0.0.1", 1, true), address("10.1.2.3", 2, false)];
        let kinds = |ethernet, wire| {
            let config = Config { ethernet, wire, ..Config::default() };
            let table = GidTable::new(&config, [7; 16], &addresses);
            table.entries().iter().map(|entry| entry.kind == GidKind::RoceV2).collect::<Vec<_>>()
        };
        // The port's own, the interface's, loopback.
        assert_eq!(kinds(false, WirePolicy::Auto), [false, true, false]);
        assert_eq!(kinds(false, WirePolicy::Off), [false; 3]);
        for wire in [WirePolicy::Auto, WirePolicy::Off, WirePolicy::Roce] {
            assert_eq!(kinds(true, wire), [true; 3]);
        }
    }

    #[test]
    fn an_address_that_comes_later_has_the_next_index_and_the_others_keep_theirs() {
        let config = Config::default();
        let first = [address("127.0.0.1", 1, true), address("10.1.2.3", 2, false)];
        let table = GidTable::new(&config, [7; 16], &first);
        let made = table.entries().into_owned();
        assert!(!table.take_addresses(&config, &first));
        let all = [address("10.9.9.9", 7, false), first[0].clone(), first[1].clone()];
        assert!(table.take_addresses(&config, &all) && !table.take_addresses(&config, &all));
        assert_eq!(table.entries()[..3], made);
        let new = table.entries()[3];
        assert_eq!((new.index, new.interface_index, new.kind), (3, 7, GidKind::RoceV2));
        // One that goes keeps its entry, and so does one that is back.
        assert!(!table.take_addresses(&config, &first) && table.entries().len() == 4);
        let many: Vec<_> = (0..100).map(|last| address(&format!("10.7.7.{last}"), 9, false)).collect();
        assert!(table.take_addresses(&config, &many) && !table.take_addresses(&config, &many));
        assert_eq!(table.entries().len(), GIDS);
    }
}
