//! The invariant CRC behind every packet (IBTA vol. 1, 7.8.1; annex A17, 17.3.3).
//!
//! It is the CRC-32 of Ethernet over what no router changes: the addresses, the lengths and the ports of the headers before the
//! packet, and all of the packet; what may change counts as ones. Of IPv4 the identification counts, too: whoever sends has to
//! know which one the packet will have.

use crc32fast::Hasher;

/// The UDP port of the protocol (annex A17, 17.3.1.1).
pub const PORT: u16 = 4791;

/// Bytes of the check at the end of a packet.
pub const ICRC_LENGTH: usize = 4;

const UDP_LENGTH: usize = 8;
const UDP: u8 = 17;
const DONT_FRAGMENT: u16 = 0x4000;
/// Where the byte stands in the base transport header that routers may change: FECN, BECN.
const VARIANT: usize = 4;
/// Bytes of the base transport header: what of a packet is masked is in it.
const HEAD: usize = 12;
/// Bytes that are hashed as one, the prefix and the beginning of a packet: all of a short one.
const BLOCK: usize = 128;
/// What the hash goes over at once.
const LANE: usize = 16;

/// The headers before a packet, as far as they count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Between which hosts.
    pub route: Route,
    /// UDP port of the sender; that of the receiver is [`PORT`].
    pub source_port: u16,
}

/// Between which hosts a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// By IPv4, with a header of 20 bytes and no fragments.
    V4 {
        /// Address of the sender.
        source: [u8; 4],
        /// Address of the receiver.
        destination: [u8; 4],
        /// Identification of the datagram.
        identification: u16,
        /// Whether its header forbids fragments.
        dont_fragment: bool,
    },
    /// By IPv6, without extension headers.
    V6 {
        /// Address of the sender.
        source: [u8; 16],
        /// Address of the receiver.
        destination: [u8; 16],
    },
}

impl Envelope {
    /// What counts of the headers before a packet of `length` bytes, which include the check; how much of the array.
    fn prefix(&self, length: usize) -> ([u8; BLOCK], usize) {
        let mut bytes = [0xff; BLOCK];
        // A packet is no longer than a datagram of IP; one that is has no check that anybody would accept.
        let udp_length = (UDP_LENGTH + length) as u16;
        let ip = match self.route {
            Route::V4 { source, destination, identification, dont_fragment } => {
                let flags = if dont_fragment { DONT_FRAGMENT } else { 0 };
                let header = &mut bytes[8..28];
                header[0] = 0x45;
                header[2..4].copy_from_slice(&udp_length.wrapping_add(20).to_be_bytes());
                header[4..6].copy_from_slice(&identification.to_be_bytes());
                header[6..8].copy_from_slice(&flags.to_be_bytes());
                header[9] = UDP;
                header[12..16].copy_from_slice(&source);
                header[16..20].copy_from_slice(&destination);
                20
            }
            Route::V6 { source, destination } => {
                let header = &mut bytes[8..48];
                // The version; traffic class and flow label are ones.
                header[0] = 0x6f;
                header[4..6].copy_from_slice(&udp_length.to_be_bytes());
                header[6] = UDP;
                header[8..24].copy_from_slice(&source);
                header[24..40].copy_from_slice(&destination);
                40
            }
        };
        let udp = &mut bytes[8 + ip..][..UDP_LENGTH];
        udp[0..2].copy_from_slice(&self.source_port.to_be_bytes());
        udp[2..4].copy_from_slice(&PORT.to_be_bytes());
        udp[4..6].copy_from_slice(&udp_length.to_be_bytes());
        (bytes, 8 + ip + UDP_LENGTH)
    }
}

/// The check of a packet that lies in one piece, from its base transport header to its padding, as it stands behind it.
///
/// # Panics
/// If it is shorter than a base transport header.
pub(crate) fn icrc(envelope: &Envelope, packet: &[u8]) -> [u8; ICRC_LENGTH] {
    finish(begin(envelope, packet))
}

/// The check that the Linux kernel's device makes and expects of a flush: all of the packet counts once more, as if it were its own
/// payload, with nothing in it masked (rxe, seen with Linux 6.12).
///
/// # Panics
/// If it is shorter than a base transport header.
pub(crate) fn icrc_twice(envelope: &Envelope, packet: &[u8]) -> [u8; ICRC_LENGTH] {
    let mut hasher = begin(envelope, packet);
    hasher.update(packet);
    finish(hasher)
}

fn begin(envelope: &Envelope, packet: &[u8]) -> Hasher {
    let (mut block, count) = envelope.prefix(packet.len() + ICRC_LENGTH);
    // Of a long one so much that the rest has no odd end.
    let own = if count + packet.len() <= BLOCK { packet.len() } else { HEAD + (packet.len() - HEAD) % LANE };
    let (begins, rest) = packet.split_at(own);
    block[count..count + own].copy_from_slice(begins);
    block[count + VARIANT] = 0xff;
    let mut hasher = Hasher::new();
    hasher.update(&block[..count + own]);
    hasher.update(rest);
    hasher
}

fn finish(hasher: Hasher) -> [u8; ICRC_LENGTH] {
    hasher.finalize().to_le_bytes()
}
