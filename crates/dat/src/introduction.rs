//! What the two sides of a connection tell each other about their endpoints, beside the program's private data.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use nonic_device::QpNumber;

/// RDMA reads of an endpoint under way at once at most, each way.
pub(crate) const READS_MAX: i32 = 16;

const LENGTH: usize = 40;
const VERSION: u16 = 1;

/// One side's endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Introduction {
    /// Its queue pair.
    pub(crate) pair: QpNumber,
    /// Number of the first packet it sends, 24 bits.
    pub(crate) packet: u32,
    /// RDMA reads it answers at once.
    pub(crate) reads_in: u8,
    /// RDMA reads it has under way at once.
    pub(crate) reads_out: u8,
    /// Its adapter's address, and its port.
    pub(crate) address: IpAddr,
    pub(crate) port: u64,
}

impl Introduction {
    pub(crate) fn emit(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[..2].copy_from_slice(&VERSION.to_le_bytes());
        bytes[2] = self.reads_in;
        bytes[3] = self.reads_out;
        bytes[4..8].copy_from_slice(&self.pair.0.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.packet.to_le_bytes());
        bytes[12] = u8::from(self.address.is_ipv4());
        let address = match self.address {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        bytes[16..32].copy_from_slice(&address.octets());
        bytes[32..].copy_from_slice(&self.port.to_le_bytes());
        bytes
    }

    /// From another process. `None` if it makes no sense.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; LENGTH] = bytes.try_into().ok()?;
        let u32_at = |at: usize| Some(u32::from_le_bytes(bytes[at..at + 4].try_into().ok()?));
        let (pair, packet) = (u32_at(4)?, u32_at(8)?);
        let address = Ipv6Addr::from(<[u8; 16]>::try_from(&bytes[16..32]).ok()?);
        let address = match bytes[12] {
            0 => IpAddr::V6(address),
            1 => IpAddr::V4(address.to_ipv4_mapped()?),
            _ => return None,
        };
        let reads = READS_MAX.unsigned_abs();
        let valid = bytes[..2] == VERSION.to_le_bytes()
            && u32::from(bytes[2].max(bytes[3])) <= reads
            && pair != 0
            && pair <= QpNumber::MASK
            && packet <= QpNumber::MASK
            && bytes[13..16] == [0; 3];
        valid.then_some(Self {
            pair: QpNumber(pair),
            packet,
            reads_in: bytes[2],
            reads_out: bytes[3],
            address,
            port: u64::from_le_bytes(bytes[32..].try_into().ok()?),
        })
    }

    /// Where it is.
    pub(crate) fn socket_address(&self) -> SocketAddr {
        SocketAddr::new(self.address, 0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_introduction_comes_back_as_it_went(
            pair in 1u32..=QpNumber::MASK,
            packet in 0u32..=QpNumber::MASK,
            reads in (0u8..=16, 0u8..=16),
            address in any::<IpAddr>(),
            port in any::<u64>(),
        ) {
            let (reads_in, reads_out) = reads;
            let told = Introduction { pair: QpNumber(pair), packet, reads_in, reads_out, address, port };
            prop_assert_eq!(Introduction::parse(&told.emit()), Some(told));
        }

        #[test]
        fn what_is_understood_would_be_told_the_same_way(mut bytes in any::<[u8; LENGTH]>(), tidy in any::<bool>()) {
            if tidy {
                bytes[..2].copy_from_slice(&VERSION.to_le_bytes());
                (bytes[2], bytes[3], bytes[7], bytes[11]) = (bytes[2] % 20, bytes[3] % 20, 0, 0);
                (bytes[12], bytes[13], bytes[14], bytes[15]) = (bytes[12] % 3, 0, 0, 0);
                bytes[16..28].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]);
            }
            if let Some(told) = Introduction::parse(&bytes) {
                prop_assert_eq!(told.emit(), bytes);
            }
        }
    }

    #[test]
    fn other_lengths_are_nonsense() {
        assert_eq!(Introduction::parse(&[]), None);
        assert_eq!(Introduction::parse(&[0; LENGTH + 1]), None);
    }
}
