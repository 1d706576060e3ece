//! Unreliable datagrams (IBTA vol. 1, 9.8.3): each is one packet, and nobody answers. Where one goes is said with each, so that a
//! queue pair without a connection needs no machine: what is asked here is how a request becomes a packet, and whether a packet
//! that came is for a queue pair.

use nonic_protocol::{DatagramDestination, Psn, QpNumber};

use crate::address::GLOBAL_HEADER;
use crate::packet::{Base, Body, Datagram, Packet};
use crate::path_mtu::PathMtu;

/// The bit of a Q_Key that a program sets to have its queue pair's own sent (10.2.5).
const OWN_Q_KEY: u32 = 1 << 31;

/// A queue pair that has no connection, as one end of its datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramEnd {
    /// Its number.
    pub number: QpNumber,
    /// Its Q_Key.
    pub q_key: u32,
}

impl DatagramEnd {
    /// The packet of a request of its for so many bytes; `None` if they are more than a packet on this path carries. The numbers of
    /// its packets count up, and nobody looks at them.
    pub fn packet(
        &self,
        psn: Psn,
        destination: &DatagramDestination,
        immediate: Option<u32>,
        length: u64,
        mtu: PathMtu,
    ) -> Option<Packet> {
        if length > mtu.bytes().into() {
            return None;
        }
        let q_key = if destination.q_key & OWN_Q_KEY != 0 { self.q_key } else { destination.q_key };
        let datagram = Datagram { q_key, source: self.number, immediate };
        Some(Packet { base: Base::new(destination.qp_number, psn), body: Body::Datagram(datagram) })
    }

    /// Whether a datagram is for it: the Q_Key has to be its own (9.6.1.2.2). One that is not is dropped, and nobody is told.
    pub fn takes(&self, datagram: &Datagram) -> bool {
        datagram.q_key == self.q_key
    }
}

/// Bytes that a receive needs for a datagram of so many: the header in front of it has its room whether there is one or not
/// (11.4.2.1). One that finds no room is dropped.
pub fn datagram_room(length: usize) -> u64 {
    (length + GLOBAL_HEADER) as u64
}

#[cfg(test)]
mod tests {
    use nonic_protocol::{AddressVector, ZoneId};

    use super::*;

    const END: DatagramEnd = DatagramEnd { number: QpNumber(0x24), q_key: 0x1111_1111 };

    fn destination(q_key: u32) -> DatagramDestination {
        let vector = AddressVector {
            destination_lid: 0,
            service_level: 0,
            source_path_bits: 0,
            static_rate: 0,
            port: 1,
            global: None,
        };
        DatagramDestination { vector, zone: ZoneId(1), qp_number: QpNumber(9), q_key }
    }

    /// The datagram of a packet as it travels.
    fn sent(q_key: u32, length: u64) -> Option<Datagram> {
        let packet = END.packet(Psn(5), &destination(q_key), Some(7), length, PathMtu::Bytes1024)?;
        let (read, payload) =
            Packet::parse(packet.headers(0).as_slice()).ok().map(|(read, bytes)| (read, bytes.len()))?;
        assert_eq!((read, payload), (packet, 0));
        assert_eq!(
            (read.base.destination, read.base.psn, read.base.ack_request),
            (QpNumber(9), Psn(5), false)
        );
        match read.body {
            Body::Datagram(datagram) => Some(datagram),
            other => panic!("no datagram: {other:?}"),
        }
    }

    #[test]
    fn the_top_bit_of_a_q_key_asks_for_the_queue_pairs_own() {
        for (asked, sent_key) in [(5, 5), (0x8000_0000, END.q_key), (0xffff_ffff, END.q_key)] {
            let datagram = sent(asked, 4).expect("it is short enough");
            assert_eq!(
                (datagram.q_key, datagram.source, datagram.immediate),
                (sent_key, QpNumber(0x24), Some(7))
            );
            assert_eq!(END.takes(&datagram), sent_key == END.q_key);
        }
    }

    #[test]
    fn a_datagram_is_one_packet() {
        assert!(sent(5, 1024).is_some() && sent(5, 0).is_some());
        assert_eq!(sent(5, 1025), None);
        assert_eq!((datagram_room(0), datagram_room(1024)), (40, 1064));
    }
}
