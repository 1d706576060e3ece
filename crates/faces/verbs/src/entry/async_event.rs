//! Asynchronous events.

use core::ffi::c_int;
use core::ptr;

use nonic_device::{AsyncElement, AsyncEvent};

use super::completion_channel::add;
use crate::abi::{
    IBV_EVENT_CQ_ERR, IBV_EVENT_PATH_MIG_ERR, IBV_EVENT_QP_FATAL, IBV_EVENT_QP_LAST_WQE_REACHED,
    IBV_EVENT_SRQ_ERR, IBV_EVENT_SRQ_LIMIT_REACHED, ibv_async_event, ibv_async_event_element, ibv_context,
    ibv_cq, ibv_qp, ibv_srq,
};
use crate::cancellable;
use crate::errno::Errno;
use crate::guard;
use crate::objects::{COMPLETION_QUEUES, CONTEXTS, QUEUE_PAIRS, SHARED_RECEIVE_QUEUES};

versions! {
    nonic_ibv_get_async_event => "ibv_get_async_event@@IBVERBS_1.1";
    nonic_ibv_ack_async_event => "ibv_ack_async_event@@IBVERBS_1.1";
}

/// `ibv_get_async_event(3)`: 0 with the event, or -1 with `EAGAIN` (the program made the descriptor
/// non-blocking and there is none), `EINTR`, `EINVAL` (not an open device). A point of cancellation.
///
/// # Safety
/// `event` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn nonic_ibv_get_async_event(
    context: *mut ibv_context,
    event: *mut ibv_async_event,
) -> c_int {
    let begin = || Ok(CONTEXTS.parent(context)?.begin_async_wait());
    let found = |happened: AsyncEvent| {
        // Cookies are the addresses of the structures, which live until the event is acknowledged.
        let mut element = ibv_async_event_element { cq: ptr::null_mut() };
        match happened.element {
            AsyncElement::CompletionQueue(queue) => {
                element.cq = ptr::with_exposed_provenance_mut(queue.cookie())
            }
            AsyncElement::QueuePair(pair) => element.qp = ptr::with_exposed_provenance_mut(pair.cookie()),
            AsyncElement::OpenedQueuePair(pair) => {
                element.qp = ptr::with_exposed_provenance_mut(pair.cookie());
            }
            AsyncElement::SharedReceiveQueue(queue) => {
                element.srq = ptr::with_exposed_provenance_mut(queue.cookie());
            }
            AsyncElement::Port(port) => element.port_num = port.into(),
            AsyncElement::Device => {}
        }
        // SAFETY: the caller's place is writable.
        unsafe { event.write(ibv_async_event { element, event_type: happened.kind as c_int }) };
    };
    // SAFETY: this frame owns nothing.
    unsafe { cancellable::wait(begin, found) }
}

/// `ibv_ack_async_event(3)`: the program is done with the event; destroying the object it is about waits for
/// that.
///
/// # Safety
/// `event` is an event got from [`nonic_ibv_get_async_event`], acknowledged once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_ack_async_event(event: *mut ibv_async_event) {
    guard::silent(|| {
        // SAFETY: the caller's event is readable, and its type says which member was written.
        let acknowledged = unsafe {
            let event = event.read();
            match event.event_type {
                IBV_EVENT_CQ_ERR => of_completion_queue(event.element.cq),
                IBV_EVENT_QP_FATAL..=IBV_EVENT_PATH_MIG_ERR | IBV_EVENT_QP_LAST_WQE_REACHED => {
                    of_queue_pair(event.element.qp)
                }
                IBV_EVENT_SRQ_ERR | IBV_EVENT_SRQ_LIMIT_REACHED => of_shared_receive_queue(event.element.srq),
                // Events of the port and the device hold nothing up.
                _ => Ok(()),
            }
        };
        if let Err(errno) = acknowledged {
            errno.set();
        }
    });
}

fn of_completion_queue(cq: *mut ibv_cq) -> Result<(), Errno> {
    let queue = COMPLETION_QUEUES.find(cq)?;
    // SAFETY: the queue was found and is destroyed only after the acknowledgement below.
    unsafe { add(&raw mut (*cq).async_events_completed, 1) };
    queue.acknowledge_async_event();
    Ok(())
}

fn of_queue_pair(qp: *mut ibv_qp) -> Result<(), Errno> {
    let parts = QUEUE_PAIRS.find(qp)?;
    // SAFETY: the queue pair was found and is destroyed only after the acknowledgement below.
    unsafe { add(&raw mut (*qp).events_completed, 1) };
    parts.acknowledge_async_event();
    Ok(())
}

fn of_shared_receive_queue(srq: *mut ibv_srq) -> Result<(), Errno> {
    let queue = SHARED_RECEIVE_QUEUES.find(srq)?;
    // SAFETY: the queue was found and is destroyed only after the acknowledgement below.
    unsafe { add(&raw mut (*srq).events_completed, 1) };
    queue.acknowledge_async_event();
    Ok(())
}
