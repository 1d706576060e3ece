//! Completion queues.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicI32, Ordering};
use std::sync::Arc;
use std::time::Duration;

use nonic_device::{CompletionQueue, CompletionQueueOptions, Moderation};

use super::extended_completion_queue::extended;
use crate::abi::{
    IBV_CQ_ATTR_MODERATE, Synchronization, ibv_comp_channel, ibv_context, ibv_cq, ibv_modify_cq_attr, ibv_wc,
};
use crate::convert;
use crate::errno::Errno;
use crate::guard;
use crate::objects::{CHANNELS, COMPLETION_QUEUES, CONTEXTS, CompletionQueueFace};
use crate::registry;

versions! {
    nonic_ibv_create_cq => "ibv_create_cq@@IBVERBS_1.1";
    nonic_ibv_resize_cq => "ibv_resize_cq@@IBVERBS_1.1";
    nonic_ibv_destroy_cq => "ibv_destroy_cq@@IBVERBS_1.1";
}

/// `ibv_create_cq(3)`: NULL with `EINVAL` (not an open device, unknown channel or one of another
/// context, size not 1 to `max_cqe`, vector not 0 to `num_comp_vectors` - 1), `ENOMEM` (no more queues).
///
/// # Safety
/// None beyond the signature's: the pointers are looked up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_create_cq(
    context: *mut ibv_context,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut ibv_comp_channel,
    comp_vector: c_int,
) -> *mut ibv_cq {
    guard::or_null(|| create(context, cqe, cq_context, channel, comp_vector))
}

/// Creates a queue; as [`nonic_ibv_create_cq`].
pub fn create(
    context: *mut ibv_context,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut ibv_comp_channel,
    comp_vector: c_int,
) -> Result<*mut ibv_cq, Errno> {
    let entries = u32::try_from(cqe).map_err(|_| Errno::EINVAL)?;
    let vector = u32::try_from(comp_vector).map_err(|_| Errno::EINVAL)?;
    let options = CompletionQueueOptions::default();
    create_with_options(context, entries, cq_context, channel, vector, options)
}

/// Creates a queue with options.
pub(crate) fn create_with_options(
    context: *mut ibv_context,
    entries: u32,
    cq_context: *mut c_void,
    channel: *mut ibv_comp_channel,
    vector: u32,
    options: CompletionQueueOptions,
) -> Result<*mut ibv_cq, Errno> {
    let engine = CONTEXTS.parent(context)?;
    let events = if channel.is_null() { None } else { Some(CHANNELS.parent(channel)?) };
    let reservation = COMPLETION_QUEUES.reserve();
    let cookie = reservation.cookie();
    let queue = engine.create_extended_completion_queue(entries, vector, events.as_ref(), cookie, options)?;
    if !channel.is_null() {
        // SAFETY: the channel is in use by the new queue and so cannot be destroyed.
        unsafe { count_user(channel, 1) };
    }
    let cqe = convert::int(queue.entries());
    Ok(reservation.fill(queue, |handle| {
        extended(ibv_cq {
            context,
            channel,
            cq_context,
            handle,
            cqe,
            synchronization: Synchronization::NEW,
            comp_events_completed: 0,
            async_events_completed: 0,
        })
    }))
}

/// Keeps the public count of a channel's queues. It is for programs that look at it; the engine's own
/// decides.
///
/// # Safety
/// The channel's structure is alive.
unsafe fn count_user(channel: *mut ibv_comp_channel, change: c_int) {
    // SAFETY: the field is alive and aligned; all of this library's accesses to it are atomic.
    unsafe { AtomicI32::from_ptr(&raw mut (*channel).refcnt) }.fetch_add(change, Ordering::Relaxed);
}

/// `ibv_resize_cq(3)`: 0 with the real size in `cq->cqe`, `ENOENT` (unknown or overwritten handle), `EINVAL`
/// (not 1 to `max_cqe`, or fewer than the entries waiting). Entries survive.
///
/// # Safety
/// None beyond the signature's: the pointer is looked up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_resize_cq(cq: *mut ibv_cq, cqe: c_int) -> c_int {
    guard::status(|| {
        let queue = COMPLETION_QUEUES.find(cq)?;
        queue.resize(u32::try_from(cqe).map_err(|_| Errno::EINVAL)?)?;
        // SAFETY: the queue was found; the field is the program's to read and ours to write.
        unsafe { (*cq).cqe = convert::int(queue.entries()) };
        Ok(())
    })
}

/// `ibv_modify_cq(3)`: 0, `ENOENT` (unknown or overwritten handle), `EINVAL` (unknown bits), `EIO` (in a child of the process
/// that made the queue). With `IBV_CQ_ATTR_MODERATE`, an armed queue puts its event off until `cq_count` of the completions asked
/// for have come, or `cq_period` microseconds have passed since the first of them. Either 0: it does not.
///
/// # Safety
/// `attr` is readable.
pub(crate) unsafe extern "C" fn modify_cq(cq: *mut ibv_cq, attr: *mut ibv_modify_cq_attr) -> c_int {
    guard::status(|| {
        let queue = COMPLETION_QUEUES.find(cq)?;
        // SAFETY: the caller's structure is readable.
        let (mask, asked) = unsafe { ((*attr).attr_mask, (*attr).moderate) };
        if mask & !IBV_CQ_ATTR_MODERATE != 0 {
            return Err(Errno::EINVAL);
        }
        if mask & IBV_CQ_ATTR_MODERATE != 0 {
            let moderates = asked.cq_count > 0 && asked.cq_period > 0;
            let period = Duration::from_micros(asked.cq_period.into());
            queue.moderate(moderates.then_some(Moderation { count: asked.cq_count, period }))?;
        }
        Ok(())
    })
}

/// `ibv_destroy_cq(3)`: 0, `ENOENT` (unknown or overwritten handle), `EBUSY` (a queue pair or shared receive
/// queue uses it). Waits until every event got from it was acknowledged.
///
/// # Safety
/// No other thread polls the queue any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_destroy_cq(cq: *mut ibv_cq) -> c_int {
    guard::status(|| destroy(cq))
}

/// Destroys a queue; as [`nonic_ibv_destroy_cq`].
#[expect(clippy::not_unsafe_ptr_arg_deref, reason = "only what was found is followed")]
pub fn destroy(cq: *mut ibv_cq) -> Result<(), Errno> {
    let claim = COMPLETION_QUEUES.claim(cq)?;
    // SAFETY: claimed, so nobody else destroys it.
    let channel = unsafe { (*cq).channel };
    // The program could have overwritten the pointer: count only on a channel there is.
    let known_channel = CHANNELS.find(channel).is_ok();
    claim.engine().destroy()?;
    claim.retire();
    if known_channel {
        // SAFETY: found above. A program that destroys the channel at this moment in another thread does
        // so before it knows the queue gone; the memory of a destroyed channel is kept for longer than
        // this.
        unsafe { count_user(channel, -1) };
    }
    Ok(())
}

/// `ibv_poll_cq(3)`: how many completions were written, 0 to `most`; -1 if the queue overran or was
/// destroyed.
///
/// # Safety
/// `cq` came from this library and `wc` is writable for `most` completions.
pub(crate) unsafe extern "C" fn poll_cq(cq: *mut ibv_cq, most: c_int, wc: *mut ibv_wc) -> c_int {
    guard::quick_or_minus_one(|| {
        // SAFETY: the caller says where the pointer came from.
        let queue = unsafe { registry::alive::<CompletionQueueFace, Arc<CompletionQueue>>(cq) }
            .ok_or(Errno::EINVAL)?;
        let most = usize::try_from(most).map_err(|_| Errno::EINVAL)?;
        let mut next = wc;
        let write = |completion: &nonic_device::Completion| {
            // SAFETY: the engine calls this at most `most` times, and the caller's array has that many
            // places.
            unsafe {
                next.write(convert::to_wc(completion));
                next = next.add(1);
            }
        };
        Ok(queue.poll(write, most)? as c_int)
    })
}

/// `ibv_req_notify_cq(3)`: 0, `ENOENT` (destroyed queue or overwritten handle).
///
/// # Safety
/// `cq` came from this library.
pub(crate) unsafe extern "C" fn req_notify_cq(cq: *mut ibv_cq, solicited_only: c_int) -> c_int {
    guard::quick_status(|| {
        // SAFETY: the caller says where the pointer came from.
        let queue = unsafe { registry::checked::<CompletionQueueFace, Arc<CompletionQueue>>(cq) }?;
        if queue.context().has_failed() {
            return Err(Errno::EIO);
        }
        queue.request_notification(solicited_only != 0);
        Ok(())
    })
}
