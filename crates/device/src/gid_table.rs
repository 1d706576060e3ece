//! The GID table of a port, as nobody changed it: the port's own GID, and the addresses of the host's interfaces.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv6Addr};
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
        add(config, &mut first, addresses);
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
        add(config, &mut all, addresses);
        if all.len() == before {
            return false;
        }
        *grown = all;
        self.has_grown.store(true, Ordering::Release);
        true
    }
}

/// Adds what is not in the table yet. No card has an address of loopback in its table, and programs that choose an address by its looks take
/// 127.0.0.1 for one that others reach, rather than a private one; so it is there only where a host has no other.
fn add(config: &Config, table: &mut Vec<GidEntry>, addresses: &[InterfaceAddress]) {
    let has_others = addresses.iter().any(|address| !address.loopback);
    for address in addresses.iter().filter(|address| !(has_others && address.loopback)) {
        table.extend(new_entry(config, table, address));
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

/// The GID of a port by its GUID, within a subnet.
pub(crate) fn own_gid(guid: u64) -> [u8; 16] {
    let mut gid = [0; 16];
    gid[..2].copy_from_slice(&[0xfe, 0x80]);
    gid[8..].copy_from_slice(&guid.to_be_bytes());
    gid
}

/// Whether a GID is an address of loopback that a table was made without: that leads to this host, too.
pub(crate) fn is_left_out(made: &[GidEntry], gid: [u8; 16]) -> bool {
    is_loopback(gid) && !made.iter().any(|entry| is_loopback(entry.gid))
}

fn is_loopback(gid: [u8; 16]) -> bool {
    Ipv6Addr::from(gid).to_canonical().is_loopback()
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
        let (loopback, outward) = (address("127.0.0.1", 1, true), address("10.1.2.3", 2, false));
        let kinds = |ethernet, wire, address: &InterfaceAddress| {
            let config = Config { ethernet, wire, ..Config::default() };
            let table = GidTable::new(&config, [7; 16], std::slice::from_ref(address));
            table.entries().iter().map(|entry| entry.kind == GidKind::RoceV2).collect::<Vec<_>>()
        };
        // The port's own, and the other.
        assert_eq!(kinds(false, WirePolicy::Auto, &outward), [false, true]);
        for (wire, address) in
            [(WirePolicy::Auto, &loopback), (WirePolicy::Off, &loopback), (WirePolicy::Off, &outward)]
        {
            assert_eq!(kinds(false, wire, address), [false; 2]);
        }
        for wire in [WirePolicy::Auto, WirePolicy::Off, WirePolicy::Roce] {
            assert_eq!(
                (kinds(true, wire, &loopback), kinds(true, wire, &outward)),
                (vec![true; 2], vec![true; 2])
            );
        }
    }

    #[test]
    fn loopback_is_in_the_table_only_where_a_host_has_no_other_address() {
        let config = Config::default();
        let loopback = [address("127.0.0.1", 1, true), address("::1", 1, true)];
        let all = [loopback[0].clone(), address("10.1.2.3", 2, false), loopback[1].clone()];
        let interfaces =
            |table: &GidTable| table.entries().iter().map(|entry| entry.interface_index).collect::<Vec<_>>();
        assert_eq!(interfaces(&GidTable::new(&config, [7; 16], &all)), [0, 2]);
        let table = GidTable::new(&config, [7; 16], &loopback);
        assert_eq!(interfaces(&table), [0, 1, 1]);
        // What is there stays, and what was left out does not come by the way.
        assert!(table.take_addresses(&config, &all));
        assert_eq!(interfaces(&table), [0, 1, 1, 2]);
        let table = GidTable::new(&config, [7; 16], &all);
        assert!(!table.take_addresses(&config, &all) && interfaces(&table) == [0, 2]);
    }

    #[test]
    fn what_was_left_out_is_loopback_alone_and_only_where_all_of_it_was() {
        let gid = |text: &str| address_gid(text.parse().unwrap());
        let table = |address| GidTable::new(&Config::default(), [7; 16], &[address]).first;
        let without = table(address("10.1.2.3", 2, false));
        for (text, expected) in [("127.0.0.1", true), ("127.1.2.3", true), ("::1", true), ("10.0.0.1", false)]
        {
            assert_eq!(is_left_out(&without, gid(text)), expected, "{text}");
        }
        assert!(!is_left_out(&table(address("127.0.0.1", 1, true)), gid("127.0.0.2")));
    }

    #[test]
    fn an_address_that_comes_later_has_the_next_index_and_the_others_keep_theirs() {
        let config = Config::default();
        let first = [address("fe80::1", 2, false), address("10.1.2.3", 2, false)];
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
