//! Datagrams that came: where from, and the packet in each, whose check is looked at before anything else is believed.

use std::sync::Arc;

use nonic_protocol::QpNumber;
use nonic_roce::{Envelope, GLOBAL_HEADER, HostAddress, Malformed, Packet};

use crate::station::{Route, Station, envelope};

/// A datagram that came.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// Where it came to.
    pub station: Arc<Station>,
    /// Who sent it, as its header of IP says.
    pub source: HostAddress,
    pub(crate) source_port: u16,
    /// Traffic class; of IPv4 the type of service. Its last two bits tell of congestion (RFC 3168).
    pub traffic_class: u8,
    /// Hop limit; of IPv4 the time to live.
    pub hop_limit: u8,
    /// Where among datagrams that came as one.
    pub(crate) index: u16,
    /// It came to another process of this user, which handed it on. Of a management datagram that came to a process which takes none it
    /// is false for one of those to which it was handed: that one stands in.
    pub was_handed_on: bool,
}

/// Whose a datagram is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It was taken, or dropped.
    Taken,
    /// It was taken, and concerns others as well.
    Shared,
    /// No queue pair of this engine's has this number: it is another process's, or nobody's.
    Elsewhere,
}

/// Datagrams that came as one: of one length, but for the last.
#[derive(Debug)]
pub struct Run<'a> {
    arrival: Arrival,
    current: &'a [u8],
    rest: &'a [u8],
    /// Their length.
    segment: usize,
}

impl<'a> Run<'a> {
    /// Datagrams of `segment` bytes, of which `arrival` is the first one's; the first is the current one.
    pub(crate) fn new(arrival: Arrival, bytes: &'a [u8], segment: usize) -> Self {
        let mut run = Self { arrival, current: &[], rest: bytes, segment };
        (run.current, run.rest) = run.next();
        run
    }

    /// The datagram behind the current one, and those behind that.
    fn next(&self) -> (&'a [u8], &'a [u8]) {
        self.rest.split_at(self.segment.min(self.rest.len()))
    }

    /// The current one, and where it came from.
    pub fn current(&self) -> (&Arrival, &'a [u8]) {
        (&self.arrival, self.current)
    }

    /// The queue pair that the current one is for.
    pub fn destination(&self) -> Option<QpNumber> {
        Arrival::destination(self.current)
    }

    /// Goes on to the next if it is for a queue pair, too; whether it did.
    pub fn goes_on_for(&mut self, number: QpNumber) -> bool {
        Arrival::destination(self.next().0) == Some(number) && self.goes_on()
    }

    /// Goes on to the next; false if there is none.
    pub(crate) fn goes_on(&mut self) -> bool {
        if self.rest.is_empty() {
            return false;
        }
        (self.current, self.rest) = self.next();
        self.arrival.index = self.arrival.index.wrapping_add(1);
        true
    }
}

impl Arrival {
    /// The queue pair that a datagram is for, before its check is looked at. `None`: it is too short for a packet.
    pub fn destination(datagram: &[u8]) -> Option<QpNumber> {
        let [first, second, third] = *datagram.get(5..8)? else { return None };
        Some(QpNumber(u32::from_be_bytes([0, first, second, third])))
    }

    /// Whether it comes from the other end of a way from a station. Addresses of one link are others on another interface.
    pub fn comes_by(&self, station: &Station, route: &Route) -> bool {
        self.source == route.to && self.station.location == station.location
    }

    /// Reads a datagram: the packet, its payload, and the headers it had. Of IPv4 the number that the datagram had is not told to who
    /// receives: it is 0, or its place in a run, and otherwise is found from the check, which then guards less.
    pub fn read<'a>(&self, datagram: &'a [u8]) -> Result<(Packet, &'a [u8], Envelope), Malformed> {
        let envelope = |index| envelope(self.source, self.station.address(), self.source_port, index);
        let mut likely = envelope(usize::from(self.index)).ok_or(Malformed::Check)?;
        let mut read = Packet::receive(&likely, datagram);
        if read == Err(Malformed::Check)
            && let Some(found) = likely.identify(datagram)
        {
            likely = found;
            read = Packet::receive(&likely, datagram);
        }
        read.map(|(packet, payload)| (packet, payload, likely))
    }

    /// Whether a router met congestion with it.
    pub fn met_congestion(&self) -> bool {
        self.traffic_class & 3 == 3
    }

    /// The header that stands in front of a datagram of so many bytes in the receive that takes it.
    pub fn global_header(&self, envelope: &Envelope, datagram: &[u8]) -> [u8; GLOBAL_HEADER] {
        envelope.global_header(self.traffic_class, self.hop_limit, datagram.len() as u16)
    }
}

#[cfg(test)]
mod tests {
    use nonic_sys::random_u64;

    use super::*;
    use crate::station::Location;
    use crate::wire::Wire;

    fn own_address() -> HostAddress {
        let [first, second, third, ..] = random_u64().to_ne_bytes();
        HostAddress::V4([127, first, second, third.clamp(1, 254)])
    }

    fn came(station: &Arc<Station>, source: HostAddress) -> Arrival {
        Arrival {
            station: Arc::clone(station),
            source,
            source_port: 1,
            traffic_class: 0,
            hop_limit: 64,
            index: 0,
            was_handed_on: false,
        }
    }

    #[test]
    fn an_address_of_another_link_is_not_the_peers_although_it_is_the_same() {
        let (own, wire) = (own_address(), Wire::new().unwrap());
        let open = |interface| wire.station(Location { address: own, interface }).unwrap().0;
        // There may be no such interface, and nothing is sent.
        let (near, far) = (open(1), open(0xffff));
        let [peer, stranger] = [1, 2].map(|last| HostAddress::V4([127, 0, 0, last]));
        let route = Route { to: peer, traffic_class: 0, hop_limit: 64 };
        assert!(came(&near, peer).comes_by(&near, &route));
        assert!(!came(&near, stranger).comes_by(&near, &route));
        assert!(!came(&far, peer).comes_by(&near, &route));
    }

    #[test]
    fn a_run_goes_on_for_a_queue_pair_up_to_the_first_datagram_of_another_and_each_has_its_place() {
        let (own, wire) = (own_address(), Wire::new().unwrap());
        let (station, _) = wire.station(Location { address: own, interface: 1 }).unwrap();
        // Of twelve bytes each, for two queue pairs; the last is shorter, and too short for a number.
        let mut bytes: Vec<u8> =
            [7, 7, 8].iter().flat_map(|to| [0, 0, 0, 0, 0, 0, 0, *to, 0, 0, 0, 0]).collect();
        bytes.extend([1; 3]);
        let mut run = Run::new(came(&station, own), &bytes, 12);
        let at = |run: &Run<'_>| (run.current().0.index, run.current().1.len(), run.destination());
        let [seven, eight] = [7, 8].map(|number| Some(QpNumber(number)));
        assert_eq!(at(&run), (0, 12, seven));
        assert!(!run.goes_on_for(QpNumber(8)) && run.goes_on_for(QpNumber(7)));
        assert_eq!(at(&run), (1, 12, seven));
        assert!(!run.goes_on_for(QpNumber(7)) && run.goes_on());
        assert_eq!(at(&run), (2, 12, eight));
        assert!(!run.goes_on_for(QpNumber(8)) && run.goes_on());
        assert_eq!(at(&run), (3, 3, None));
        assert!(!run.goes_on());
        // Each is too short for a number; together they would have one.
        let bytes = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0];
        assert!(!Run::new(came(&station, own), &bytes, 4).goes_on_for(QpNumber(7)));
    }
}
