//! What a queue pair is created with and modified by.

use crate::access::Access;

use crate::number::QpNumber;
use crate::state::{AttributeMask, QpState};
use crate::work_request::AddressVector;

/// The bits of an RNR timer code.
const RNR_TIMER_BITS: u8 = 0x1f;

/// Sizes of a queue pair's queues (`ibv_qp_cap`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// Send requests outstanding.
    pub send_requests: u32,
    /// Receive requests outstanding.
    pub receive_requests: u32,
    /// Pieces in a send request.
    pub send_pieces: u32,
    /// Pieces in a receive request.
    pub receive_pieces: u32,
    /// Inline bytes in a send request.
    pub inline_bytes: u32,
}

/// Everything `ibv_modify_qp(3)` can set and `ibv_query_qp(3)` returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpAttributes {
    /// State.
    pub state: QpState,
    /// State the caller believes in.
    pub current_state: QpState,
    /// `enum ibv_mtu`: 1 to 5 for 256 to 4096 bytes.
    pub path_mtu: u32,
    /// Path migration state, `enum ibv_mig_state`.
    pub path_migration_state: u32,
    /// Q_Key.
    pub q_key: u32,
    /// First packet number expected, 24 bits.
    pub receive_psn: u32,
    /// First packet number sent, 24 bits.
    pub send_psn: u32,
    /// The peer.
    pub destination_qp: QpNumber,
    /// What the peer may do.
    pub access: Access,
    /// The path.
    pub address_vector: Option<AddressVector>,
    /// Index into the P_Key table.
    pub pkey_index: u16,
    /// Whether an event was asked for when the send queue has drained.
    pub drained_notify: bool,
    /// Reads and atomics outstanding as requester.
    pub max_rd_atomic: u8,
    /// Reads and atomics outstanding as responder.
    pub max_dest_rd_atomic: u8,
    /// RNR timer code, 0 to 31: of what a program sets the lowest five bits, as Mellanox cards take it.
    pub min_rnr_timer: u8,
    /// Port, 1 based; 0 before INIT.
    pub port: u8,
    /// ACK timeout exponent, 0 to 31; 0 is for ever.
    pub timeout: u8,
    /// Retries after timeouts, 0 to 7.
    pub retry_count: u8,
    /// Retries after RNR, 0 to 7; 7 is for ever.
    pub rnr_retry: u8,
}

impl Default for QpAttributes {
    fn default() -> Self {
        Self {
            state: QpState::Reset,
            current_state: QpState::Reset,
            path_mtu: 0,
            path_migration_state: 0,
            q_key: 0,
            receive_psn: 0,
            send_psn: 0,
            destination_qp: QpNumber(0),
            access: Access::LOCAL_READ,
            address_vector: None,
            pkey_index: 0,
            drained_notify: false,
            max_rd_atomic: 0,
            max_dest_rd_atomic: 0,
            min_rnr_timer: 0,
            port: 0,
            timeout: 0,
            retry_count: 0,
            rnr_retry: 0,
        }
    }
}

impl QpAttributes {
    /// Takes over from `new` what `mask` names. The state itself is the caller's business.
    pub fn apply(&mut self, new: &Self, mask: AttributeMask) {
        use AttributeMask as A;
        let has = |bit| mask.has(bit);
        if has(A::ENABLE_DRAINED_NOTIFY) {
            self.drained_notify = new.drained_notify;
        }
        if has(A::ACCESS_FLAGS) {
            self.access = new.access;
        }
        if has(A::PKEY_INDEX) {
            self.pkey_index = new.pkey_index;
        }
        if has(A::PORT) {
            self.port = new.port;
        }
        if has(A::QKEY) {
            self.q_key = new.q_key;
        }
        if has(A::ADDRESS_VECTOR) {
            self.address_vector = new.address_vector;
        }
        if has(A::PATH_MTU) {
            self.path_mtu = new.path_mtu;
        }
        if has(A::TIMEOUT) {
            self.timeout = new.timeout;
        }
        if has(A::RETRY_COUNT) {
            self.retry_count = new.retry_count;
        }
        if has(A::RNR_RETRY) {
            self.rnr_retry = new.rnr_retry;
        }
        if has(A::RQ_PSN) {
            self.receive_psn = new.receive_psn & QpNumber::MASK;
        }
        if has(A::MAX_RD_ATOMIC) {
            self.max_rd_atomic = new.max_rd_atomic;
        }
        if has(A::MIN_RNR_TIMER) {
            self.min_rnr_timer = new.min_rnr_timer & RNR_TIMER_BITS;
        }
        if has(A::SQ_PSN) {
            self.send_psn = new.send_psn & QpNumber::MASK;
        }
        if has(A::MAX_DEST_RD_ATOMIC) {
            self.max_dest_rd_atomic = new.max_dest_rd_atomic;
        }
        if has(A::PATH_MIGRATION_STATE) {
            self.path_migration_state = new.path_migration_state;
        }
        if has(A::DESTINATION_QP) {
            self.destination_qp = QpNumber::masked(new.destination_qp.0);
        }
    }
}
