//! Joining the queue pairs of two endpoints.

use std::net::SocketAddr;

use nonic_device::{AttributeMask, Context, QpAttributes, QpState, QueuePair};

use super::attributes::EndpointAttributes;
use crate::error::{DatError, DatResult, Resource, Subtype};
use crate::introduction::Introduction;

/// `IBV_MTU_4096`.
const MTU: u32 = 5;
/// How long to wait for an acknowledgement, and how often to try again: 4.096 us * 2^18, about a second, seven times.
const TIMEOUT: u8 = 18;
const RETRIES: u8 = 7;
/// What a peer is told to wait that sends before a receive is posted: 12 is 0.64 ms.
const NOT_READY_TIMER: u8 = 12;
/// How often a peer that has no receive is tried again: for ever, as programs expect of uDAPL on InfiniBand.
const NOT_READY_RETRIES: u8 = 7;

/// What the peer is told of an endpoint.
pub(super) fn describe(
    pair: &QueuePair,
    packet: u32,
    attributes: &EndpointAttributes,
    address: SocketAddr,
    port: u64,
) -> Introduction {
    let reads = |count: i32| u8::try_from(count).unwrap_or(0);
    Introduction {
        pair: pair.number(),
        packet,
        reads_in: reads(attributes.max_reads_in),
        reads_out: reads(attributes.max_reads_out),
        address: address.ip(),
        port,
    }
}

/// Moves a queue pair that is in INIT to where it sends and receives, with `peer` at the other end.
pub(super) fn ready_to_transfer(
    pair: &QueuePair,
    context: &Context,
    own: &Introduction,
    peer: &Introduction,
) -> DatResult<()> {
    use AttributeMask as A;
    let refused = DatError::resources(Subtype::Resource(Resource::TransportEndpoint));
    let attributes = QpAttributes {
        state: QpState::ReadyToReceive,
        path_mtu: MTU,
        destination_qp: peer.pair,
        receive_psn: peer.packet,
        max_dest_rd_atomic: own.reads_in,
        min_rnr_timer: NOT_READY_TIMER,
        address_vector: Some(context.path_to_this_host()),
        send_psn: own.packet,
        timeout: TIMEOUT,
        retry_count: RETRIES,
        rnr_retry: not_ready_retries(),
        max_rd_atomic: own.reads_out.min(peer.reads_in),
        ..QpAttributes::default()
    };
    let receive = A::STATE
        | A::ADDRESS_VECTOR
        | A::PATH_MTU
        | A::DESTINATION_QP
        | A::RQ_PSN
        | A::MAX_DEST_RD_ATOMIC
        | A::MIN_RNR_TIMER;
    pair.modify(&attributes, receive).map_err(|_| refused)?;
    let attributes = QpAttributes { state: QpState::ReadyToSend, ..attributes };
    let send = A::STATE | A::TIMEOUT | A::RETRY_COUNT | A::RNR_RETRY | A::SQ_PSN | A::MAX_RD_ATOMIC;
    pair.modify(&attributes, send).map_err(|_| refused)
}

/// What `DAPL_RNR_RETRY` says (0 to 6; 7 is for ever), read once.
fn not_ready_retries() -> u8 {
    static CHOSEN: std::sync::OnceLock<u8> = std::sync::OnceLock::new();
    *CHOSEN.get_or_init(|| {
        let chosen = std::env::var("DAPL_RNR_RETRY").ok().and_then(|text| text.trim().parse().ok());
        chosen.filter(|count| *count <= 7).unwrap_or(NOT_READY_RETRIES)
    })
}

/// Ends what is under way, with completions that say so.
pub(super) fn to_error(pair: &QueuePair) {
    let attributes = QpAttributes { state: QpState::Error, ..QpAttributes::default() };
    if let Err(error) = pair.modify(&attributes, AttributeMask::STATE) {
        tracing::debug!(%error, "a queue pair is not taken to error");
    }
}
