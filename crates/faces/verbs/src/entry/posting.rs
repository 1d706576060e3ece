//! Posting work requests: the way of every byte, so no table, lock or allocation of the face stands in it.

use core::ffi::c_int;
use std::sync::Arc;

use nonic_device::{Key, PostError, ReceiveRequest, SharedReceiveQueue};

use crate::abi::{IBV_WR_BIND_MW, ibv_qp, ibv_qp_ex, ibv_recv_wr, ibv_send_wr, ibv_srq};
use crate::convert;
use crate::errno::Errno;
use crate::guard;
use crate::objects::QueuePairParts;
use crate::registry;

/// Reports the request that was not taken, as all three calls do.
///
/// # Safety
/// `bad` is writable, or NULL.
unsafe fn refuse<T>(bad: *mut *mut T, request: *mut T) {
    // A NULL is against the manual page, but a program that never fails a post never learns that.
    if !bad.is_null() {
        // SAFETY: not NULL, so the caller says it is writable.
        unsafe { bad.write(request) };
    }
}

/// `ibv_post_send(3)`: 0, or an errno with the first request not taken in `bad`; those before it are posted.
/// `ENOMEM` (the queue is full), `EINVAL` (wrong state, opcode, flags, address handle, too many pieces, too
/// much inline data, a bind without a window of type 2, or a destroyed queue pair), `EPERM` (a bind to a region of another
/// domain), `EOPNOTSUPP` (an opcode this release lacks).
///
/// # Safety
/// `qp` came from this library, `request` is a list of requests whose pieces are readable, `bad` is writable.
/// Memory of an inline request is readable.
pub(crate) unsafe extern "C" fn post_send(
    qp: *mut ibv_qp,
    mut request: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    guard::quick_status(|| {
        // SAFETY: the caller says where the pointer came from.
        let Some(parts) = (unsafe { registry::alive::<ibv_qp_ex, QueuePairParts>(qp) }) else {
            // SAFETY: the caller's place is writable.
            unsafe { refuse(bad, request) };
            return Err(Errno::EINVAL);
        };
        let mut posting = match parts.pair().and_then(|pair| pair.post()) {
            Ok(posting) => posting,
            Err(error) => {
                // SAFETY: the caller's place is writable.
                unsafe { refuse(bad, request) };
                return Err(error.into());
            }
        };
        let mut result = Ok(());
        while !request.is_null() {
            // SAFETY: the caller vouches for the list, and for the program memory an inline request names.
            unsafe {
                result = convert::send_request(request, parts.addressing)
                    .and_then(|request| posting.post(&request).map_err(Errno::from));
                if result.is_err() {
                    refuse(bad, request);
                    break;
                }
                if (*request).opcode == IBV_WR_BIND_MW {
                    let asked = (*request).last.bind_mw;
                    convert::show_key(asked.mw, Key(asked.rkey));
                }
                request = (*request).next;
            }
        }
        posting.ring_doorbell();
        result
    })
}

/// Posts a list of receives through `post`.
///
/// # Safety
/// `request` is a list of requests whose pieces are readable, `bad` is writable.
unsafe fn post_receives(
    mut request: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
    post: impl Fn(&ReceiveRequest<'_>) -> Result<(), PostError>,
) -> Result<(), Errno> {
    while !request.is_null() {
        // SAFETY: the caller vouches for the list.
        unsafe {
            let result =
                convert::receive_request(request).and_then(|request| post(&request).map_err(Errno::from));
            if result.is_err() {
                refuse(bad, request);
                return result;
            }
            request = (*request).next;
        }
    }
    Ok(())
}

/// `ibv_post_recv(3)`: as [`post_send`]; `EINVAL` also for a queue pair with a shared receive queue.
///
/// # Safety
/// `qp` came from this library, `request` is a list of requests whose pieces are readable, `bad` is writable.
pub(crate) unsafe extern "C" fn post_recv(
    qp: *mut ibv_qp,
    request: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    guard::quick_status(|| {
        // SAFETY: the caller says where the pointers came from.
        unsafe {
            let Some(parts) = registry::alive::<ibv_qp_ex, QueuePairParts>(qp) else {
                refuse(bad, request);
                return Err(Errno::EINVAL);
            };
            post_receives(request, bad, |request| parts.pair()?.post_receive(request))
        }
    })
}

/// `ibv_post_srq_recv(3)`: 0, or an errno with the first request not taken in `bad`. `ENOMEM` (the queue is
/// full), `EINVAL` (too many pieces, or a destroyed queue).
///
/// # Safety
/// `srq` came from this library, `request` is a list of requests whose pieces are readable, `bad` is
/// writable.
pub(crate) unsafe extern "C" fn post_srq_recv(
    srq: *mut ibv_srq,
    request: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    guard::quick_status(|| {
        // SAFETY: the caller says where the pointers came from.
        unsafe {
            let Some(queue) = registry::alive::<ibv_srq, Arc<SharedReceiveQueue>>(srq) else {
                refuse(bad, request);
                return Err(Errno::EINVAL);
            };
            post_receives(request, bad, |request| queue.post_receive(request))
        }
    })
}
