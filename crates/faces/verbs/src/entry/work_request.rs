//! The calls of `ibv_wr_post(3)`, which the header finds in `ibv_qp_ex`. None but `ibv_wr_complete` has an answer: what goes
//! wrong in one is told there, and then nothing is posted.

use core::ffi::c_int;
use core::slice;

use nonic_device::{
    Destination, FlushRequest, Key, Operation, Placement, RemoteRange, ScatterGather, Selectivity,
    SharedSlice, SrqNumber, WindowKind,
};

use crate::abi::{
    IBV_FLUSH_MR, IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
    IBV_QP_EX_WITH_ATOMIC_WRITE, IBV_QP_EX_WITH_BIND_MW, IBV_QP_EX_WITH_FLUSH, IBV_QP_EX_WITH_LOCAL_INV,
    IBV_QP_EX_WITH_RDMA_READ, IBV_QP_EX_WITH_RDMA_WRITE, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM,
    IBV_QP_EX_WITH_SEND, IBV_QP_EX_WITH_SEND_WITH_IMM, IBV_QP_EX_WITH_SEND_WITH_INV, ibv_ah, ibv_data_buf,
    ibv_mw, ibv_mw_bind_info, ibv_qp, ibv_qp_ex, ibv_sge,
};
use crate::builder::{Batch, Builder, NO_WINDOW};
use crate::convert;
use crate::errno::Errno;
use crate::guard;
use crate::objects::{Addressing, QueuePairParts, WINDOWS};
use crate::registry;

/// The structure a program gets: its plain part, and every call. None is NULL: the header does not look.
pub(crate) fn extended(qp_base: ibv_qp) -> ibv_qp_ex {
    ibv_qp_ex {
        qp_base,
        comp_mask: 0,
        wr_id: 0,
        wr_flags: 0,
        wr_atomic_cmp_swp: Some(atomic_cmp_swp),
        wr_atomic_fetch_add: Some(atomic_fetch_add),
        wr_bind_mw: Some(bind_mw),
        wr_local_inv: Some(local_inv),
        wr_rdma_read: Some(rdma_read),
        wr_rdma_write: Some(rdma_write),
        wr_rdma_write_imm: Some(rdma_write_imm),
        wr_send: Some(send),
        wr_send_imm: Some(send_imm),
        wr_send_inv: Some(send_inv),
        wr_send_tso: Some(send_tso),
        wr_set_ud_addr: Some(set_ud_addr),
        wr_set_xrc_srqn: Some(set_xrc_srqn),
        wr_set_inline_data: Some(set_inline_data),
        wr_set_inline_data_list: Some(set_inline_data_list),
        wr_set_sge: Some(set_sge),
        wr_set_sge_list: Some(set_sge_list),
        wr_start: Some(start),
        wr_complete: Some(complete),
        wr_abort: Some(abort),
        wr_atomic_write: Some(atomic_write),
        wr_flush: Some(flush),
    }
}

/// The queue pair's builder; nothing if it was destroyed, or created without `IBV_QP_INIT_ATTR_SEND_OPS_FLAGS`.
///
/// # Safety
/// `qp` came from this library, and no other thread destroys it.
unsafe fn builder<'a>(qp: *mut ibv_qp_ex) -> Option<(&'a QueuePairParts, &'a Builder)> {
    // SAFETY: the caller says where the pointer came from; the structure begins with the plain one.
    let parts = unsafe { registry::alive::<ibv_qp_ex, QueuePairParts>(qp.cast()) }?;
    Some((parts, parts.builder.as_deref()?))
}

/// Does something with the batch this thread has begun. Without one the call is lost, as there is no way to answer.
///
/// # Safety
/// As for [`builder`].
unsafe fn with(qp: *mut ibv_qp_ex, work: impl FnOnce(&mut Batch)) {
    guard::quick_silent(|| {
        // SAFETY: the caller's promise is the same.
        if let Some((_, builder)) = unsafe { builder(qp) } {
            builder.with(work);
        }
    });
}

/// Begins a request with the number and the flags that stand in the structure now.
///
/// # Safety
/// As for [`builder`].
unsafe fn add(qp: *mut ibv_qp_ex, flag: u64, operation: Operation) {
    // SAFETY: as the caller says; a queue pair with a batch is alive, and its structure with it.
    unsafe { with(qp, |batch| batch.add((*qp).wr_id, (*qp).wr_flags, flag, || Ok((operation, NO_WINDOW)))) }
}

fn at(address: u64, rkey: u32) -> RemoteRange {
    RemoteRange { address, key: Key(rkey) }
}

/// `ibv_wr_start(3)`: waits until no other thread is between its start and its completion.
///
/// # Safety
/// `qp` came from this library.
unsafe extern "C" fn start(qp: *mut ibv_qp_ex) {
    guard::quick_silent(|| {
        // SAFETY: the caller's promise is the same.
        if let Some((parts, builder)) = unsafe { builder(qp) }
            // In a child the lock may be one that a thread of the parent's has.
            && parts.pair().is_ok_and(|pair| pair.is_current())
        {
            builder.start();
        }
    });
}

/// `ibv_wr_complete(3)`: 0, and everything since the start is posted; or an errno, and nothing is. Of the first call that
/// was wrong: `EOPNOTSUPP` (an operation that `send_ops_flags` did not name), `ENOMEM` (more requests than the send queue
/// takes), `EINVAL` (flags, a setter that does not fit or comes twice, too many pieces, too much inline data, a window that
/// is not of type 2, an address handle that is missing), `EPERM` (a bind to a region of another domain). Else `ENOMEM` (the
/// send queue is full), `EINVAL` (wrong state, a destroyed queue pair, no start before it), `EIO` (in a child of the process that made the queue pair).
///
/// # Safety
/// `qp` came from this library.
unsafe extern "C" fn complete(qp: *mut ibv_qp_ex) -> c_int {
    guard::quick_status(|| {
        // SAFETY: the caller's promise is the same.
        let (parts, builder) = unsafe { builder(qp) }.ok_or(Errno::EINVAL)?;
        let without_start =
            if parts.pair().is_ok_and(|pair| pair.is_current()) { Errno::EINVAL } else { Errno::EIO };
        builder.finish(|batch| batch.post(parts)).unwrap_or(Err(without_start))
    })
}

/// `ibv_wr_abort(3)`: forgets everything since the start.
///
/// # Safety
/// `qp` came from this library.
unsafe extern "C" fn abort(qp: *mut ibv_qp_ex) {
    guard::quick_silent(|| {
        // SAFETY: the caller's promise is the same.
        if let Some((_, builder)) = unsafe { builder(qp) } {
            builder.finish(|_| ());
        }
    });
}

// Builders. What each needs of its caller is the same.

/// # Safety
/// `qp` came from this library.
unsafe extern "C" fn send(qp: *mut ibv_qp_ex) {
    // SAFETY: the caller's promise is the same.
    unsafe { add(qp, IBV_QP_EX_WITH_SEND, Operation::Send { immediate: None }) }
}

/// # Safety
/// `qp` came from this library.
unsafe extern "C" fn send_imm(qp: *mut ibv_qp_ex, imm_data: u32) {
    // SAFETY: the caller's promise is the same.
    unsafe { add(qp, IBV_QP_EX_WITH_SEND_WITH_IMM, Operation::Send { immediate: Some(imm_data) }) }
}

/// # Safety
/// `qp` came from this library.
unsafe extern "C" fn send_inv(qp: *mut ibv_qp_ex, rkey: u32) {
    // SAFETY: the caller's promise is the same.
    unsafe { add(qp, IBV_QP_EX_WITH_SEND_WITH_INV, Operation::SendInvalidate { key: Key(rkey) }) }
}

/// # Safety
/// `qp` came from this library.
unsafe extern "C" fn rdma_write(qp: *mut ibv_qp_ex, rkey: u32, address: u64) {
    let operation = Operation::Write { remote: at(address, rkey), immediate: None };
    // SAFETY: the caller's promise is the same.
    unsafe { add(qp, IBV_QP_EX_WITH_RDMA_WRITE, operation) }
}

/// # Safety
/// `qp` came from this library.
unsafe extern "C" fn rdma_write_imm(qp: *mut ibv_qp_ex, rkey: u32, address: u64, imm_data: u32) {
    let operation = Operation::Write { remote: at(address, rkey), immediate: Some(imm_data) };
    // SAFETY: the caller's promise is the same.
    unsafe { add(qp, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, operation) }
}

/// # Safety
/// `qp` came from this library.
unsafe extern "C" fn rdma_read(qp: *mut ibv_qp_ex, rkey: u32, address: u64) {
    // SAFETY: the caller's promise is the same.
    unsafe { add(qp, IBV_QP_EX_WITH_RDMA_READ, Operation::Read { remote: at(address, rkey) }) }
}

/// # Safety
/// `qp` came from this library.
unsafe extern "C" fn atomic_cmp_swp(qp: *mut ibv_qp_ex, rkey: u32, address: u64, compare: u64, swap: u64) {
    let operation = Operation::CompareSwap { remote: at(address, rkey), compare, swap };
    // SAFETY: the caller's promise is the same.
    unsafe { add(qp, IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, operation) }
}

/// # Safety
/// `qp` came from this library.
unsafe extern "C" fn atomic_fetch_add(qp: *mut ibv_qp_ex, rkey: u32, address: u64, add_: u64) {
    let operation = Operation::FetchAdd { remote: at(address, rkey), add: add_ };
    // SAFETY: the caller's promise is the same.
    unsafe { add(qp, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, operation) }
}

/// # Safety
/// `qp` came from this library.
unsafe extern "C" fn local_inv(qp: *mut ibv_qp_ex, rkey: u32) {
    // SAFETY: the caller's promise is the same.
    unsafe { add(qp, IBV_QP_EX_WITH_LOCAL_INV, Operation::Invalidate { key: Key(rkey) }) }
}

/// Binds a window of type 2, whose new key stands in it once [`complete`] has returned 0.
///
/// # Safety
/// `qp` came from this library; `bind_info` is readable.
unsafe extern "C" fn bind_mw(
    qp: *mut ibv_qp_ex,
    mw: *mut ibv_mw,
    rkey: u32,
    bind_info: *const ibv_mw_bind_info,
) {
    let operation = || {
        let window = WINDOWS.parent(mw)?;
        if window.kind() != WindowKind::Type2 {
            return Err(Errno::EINVAL);
        }
        // SAFETY: the caller says that it is readable.
        let info = unsafe { bind_info.as_ref() }.ok_or(Errno::EINVAL)?;
        Ok((convert::bind(&window, window.key_with_tag(rkey as u8), info)?, mw))
    };
    // SAFETY: as in `add`.
    unsafe { with(qp, |batch| batch.add((*qp).wr_id, (*qp).wr_flags, IBV_QP_EX_WITH_BIND_MW, operation)) }
}

/// There is no offload of segmentation: `EOPNOTSUPP`.
///
/// # Safety
/// `qp` came from this library.
unsafe extern "C" fn send_tso(
    qp: *mut ibv_qp_ex,
    _header: *mut core::ffi::c_void,
    _header_size: u16,
    _mss: u16,
) {
    // SAFETY: the caller's promise is the same.
    unsafe { with(qp, |batch| batch.refuse(Errno::EOPNOTSUPP)) }
}

/// Writes the 8 bytes at `word`, which are taken now; it has no setter of data.
///
/// # Safety
/// `qp` came from this library; `word` is readable.
unsafe extern "C" fn atomic_write(
    qp: *mut ibv_qp_ex,
    rkey: u32,
    address: u64,
    word: *const core::ffi::c_void,
) {
    let operation = Operation::AtomicWrite { remote: at(address, rkey) };
    // SAFETY: the caller's promise is the same.
    unsafe {
        add(qp, IBV_QP_EX_WITH_ATOMIC_WRITE, operation);
        set_inline_data(qp, word.cast_mut(), 8);
    }
}

/// Flushes what was written before: `length` bytes from `address` on, or with `IBV_FLUSH_MR` all of the region, whose address and
/// length then mean nothing. `EINVAL` for a type or a level that is none, and for more bytes than a header can say. It has no setter of
/// data.
///
/// # Safety
/// `qp` came from this library.
unsafe extern "C" fn flush(
    qp: *mut ibv_qp_ex,
    rkey: u32,
    address: u64,
    length: usize,
    placement: u8,
    selectivity: u8,
) {
    let length = if selectivity == IBV_FLUSH_MR { Some(0) } else { u32::try_from(length).ok() };
    let operation = || {
        let flush = FlushRequest {
            remote: at(address, rkey),
            length: length.ok_or(Errno::EINVAL)?,
            placement: Placement::from_bits(placement).ok_or(Errno::EINVAL)?,
            selectivity: Selectivity::from_number(selectivity).ok_or(Errno::EINVAL)?,
        };
        Ok((Operation::Flush { flush }, NO_WINDOW))
    };
    // SAFETY: as in `add`.
    unsafe { with(qp, |batch| batch.add((*qp).wr_id, (*qp).wr_flags, IBV_QP_EX_WITH_FLUSH, operation)) }
}

// Setters.

/// # Safety
/// `qp` and the address handle came from this library.
unsafe extern "C" fn set_ud_addr(qp: *mut ibv_qp_ex, ah: *mut ibv_ah, remote_qpn: u32, remote_qkey: u32) {
    // SAFETY: the caller's promise is the same.
    unsafe {
        with(qp, |batch| {
            let to = || convert::datagram_destination(ah, remote_qpn, remote_qkey);
            batch.set_destination(Addressing::Datagram, to);
        })
    }
}

/// # Safety
/// `qp` came from this library.
unsafe extern "C" fn set_xrc_srqn(qp: *mut ibv_qp_ex, remote_srqn: u32) {
    let to = || Ok(Some(Destination::Queue(SrqNumber::masked(remote_srqn))));
    // SAFETY: the caller's promise is the same.
    unsafe { with(qp, |batch| batch.set_destination(Addressing::Queue, to)) }
}

/// # Safety
/// `qp` came from this library.
unsafe extern "C" fn set_sge(qp: *mut ibv_qp_ex, lkey: u32, address: u64, length: u32) {
    let piece = ScatterGather { address, length, key: Key(lkey) };
    // SAFETY: the caller's promise is the same.
    unsafe { with(qp, |batch| batch.set_pieces(Ok(&[piece]))) }
}

/// # Safety
/// `qp` came from this library; `list` has `count` pieces.
unsafe extern "C" fn set_sge_list(qp: *mut ibv_qp_ex, count: usize, list: *const ibv_sge) {
    // SAFETY: the caller's promise is the same.
    unsafe {
        let pieces =
            c_int::try_from(count).map_err(|_| Errno::EINVAL).and_then(|count| convert::pieces(list, count));
        with(qp, |batch| batch.set_pieces(pieces));
    }
}

/// # Safety
/// `qp` came from this library; `length` bytes are readable.
unsafe extern "C" fn set_inline_data(qp: *mut ibv_qp_ex, address: *mut core::ffi::c_void, length: usize) {
    let buffer = ibv_data_buf { addr: address, length };
    // SAFETY: the caller's promise is the same; the list is one buffer.
    unsafe { set_inline_data_list(qp, 1, &buffer) }
}

/// # Safety
/// `qp` came from this library; `list` has `count` buffers, whose bytes are readable.
unsafe extern "C" fn set_inline_data_list(qp: *mut ibv_qp_ex, count: usize, list: *const ibv_data_buf) {
    let buffers: &[ibv_data_buf] =
        // SAFETY: the caller vouches for the list.
        if count == 0 || list.is_null() { &[] } else { unsafe { slice::from_raw_parts(list, count) } };
    // A count without a list has no length, and neither has what wraps around.
    let length = (count == buffers.len())
        .then(|| buffers.iter().try_fold(0usize, |sum, buffer| sum.checked_add(buffer.length)))
        .flatten();
    let copy = |bytes: &mut [u8]| {
        let mut at = 0;
        for buffer in buffers.iter().filter(|buffer| buffer.length > 0) {
            // SAFETY: the caller vouches for the buffer.
            let source = unsafe { SharedSlice::from_raw(buffer.addr.cast(), buffer.length) };
            source.read(&mut bytes[at..at + buffer.length]);
            at += buffer.length;
        }
    };
    // SAFETY: the caller's promise is the same.
    unsafe { with(qp, |batch| batch.set_inline(length, copy)) }
}
