//! What identifiers tell the connection manager on the wire, and what it tells them, as ports and facts of both sides.

use std::net::{IpAddr, SocketAddr};

use nonic_protocol::Psn;
use nonic_roce::{CallError, ConnectReply, ConnectRequest, Ends, PortSpace as Ports, ServiceRequest, Side};
use nonic_wire_connection::{MetWay, Way, host_address, ip_address};

use crate::facts::{Facts, RETRIES_MAX};
use crate::private_data::Kind;
use crate::{ConnectionParameters, Ece, Error, PortSpace};

/// The way from an address of this host to one of another, as programs read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireRoute {
    /// GID of this side's address.
    pub source: [u8; 16],
    /// Of the peer's.
    pub destination: [u8; 16],
    /// Path MTU, as `enum ibv_mtu`.
    pub path_mtu: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Hop limit.
    pub hop_limit: u8,
}

impl WireRoute {
    pub(crate) fn of(way: &Way) -> Self {
        Self {
            source: way.ends.local.gid(),
            destination: way.ends.remote.gid(),
            path_mtu: way.path_mtu,
            traffic_class: way.traffic_class,
            hop_limit: way.hop_limit(),
        }
    }

    /// To another network namespace.
    pub(crate) fn of_met(way: &MetWay) -> Self {
        Self {
            source: host_address(way.source).gid(),
            destination: host_address(way.destination).gid(),
            path_mtu: way.path_mtu(),
            traffic_class: 0,
            hop_limit: way.hop_limit(),
        }
    }
}

/// Ports that are services on the wire; those of IP over InfiniBand are not.
pub(crate) fn roce_space(space: PortSpace) -> Option<Ports> {
    match space {
        PortSpace::Tcp => Some(Ports::Tcp),
        PortSpace::Udp => Some(Ports::Udp),
        PortSpace::InfiniBand => Some(Ports::Ib),
        PortSpace::Scif => Some(Ports::Scif),
        PortSpace::Ipoib => None,
    }
}

/// Whether an address is one that no other host reaches.
pub(crate) fn is_of_host_only(ip: IpAddr) -> bool {
    ip.is_loopback() || ip.is_multicast()
}

pub(crate) fn refused(error: CallError) -> Error {
    Error::Argument(match error {
        CallError::PrivateData { .. } => "there is more private data than a message carries",
        CallError::Range => "a number of the connection is out of its range",
        CallError::Addresses => "there is no way between these addresses",
        CallError::Unknown | CallError::State | CallError::Listening => "the connection is over",
    })
}

/// This side, as the request or the reply says it.
pub(crate) fn side(told: &ConnectionParameters, packet: u32) -> Side {
    Side {
        qp_number: told.queue_pair,
        starting_psn: Psn(packet),
        responder_resources: told.responder_resources,
        initiator_depth: told.initiator_depth,
        rnr_retry: told.rnr_retry_count.min(RETRIES_MAX),
        flow_control: told.flow_control,
        has_srq: told.shared_receive_queue,
        q_key: 0,
    }
}

/// What the side that asks says between these addresses, without its private data.
pub(crate) fn of_request(ends: Ends, request: &ConnectRequest) -> Facts {
    let parameters = ConnectionParameters {
        private_data: Box::default(),
        responder_resources: request.responder_resources,
        initiator_depth: request.initiator_depth,
        flow_control: request.flow_control,
        retry_count: request.retry_count,
        rnr_retry_count: request.rnr_retry,
        shared_receive_queue: request.has_srq,
        queue_pair: request.qp_number,
        queue_key: 0,
        ece: Ece::default(),
    };
    asked(ends, request.service_id, request.starting_psn.0, parameters)
}

/// What the side says that asks where datagrams go to.
pub(crate) fn of_question(ends: Ends, request: &ServiceRequest) -> Facts {
    asked(ends, request.service_id, 0, ConnectionParameters::default())
}

/// The port of the one that asks stands in front of its private data, if it does.
fn asked(ends: Ends, service_id: u64, packet: u32, parameters: ConnectionParameters) -> Facts {
    Facts {
        parameters,
        packet,
        source: SocketAddr::new(ip_address(ends.remote), 0),
        destination: SocketAddr::new(ip_address(ends.local), service_id as u16),
        kind: Kind::default(),
    }
}

/// What the side says that was asked. `source` and `destination` are seen from there.
pub(crate) fn of_reply(source: SocketAddr, destination: SocketAddr, reply: &ConnectReply) -> Facts {
    Facts {
        parameters: ConnectionParameters {
            private_data: reply.private_data[..].into(),
            responder_resources: reply.responder_resources,
            initiator_depth: reply.initiator_depth,
            flow_control: reply.flow_control,
            retry_count: RETRIES_MAX,
            rnr_retry_count: reply.rnr_retry,
            shared_receive_queue: reply.has_srq,
            queue_pair: reply.qp_number,
            queue_key: 0,
            ece: Ece::default(),
        },
        packet: reply.starting_psn.0,
        source,
        destination,
        kind: Kind::default(),
    }
}
