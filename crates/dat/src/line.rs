//! What carries a connection: within this host its connection manager, to other hosts datagrams; and the way that the bytes of the
//! endpoints take.

use nonic_connection::{Connection, End};
use nonic_protocol::{Psn, QpNumber};
use nonic_roce::{ConnectReply, Service, Side};
use nonic_wire_connection::{MetWay, Way, WireConnection, ip_address};

use crate::introduction::{Introduction, READS_MAX};
use crate::private_data;

/// The way to a peer's endpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Path {
    /// Of this host.
    Host,
    /// Of this host, in another network namespace that is met in a folder.
    Met(MetWay),
    /// Of another one.
    Wire(Way),
}

/// A connection, or the attempt at one. Dropped, it ends.
#[derive(Debug)]
pub(crate) enum Line {
    Host(Connection),
    Wire(WireConnection),
}

impl Line {
    /// It ends because it has failed here.
    pub(crate) fn fail(self) {
        match self {
            Self::Host(connection) => connection.fail(),
            Self::Wire(connection) => connection.disconnect(&private_data::failure()),
        }
    }

    /// The peer is ready, as what it has sent shows.
    pub(crate) fn is_established(&self) {
        if let Self::Wire(connection) = self {
            connection.is_established();
        }
    }
}

/// Why there is no connection, or no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending<'a> {
    /// The program that was asked rejects, with this private data.
    Rejected(&'a [u8]),
    /// It was not asked, or did not decide.
    Refused,
    /// The time for the attempt ran out.
    TimedOut,
    /// The other host does not answer.
    Unreachable,
    /// The other side ended it.
    Disconnected,
    /// The other process ended, or the connection failed there.
    Lost,
}

impl<'a> From<End<'a>> for Ending<'a> {
    fn from(end: End<'a>) -> Self {
        match end {
            End::Rejected(data) => Self::Rejected(data),
            End::Refused(_) => Self::Refused,
            End::TimedOut => Self::TimedOut,
            End::Disconnected => Self::Disconnected,
            End::Lost => Self::Lost,
        }
    }
}

/// The service that a connection qualifier is on the wire; `None` if it is one of those that are ports there.
pub(crate) fn service_of(conn_qual: u64) -> Option<Service> {
    (!nonic_roce::PortSpace::is_port(conn_qual)).then_some(Service::Number(conn_qual))
}

/// This side as the messages on the wire say it. There the number is that of the first packet that the *other* side sends.
pub(crate) fn side(own: &Introduction, rnr_retry: u8, has_shared_receives: bool) -> Side {
    Side {
        qp_number: own.pair,
        starting_psn: Psn(own.packet),
        responder_resources: own.reads_in,
        initiator_depth: own.reads_out,
        rnr_retry,
        flow_control: false,
        has_srq: has_shared_receives,
        q_key: 0,
    }
}

/// What a peer on another host says of itself.
pub(crate) struct Said {
    pub(crate) pair: QpNumber,
    pub(crate) packet: Psn,
    pub(crate) reads_in: u8,
    pub(crate) reads_out: u8,
}

impl From<&ConnectReply> for Said {
    fn from(reply: &ConnectReply) -> Self {
        Self {
            pair: reply.qp_number,
            packet: reply.starting_psn,
            reads_in: reply.responder_resources,
            reads_out: reply.initiator_depth,
        }
    }
}

/// A peer on another host, as one of this host introduces itself. `None` if what it says makes no sense.
pub(crate) fn introduced(said: &Said, way: &Way, port: u64) -> Option<Introduction> {
    // Numbers 0 and 1 are of no connection.
    let sound = (2..=QpNumber::MASK).contains(&said.pair.0) && said.packet.0 <= QpNumber::MASK;
    let reads = |count: u8| count.min(READS_MAX.unsigned_abs() as u8);
    sound.then(|| Introduction {
        pair: said.pair,
        packet: said.packet.0,
        reads_in: reads(said.reads_in),
        reads_out: reads(said.reads_out),
        address: ip_address(way.ends.remote),
        port,
    })
}

#[cfg(test)]
mod tests {
    use nonic_roce::{Ends, HostAddress};

    use super::*;

    #[test]
    fn what_another_host_says_of_itself_counts_only_if_it_makes_sense_and_as_far_as_it_may() {
        let ends = Ends { local: HostAddress::V4([10, 0, 0, 1]), remote: HostAddress::V4([10, 0, 0, 2]) };
        let way = Way { index: 1, ends, path_mtu: 3, traffic_class: 0, ack_timeout: 17 };
        let said = |pair, packet, reads_in| {
            let said = Said { pair: QpNumber(pair), packet: Psn(packet), reads_in, reads_out: 255 };
            introduced(&said, &way, 5)
        };
        for (pair, packet) in [(0, 1), (1, 1), (QpNumber::MASK + 1, 1), (2, QpNumber::MASK + 1)] {
            assert_eq!(said(pair, packet, 1), None);
        }
        let peer = Introduction {
            pair: QpNumber(2),
            packet: QpNumber::MASK,
            reads_in: 3,
            reads_out: 16,
            address: [10, 0, 0, 2].into(),
            port: 5,
        };
        assert_eq!(said(2, QpNumber::MASK, 3), Some(peer));
        assert_eq!(said(2, QpNumber::MASK, 17).map(|peer| peer.reads_in), Some(16));
    }

    #[test]
    fn qualifiers_that_are_ports_on_the_wire_are_no_services_there() {
        assert_eq!(service_of(0xff_ffff), Some(Service::Number(0xff_ffff)));
        assert_eq!([0x100_0000, 0x106_1234, 0x1ff_ffff].map(service_of), [None; 3]);
        assert_eq!(service_of(0x200_0000), Some(Service::Number(0x200_0000)));
    }
}
