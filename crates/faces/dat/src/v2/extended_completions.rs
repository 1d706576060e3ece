//! What completions of operations say that 2.0 has as extensions.

use nonic_dat::TransferKind;

use super::numbers::{
    DTO_RDMA_WRITE_IMMED, EXT_CMP_AND_SWAP, EXT_FETCH_AND_ADD, EXT_RDMA_WRITE_IMMED,
    EXT_RDMA_WRITE_IMMED_DATA,
};

/// `DAT_DTOS`.
pub(super) const fn operation(kind: TransferKind) -> u32 {
    kind as u32
}

/// Whether an operation is one of the extensions, whose completions are events of their own.
pub(super) const fn extends(kind: TransferKind) -> bool {
    kind as u32 >= DTO_RDMA_WRITE_IMMED
}

/// What the completion of an operation says behind the event's own data.
pub(super) fn extension(kind: TransferKind, immediate: u32) -> [u64; 8] {
    let kind = match kind {
        TransferKind::RdmaWriteImmediate => EXT_RDMA_WRITE_IMMED,
        TransferKind::ReceiveImmediate => EXT_RDMA_WRITE_IMMED_DATA,
        TransferKind::FetchAdd => EXT_FETCH_AND_ADD,
        TransferKind::CompareSwap => EXT_CMP_AND_SWAP,
        _ => return [0; 8],
    };
    // Type and status are two halves of the first word, the immediate data is the first half of the second.
    let first = if cfg!(target_endian = "little") { kind.into() } else { u64::from(kind) << 32 };
    let second = if cfg!(target_endian = "little") { immediate.into() } else { u64::from(immediate) << 32 };
    [first, second, 0, 0, 0, 0, 0, 0]
}
