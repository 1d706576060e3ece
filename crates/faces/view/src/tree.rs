//! The tree of files by which programs know a device: paths and contents, from what the device says of itself. Pure: nothing is
//! read or written here. The forms are those of the kernel (drivers/infiniband/core/sysfs.c, uverbs_main.c; its documents
//! ABI/stable/sysfs-class-infiniband).

use std::net::Ipv6Addr;

use nonic_device::GidKind;
use nonic_verbs::abi::{IBV_LINK_LAYER_ETHERNET, IBV_NODE_CA};
use nonic_verbs::identity::{FIRMWARE, HARDWARE, PART, VENDOR};

use crate::facts::{DeviceFacts, HostFacts};
use crate::numbers::{COUNTERS, HARDWARE_COUNTERS, LIFESPAN_MS};

/// The classes of devices.
const DEVICES: &str = "/sys/class/infiniband";
const NODES: &str = "/sys/class/infiniband_verbs";
const MANAGEMENT: &str = "/sys/class/infiniband_mad";

/// The folder of device nodes.
const NODE_FOLDER: &str = "/dev/infiniband";

/// The node of the connection manager, in that folder.
const CONNECTIONS: &str = "rdma_cm";

/// What stands for a device node: a character device that anybody may open, and that does nothing.
pub(crate) const NULL_DEVICE: &str = "/dev/null";

/// Numbers of device nodes: the kernel's for `uverbs0`, and those of others follow (`IB_UVERBS_MAJOR`, `IB_UVERBS_BASE_MINOR`).
const NODE_MAJOR: u32 = 231;
const NODE_MINOR: u32 = 192;

/// `IB_USER_VERBS_ABI_VERSION`; that of a driver whose own structures programs never see; `IB_USER_MAD_ABI_VERSION`.
const VERBS_ABI: u32 = 6;
const DRIVER_ABI: u32 = 1;
const MANAGEMENT_ABI: u32 = 5;

/// What stands at a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Node {
    /// A file with this text.
    File(String),
    /// A link to there.
    Link(String),
}

/// A tree, as the paths of everything in it that is no folder. Whatever is above one of them is a folder.
pub(crate) type Tree = Vec<(String, Node)>;

/// The tree of these devices. Counters are in it with the value 0: their content is made when they are opened.
pub(crate) fn tree(host: &HostFacts, devices: &[DeviceFacts]) -> Tree {
    let mut tree = Builder(Vec::new());
    tree.line(&format!("{NODES}/abi_version"), VERBS_ABI);
    tree.line(&format!("{MANAGEMENT}/abi_version"), MANAGEMENT_ABI);
    for device in devices {
        tree.device(host, device);
    }
    if !devices.is_empty() {
        tree.link(&format!("{NODE_FOLDER}/{CONNECTIONS}"), NULL_DEVICE);
    }
    tree.0
}

struct Builder(Tree);

impl Builder {
    /// A file of one line.
    fn line(&mut self, path: &str, text: impl std::fmt::Display) {
        self.0.push((path.to_owned(), Node::File(format!("{text}\n"))));
    }

    fn link(&mut self, path: &str, target: impl Into<String>) {
        self.0.push((path.to_owned(), Node::Link(target.into())));
    }

    fn device(&mut self, host: &HostFacts, device: &DeviceFacts) {
        let (name, index) = (&device.name, device.index);
        let parent = format!("nonic.{index}");
        let node = format!("uverbs{index}");
        let place = format!("/sys/devices/platform/{parent}");
        self.link(&format!("{DEVICES}/{name}"), format!("../../devices/platform/{parent}/infiniband/{name}"));
        self.link(
            &format!("{NODES}/{node}"),
            format!("../../devices/platform/{parent}/infiniband_verbs/{node}"),
        );
        self.link(&format!("{NODE_FOLDER}/{node}"), NULL_DEVICE);
        self.parent(host, device, &place);
        self.node(device, &parent, &node, &format!("{place}/infiniband_verbs/{node}"));
        self.attributes(host, device, &parent, &format!("{place}/infiniband/{name}"));
    }

    /// What a card would be on its bus.
    fn parent(&mut self, host: &HostFacts, device: &DeviceFacts, place: &str) {
        self.line(&format!("{place}/vendor"), format_args!("{VENDOR:#x}"));
        self.line(&format!("{place}/device"), format_args!("{PART:#x}"));
        // As near to every processor as to any other.
        self.line(&format!("{place}/numa_node"), -1);
        self.line(&format!("{place}/local_cpus"), &host.cpu_mask);
        self.line(&format!("{place}/local_cpulist"), &host.cpu_list);
        self.line(&format!("{place}/uevent"), "DRIVER=nonic\nMODALIAS=platform:nonic");
        self.link(&format!("{place}/subsystem"), "/sys/bus/platform");
        for interface in &device.interfaces {
            self.link(&format!("{place}/net/{interface}"), format!("/sys/class/net/{interface}"));
        }
    }

    fn node(&mut self, device: &DeviceFacts, parent: &str, node: &str, place: &str) {
        let minor = NODE_MINOR + device.index;
        self.line(&format!("{place}/ibdev"), &device.name);
        self.line(&format!("{place}/abi_version"), DRIVER_ABI);
        self.line(&format!("{place}/dev"), format_args!("{NODE_MAJOR}:{minor}"));
        let event =
            format_args!("MAJOR={NODE_MAJOR}\nMINOR={minor}\nDEVNAME=infiniband/{node}\nDEVMODE=0666");
        self.line(&format!("{place}/uevent"), event);
        self.link(&format!("{place}/device"), format!("../../../{parent}"));
        self.link(&format!("{place}/subsystem"), "../../../../../class/infiniband_verbs");
    }

    fn attributes(&mut self, host: &HostFacts, device: &DeviceFacts, parent: &str, place: &str) {
        let guid = groups(device.guid);
        self.line(&format!("{place}/node_guid"), &guid);
        self.line(&format!("{place}/sys_image_guid"), &guid);
        self.line(&format!("{place}/node_type"), format_args!("{IBV_NODE_CA}: CA"));
        self.line(&format!("{place}/node_desc"), format_args!("{} {}", host.name, device.name));
        self.line(&format!("{place}/fw_ver"), FIRMWARE);
        self.line(&format!("{place}/hw_rev"), format_args!("{HARDWARE:x}"));
        self.line(&format!("{place}/hca_type"), "nonic");
        self.line(&format!("{place}/board_id"), "nonic");
        self.line(&format!("{place}/uevent"), format_args!("NAME={}", device.name));
        self.link(&format!("{place}/device"), format!("../../../{parent}"));
        self.link(&format!("{place}/subsystem"), "../../../../../class/infiniband");
        self.port(device, &format!("{place}/ports/1"));
    }

    fn port(&mut self, device: &DeviceFacts, place: &str) {
        let port = &device.port;
        let layer = if port.link_layer == IBV_LINK_LAYER_ETHERNET { "Ethernet" } else { "InfiniBand" };
        self.line(&format!("{place}/state"), format_args!("{}: {}", port.state, state(port.state)));
        let physical = format_args!("{}: {}", port.phys_state, physical_state(port.phys_state));
        self.line(&format!("{place}/phys_state"), physical);
        self.line(&format!("{place}/rate"), rate(port.active_width, port.active_speed));
        self.line(&format!("{place}/lid"), format_args!("{:#x}", port.lid));
        self.line(&format!("{place}/lid_mask_count"), port.lmc);
        self.line(&format!("{place}/sm_lid"), format_args!("{:#x}", port.sm_lid));
        self.line(&format!("{place}/sm_sl"), port.sm_sl);
        self.line(&format!("{place}/cap_mask"), format_args!("{:#010x}", port.port_cap_flags));
        self.line(&format!("{place}/link_layer"), layer);
        for index in 0..port.gid_tbl_len.cast_unsigned() {
            let entry = device.gids.iter().find(|entry| entry.index == index);
            let gid = entry.map_or([0; 16], |entry| entry.gid);
            self.line(&format!("{place}/gids/{index}"), gid_text(gid));
            // The kernel refuses to read the attributes of an entry that is empty, or has no interface.
            let Some(entry) = entry else { continue };
            let kind = match entry.kind {
                GidKind::InfiniBand => "IB/RoCE v1",
                GidKind::RoceV2 => "RoCE v2",
            };
            self.line(&format!("{place}/gid_attrs/types/{index}"), kind);
            if let Some(interface) = device.interface_of(entry) {
                self.line(&format!("{place}/gid_attrs/ndevs/{index}"), interface);
            }
        }
        for (index, key) in device.partition_keys.iter().enumerate() {
            self.line(&format!("{place}/pkeys/{index}"), format_args!("{key:#06x}"));
        }
        for (name, _) in COUNTERS {
            self.line(&format!("{place}/counters/{name}"), 0);
        }
        for (name, _) in HARDWARE_COUNTERS {
            self.line(&format!("{place}/hw_counters/{name}"), 0);
        }
        self.line(&format!("{place}/hw_counters/lifespan"), LIFESPAN_MS);
    }
}

/// A GUID in four groups.
fn groups(guid: u64) -> String {
    let group = |place: u32| (guid >> (16 * place)) & 0xffff;
    format!("{:04x}:{:04x}:{:04x}:{:04x}", group(3), group(2), group(1), group(0))
}

/// A GID with all its zeros.
fn gid_text(gid: [u8; 16]) -> String {
    let words = Ipv6Addr::from(gid).segments().map(|word| format!("{word:04x}"));
    words.join(":")
}

fn state(state: i32) -> &'static str {
    ["NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"]
        .get(state as usize)
        .copied()
        .unwrap_or("UNKNOWN")
}

fn physical_state(state: u8) -> &'static str {
    let words =
        ["", "Sleep", "Polling", "Disabled", "PortConfigurationTraining", "LinkUp", "LinkErrorRecovery"];
    words.get(usize::from(state)).copied().filter(|word| !word.is_empty()).unwrap_or("<unknown>")
}

/// Lanes by speed, as the kernel prints them.
fn rate(width: u8, speed: u8) -> String {
    let lanes = match width {
        2 => 4,
        4 => 8,
        8 => 12,
        16 => 2,
        _ => 1,
    };
    let (tenths, name) = match speed {
        2 => (50, " DDR"),
        4 => (100, " QDR"),
        8 => (100, " FDR10"),
        16 => (140, " FDR"),
        32 => (250, " EDR"),
        64 => (500, " HDR"),
        128 => (1000, " NDR"),
        _ => (25, ""),
    };
    let sum = tenths * lanes;
    let half = if sum % 10 == 0 { "" } else { ".5" };
    format!("{}{half} Gb/sec ({lanes}X{name})", sum / 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::tests::{device, host};

    fn text(tree: &Tree, path: &str) -> Option<String> {
        match tree.iter().find(|(at, _)| at == path)? {
            (_, Node::File(text)) => Some(text.clone()),
            (_, Node::Link(target)) => Some(format!("-> {target}")),
        }
    }

    #[test]
    fn each_file_says_what_the_kernel_would_print() {
        let tree = tree(&host(), &[device(false)]);
        let place = "/sys/devices/platform/nonic.0/infiniband/nonic0";
        for (path, content) in [
            ("/node_guid", "0200:1122:3344:5501\n"),
            ("/node_type", "1: CA\n"),
            ("/node_desc", "myhost nonic0\n"),
            ("/device", "-> ../../../nonic.0"),
            ("/ports/1/state", "4: ACTIVE\n"),
            ("/ports/1/phys_state", "5: LinkUp\n"),
            ("/ports/1/rate", "100 Gb/sec (4X EDR)\n"),
            ("/ports/1/lid", "0x1\n"),
            ("/ports/1/cap_mask", "0x00010000\n"),
            ("/ports/1/link_layer", "InfiniBand\n"),
            ("/ports/1/gids/0", "fe80:0000:0000:0000:0200:1122:3344:5501\n"),
            ("/ports/1/gids/1", "0000:0000:0000:0000:0000:ffff:0a01:0203\n"),
            ("/ports/1/gids/63", "0000:0000:0000:0000:0000:0000:0000:0000\n"),
            ("/ports/1/gid_attrs/types/1", "IB/RoCE v1\n"),
            ("/ports/1/gid_attrs/ndevs/1", "eth0\n"),
            ("/ports/1/pkeys/0", "0xffff\n"),
            ("/ports/1/counters/port_xmit_data", "0\n"),
        ] {
            assert_eq!(text(&tree, &format!("{place}{path}")).as_deref(), Some(content), "{path}");
        }
        for path in ["/ports/1/gids/64", "/ports/1/gid_attrs/types/2", "/ports/1/gid_attrs/ndevs/0"] {
            assert_eq!(text(&tree, &format!("{place}{path}")), None, "{path}");
        }
        let nodes = "/sys/devices/platform/nonic.0/infiniband_verbs/uverbs0";
        assert_eq!(text(&tree, &format!("{nodes}/dev")).as_deref(), Some("231:192\n"));
        assert_eq!(text(&tree, &format!("{nodes}/ibdev")).as_deref(), Some("nonic0\n"));
    }

    #[test]
    fn the_connection_manager_has_one_node_whatever_devices_there_are() {
        let two = tree(&host(), &[device(false), device(true)]);
        assert_eq!(two.iter().filter(|(path, _)| path == "/dev/infiniband/rdma_cm").count(), 1);
        assert_eq!(text(&two, "/dev/infiniband/rdma_cm").as_deref(), Some("-> /dev/null"));
        assert_eq!(text(&tree(&host(), &[]), "/dev/infiniband/rdma_cm"), None);
    }

    #[test]
    fn an_ethernet_port_has_gids_of_the_second_version_and_no_lid() {
        let tree = tree(&host(), &[device(true)]);
        let port = "/sys/devices/platform/nonic.0/infiniband/nonic0/ports/1";
        assert_eq!(text(&tree, &format!("{port}/link_layer")).as_deref(), Some("Ethernet\n"));
        assert_eq!(text(&tree, &format!("{port}/gid_attrs/types/0")).as_deref(), Some("RoCE v2\n"));
        assert_eq!(text(&tree, &format!("{port}/lid")).as_deref(), Some("0x0\n"));
    }

    #[test]
    fn no_path_stands_twice_and_none_lies_below_a_file() {
        let other = DeviceFacts { index: 1, name: "nonic1".to_owned(), ..device(false) };
        let tree = tree(&host(), &[device(false), other]);
        let paths: std::collections::BTreeSet<_> = tree.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths.len(), tree.len());
        for path in &paths {
            let mut above = std::path::Path::new(path).ancestors().skip(1);
            assert!(above.all(|folder| !paths.contains(folder.to_str().expect("text"))), "{path}");
        }
    }

    #[test]
    fn rates_are_lanes_by_speed() {
        assert_eq!(rate(2, 32), "100 Gb/sec (4X EDR)");
        assert_eq!(rate(1, 1), "2.5 Gb/sec (1X)");
        assert_eq!(rate(8, 64), "600 Gb/sec (12X HDR)");
    }
}
