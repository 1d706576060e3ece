//! Joining the queue pairs of two endpoints.

use std::net::SocketAddr;
use std::sync::OnceLock;

use nonic_device::{AttributeMask, Context, QpAttributes, QpState, QueuePair};

use super::attributes::EndpointAttributes;
use crate::error::{DatError, DatResult, Resource, Subtype};
use crate::introduction::Introduction;
use crate::line::Path;

/// `IBV_MTU_4096`.
const MTU: u32 = 5;
/// How long to wait for an acknowledgement of this host, and how often to try again: 4.096 us * 2^18, about a second, seven times.
const TIMEOUT: u8 = 18;
const RETRIES: u8 = 7;
/// The longest time to wait that a queue pair knows.
const TIMEOUT_MAX: u8 = 31;
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

/// How often a peer on another host is to try again, and the other retries.
pub(super) fn retries() -> u8 {
    static CHOSEN: OnceLock<u8> = OnceLock::new();
    *CHOSEN.get_or_init(|| chosen("DAPL_ACK_RETRY", RETRIES).unwrap_or(RETRIES))
}

/// When packets are sent again that a peer on another host does not acknowledge, if that was chosen.
fn ack_timer() -> Option<u8> {
    static CHOSEN: OnceLock<Option<u8>> = OnceLock::new();
    *CHOSEN.get_or_init(|| chosen("DAPL_ACK_TIMER", TIMEOUT_MAX))
}

/// Moves a queue pair that is in INIT to where it sends and receives, with `peer` at the other end.
pub(super) fn ready_to_transfer(
    pair: &QueuePair,
    context: &Context,
    path: &Path,
    own: &Introduction,
    peer: &Introduction,
) -> DatResult<()> {
    use AttributeMask as A;
    let refused = DatError::resources(Subtype::Resource(Resource::TransportEndpoint));
    let within_host = |vector| QpAttributes {
        path_mtu: MTU,
        address_vector: Some(vector),
        receive_psn: peer.packet,
        send_psn: own.packet,
        timeout: TIMEOUT,
        retry_count: RETRIES,
        ..QpAttributes::default()
    };
    let of_way = match path {
        Path::Host => within_host(context.path_to_this_host()),
        Path::Met(way) => within_host(way.vector()),
        // There each side says what the other begins with.
        Path::Wire(way) => QpAttributes {
            path_mtu: way.path_mtu.into(),
            address_vector: Some(way.vector()),
            receive_psn: own.packet,
            send_psn: peer.packet,
            timeout: ack_timer().unwrap_or(way.ack_timeout.min(TIMEOUT_MAX)),
            retry_count: retries(),
            ..QpAttributes::default()
        },
    };
    let attributes = QpAttributes {
        state: QpState::ReadyToReceive,
        destination_qp: peer.pair,
        max_dest_rd_atomic: own.reads_in,
        min_rnr_timer: NOT_READY_TIMER,
        rnr_retry: not_ready_retries(),
        max_rd_atomic: own.reads_out.min(peer.reads_in),
        ..of_way
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
pub(super) fn not_ready_retries() -> u8 {
    static CHOSEN: OnceLock<u8> = OnceLock::new();
    *CHOSEN.get_or_init(|| chosen("DAPL_RNR_RETRY", NOT_READY_RETRIES).unwrap_or(NOT_READY_RETRIES))
}

/// What a variable says, if that is a number up to `most`.
fn chosen(variable: &str, most: u8) -> Option<u8> {
    let chosen = std::env::var(variable).ok()?.trim().parse().ok();
    chosen.filter(|number| *number <= most)
}

/// Ends what is under way, with completions that say so. The caller has the endpoint, which the connection manager's thread may wait for.
pub(super) fn to_error(pair: &QueuePair) {
    if let Err(error) = pair.fail() {
        tracing::debug!(%error, "a queue pair is not taken to error");
    }
}
