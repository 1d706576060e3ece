//! What the connection manager on the wire tells identifiers, and what they tell it, as facts of both sides.

use std::net::SocketAddr;

use nonic_protocol::Psn;
use nonic_roce::{
    AddressHeader, ConnectReply, ConnectRequest, ConnectionOffer, ServiceRequest, Side, Transport,
    behind_header,
};

use super::Way;
use super::way::{HOP_LIMIT, ip_address};
use crate::facts::{Facts, RETRIES_MAX};
use crate::{ConnectionParameters, Ece};

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

pub(crate) fn offer(way: &Way, retry_count: u8) -> ConnectionOffer {
    ConnectionOffer {
        transport: Transport::Reliable,
        path_mtu: way.path_mtu,
        retry_count,
        traffic_class: way.traffic_class,
        hop_limit: HOP_LIMIT,
        flow_label: None,
    }
}

/// What the side that asks says. `to` is the port that it asks.
pub(crate) fn of_request(header: AddressHeader, to: u16, request: &ConnectRequest) -> Facts {
    Facts {
        parameters: ConnectionParameters {
            private_data: behind_header(Some(header), &request.private_data).into(),
            responder_resources: request.responder_resources,
            initiator_depth: request.initiator_depth,
            flow_control: request.flow_control,
            retry_count: request.retry_count,
            rnr_retry_count: request.rnr_retry,
            shared_receive_queue: request.has_srq,
            queue_pair: request.qp_number,
            queue_key: 0,
            ece: Ece::default(),
        },
        packet: request.starting_psn.0,
        source: SocketAddr::new(ip_address(header.source), header.source_port),
        destination: SocketAddr::new(ip_address(header.destination), to),
    }
}

/// What the side says that asks where datagrams go to.
pub(crate) fn of_question(header: AddressHeader, to: u16, request: &ServiceRequest) -> Facts {
    Facts {
        parameters: ConnectionParameters {
            private_data: behind_header(Some(header), &request.private_data).into(),
            ..ConnectionParameters::default()
        },
        packet: 0,
        source: SocketAddr::new(ip_address(header.source), header.source_port),
        destination: SocketAddr::new(ip_address(header.destination), to),
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
    }
}
