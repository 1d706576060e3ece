//! What the tree is made of: what the devices say of themselves, and the host.

use nonic_device::{Device, GidEntry};
use nonic_sys::{InterfaceAddress, host_name, interface_addresses, online_cpus};
use nonic_verbs::abi::ibv_port_attr;
use nonic_verbs::identity::port_attributes;

/// Of the host.
#[derive(Clone, Debug)]
pub(crate) struct HostFacts {
    pub(crate) name: String,
    /// Its processors, as `0-3,8`.
    pub(crate) cpu_list: String,
    /// The same as the kernel's masks: groups of 32 bits in hexadecimal, the highest first.
    pub(crate) cpu_mask: String,
}

/// Of a device.
#[derive(Clone)]
pub(crate) struct DeviceFacts {
    pub(crate) index: u32,
    pub(crate) name: String,
    pub(crate) guid: u64,
    pub(crate) port: ibv_port_attr,
    pub(crate) gids: Vec<GidEntry>,
    pub(crate) partition_keys: Vec<u16>,
    /// Names of interfaces by number.
    pub(crate) interface_names: Vec<(u32, String)>,
    /// Those it is said to lie under: all that lead out of the host, or else the others.
    pub(crate) interfaces: Vec<String>,
}

impl HostFacts {
    pub(crate) fn now() -> Self {
        let list = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
        let list = match list.trim() {
            "" => format!("0-{}", online_cpus().max(1) - 1),
            list => list.to_owned(),
        };
        Self { name: host_name(), cpu_mask: mask(&list), cpu_list: list }
    }
}

impl DeviceFacts {
    pub(crate) fn now(device: &Device) -> Self {
        let (port, gids, partition_keys) = device.port();
        let addresses = interface_addresses();
        Self {
            index: device.index(),
            name: device.name().to_owned(),
            guid: device.guid(),
            partition_keys,
            port: port_attributes(&port),
            gids,
            interface_names: addresses.iter().map(|found| (found.index, found.name.clone())).collect(),
            interfaces: below(&addresses),
        }
    }

    /// The name of the interface that an entry's address belongs to.
    pub(crate) fn interface_of(&self, entry: &GidEntry) -> Option<&str> {
        let found = self.interface_names.iter().find(|(index, _)| *index == entry.interface_index);
        found.map(|(_, name)| name.as_str())
    }
}

fn below(addresses: &[InterfaceAddress]) -> Vec<String> {
    let names = |loopback: bool| {
        let found = addresses.iter().filter(|address| address.loopback == loopback);
        let mut names: Vec<_> = found.map(|address| address.name.clone()).collect();
        names.sort();
        names.dedup();
        names
    };
    let outward = names(false);
    if outward.is_empty() { names(true) } else { outward }
}

/// The mask of a list of processors.
fn mask(list: &str) -> String {
    const CPUS_MAX: usize = 8192;
    let mut groups = vec![0u32];
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) else { continue };
        for cpu in first..=last.min(CPUS_MAX) {
            groups.resize(groups.len().max(cpu / 32 + 1), 0);
            groups[cpu / 32] |= 1 << (cpu % 32);
        }
    }
    let words: Vec<_> = groups.iter().rev().map(|group| format!("{group:08x}")).collect();
    words.join(",")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use nonic_device::{GidKind, PortAttributes};

    pub(crate) fn host() -> HostFacts {
        HostFacts { name: "myhost".to_owned(), cpu_list: "0-1".to_owned(), cpu_mask: mask("0-1") }
    }

    pub(crate) fn device(ethernet: bool) -> DeviceFacts {
        let guid = 0x0200_1122_3344_5501_u64;
        let kind = if ethernet { GidKind::RoceV2 } else { GidKind::InfiniBand };
        let mut own = [0; 16];
        own[..2].copy_from_slice(&[0xfe, 0x80]);
        own[8..].copy_from_slice(&guid.to_be_bytes());
        let address = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 1, 2, 3];
        let port = PortAttributes {
            active: true,
            ethernet,
            lid: u16::from(!ethernet),
            subnet_manager_lid: u16::from(!ethernet),
            gid_count: 64,
            pkey_count: 1,
            active_mtu: 5,
            max_mtu: 5,
            message_bytes: 1 << 30,
            qkey_violations: 0,
            lid_mask: 0,
        };
        DeviceFacts {
            index: 0,
            name: "nonic0".to_owned(),
            guid,
            port: port_attributes(&port),
            gids: vec![
                GidEntry { index: 0, gid: own, kind, interface_index: 0 },
                GidEntry { index: 1, gid: address, kind, interface_index: 2 },
            ],
            partition_keys: vec![0xffff],
            interface_names: vec![(1, "lo".to_owned()), (2, "eth0".to_owned())],
            interfaces: vec!["eth0".to_owned()],
        }
    }

    #[test]
    fn a_list_of_processors_becomes_the_kernels_mask() {
        assert_eq!(mask("0-1"), "00000003");
        assert_eq!(mask("0,2,33"), "00000002,00000005");
        assert_eq!(mask("nonsense"), "00000000");
    }

    #[test]
    fn a_device_lies_under_the_interfaces_that_lead_out_or_else_under_loopback() {
        let address = |name: &str, loopback| InterfaceAddress {
            name: name.to_owned(),
            index: 1,
            address: std::net::Ipv4Addr::LOCALHOST.into(),
            loopback,
            mtu: 1500,
        };
        let all =
            [address("lo", true), address("eth1", false), address("eth0", false), address("eth0", false)];
        assert_eq!(below(&all), ["eth0", "eth1"]);
        assert_eq!(below(&all[..1]), ["lo"]);
    }
}
