//! Queue pairs of a side, and how a rule wants them.

use nonic_device::{Access, Capabilities, QpNumber, QpType};

use crate::memory::EVERYTHING;

/// A queue pair with its queues.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) pair: u32,
    pub(crate) number: QpNumber,
    pub(crate) zone: u32,
    pub(crate) send_queue: u32,
    pub(crate) receive_queue: u32,
    pub(crate) channel: Option<u32>,
    pub(crate) shared: Option<u32>,
}

/// How a rule wants its queue pairs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    pub(crate) transport: QpType,
    pub(crate) access: Access,
    pub(crate) capabilities: Capabilities,
    pub(crate) signal_all: bool,
    pub(crate) entries: u32,
    /// One completion channel for both queues.
    pub(crate) channel: bool,
    /// Receives come from a shared queue of so many, with this limit.
    pub(crate) shared: Option<(u32, u32)>,
    pub(crate) timeout: u8,
    pub(crate) retry_count: u8,
    pub(crate) rnr_retry: u8,
    pub(crate) min_rnr_timer: u8,
    pub(crate) max_rd_atomic: u8,
    pub(crate) max_dest_rd_atomic: u8,
    pub(crate) q_key: u32,
}

/// Reliable connection, every right, long patience, every send signalled.
pub(crate) const RELIABLE: Options = Options {
    transport: QpType::ReliableConnection,
    access: EVERYTHING,
    capabilities: Capabilities {
        send_requests: 64,
        receive_requests: 64,
        send_pieces: 32,
        receive_pieces: 32,
        inline_bytes: 64,
    },
    signal_all: true,
    entries: 256,
    channel: false,
    shared: None,
    timeout: 17,
    retry_count: 7,
    rnr_retry: 7,
    min_rnr_timer: 1,
    max_rd_atomic: 16,
    max_dest_rd_atomic: 16,
    q_key: 0x1111_1111,
};

/// The same, unreliable.
pub(crate) const UNRELIABLE: Options = Options { transport: QpType::UnreliableConnection, ..RELIABLE };
/// Datagrams.
pub(crate) const DATAGRAM: Options = Options { transport: QpType::UnreliableDatagram, ..RELIABLE };
