//! Completion channels and the events that come through them.

use core::ffi::{c_int, c_uint, c_void};
use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering};
use std::os::fd::AsRawFd;
use std::sync::Arc;

use nonic_device::CompletionQueue;

use crate::abi::{ibv_comp_channel, ibv_context, ibv_cq};
use crate::cancellable;
use crate::errno::Errno;
use crate::guard;
use crate::objects::{CHANNELS, COMPLETION_QUEUES, CONTEXTS};

versions! {
    nonic_ibv_create_comp_channel => "ibv_create_comp_channel@@IBVERBS_1.0";
    nonic_ibv_destroy_comp_channel => "ibv_destroy_comp_channel@@IBVERBS_1.0";
    nonic_ibv_get_cq_event => "ibv_get_cq_event@@IBVERBS_1.1";
    nonic_ibv_ack_cq_events => "ibv_ack_cq_events@@IBVERBS_1.1";
}

/// `ibv_create_comp_channel(3)`: NULL with `EINVAL` (not an open device) or what the system lacked (`EMFILE`,
/// ...).
///
/// # Safety
/// None beyond the signature's: the pointer is looked up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel {
    guard::or_null(|| create(context))
}

/// Creates a channel; as [`nonic_ibv_create_comp_channel`].
pub fn create(context: *mut ibv_context) -> Result<*mut ibv_comp_channel, Errno> {
    let engine = CONTEXTS.parent(context)?.create_completion_channel()?;
    let fd = engine.fd().as_raw_fd();
    Ok(CHANNELS.reserve().fill(engine, |_| ibv_comp_channel { context, fd, refcnt: 0 }))
}

/// `ibv_destroy_comp_channel(3)`: 0, `ENOENT` (unknown channel), `EBUSY` (a completion queue uses it).
///
/// # Safety
/// No other thread waits on the channel.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int {
    guard::status(|| destroy(channel))
}

/// Destroys a channel; as [`nonic_ibv_destroy_comp_channel`].
pub fn destroy(channel: *mut ibv_comp_channel) -> Result<(), Errno> {
    let claim = CHANNELS.claim(channel)?;
    claim.engine().destroy()?;
    claim.retire();
    Ok(())
}

/// `ibv_get_cq_event(3)`: 0 with the queue that has an event, or -1 with `EAGAIN` (the program made the
/// descriptor non-blocking and there is none), `EINTR`, `EINVAL` (unknown channel). A point of cancellation.
///
/// # Safety
/// `cq` and `cq_context` are writable.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn nonic_ibv_get_cq_event(
    channel: *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq,
    cq_context: *mut *mut c_void,
) -> c_int {
    let begin = || Ok(CHANNELS.parent(channel)?.begin_wait());
    let found = |queue: Arc<CompletionQueue>| {
        let pointer: *mut ibv_cq = ptr::with_exposed_provenance_mut(queue.cookie());
        // SAFETY: the cookie is the address of the queue's structure, which lives until this event is
        // acknowledged; the caller's places are writable.
        unsafe {
            cq.write(pointer);
            cq_context.write((*pointer).cq_context);
        }
    };
    // SAFETY: this frame owns nothing.
    unsafe { cancellable::wait(begin, found) }
}

/// `ibv_ack_cq_events(3)`: the program is done with `count` events of this queue; destroying it waits for
/// that.
///
/// # Safety
/// None beyond the signature's: the pointer is looked up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_ack_cq_events(cq: *mut ibv_cq, count: c_uint) {
    guard::silent(|| {
        let Ok(queue) = COMPLETION_QUEUES.find(cq) else {
            Errno::ENOENT.set();
            return;
        };
        // The counter is part of the public structure; the engine's own decides.
        // SAFETY: the queue was found and is destroyed only after the acknowledgement below.
        unsafe { add(&raw mut (*cq).comp_events_completed, count) };
        queue.acknowledge_events(count);
    });
}

/// Adds to a counter in a public structure, which other threads may be adding to.
///
/// # Safety
/// `counter` is in a living structure.
pub(super) unsafe fn add(counter: *mut u32, count: u32) {
    // SAFETY: the counter is alive and aligned; all of this library's accesses to it are atomic.
    unsafe { AtomicU32::from_ptr(counter) }.fetch_add(count, Ordering::Relaxed);
}
