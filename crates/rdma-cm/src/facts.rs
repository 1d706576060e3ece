//! What the two sides of a connection tell each other beside the program's private data.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use nonic_device::QpNumber;

use crate::address::canonical;
use crate::private_data::Kind;
use crate::{ConnectionParameters, Ece};

const LENGTH: usize = 68;
const VERSION: u8 = 3;
const FLOW_CONTROL: u8 = 1;
const SHARED_RECEIVE_QUEUE: u8 = 2;
const DATAGRAMS: u8 = 4;
const BY_GID: u8 = 8;
/// Retries that can be told, of both kinds.
pub(crate) const RETRIES_MAX: u8 = 7;

/// One side of a connection. Reads are told as the field of the message says: what the sender answers, what it asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) parameters: ConnectionParameters,
    /// Number of the first packet that the other side is to send it, 24 bits ("Starting PSN" of a request and a reply).
    pub(crate) packet: u32,
    /// Its own address, and the one it speaks to.
    pub(crate) source: SocketAddr,
    pub(crate) destination: SocketAddr,
    /// Of a request, what kind of one it is.
    pub(crate) kind: Kind,
}

fn put_address(bytes: &mut [u8], address: SocketAddr) {
    let six = match address.ip() {
        IpAddr::V4(four) => four.to_ipv6_mapped(),
        IpAddr::V6(six) => six,
    };
    bytes[..16].copy_from_slice(&six.octets());
    bytes[16..18].copy_from_slice(&address.port().to_le_bytes());
}

fn take_address(bytes: &[u8]) -> Option<SocketAddr> {
    let six = Ipv6Addr::from(<[u8; 16]>::try_from(&bytes[..16]).ok()?);
    let port = u16::from_le_bytes(bytes[16..18].try_into().ok()?);
    Some(canonical(SocketAddr::new(six.into(), port)))
}

impl Facts {
    pub(crate) fn emit(&self) -> [u8; LENGTH] {
        let told = &self.parameters;
        let mut bytes = [0; LENGTH];
        let flow = if told.flow_control { FLOW_CONTROL } else { 0 };
        let shared = if told.shared_receive_queue { SHARED_RECEIVE_QUEUE } else { 0 };
        let datagrams = if self.kind.datagrams { DATAGRAMS } else { 0 };
        let by_gid = if self.kind.by_gid { BY_GID } else { 0 };
        bytes[..6].copy_from_slice(&[
            VERSION,
            flow | shared | datagrams | by_gid,
            told.responder_resources,
            told.initiator_depth,
            told.retry_count.min(RETRIES_MAX),
            told.rnr_retry_count.min(RETRIES_MAX),
        ]);
        for (place, word) in [
            (8, told.queue_pair.0),
            (12, self.packet),
            (16, told.queue_key),
            (20, told.ece.vendor),
            (24, told.ece.options),
        ] {
            bytes[place..place + 4].copy_from_slice(&word.to_le_bytes());
        }
        put_address(&mut bytes[28..46], self.source);
        put_address(&mut bytes[46..64], self.destination);
        bytes
    }

    /// From another process, with the private data that came with it. `None` if it makes no sense.
    pub(crate) fn parse(bytes: &[u8], private_data: Box<[u8]>) -> Option<Self> {
        let bytes: &[u8; LENGTH] = bytes.try_into().ok()?;
        let word = |at: usize| Some(u32::from_le_bytes(bytes[at..at + 4].try_into().ok()?));
        let flags = bytes[1];
        let (queue_pair, packet) = (word(8)?, word(12)?);
        let sound = bytes[0] == VERSION
            && flags & !(FLOW_CONTROL | SHARED_RECEIVE_QUEUE | DATAGRAMS | BY_GID) == 0
            && bytes[4].max(bytes[5]) <= RETRIES_MAX
            && queue_pair.max(packet) <= QpNumber::MASK
            && bytes[6..8] == [0; 2]
            && bytes[64..] == [0; 4];
        if !sound {
            return None;
        }
        Some(Self {
            parameters: ConnectionParameters {
                private_data,
                responder_resources: bytes[2],
                initiator_depth: bytes[3],
                flow_control: flags & FLOW_CONTROL != 0,
                retry_count: bytes[4],
                rnr_retry_count: bytes[5],
                shared_receive_queue: flags & SHARED_RECEIVE_QUEUE != 0,
                queue_pair: QpNumber(queue_pair),
                queue_key: word(16)?,
                ece: Ece { vendor: word(20)?, options: word(24)? },
            },
            packet,
            source: take_address(&bytes[28..46])?,
            destination: take_address(&bytes[46..64])?,
            kind: Kind { datagrams: flags & DATAGRAMS != 0, by_gid: flags & BY_GID != 0 },
        })
    }

    /// The parameters as this side sees them: what the other asks for is what this one answers.
    pub(crate) fn seen_from_here(&self) -> ConnectionParameters {
        let told = self.parameters.clone();
        ConnectionParameters {
            responder_resources: told.initiator_depth,
            initiator_depth: told.responder_resources,
            ..told
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    prop_compose! {
        fn facts()(
            counts in (any::<u8>(), any::<u8>(), 0u8..=7, 0u8..=7),
            flags in (any::<bool>(), any::<bool>()),
            kind in (any::<bool>(), any::<bool>()),
            queue_pair in 0u32..=QpNumber::MASK,
            packet in 0u32..=QpNumber::MASK,
            queue_key in any::<u32>(),
            ece in any::<(u32, u32)>(),
            ends in any::<((IpAddr, u16), (IpAddr, u16))>(),
        ) -> Facts {
            Facts {
                parameters: ConnectionParameters {
                    private_data: Box::default(),
                    responder_resources: counts.0,
                    initiator_depth: counts.1,
                    flow_control: flags.0,
                    retry_count: counts.2,
                    rnr_retry_count: counts.3,
                    shared_receive_queue: flags.1,
                    queue_pair: QpNumber(queue_pair),
                    queue_key,
                    ece: Ece { vendor: ece.0, options: ece.1 },
                },
                packet,
                source: canonical(ends.0.into()),
                destination: canonical(ends.1.into()),
                kind: Kind { datagrams: kind.0, by_gid: kind.1 },
            }
        }
    }

    proptest! {
        #[test]
        fn facts_come_back_as_they_went(told in facts()) {
            prop_assert_eq!(Facts::parse(&told.emit(), Box::default()), Some(told));
        }

        #[test]
        fn what_is_understood_would_be_told_the_same_way(told in facts(), place in 0..LENGTH, value in any::<u8>()) {
            let mut bytes = told.emit();
            bytes[place] = value;
            if let Some(told) = Facts::parse(&bytes, Box::default()) {
                prop_assert_eq!(told.emit(), bytes);
            }
        }
    }

    #[test]
    fn other_lengths_are_nonsense() {
        assert_eq!(Facts::parse(&[], Box::default()), None);
        assert_eq!(Facts::parse(&[0; LENGTH + 1], Box::default()), None);
    }
}
