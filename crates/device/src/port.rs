//! The one port of a device: its addresses and what it can do.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use nonic_meeting::{Namespace, Place};
use nonic_protocol::{AddressVector, GlobalRoute, MESSAGE_MAX, QpAttributes};
use nonic_sys::{InterfaceAddress, host_number, interface_addresses, stable_number};

use crate::active_mtu::active_mtu;
use crate::config::Config;
use crate::gid_table::{GIDS, GidEntry, GidTable, address_gid, is_left_out, own_gid};
use crate::port_state::{Changed, PKEYS, PortState};

/// `IBV_MTU_4096`.
pub(crate) const MTU_4096: u32 = 5;
/// The partition it is made with: the default one, full member.
pub(crate) const DEFAULT_PKEY: u16 = 0xffff;

/// What `ibv_query_port(3)` tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortAttributes {
    /// Whether it works.
    pub active: bool,
    /// Link layer: Ethernet, or else InfiniBand.
    pub ethernet: bool,
    /// Local identifier; 0 on Ethernet.
    pub lid: u16,
    /// Local identifier of the subnet manager; 0 on Ethernet.
    pub subnet_manager_lid: u16,
    /// Length of the GID table.
    pub gid_count: u32,
    /// Length of the P_Key table.
    pub pkey_count: u16,
    /// MTU in use, `enum ibv_mtu`.
    pub active_mtu: u32,
    /// Largest MTU, `enum ibv_mtu`.
    pub max_mtu: u32,
    /// Bytes in a message at most.
    pub message_bytes: u32,
    /// Datagrams refused for their Q_Key.
    pub qkey_violations: u32,
    /// Low bits of the LID that do not count.
    pub lid_mask: u8,
}

/// The port.
#[derive(Debug)]
pub(crate) struct Port {
    ethernet: bool,
    lid: u16,
    /// `enum ibv_mtu`.
    active_mtu: u32,
    /// What somebody changed since.
    state: Arc<PortState>,
    /// The own GIDs of all devices, this one's too: to ask for the network namespace again costs as much as a packet.
    own_gids: Vec<[u8; 16]>,
    /// Where other network namespaces are met.
    meeting: Option<Arc<Place>>,
    pub(crate) qkey_violations: AtomicU32,
}

/// A device's GUID: the same for every process of a host's network namespace, and locally administered.
pub(crate) fn guid(device: u32) -> u64 {
    let namespace = std::fs::read_link("/proc/self/ns/net").unwrap_or_default();
    let number = stable_number(&format!("device {:016x} {}", host_number(), namespace.display()));
    const LOCALLY_ADMINISTERED: u64 = 0x02 << 56;
    const MULTICAST: u64 = 0x01 << 56;
    (number & !MULTICAST & !0xff) | LOCALLY_ADMINISTERED | u64::from(device + 1)
}

/// The GUIDs of a host's devices differ in the last byte alone, in which they are counted.
fn own_gids(devices: u32) -> impl Iterator<Item = [u8; 16]> {
    let first = guid(0);
    (0..devices).map(move |device| own_gid(first + u64::from(device)))
}

/// The GIDs by which other network namespaces may reach the devices of this one.
pub(crate) fn gids_for_others(devices: u32) -> Vec<[u8; 16]> {
    let addresses = interface_addresses().into_iter().filter(|address| !address.loopback);
    own_gids(devices.max(1)).chain(addresses.map(|address| address_gid(address.address))).collect()
}

impl Port {
    pub(crate) fn new(config: &Config, device: u32, state: &Arc<PortState>) -> Self {
        Self::with_addresses(config, device, &interface_addresses(), state)
    }

    fn with_addresses(
        config: &Config,
        device: u32,
        addresses: &[InterfaceAddress],
        state: &Arc<PortState>,
    ) -> Self {
        // What was there before keeps its index.
        let make = || GidTable::new(config, own_gid(guid(device)), addresses);
        state.gid_table(make).take_addresses(config, addresses);
        let lid = if config.ethernet { 0 } else { device as u16 + 1 };
        Self {
            ethernet: config.ethernet,
            lid,
            active_mtu: active_mtu(config, addresses) as u32,
            state: Arc::clone(state),
            own_gids: own_gids(config.devices).collect(),
            meeting: config.meet.as_ref().and_then(|_| nonic_meeting::place()),
            qkey_violations: AtomicU32::new(0),
        }
    }

    pub(crate) fn attributes(&self) -> PortAttributes {
        let changed = self.state.changed().unwrap_or_default();
        let subnet_manager_lid = changed.subnet_manager_lid.unwrap_or(1);
        PortAttributes {
            active: !changed.is_down,
            ethernet: self.ethernet,
            lid: changed.lid.unwrap_or(self.lid),
            subnet_manager_lid: if self.ethernet { 0 } else { subnet_manager_lid },
            gid_count: GIDS as u32,
            pkey_count: PKEYS,
            active_mtu: self.active_mtu,
            max_mtu: MTU_4096,
            message_bytes: MESSAGE_MAX,
            qkey_violations: self.qkey_violations.load(Ordering::Relaxed),
            lid_mask: 0,
        }
    }

    /// The valid entries of the GID table, in order.
    pub(crate) fn gids(&self) -> Cow<'_, [GidEntry]> {
        match self.state.changed() {
            None => self.made_gids(),
            Some(changed) => Cow::Owned(changed.gids(&self.made_gids())),
        }
    }

    /// Whether a GID is one of this port's: in the table, or an address of loopback that was never put there.
    pub(crate) fn has_gid(&self, gid: [u8; 16]) -> bool {
        self.gids().iter().any(|entry| entry.gid == gid) || is_left_out(&self.made_gids(), gid)
    }

    /// Those that nobody changed.
    pub(crate) fn made_gids(&self) -> Cow<'_, [GidEntry]> {
        self.state.made_gids()
    }

    /// Takes in addresses that came since; whether there are any.
    pub(crate) fn take_addresses(&self, config: &Config, addresses: &[InterfaceAddress]) -> bool {
        self.state.take_addresses(config, addresses)
    }

    /// An entry of the P_Key table, 0 if it is empty; `None` if there is none of that index.
    pub(crate) fn pkey(&self, index: u16) -> Option<u16> {
        let key = |changed: Changed| changed.pkey(index, DEFAULT_PKEY);
        (index < PKEYS).then(|| self.state.changed().map_or(DEFAULT_PKEY, key))
    }

    pub(crate) fn lid(&self) -> u16 {
        self.state.changed().and_then(|changed| changed.lid).unwrap_or(self.lid)
    }

    /// Whether anything comes and goes through it for a queue pair of the partition with that index.
    #[inline]
    pub(crate) fn carries(&self, pkey_index: u16) -> bool {
        self.state
            .changed()
            .is_none_or(|changed| !changed.is_down && changed.pkey(pkey_index, DEFAULT_PKEY) != 0)
    }

    /// Whether a queue pair with these attributes still reaches its peer as far as this port is concerned: an address may be gone that
    /// it was connected with.
    pub(crate) fn serves(&self, attributes: &QpAttributes) -> bool {
        self.state.changed().is_none()
            || self.carries(attributes.pkey_index)
                && attributes
                    .address_vector
                    .is_none_or(|vector| self.accepts(&vector).is_ok() && self.leads_somewhere(&vector))
    }

    fn leads_somewhere(&self, vector: &AddressVector) -> bool {
        self.reaches(vector) || self.meets(vector).is_some()
    }

    pub(crate) fn is_ethernet(&self) -> bool {
        self.ethernet
    }

    /// Whether a path is one this port can have (`ibv_modify_qp(3)`, `ibv_create_ah(3)`).
    pub(crate) fn accepts(&self, path: &AddressVector) -> Result<(), (&'static str, u64)> {
        if path.port != 1 {
            return Err(("port", u64::from(path.port)));
        }
        if path.service_level > 15 {
            return Err(("service level", u64::from(path.service_level)));
        }
        match &path.global {
            Some(route) if self.gid(route.source_index).is_none() => {
                Err(("source GID index", u64::from(route.source_index)))
            }
            None if self.ethernet => Err(("path without a GID on an Ethernet port: is_global", 0)),
            _ => Ok(()),
        }
    }

    /// Whether a queue pair with these attributes, whose peer is on another host, still reaches it as far as this port is concerned.
    pub(crate) fn leads_out(&self, attributes: &QpAttributes) -> bool {
        self.state.changed().is_none()
            || self.carries(attributes.pkey_index)
                && attributes.address_vector.is_none_or(|vector| self.accepts(&vector).is_ok())
    }

    /// An entry of the GID table that is not empty.
    pub(crate) fn gid_entry(&self, index: u32) -> Option<GidEntry> {
        self.gids().iter().find(|entry| entry.index == index).copied()
    }

    fn gid(&self, index: u8) -> Option<[u8; 16]> {
        self.gid_entry(index.into()).map(|entry| entry.gid)
    }

    /// Whether a path leads to this host, or did before somebody took an address from it: no other host has it.
    pub(crate) fn is_of_host(&self, path: &AddressVector) -> bool {
        self.reaches(path) || self.reaches_as_made(path)
    }

    /// The other network namespace of this host to which a path leads through memory, if one is met there: as it was a moment ago.
    pub(crate) fn meets(&self, path: &AddressVector) -> Option<Namespace> {
        self.meeting.as_ref()?.namespace_of(&path.global.as_ref()?.destination)
    }

    /// The same as it is now: for a queue pair that stays with what is decided.
    pub(crate) fn meets_now(&self, path: &AddressVector) -> Option<Namespace> {
        self.meeting.as_ref()?.namespace_now(&path.global.as_ref()?.destination)
    }

    /// Whether a path leads to this host.
    pub(crate) fn reaches(&self, path: &AddressVector) -> bool {
        match self.state.changed() {
            None => self.reaches_as_made(path),
            Some(changed) => self.reaches_now(&changed, path),
        }
    }

    /// The same for a port of which something was changed: its own addresses are those that it has now.
    #[cold]
    fn reaches_now(&self, changed: &Changed, path: &AddressVector) -> bool {
        match &path.global {
            Some(route) => {
                let is_there = |gids: &[GidEntry]| gids.iter().any(|entry| entry.gid == route.destination);
                let made = self.made_gids();
                let was_taken = is_there(&made) && !is_there(&changed.gids(&made));
                !was_taken && (is_there(&changed.gids(&made)) || self.reaches_as_made(path))
            }
            None => match changed.lid {
                Some(lid) if path.destination_lid == lid => true,
                Some(_) if path.destination_lid == self.lid => false,
                _ => self.reaches_as_made(path),
            },
        }
    }

    fn reaches_as_made(&self, path: &AddressVector) -> bool {
        match &path.global {
            Some(route) => {
                let made = self.made_gids();
                made.iter().any(|entry| entry.gid == route.destination)
                    || is_left_out(&made, route.destination)
                    || self.own_gids.contains(&route.destination)
            }
            None => (1..=self.own_gids.len()).contains(&path.destination_lid.into()),
        }
    }

    /// The 40 bytes that stand before a datagram with a global route: a GRH (IBTA vol. 1, 8.3), or for IPv4 addresses
    /// on Ethernet the IPv4 header in the last 20 (annex 17.4.1).
    pub(crate) fn global_header(&self, route: &GlobalRoute, payload: u32) -> [u8; 40] {
        const NEXT_HEADER_TRANSPORT: u8 = 0x1b;
        const UDP: u8 = 17;
        let source = self.gid(route.source_index).unwrap_or_default();
        let mapped = |gid: &[u8; 16]| gid[..10] == [0; 10] && gid[10..12] == [0xff, 0xff];
        let mut header = [0; 40];
        if self.ethernet && mapped(&source) && mapped(&route.destination) {
            let v4 = &mut header[20..];
            v4[0] = 0x45;
            v4[1] = route.traffic_class;
            v4[2..4].copy_from_slice(&(payload as u16 + 20).to_be_bytes());
            v4[6] = 0x40;
            v4[8] = route.hop_limit;
            v4[9] = UDP;
            v4[12..16].copy_from_slice(&source[12..]);
            v4[16..20].copy_from_slice(&route.destination[12..]);
            return header;
        }
        let first = 6 << 28 | u32::from(route.traffic_class) << 20 | route.flow_label & 0xf_ffff;
        header[..4].copy_from_slice(&first.to_be_bytes());
        header[4..6].copy_from_slice(&(payload as u16).to_be_bytes());
        header[6] = NEXT_HEADER_TRANSPORT;
        header[7] = route.hop_limit;
        header[8..24].copy_from_slice(&source);
        header[24..].copy_from_slice(&route.destination);
        header
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str, index: u32, loopback: bool) -> InterfaceAddress {
        InterfaceAddress { name: "x".into(), index, address: text.parse().unwrap(), loopback, mtu: 1500 }
    }

    fn path(destination: [u8; 16]) -> AddressVector {
        AddressVector::along(GlobalRoute {
            destination,
            source_index: 0,
            flow_label: 0,
            hop_limit: 1,
            traffic_class: 0,
        })
    }

    #[test]
    fn gids_are_the_ports_own_and_the_hosts_addresses() {
        let addresses =
            [address("127.0.0.1", 1, true), address("10.1.2.3", 2, false), address("fe80::1", 2, false)];
        let port = Port::with_addresses(&Config::default(), 0, &addresses, &Arc::default());
        let indices: Vec<_> = port.gids().iter().map(|entry| entry.interface_index).collect();
        assert_eq!(indices, [0, 2, 2]);
        assert_eq!(port.gids()[1].gid[10..], [0xff, 0xff, 10, 1, 2, 3]);
        assert!(port.reaches(&path(port.gids()[2].gid)));
        assert!(!port.reaches(&path([7; 16])));
        let left_out = std::net::Ipv6Addr::LOCALHOST.octets();
        assert!(port.reaches(&path(left_out)) && port.has_gid(left_out) && !port.has_gid([7; 16]));
        // An address that comes later is this host's as well.
        assert!(port.take_addresses(&Config::default(), &[address("10.9.9.9", 7, false)]));
        assert!(port.reaches(&path(port.gids()[3].gid)) && port.gid_entry(3).is_some());
        // And whoever opens the device now finds it at the same index.
        let all = [address("10.9.9.9", 7, false), addresses[1].clone()];
        let other = Port::with_addresses(&Config::default(), 0, &all, &port.state);
        assert_eq!(other.gids(), port.gids());
        assert_eq!(port.attributes().lid, 1);
    }

    #[test]
    fn an_ethernet_port_has_no_lid_and_wants_a_gid() {
        let config = Config { ethernet: true, mtu: nonic_roce::PathMtu::Bytes1024, ..Config::default() };
        let port = Port::with_addresses(&config, 0, &[], &Arc::default());
        assert_eq!((port.attributes().lid, port.attributes().active_mtu), (0, 3));
        let without = AddressVector { global: None, ..path([0; 16]) };
        assert!(port.accepts(&without).is_err());
        assert!(port.accepts(&path([0; 16])).is_ok());
    }

    #[test]
    fn a_port_that_was_changed_is_reached_by_what_it_is_called_now() {
        let state = Arc::default();
        let port = Port::with_addresses(&Config::default(), 0, &[address("10.1.2.3", 2, false)], &state);
        let change = |words: &str| state.change(words.parse().unwrap(), false, &port.made_gids()).unwrap();
        let by_lid = |lid| AddressVector { global: None, destination_lid: lid, ..path([0; 16]) };
        let gid = port.gids()[1].gid;
        assert!(port.reaches(&by_lid(1)) && !port.reaches(&by_lid(7)));
        change("lid 7");
        assert!(!port.reaches(&by_lid(1)) && port.reaches(&by_lid(7)) && port.attributes().lid == 7);
        assert!(port.reaches(&path(gid)) && port.accepts(&path(gid)).is_ok());
        change("gid set 1 10.9.9.9");
        assert!(!port.reaches(&path(gid)) && port.reaches(&path(port.gids()[1].gid)));
        change("gid remove 0");
        assert!(port.accepts(&path(gid)).is_err(), "its source is gone");
        assert!(port.carries(0) && port.pkey(0) == Some(0xffff));
        change("pkey remove 0");
        assert!(!port.carries(0) && port.pkey(0) == Some(0) && port.pkey(1).is_none());
        change("pkey set 0 0x8001");
        assert!(port.carries(0) && port.pkey(0) == Some(0x8001));
        change("port down");
        assert!(!port.carries(0) && !port.attributes().active);
    }

    #[test]
    fn a_guid_is_unicast_local_and_tells_devices_apart() {
        assert_eq!(guid(0), guid(0));
        assert_ne!(guid(0), guid(1));
        assert_eq!(own_gids(2).collect::<Vec<_>>(), [own_gid(guid(0)), own_gid(guid(1))]);
        assert_eq!(guid(0) >> 56 & 3, 2);
    }
}
