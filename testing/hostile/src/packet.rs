//! Packets of RoCEv2 and messages of its connection manager, written by hand: a liar must not be kept from anything by the types of
//! those it lies to.

use std::net::Ipv4Addr;

/// The UDP port.
pub(crate) const PORT: u16 = 4791;
/// What stands in front of a message of the connection manager: the Q_Key of queue pair 1, and that it comes from there.
pub(crate) const MANAGEMENT: [u8; 8] = [0x80, 1, 0, 0, 0, 0, 0, 1];

/// What of a datagram's headers the check of a packet covers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DatagramAddresses {
    pub(crate) source: Ipv4Addr,
    pub(crate) port: u16,
    pub(crate) destination: Ipv4Addr,
}

/// A packet with its check: 12 bytes of base header, what stands behind them, the check.
pub(crate) fn packet(
    from: DatagramAddresses,
    opcode: u8,
    flags: u8,
    number: u32,
    psn: u32,
    behind: &[u8],
) -> Vec<u8> {
    let mut bytes = vec![opcode, flags, 0xff, 0xff];
    bytes.extend((number & 0xff_ffff).to_be_bytes());
    bytes.extend((psn & 0x80ff_ffff).to_be_bytes());
    bytes.extend(behind);
    let check = check(from, &bytes);
    bytes.extend(check.to_le_bytes());
    bytes
}

/// The invariant check (IBTA vol. 1, 7.8.1; annex A17): over ones in place of what may change on the way.
fn check(from: DatagramAddresses, packet: &[u8]) -> u32 {
    let udp_length = (8 + packet.len() + 4) as u16;
    let mut covered = vec![0xff; 8];
    covered.extend([0x45, 0xff]);
    covered.extend((20 + udp_length).to_be_bytes());
    // Not divided, and so without a number; time to live, UDP, sum.
    covered.extend([0, 0, 0x40, 0, 0xff, 17, 0xff, 0xff]);
    covered.extend(from.source.octets());
    covered.extend(from.destination.octets());
    covered.extend(from.port.to_be_bytes());
    covered.extend(PORT.to_be_bytes());
    covered.extend(udp_length.to_be_bytes());
    covered.extend([0xff, 0xff]);
    let begin = covered.len();
    covered.extend(packet);
    covered[begin + 4] = 0xff;
    !covered.iter().fold(!0, |sum: u32, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| sum >> 1 ^ (0xedb8_8320 & (sum & 1).wrapping_neg()))
    })
}

/// A message of the connection manager of one kind (table 98). A request is what a listener takes.
pub(crate) fn management(
    from: DatagramAddresses,
    kind: u8,
    service_id: u64,
    ids: [u32; 2],
    pair: u32,
    chance: u64,
) -> Vec<u8> {
    let mut bytes = vec![0; 256];
    bytes[..4].copy_from_slice(&[1, 7, 2, 3]);
    bytes[8..16].copy_from_slice(&chance.to_be_bytes());
    bytes[17] = kind;
    let body = &mut bytes[24..];
    body[..4].copy_from_slice(&ids[0].to_be_bytes());
    body[4..8].copy_from_slice(&ids[1].to_be_bytes());
    let gid = |address: Ipv4Addr| address.to_ipv6_mapped().octets();
    let mut header = [0; 36];
    header[1] = 4 << 4;
    header[16..20].copy_from_slice(&from.source.octets());
    header[32..36].copy_from_slice(&from.destination.octets());
    match kind {
        0x10 => {
            body[8..16].copy_from_slice(&service_id.to_be_bytes());
            body[16..24].copy_from_slice(&chance.rotate_left(7).to_be_bytes());
            body[32..36].copy_from_slice(&(pair << 8).to_be_bytes());
            (body[48], body[49], body[50]) = (0xff, 0xff, 3 << 4);
            body[56..72].copy_from_slice(&gid(from.source));
            body[72..88].copy_from_slice(&gid(from.destination));
            body[140..176].copy_from_slice(&header);
        }
        0x15 => body[8..12].copy_from_slice(&(pair << 8).to_be_bytes()),
        0x17 => {
            body[8..16].copy_from_slice(&service_id.to_be_bytes());
            body[16..52].copy_from_slice(&header);
        }
        _ => {}
    }
    bytes
}

#[cfg(test)]
mod tests {
    use nonic_roce::{Envelope, ManagementDatagram, Packet, Route};

    use super::*;

    const FROM: DatagramAddresses = DatagramAddresses {
        source: Ipv4Addr::new(127, 66, 1, 2),
        port: 5555,
        destination: Ipv4Addr::LOCALHOST,
    };

    #[test]
    fn what_is_written_by_hand_is_heard() {
        let route = Route::V4 {
            source: FROM.source.octets(),
            destination: FROM.destination.octets(),
            identification: 0,
            dont_fragment: true,
        };
        let envelope = Envelope { route, source_port: FROM.port };
        let read = |bytes: &[u8]| {
            Packet::receive(&envelope, bytes).map(|(packet, payload)| (packet, payload.to_vec()))
        };
        // Send Only.
        let mut bytes = packet(FROM, 4, 0, 5, 7, b"four");
        let (send, payload) = read(&bytes).unwrap();
        assert_eq!((send.base.destination.0, send.base.psn.0, &payload[..]), (5, 7, &b"four"[..]));
        bytes[13] ^= 1;
        assert!(read(&bytes).is_err());
        for kind in 0x10..=0x18 {
            let message = management(FROM, kind, 0x0106_1c06, [1, 2], 3, 4);
            let (carrier, payload) =
                read(&packet(FROM, 0x64, 0, 1, 0, &[&MANAGEMENT[..], &message].concat())).unwrap();
            assert!(ManagementDatagram::of_packet(&carrier, &payload).is_some(), "{kind:#x}");
        }
    }
}
