//! Where packets go: GIDs are addresses of IP, groups among them (IBTA vol. 1, annex A17, 17.4.5), and a flow keeps to one UDP port.

use nonic_protocol::QpNumber;

use crate::icrc::{Envelope, Route};

/// Queue pair that a datagram to a group is for (IBTA vol. 1, 10.5.1).
pub const GROUP: QpNumber = QpNumber(0xff_ffff);

/// Bytes in front of a datagram in the receive that takes it (11.4.2.1): room for a global routing header.
pub const GLOBAL_HEADER: usize = 40;

/// The first twelve bytes of a GID that is an address of IPv4 (RFC 4291, 2.5.5.2).
const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
/// Source ports of flows have these bits set (annex A17, 17.3.1.1: the dynamic ports).
const DYNAMIC: u16 = 0xc000;
/// Bits of a flow label.
const LABEL: u64 = 0xf_ffff;

/// An address of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostAddress {
    /// Of IPv4.
    V4([u8; 4]),
    /// Of IPv6.
    V6([u8; 16]),
}

impl HostAddress {
    /// The address that a GID is.
    pub fn of_gid(gid: [u8; 16]) -> Self {
        match gid.strip_prefix(&MAPPED).and_then(|rest| rest.try_into().ok()) {
            Some(v4) => Self::V4(v4),
            None => Self::V6(gid),
        }
    }

    /// The GID that this address is.
    pub fn gid(self) -> [u8; 16] {
        match self {
            Self::V6(address) => address,
            Self::V4(address) => {
                let mut gid = [0; 16];
                gid[..12].copy_from_slice(&MAPPED);
                gid[12..].copy_from_slice(&address);
                gid
            }
        }
    }

    /// Whether it is a group's. The GID of a group of IPv4 begins with 0 and not with 255, as others do.
    pub fn is_group(self) -> bool {
        match self {
            Self::V4([first, ..]) => first >> 4 == 0xe,
            Self::V6([first, ..]) => first == 0xff,
        }
    }
}

/// The flow label of a connection whose path has none: the same for both of its ends.
pub fn flow_label_of_pairs(one: QpNumber, other: QpNumber) -> u32 {
    let mut mixed = u64::from(one.0) * u64::from(other.0);
    mixed ^= mixed >> 20;
    mixed ^= mixed >> 40;
    (mixed & LABEL) as u32
}

/// The flow label of a connection that was made by port numbers (the RDMA connection manager of Linux).
pub fn flow_label_of_ports(source: u16, destination: u16) -> u32 {
    ((u64::from(source) * 31 + u64::from(destination)) & LABEL) as u32
}

/// The UDP port from which packets of this flow label are sent.
pub fn source_port(flow_label: u32) -> u16 {
    DYNAMIC | ((flow_label & 0x3fff) ^ (flow_label >> 14 & 0x3f)) as u16
}

impl Envelope {
    /// What stands in front of a datagram in the receive that takes it (annex A17, 17.4.5.2): the header of IP it came with, that of
    /// IPv4 in the last 20 bytes. `length` bytes had the payload of UDP.
    pub fn global_header(&self, traffic_class: u8, hop_limit: u8, length: u16) -> [u8; GLOBAL_HEADER] {
        const UDP_HEADER: u16 = 8;
        let mut header = [0; GLOBAL_HEADER];
        match self.route {
            Route::V6 { source, destination } => {
                header[0] = 0x60 | traffic_class >> 4;
                header[1] = traffic_class << 4;
                header[4..6].copy_from_slice(&length.wrapping_add(UDP_HEADER).to_be_bytes());
                (header[6], header[7]) = (17, hop_limit);
                header[8..24].copy_from_slice(&source);
                header[24..].copy_from_slice(&destination);
            }
            Route::V4 { source, destination, identification, dont_fragment } => {
                let v4 = &mut header[20..];
                (v4[0], v4[1]) = (0x45, traffic_class);
                v4[2..4].copy_from_slice(&length.wrapping_add(UDP_HEADER + 20).to_be_bytes());
                v4[4..6].copy_from_slice(&identification.to_be_bytes());
                v4[6] = if dont_fragment { 0x40 } else { 0 };
                (v4[8], v4[9]) = (hop_limit, 17);
                v4[12..16].copy_from_slice(&source);
                v4[16..].copy_from_slice(&destination);
                let sum = checksum(v4);
                v4[10..12].copy_from_slice(&sum.to_be_bytes());
            }
        }
        header
    }

    /// The headers of a packet that goes between these addresses; `None` if one is of IPv4 and the other of IPv6. Of IPv4 its
    /// identification is 0, as Linux sends datagrams that may not be divided.
    pub fn between(source: HostAddress, destination: HostAddress, flow_label: u32) -> Option<Self> {
        let route = match (source, destination) {
            (HostAddress::V4(source), HostAddress::V4(destination)) => {
                Route::V4 { source, destination, identification: 0, dont_fragment: true }
            }
            (HostAddress::V6(source), HostAddress::V6(destination)) => Route::V6 { source, destination },
            _ => return None,
        };
        Some(Self { route, source_port: source_port(flow_label) })
    }
}

/// The sum of a header of IPv4 whose own field is 0 (RFC 1071).
fn checksum(header: &[u8]) -> u16 {
    let words = header.chunks_exact(2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gid_is_an_address() {
        let v4 = HostAddress::V4([239, 1, 2, 3]);
        let gid = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 3];
        assert_eq!((v4.gid(), HostAddress::of_gid(gid)), (gid, v4));
        let v6 = HostAddress::V6([0xfe; 16]);
        assert_eq!((v6.gid(), HostAddress::of_gid([0xfe; 16])), ([0xfe; 16], v6));
    }

    #[test]
    fn groups_of_both_families_are_told_from_hosts() {
        let group = |first| HostAddress::V4([first, 0, 0, 1]).is_group();
        assert_eq!([223, 224, 239, 240].map(group), [false, true, true, false]);
        let group = |first| {
            let mut gid = [0; 16];
            gid[0] = first;
            HostAddress::of_gid(gid).is_group()
        };
        assert_eq!([0, 0xfe, 0xff].map(group), [false, false, true]);
    }

    #[test]
    fn source_ports_are_those_of_linux() {
        let label = flow_label_of_pairs(QpNumber(0x15), QpNumber(0x1f));
        assert_eq!(source_port(label), 0xc28b);
        assert_eq!(flow_label_of_pairs(QpNumber(0x1f), QpNumber(0x15)), label);
        let label = flow_label_of_ports(0x892d, 7174);
        assert_eq!((label, source_port(label)), (0x0_b879, 0xf87b));
    }

    #[test]
    fn the_header_in_front_of_a_datagram_is_that_of_ip() {
        // Of the captured UD packet, whose sum is the kernel's.
        let captured =
            [0x45, 0, 0, 0x60, 0x3e, 0x08, 0x40, 0, 0x40, 0x11, 0, 0x32, 10, 77, 1, 2, 239, 1, 2, 3];
        let route = Route::V4 {
            source: [10, 77, 1, 2],
            destination: [239, 1, 2, 3],
            identification: 0x3e08,
            dont_fragment: true,
        };
        let header = Envelope { route, source_port: 0xf00c }.global_header(0, 64, 0x60 - 28);
        assert_eq!((&header[..20], &header[20..]), ([0; 20].as_slice(), captured.as_slice()));
        let (one, other) = (HostAddress::V6([1; 16]), HostAddress::V6([2; 16]));
        let header = Envelope::between(one, other, 0).expect("both are of IPv6").global_header(0xab, 5, 100);
        assert_eq!(header[..8], [0x6a, 0xb0, 0, 0, 0, 108, 17, 5]);
        assert_eq!((&header[8..24], &header[24..]), ([1; 16].as_slice(), [2; 16].as_slice()));
        assert_eq!(Envelope::between(one, HostAddress::V4([1; 4]), 0), None);
    }
}
