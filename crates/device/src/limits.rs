//! What the device holds. The numbers are real: that many can be created.

use nonic_protocol::MESSAGE_MAX;
use nonic_transport::GROUP_MAX;

/// Pieces in a work request at most.
pub(crate) const PIECES_MAX: usize = 32;
/// Entries of a completion queue at most.
pub(crate) const COMPLETIONS_MAX: u32 = 1 << 20;
/// Requests of a send, receive or shared receive queue at most.
pub(crate) const REQUESTS_MAX: u32 = 32_768;
/// Inline bytes of a send request at most.
pub(crate) const INLINE_MAX: u32 = 1024;
/// Reads and atomics of a queue pair at most, each way.
pub(crate) const READS_MAX: u8 = 16;
/// Queue pairs of a process at most.
pub(crate) const QUEUE_PAIRS_MAX: u32 = 65_536;
/// Bytes of a datagram at most: one packet of the largest MTU.
pub(crate) const DATAGRAM_MAX: u32 = 4096;
/// Objects of the kinds that cost little more than their memory.
const PLENTY: u32 = 65_536;

/// Limits of a device (`ibv_query_device(3)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Queue pairs.
    pub queue_pairs: u32,
    /// Requests in a queue.
    pub work_requests: u32,
    /// Pieces in a request.
    pub pieces: u32,
    /// Inline bytes in a send request.
    pub inline_bytes: u32,
    /// Completion queues.
    pub completion_queues: u32,
    /// Entries in a completion queue.
    pub completion_entries: u32,
    /// Regions.
    pub regions: u32,
    /// Memory windows. They and regions share one table, which has room for the most of both.
    pub windows: u32,
    /// Bytes in a region.
    pub region_bytes: u64,
    /// Zones.
    pub zones: u32,
    /// Shared receive queues.
    pub shared_receive_queues: u32,
    /// Requests in a shared receive queue.
    pub shared_receive_requests: u32,
    /// Address handles.
    pub address_handles: u32,
    /// Reads and atomics of a queue pair, as requester and as responder.
    pub read_atomic_per_queue_pair: u8,
    /// Bytes in a message.
    pub message_bytes: u32,
    /// Bytes of device memory.
    pub device_memory_bytes: u64,
    /// Completion vectors.
    pub completion_vectors: u32,
    /// Multicast groups with members.
    pub groups: u32,
    /// Queue pairs in one group.
    pub group_members: u32,
}

impl Limits {
    pub(crate) fn new(device_memory_bytes: u64) -> Self {
        Self {
            queue_pairs: QUEUE_PAIRS_MAX,
            work_requests: REQUESTS_MAX,
            pieces: PIECES_MAX as u32,
            inline_bytes: INLINE_MAX,
            completion_queues: PLENTY,
            completion_entries: COMPLETIONS_MAX,
            regions: nonic_transport::KEYS_MAX / 2 - 1,
            windows: nonic_transport::KEYS_MAX / 2 - 1,
            region_bytes: 1 << 47,
            zones: PLENTY,
            shared_receive_queues: PLENTY,
            shared_receive_requests: REQUESTS_MAX,
            address_handles: PLENTY,
            read_atomic_per_queue_pair: READS_MAX,
            message_bytes: MESSAGE_MAX,
            device_memory_bytes,
            completion_vectors: 1,
            groups: 8192,
            group_members: GROUP_MAX as u32,
        }
    }
}
