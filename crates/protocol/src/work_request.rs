//! What a program asks a queue pair to do.

use crate::access::Access;
use crate::flush::FlushRequest;
use crate::key::Key;
use crate::number::{QpNumber, RemoteRange, SrqNumber};

/// One piece of local memory of a work request (`ibv_sge`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct ScatterGather {
    /// Address within the region `key` names: virtual or zero based, as registered.
    pub address: u64,
    /// Length in bytes.
    pub length: u32,
    /// The region's local key.
    pub key: Key,
}

/// What a send-queue request does. Immediate data stay in the byte order the program gave them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Two-sided message.
    Send {
        /// Immediate data for the receiver's completion.
        immediate: Option<u32>,
    },
    /// RDMA Write; with immediate data it also consumes a receive at the target.
    Write {
        /// Where the bytes go.
        remote: RemoteRange,
        /// Immediate data for the target's completion.
        immediate: Option<u32>,
    },
    /// RDMA Read.
    Read {
        /// Where the bytes come from.
        remote: RemoteRange,
    },
    /// Atomic compare and swap of 8 bytes.
    CompareSwap {
        /// The word.
        remote: RemoteRange,
        /// Expected value, host order.
        compare: u64,
        /// New value, host order.
        swap: u64,
    },
    /// Atomic fetch and add of 8 bytes.
    FetchAdd {
        /// The word.
        remote: RemoteRange,
        /// What is added, host order.
        add: u64,
    },
    /// Atomic write of 8 bytes (annex A19.4.2): a write of an aligned word, which nobody sees in parts.
    AtomicWrite {
        /// The word.
        remote: RemoteRange,
    },
    /// A flush of what was written before (annex A19.4.1). It has no bytes of this side's.
    Flush {
        /// What, and how far.
        flush: FlushRequest,
    },
    /// A send that takes a key of the receiver's out of use: that of a type 2 window bound through the receiving queue pair.
    SendInvalidate {
        /// The key.
        key: Key,
    },
    /// Binds a memory window, or unbinds a type 1 window if `length` is 0. Nothing of it happens at the peer.
    Bind {
        /// Which window.
        window: WindowId,
        /// The new key; its index is the window's.
        key: Key,
        /// Local key of the region.
        region: Option<Key>,
        /// First byte, in the address space of the region.
        address: u64,
        /// Length in bytes.
        length: u64,
        /// What peers may do: remote rights only.
        access: Access,
        /// Whether peers count from the first byte of the window, and not as for the region.
        zero_based: bool,
    },
    /// Takes the key of a type 2 window that was bound through this queue pair out of use.
    Invalidate {
        /// The key.
        key: Key,
    },
}

/// Which memory window of a process; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WindowId(pub u32);

impl Operation {
    /// The remote rights the operation needs on its target, or `None` if it names no remote memory.
    pub fn remote_access(&self) -> Option<Access> {
        match self {
            Self::Send { .. } | Self::SendInvalidate { .. } | Self::Bind { .. } | Self::Invalidate { .. } => {
                None
            }
            Self::Write { .. } | Self::AtomicWrite { .. } => Some(Access::REMOTE_WRITE),
            Self::Read { .. } => Some(Access::REMOTE_READ),
            Self::CompareSwap { .. } | Self::FetchAdd { .. } => Some(Access::REMOTE_ATOMIC),
            Self::Flush { flush } => Some(flush.placement.access()),
        }
    }

    /// The remote memory it names.
    pub fn remote(&self) -> Option<RemoteRange> {
        match *self {
            Self::Send { .. } | Self::SendInvalidate { .. } | Self::Bind { .. } | Self::Invalidate { .. } => {
                None
            }
            Self::Write { remote, .. }
            | Self::AtomicWrite { remote }
            | Self::Read { remote }
            | Self::CompareSwap { remote, .. }
            | Self::FetchAdd { remote, .. }
            | Self::Flush { flush: FlushRequest { remote, .. } } => Some(remote),
        }
    }

    /// Whether the local memory receives the result.
    pub fn writes_locally(&self) -> bool {
        matches!(self, Self::Read { .. } | Self::CompareSwap { .. } | Self::FetchAdd { .. })
    }

    /// Whether it is answered with data, and not with an acknowledgement: a flush with those of a read of nothing (annex A19.4.1).
    pub fn is_answered_with_data(&self) -> bool {
        self.writes_locally() || matches!(self, Self::Flush { .. })
    }

    /// Whether it is answered as a read is.
    pub fn is_answered_as_read(&self) -> bool {
        matches!(self, Self::Read { .. } | Self::Flush { .. })
    }

    /// Whether nothing of it happens at the peer.
    pub fn is_local(&self) -> bool {
        matches!(self, Self::Bind { .. } | Self::Invalidate { .. })
    }

    /// Whether memory of this side is concerned, be it of no bytes.
    pub fn has_bytes(&self) -> bool {
        !self.is_local() && !matches!(self, Self::Flush { .. })
    }

    /// What the completion of this request says it was.
    pub fn completion_opcode(&self) -> CompletionOpcode {
        match self {
            Self::Send { .. } | Self::SendInvalidate { .. } => CompletionOpcode::Send,
            Self::Write { immediate: None, .. } => CompletionOpcode::RdmaWrite,
            Self::Write { immediate: Some(_), .. } => CompletionOpcode::WriteWithImmediate,
            Self::Read { .. } => CompletionOpcode::RdmaRead,
            Self::CompareSwap { .. } => CompletionOpcode::CompareSwap,
            Self::FetchAdd { .. } => CompletionOpcode::FetchAdd,
            Self::AtomicWrite { .. } => CompletionOpcode::AtomicWrite,
            Self::Flush { .. } => CompletionOpcode::Flush,
            Self::Bind { .. } => CompletionOpcode::Bind,
            Self::Invalidate { .. } => CompletionOpcode::Invalidate,
        }
    }
}

/// What finished. The numbers are those of `enum ibv_wc_opcode`, but for the last two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum CompletionOpcode {
    /// A send.
    Send = 0,
    /// An RDMA Write.
    RdmaWrite = 1,
    /// An RDMA Read.
    RdmaRead = 2,
    /// A compare and swap.
    CompareSwap = 3,
    /// A fetch and add.
    FetchAdd = 4,
    /// The binding of a memory window.
    Bind = 5,
    /// A key taken out of use by its owner.
    Invalidate = 6,
    /// A flush.
    Flush = 8,
    /// An atomic write.
    AtomicWrite = 9,
    /// A receive filled by a send.
    Receive = 128,
    /// A receive consumed by an RDMA Write with immediate.
    ReceiveWriteWithImmediate = 129,
    /// A receive filled by a send that took a key out of use: the key stands where immediate data would. Programs in C see
    /// [`CompletionOpcode::Receive`] with a flag.
    ReceiveInvalidate = 256,
    /// An RDMA Write with immediate, at its initiator. Programs in C see [`CompletionOpcode::RdmaWrite`].
    WriteWithImmediate = 257,
}

/// Flags of a send-queue request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SendFlags {
    /// Start only after all earlier reads and atomics of the queue pair have finished.
    pub fence: bool,
    /// Make a completion even if the queue pair signals only on request.
    pub signaled: bool,
    /// Wake a receiver that waits for solicited events only.
    pub solicited: bool,
    /// Copy the bytes during the call; the keys are not looked at.
    pub inline: bool,
}

/// Where an unreliable datagram goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramDestination {
    /// The path of the address handle.
    pub vector: AddressVector,
    /// Zone of the address handle.
    pub zone: crate::key::ZoneId,
    /// The queue pair.
    pub qp_number: QpNumber,
    /// Q_Key; with its top bit set the sender's own is used (IBTA vol. 1, 3.5.3).
    pub q_key: u32,
}

/// Where a request goes that says so itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// A datagram: to a queue pair.
    Datagram(DatagramDestination),
    /// A request on an extended reliable connection: to a shared receive queue of the peer's domain (annex A14).
    Queue(SrqNumber),
}

/// The path part of an address handle or a connected queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressVector {
    /// Destination local identifier; 0 with a global route on Ethernet.
    pub destination_lid: u16,
    /// Service level.
    pub service_level: u8,
    /// Low bits of the path.
    pub source_path_bits: u8,
    /// Static rate limit, as `enum ibv_rate`.
    pub static_rate: u8,
    /// Port of the sender, 1 based.
    pub port: u8,
    /// Global route, if any.
    pub global: Option<GlobalRoute>,
}

impl AddressVector {
    /// Along a route out of the first port; no local identifier leads there.
    pub const fn along(route: GlobalRoute) -> Self {
        Self {
            destination_lid: 0,
            service_level: 0,
            source_path_bits: 0,
            static_rate: 0,
            port: 1,
            global: Some(route),
        }
    }
}

/// The global part of a path (GRH).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlobalRoute {
    /// Destination GID, network byte order.
    pub destination: [u8; 16],
    /// Index of the sender's GID.
    pub source_index: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
}

/// A send-queue request, borrowed from the caller for the duration of the call.
#[derive(Clone, Copy, Debug)]
pub struct SendRequest<'a> {
    /// The program's own mark, returned in the completion.
    pub id: u64,
    /// What to do.
    pub operation: Operation,
    /// How.
    pub flags: SendFlags,
    /// The local memory.
    pub pieces: &'a [ScatterGather],
    /// Where it goes, if that is not the one peer.
    pub destination: Option<Destination>,
}

/// A receive request, borrowed from the caller for the duration of the call.
#[derive(Clone, Copy, Debug)]
pub struct ReceiveRequest<'a> {
    /// The program's own mark, returned in the completion.
    pub id: u64,
    /// Where the message goes.
    pub pieces: &'a [ScatterGather],
}

/// Why a posted request was not taken. Nothing of it was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PostError {
    /// The queue has no free slot.
    #[error("the queue is full: {capacity} requests are outstanding and not yet polled")]
    QueueFull {
        /// Slots in all.
        capacity: u32,
    },
    /// More pieces than the queue was created for.
    #[error("{pieces} scatter/gather pieces, the queue pair takes {limit}")]
    TooManyPieces {
        /// Pieces in the request.
        pieces: usize,
        /// What the queue takes.
        limit: u32,
    },
    /// More inline bytes than the queue was created for.
    #[error("{length} inline bytes, the queue pair takes {limit}")]
    InlineTooLong {
        /// Bytes in the request.
        length: u64,
        /// What the queue takes.
        limit: u32,
    },
    /// A request that brings bytes has none to be copied when it is posted.
    #[error("what brings bytes here cannot be inline")]
    InlineResult,
    /// An atomic write of something else than an aligned word of 8 bytes.
    #[error("an atomic write is of 8 bytes, at a multiple of 8")]
    NoWord,
    /// The queue pair's state takes no such request.
    #[error("a queue pair in state {state:?} takes no such request")]
    WrongState {
        /// The state.
        state: crate::state::QpState,
    },
    /// The queue pair's type has no such operation.
    #[error("a {transport:?} queue pair has no such operation")]
    WrongOperation {
        /// The type.
        transport: crate::state::QpType,
    },
    /// The queue pair takes its receives from a shared receive queue.
    #[error("the queue pair takes its receives from a shared receive queue")]
    HasSharedReceiveQueue,
    /// A datagram without address handle.
    #[error("a datagram needs an address handle")]
    NoDestination,
    /// The device of this object lives in another process (the one before `fork`), or has failed.
    #[error("the queue belongs to the process before fork, or its device has failed")]
    Gone,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_rare_makes_no_request_longer() {
        assert_eq!(size_of::<Operation>(), 40);
    }
}
