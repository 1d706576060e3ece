//! Completion queues that are read entry by entry, through the functions that the header finds in `ibv_cq_ex`.
//!
//! A batch stands at one completion, which is copied once, out of the queue to behind the structure the program knows. What the
//! program reads of it is read there.

use core::ffi::{c_int, c_uint};
use std::sync::Arc;

use nonic_device::{
    BatchReader, Completion, CompletionEntry, CompletionQueue, CompletionQueueOptions, Stamp,
};

use super::completion_queue;
use crate::abi::{
    IBV_CQ_INIT_ATTR_MASK_FLAGS, IBV_CQ_INIT_ATTR_MASK_PD, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN,
    IBV_CREATE_CQ_ATTR_SINGLE_THREADED, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP,
    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK, IBV_WC_STANDARD_FLAGS, ibv_context, ibv_cq, ibv_cq_ex,
    ibv_cq_init_attr_ex, ibv_poll_cq_attr, ibv_wc_tm_info,
};
use crate::convert::{completion_flags, completion_opcode};
use crate::errno::Errno;
use crate::guard;
use crate::objects::{CompletionQueueFace, ZONES};
use crate::reader::Reader;
use crate::registry;

/// Either asks for stamps.
const STAMPS: u64 = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

/// A structure with every function in it, whichever flags the queue was created with: none is NULL, the header does not look.
pub(crate) fn extended(base: ibv_cq) -> CompletionQueueFace {
    let shown = ibv_cq_ex {
        base,
        comp_mask: 0,
        status: 0,
        wr_id: 0,
        start_poll: Some(start_poll),
        next_poll: Some(next_poll),
        end_poll: Some(end_poll),
        read_opcode: Some(read_opcode),
        read_vendor_err: Some(read_vendor_err),
        read_byte_len: Some(read_byte_len),
        read_imm_data: Some(read_imm_data),
        read_qp_num: Some(read_qp_num),
        read_src_qp: Some(read_src_qp),
        read_wc_flags: Some(read_wc_flags),
        read_slid: Some(read_slid),
        read_sl: Some(read_sl),
        read_dlid_path_bits: Some(read_dlid_path_bits),
        read_completion_ts: Some(read_completion_ts),
        read_cvlan: Some(read_cvlan),
        read_flow_tag: Some(read_flow_tag),
        read_tm_info: Some(read_tm_info),
        read_completion_wallclock_ns: Some(read_completion_wallclock_ns),
    };
    CompletionQueueFace { shown, reader: Reader::new() }
}

/// `ibv_create_cq_ex(3)`: NULL with `EOPNOTSUPP` (`wc_flags` that ask for what only a card with tags, flow rules or VLANs knows, or
/// for unknown things), `EINVAL` (unknown bits of `comp_mask` or `flags`; a `parent_domain` that is none; not an open device, unknown channel or one of another
/// context, size not 1 to `max_cqe`, vector not 0 to `num_comp_vectors` - 1), `ENOMEM` (no more queues).
///
/// # Safety
/// `attr` is readable.
pub(crate) unsafe extern "C" fn create_cq_ex(
    context: *mut ibv_context,
    attr: *mut ibv_cq_init_attr_ex,
) -> *mut ibv_cq_ex {
    guard::or_null(|| {
        // SAFETY: the caller's structure is readable.
        let asked = unsafe { &*attr };
        if asked.wc_flags & !(IBV_WC_STANDARD_FLAGS | STAMPS) != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        if asked.comp_mask & !(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD) != 0 {
            return Err(Errno::EINVAL);
        }
        let flags = if asked.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS == 0 { 0 } else { asked.flags };
        if flags & !(IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN) != 0 {
            return Err(Errno::EINVAL);
        }
        let has_domain = asked.comp_mask & IBV_CQ_INIT_ATTR_MASK_PD != 0;
        let options = CompletionQueueOptions {
            zone: has_domain.then(|| ZONES.parent(asked.parent_domain)).transpose()?,
            single_threaded: flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED != 0,
            overwrites: flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN != 0,
            stamps: asked.wc_flags & STAMPS != 0,
        };
        let ibv_cq_init_attr_ex { cqe, cq_context, channel, comp_vector, .. } = *asked;
        let queue =
            completion_queue::create_with_options(context, cqe, cq_context, channel, comp_vector, options)?;
        Ok(queue.cast())
    })
}

/// What a poll answers: 0, `ENOENT` without `errno` if nothing was found, for polling in vain is no failure.
#[inline(always)]
fn answer(status: c_int, found: bool) -> c_int {
    if status == 0 && !found { libc::ENOENT } else { status }
}

/// The queue behind the structure, unless it was destroyed.
///
/// # Safety
/// `cq` came from this library, and no other thread destroys it.
#[inline(always)]
unsafe fn queue_of<'a>(cq: *mut ibv_cq_ex) -> Option<&'a Arc<CompletionQueue>> {
    // SAFETY: the caller's promise is the same; the structure begins with the plain one.
    unsafe { registry::alive::<CompletionQueueFace, Arc<CompletionQueue>>(cq.cast()) }
}

/// Shows a completion where the program looks without a call.
///
/// # Safety
/// `face` is alive, and the batch this thread's.
#[inline(always)]
unsafe fn show(face: *mut CompletionQueueFace, completion: &Completion) {
    // SAFETY: as the caller says.
    unsafe {
        (*face).shown.wr_id = completion.id;
        (*face).shown.status = completion.status as c_int;
    }
}

/// The reader behind the structure of a queue that is alive. It is used when no other thread has a batch open, and none begins one.
struct Behind(*mut CompletionQueueFace);

impl Behind {
    #[inline(always)]
    fn reader(&mut self) -> &mut Reader {
        // SAFETY: the structure is alive as long as this, and used as it says: by the calls of the queue alone, which make sure that
        // the batch is this thread's.
        unsafe { &mut (*self.0).reader }
    }
}

impl BatchReader for Behind {
    #[inline(always)]
    fn begin(&mut self, queue: &CompletionQueue) -> usize {
        self.reader().begin(queue)
    }

    #[inline(always)]
    fn keep(&mut self, entries: &[CompletionEntry]) {
        self.reader().keep(entries);
    }

    #[inline(always)]
    fn keep_stamps(&mut self, stamps: &[Stamp]) {
        self.reader().keep_stamps(stamps);
    }
}

/// `ibv_start_poll`: 0, and the batch stands at the oldest completion; `ENOENT` (there is none), `EINVAL` (`comp_mask` is not 0,
/// a destroyed queue, or this thread has begun a batch already), `EIO` (the queue overran). After all but 0 no batch is open.
///
/// # Safety
/// `cq` came from this library; `attr` is NULL or readable.
unsafe extern "C" fn start_poll(cq: *mut ibv_cq_ex, attr: *mut ibv_poll_cq_attr) -> c_int {
    // SAFETY: not NULL, so readable.
    if !attr.is_null() && unsafe { (*attr).comp_mask } != 0 {
        return libc::EINVAL;
    }
    let mut found = false;
    let status = guard::quick_status(|| {
        // SAFETY: the caller's promise is the same.
        let queue = unsafe { queue_of(cq) }.ok_or(Errno::EINVAL)?;
        let face: *mut CompletionQueueFace = cq.cast();
        found = queue.begin_batch(&mut Behind(face))?;
        if found {
            // SAFETY: the queue is alive, so its structure is, and this thread's batch is open.
            unsafe { show(face, (*face).reader.current()) };
        }
        Ok(())
    });
    answer(status, found)
}

/// `ibv_next_poll`: 0, and the batch stands at the next completion; `ENOENT` (there is none now), `EINVAL` (no batch was begun, a
/// destroyed queue), `EIO` (the queue overran).
///
/// # Safety
/// `cq` came from this library.
unsafe extern "C" fn next_poll(cq: *mut ibv_cq_ex) -> c_int {
    let face: *mut CompletionQueueFace = cq.cast();
    // SAFETY: the caller says where the pointer came from, so the structure is readable. Its reader is this thread's, whose batch
    // is open.
    unsafe {
        if let Some(queue) = queue_of(cq)
            && (*face).reader.advance(queue)
        {
            show(face, (*face).reader.current());
            return 0;
        }
        next_from_queue(cq)
    }
}

/// Goes on with a batch whose next completion was not taken ahead. Apart, so that the call above saves no registers.
///
/// # Safety
/// `cq` came from this library.
#[inline(never)]
unsafe extern "C" fn next_from_queue(cq: *mut ibv_cq_ex) -> c_int {
    let mut found = false;
    let status = guard::quick_status(|| {
        // SAFETY: the caller's promise is the same.
        let queue = unsafe { queue_of(cq) }.ok_or(Errno::EINVAL)?;
        let face: *mut CompletionQueueFace = cq.cast();
        // SAFETY: the queue is alive, so its structure is; the batch is this thread's.
        unsafe {
            found = (*face).reader.take(queue)?;
            if found {
                show(face, (*face).reader.current());
            }
        }
        Ok(())
    });
    answer(status, found)
}

/// `ibv_end_poll`: other threads may begin a batch.
///
/// # Safety
/// `cq` came from this library.
unsafe extern "C" fn end_poll(cq: *mut ibv_cq_ex) {
    // SAFETY: the caller says where the pointer came from, so the structure is readable; the batch is this thread's.
    unsafe {
        let Some(queue) = queue_of(cq) else { return };
        if !(*cq.cast::<CompletionQueueFace>()).reader.end() {
            give_back(cq, queue);
        }
        queue.end_batch();
    }
}

/// Gives back what the program did not come to.
///
/// # Safety
/// `cq` is the structure of `queue`, and the batch is this thread's.
#[cold]
unsafe fn give_back(cq: *mut ibv_cq_ex, queue: &CompletionQueue) {
    // SAFETY: as the caller says.
    let reader = unsafe { &mut (*cq.cast::<CompletionQueueFace>()).reader };
    guard::quick_silent(|| reader.give_back(queue));
}

/// Reads of the completion at which the batch stands.
///
/// # Safety
/// `cq` came from this library.
#[inline(always)]
unsafe fn read<T>(cq: *mut ibv_cq_ex, read: impl FnOnce(&Reader) -> T) -> T {
    let face: *mut CompletionQueueFace = cq.cast();
    // SAFETY: the pointer is to the beginning of such a structure, whose reader is changed by the thread alone whose batch is open.
    read(unsafe { &(*face).reader })
}

macro_rules! readers {
    ($($name:ident -> $kind:ty: $read:expr;)*) => {$(
        /// # Safety
        /// `cq` came from this library.
        unsafe extern "C" fn $name(cq: *mut ibv_cq_ex) -> $kind {
            // SAFETY: the caller's promise is the same.
            unsafe { read(cq, $read) }
        }
    )*};
}

readers! {
    read_opcode -> c_int: |reader| completion_opcode(reader.current());
    read_vendor_err -> u32: |reader| reader.current().vendor_error;
    read_byte_len -> u32: |reader| reader.current().byte_length;
    read_imm_data -> u32: |reader| reader.current().immediate.unwrap_or(0);
    read_qp_num -> u32: |reader| reader.current().qp_number.0;
    read_src_qp -> u32: |reader| reader.current().source_qp.0;
    read_wc_flags -> c_uint: |reader| completion_flags(reader.current());
    read_slid -> u32: |reader| reader.current().source_lid.into();
    read_sl -> u8: |reader| reader.current().service_level;
    read_dlid_path_bits -> u8: |_| 0;
    // The device's clock when the completion was added, in nanoseconds, and the time of day then, in nanoseconds since 1970; 0 on
    // a queue that does not note it.
    read_completion_ts -> u64: |reader| reader.stamp().raw_ns;
    read_completion_wallclock_ns -> u64: |reader| reader.stamp().wall_ns;
    // There are no such queues; a program that reads it all the same finds nothing.
    read_cvlan -> u16: |_| 0;
    read_flow_tag -> u32: |_| 0;
}

/// Nothing: no queue here has tags.
///
/// # Safety
/// `tm_info` is writable.
unsafe extern "C" fn read_tm_info(_: *mut ibv_cq_ex, tm_info: *mut ibv_wc_tm_info) {
    // SAFETY: the caller's place is writable.
    unsafe { tm_info.write(ibv_wc_tm_info { tag: 0, r#priv: 0 }) };
}
