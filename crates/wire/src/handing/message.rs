//! What is said of a packet that is handed on, in front of it.

use std::sync::Arc;

use nonic_roce::HostAddress;

use crate::incoming::Arrival;
use crate::station::{Location, Station};

/// What stands in front of a datagram: addresses, ports, marks.
pub(super) const HEAD: usize = 16 + 16 + 4 + 2 + 2 + 2 + 1;
/// A message, at most.
pub(super) const MESSAGE: usize = HEAD + 4096 + 256;

/// Writes a message for who takes a datagram.
pub(super) fn write(message: &mut [u8], arrival: &Arrival, datagram: &[u8], stands_in: bool) {
    message[..16].copy_from_slice(&arrival.station.address().gid());
    message[16..32].copy_from_slice(&arrival.source.gid());
    message[32..36].copy_from_slice(&arrival.station.location.interface.to_ne_bytes());
    message[36..38].copy_from_slice(&arrival.source_port.to_ne_bytes());
    message[38..40].copy_from_slice(&arrival.index.to_ne_bytes());
    (message[40], message[41]) = (arrival.traffic_class, arrival.hop_limit);
    message[42] = stands_in.into();
    message[HEAD..].copy_from_slice(datagram);
}

/// A message that was handed on. Only what came to an address that this engine is at, too, concerns it.
pub(super) fn read<'a>(stations: &[Arc<Station>], message: &'a [u8]) -> Option<(Arrival, &'a [u8])> {
    let (head, datagram) = message.split_at_checked(HEAD)?;
    let gid = |at: usize| head[at..at + 16].try_into().ok().map(HostAddress::of_gid);
    let interface = u32::from_ne_bytes(head[32..36].try_into().ok()?);
    let location = Location { address: gid(0)?, interface };
    let station = stations.iter().find(|station| station.location == location)?;
    let number = |at: usize| u16::from_ne_bytes([head[at], head[at + 1]]);
    let arrival = Arrival {
        station: Arc::clone(station),
        source: gid(16)?,
        source_port: number(36),
        index: number(38),
        traffic_class: head[40],
        hop_limit: head[41],
        was_handed_on: head[42] == 0,
    };
    Some((arrival, datagram))
}
