//! The one port of a device: its addresses and what it can do.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};

use nonic_protocol::{AddressVector, GlobalRoute, MESSAGE_MAX};
use nonic_sys::{InterfaceAddress, interface_addresses};

use crate::config::Config;

/// Entries of the GID table, valid or not.
const GIDS: usize = 64;
/// `IBV_MTU_4096`.
pub(crate) const MTU_4096: u32 = 5;
/// The only partition: the default one, full member.
pub(crate) const DEFAULT_PKEY: u16 = 0xffff;

/// What a GID is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GidKind {
    /// Subnet prefix and port GUID, or an address of the host, on an InfiniBand port.
    InfiniBand,
    /// An address of the host, on an Ethernet port.
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

/// What `ibv_query_port(3)` tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortAttributes {
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
    gids: Vec<GidEntry>,
    devices: u32,
    pub(crate) qkey_violations: AtomicU32,
}

/// A device's GUID: the same for every process of a host's network namespace, and locally administered.
pub(crate) fn guid(device: u32) -> u64 {
    let mut hasher = DefaultHasher::new();
    match std::fs::read_to_string("/proc/sys/kernel/random/boot_id") {
        Ok(boot) => boot.hash(&mut hasher),
        Err(_) => nonic_sys::host_name().hash(&mut hasher),
    }
    if let Ok(namespace) = std::fs::read_link("/proc/self/ns/net") {
        namespace.hash(&mut hasher);
    }
    const LOCALLY_ADMINISTERED: u64 = 0x02 << 56;
    const MULTICAST: u64 = 0x01 << 56;
    (hasher.finish() & !MULTICAST & !0xff) | LOCALLY_ADMINISTERED | u64::from(device + 1)
}

fn own_gid(guid: u64) -> [u8; 16] {
    let mut gid = [0; 16];
    gid[..2].copy_from_slice(&[0xfe, 0x80]);
    gid[8..].copy_from_slice(&guid.to_be_bytes());
    gid
}

fn address_gid(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

impl Port {
    pub(crate) fn new(config: &Config, device: u32) -> Self {
        Self::with_addresses(config, device, &interface_addresses())
    }

    fn with_addresses(config: &Config, device: u32, addresses: &[InterfaceAddress]) -> Self {
        let kind = if config.ethernet { GidKind::RoceV2 } else { GidKind::InfiniBand };
        let mut found = vec![(own_gid(guid(device)), 0)];
        // Loopback last: programs take the first address that looks routable.
        let (loopback, others): (Vec<_>, Vec<_>) = addresses.iter().partition(|address| address.loopback);
        for address in others.into_iter().chain(loopback) {
            let gid = address_gid(address.address);
            if found.len() < GIDS && !found.iter().any(|(seen, _)| *seen == gid) {
                found.push((gid, address.index));
            }
        }
        let gids = (0u32..)
            .zip(found)
            .map(|(index, (gid, interface_index))| GidEntry { index, gid, kind, interface_index })
            .collect();
        let lid = if config.ethernet { 0 } else { device as u16 + 1 };
        Self {
            ethernet: config.ethernet,
            lid,
            gids,
            devices: config.devices,
            qkey_violations: AtomicU32::new(0),
        }
    }

    pub(crate) fn attributes(&self) -> PortAttributes {
        PortAttributes {
            ethernet: self.ethernet,
            lid: self.lid,
            subnet_manager_lid: u16::from(!self.ethernet),
            gid_count: GIDS as u32,
            pkey_count: 1,
            active_mtu: MTU_4096,
            max_mtu: MTU_4096,
            message_bytes: MESSAGE_MAX,
            qkey_violations: self.qkey_violations.load(Ordering::Relaxed),
            lid_mask: 0,
        }
    }

    pub(crate) fn gids(&self) -> &[GidEntry] {
        &self.gids
    }

    pub(crate) fn lid(&self) -> u16 {
        self.lid
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
            Some(route) if usize::from(route.source_index) >= self.gids.len() => {
                Err(("source GID index", u64::from(route.source_index)))
            }
            None if self.ethernet => Err(("path without a GID on an Ethernet port: is_global", 0)),
            _ => Ok(()),
        }
    }

    /// Whether a path leads to this host.
    pub(crate) fn reaches(&self, path: &AddressVector) -> bool {
        match &path.global {
            Some(route) => {
                let other_device = |device| own_gid(guid(device)) == route.destination;
                self.gids.iter().any(|entry| entry.gid == route.destination)
                    || (0..self.devices).any(other_device)
            }
            None => (1..=self.devices).contains(&u32::from(path.destination_lid)),
        }
    }

    /// The 40 bytes that stand before a datagram with a global route: a GRH (IBTA vol. 1, 8.3), or for IPv4 addresses
    /// on Ethernet the IPv4 header in the last 20 (annex 17.4.1).
    pub(crate) fn global_header(&self, route: &GlobalRoute, payload: u32) -> [u8; 40] {
        const NEXT_HEADER_TRANSPORT: u8 = 0x1b;
        const UDP: u8 = 17;
        let source = self.gids.get(usize::from(route.source_index)).map_or([0; 16], |entry| entry.gid);
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
        InterfaceAddress { name: "x".into(), index, address: text.parse().unwrap(), loopback }
    }

    fn path(destination: [u8; 16]) -> AddressVector {
        AddressVector {
            destination_lid: 0,
            service_level: 0,
            source_path_bits: 0,
            static_rate: 0,
            port: 1,
            global: Some(GlobalRoute {
                destination,
                source_index: 0,
                flow_label: 0,
                hop_limit: 1,
                traffic_class: 0,
            }),
        }
    }

    #[test]
    fn gids_are_the_ports_own_and_the_hosts_addresses_with_loopback_last() {
        let addresses =
            [address("127.0.0.1", 1, true), address("10.1.2.3", 2, false), address("fe80::1", 2, false)];
        let port = Port::with_addresses(&Config::default(), 0, &addresses);
        let indices: Vec<_> = port.gids().iter().map(|entry| entry.interface_index).collect();
        assert_eq!(indices, [0, 2, 2, 1]);
        assert_eq!(port.gids()[1].gid[10..], [0xff, 0xff, 10, 1, 2, 3]);
        assert!(port.reaches(&path(port.gids()[3].gid)));
        assert!(!port.reaches(&path([7; 16])));
        assert_eq!(port.attributes().lid, 1);
    }

    #[test]
    fn an_ethernet_port_has_no_lid_and_wants_a_gid() {
        let port = Port::with_addresses(&Config { ethernet: true, ..Config::default() }, 0, &[]);
        assert_eq!(port.attributes().lid, 0);
        let without = AddressVector { global: None, ..path([0; 16]) };
        assert!(port.accepts(&without).is_err());
        assert!(port.accepts(&path([0; 16])).is_ok());
    }

    #[test]
    fn a_guid_is_unicast_local_and_tells_devices_apart() {
        assert_eq!(guid(0), guid(0));
        assert_ne!(guid(0), guid(1));
        assert_eq!(guid(0) >> 56 & 3, 2);
    }
}
