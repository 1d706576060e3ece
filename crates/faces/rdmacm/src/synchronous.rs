//! Identifiers without a channel of the program's: their calls wait for the event that they lead to, and answer what it says.
//!
//! As in [`nonic_verbs::cancellable`], no frame here owns anything while it waits: a thread may be cancelled there.

use core::ffi::c_int;
use core::ptr;

use nonic_rdma_cm::EventKind;
use nonic_verbs::errno::Errno;
use nonic_verbs::{cancellable, guard};

use crate::abi::{rdma_cm_event, rdma_cm_id};
use crate::delivery::Delivery;
use crate::entry::event::acknowledge;
use crate::objects::{EVENTS, identifier};

/// What a call with `begun` as its result so far answers in the end: if the identifier is synchronous, the event that follows
/// decides, and is kept in `id->event`.
///
/// # Safety
/// No frame between the program's and this call owns anything or catches panics. `id` is alive if `begun` is 0.
pub(crate) unsafe fn complete(begun: c_int, id: *mut rdma_cm_id) -> c_int {
    if begun != 0 {
        return begun;
    }
    let waits = guard::or_minus_one(|| {
        let synchronous = identifier(id)?.is_synchronous();
        if synchronous {
            // SAFETY: the identifier was found.
            unsafe { acknowledge_last(id) };
        }
        Ok(synchronous.into())
    });
    if waits != 1 {
        return waits;
    }
    // SAFETY: the caller's promises are the same.
    if unsafe { next(id) } != 0 {
        return -1;
    }
    guard::or_minus_one(|| {
        // SAFETY: `next` has written it.
        judge(unsafe { (*id).event })?;
        Ok(0)
    })
}

/// Waits for the next event of an identifier's own channel and keeps it in `id->event`: 0, or -1 with `errno` set.
///
/// # Safety
/// As for [`complete`]; `id` is alive.
pub(crate) unsafe fn next(id: *mut rdma_cm_id) -> c_int {
    // SAFETY: the caller says that the structure is alive.
    let begin = || Delivery::begin(unsafe { (*id).channel });
    // SAFETY: as above.
    let found = |event| unsafe { (*id).event = event };
    // SAFETY: this frame owns nothing.
    unsafe { cancellable::wait(begin, found) }
}

/// Acknowledges the event that the last call has left.
///
/// # Safety
/// `id` is alive.
pub(crate) unsafe fn acknowledge_last(id: *mut rdma_cm_id) {
    // SAFETY: the caller says so; the event is looked up.
    let event = unsafe { ptr::replace(&raw mut (*id).event, ptr::null_mut()) };
    if !event.is_null() {
        let _ = acknowledge(event);
    }
}

/// What a call answers whose event this is.
pub(crate) fn judge(event: *const rdma_cm_event) -> Result<(), Errno> {
    let event = EVENTS.parent(event)?;
    match event.status {
        0 => Ok(()),
        _ if event.kind == EventKind::Rejected => Err(Errno::ECONNREFUSED),
        status => Err(Errno(status.saturating_abs())),
    }
}
