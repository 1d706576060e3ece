//! Listening, connecting, and the end of connections.

use core::ffi::{c_int, c_void};

use nonic_rdma_cm::{Error, EventKind, REJECT_CONSUMER, REJECT_VENDOR_OPTION, State};
use nonic_verbs::errno::Errno;

use super::zero;
use crate::abi::{IBV_EVENT_COMM_EST, RDMA_MAX_INIT_DEPTH, RDMA_MAX_RESP_RES, rdma_cm_id, rdma_conn_param};
use crate::connection_parameters::{check, depth_max, from_c, private_data};
use crate::errno::refused;
use crate::objects::{EVENTS, Identifier, identifier};
use crate::synchronous::{acknowledge_last, complete};
use crate::{queue_pairs, route};

/// `rdma_listen(3)`: -1 with `EINVAL` (it listens, is resolved or connected), `EADDRINUSE`. An identifier without an address gets a
/// wildcard and a free port.
pub(crate) unsafe extern "C-unwind" fn rdma_listen(id: *mut rdma_cm_id, backlog: c_int) -> c_int {
    zero(|| {
        let identifier = identifier(id)?;
        identifier.engine.listen(backlog).map_err(refused)?;
        // SAFETY: the identifier was found.
        unsafe { route::show(id, &identifier) }
    })
}

/// `rdma_connect(3)`: -1 with `EINVAL` (no route resolved, neither a queue pair nor parameters, depths above the device's, too
/// much private data); then ESTABLISHED, CONNECT_RESPONSE (without a queue pair), REJECTED, UNREACHABLE or CONNECT_ERROR.
pub(crate) unsafe extern "C-unwind" fn rdma_connect(
    id: *mut rdma_cm_id,
    conn_param: *mut rdma_conn_param,
) -> c_int {
    // SAFETY: the program's promise is the same.
    let begun = zero(|| unsafe { connect(id, conn_param) });
    // SAFETY: this frame owns nothing.
    unsafe { complete(begun, id) }
}

/// # Safety
/// `parameters` is NULL or readable.
unsafe fn connect(id: *mut rdma_cm_id, parameters: *const rdma_conn_param) -> Result<(), Errno> {
    let identifier = identifier(id)?;
    let engine = &identifier.engine;
    // SAFETY: the caller says so; the identifier was found.
    unsafe {
        check(id, engine, parameters)?;
        let most = depth_max(engine)?;
        keep_depths(&identifier, parameters, |_, _| (most, most));
        engine.connect(&from_c(id, &identifier, parameters)?).map_err(refused)?;
    }
    // It went with the request.
    identifier.rest().connect_data = Box::default();
    Ok(())
}

/// Keeps the depths that the program asks for; `otherwise` says what counts where it asks for none, by what was kept.
///
/// # Safety
/// `parameters` is NULL or readable.
unsafe fn keep_depths(
    identifier: &Identifier,
    parameters: *const rdma_conn_param,
    otherwise: impl FnOnce(u8, u8) -> (u8, u8),
) {
    let mut rest = identifier.rest();
    let (mut responder, mut initiator) = otherwise(rest.responder_resources, rest.initiator_depth);
    // SAFETY: the caller says so.
    unsafe {
        if !parameters.is_null() {
            let given = &*parameters;
            if given.responder_resources != RDMA_MAX_RESP_RES {
                responder = given.responder_resources;
            }
            if given.initiator_depth != RDMA_MAX_INIT_DEPTH {
                initiator = given.initiator_depth;
            }
        }
    }
    (rest.responder_resources, rest.initiator_depth) = (responder, initiator);
}

/// `rdma_accept(3)`: -1 with `EINVAL` (no request to accept, depths above the device's, too much private data). Moves the queue
/// pair to RTS before it replies. ESTABLISHED follows, but for datagrams.
pub(crate) unsafe extern "C-unwind" fn rdma_accept(
    id: *mut rdma_cm_id,
    conn_param: *mut rdma_conn_param,
) -> c_int {
    let mut awaits = false;
    let begun = zero(|| {
        // SAFETY: the program's promise is the same.
        awaits = unsafe { accept(id, conn_param)? };
        Ok(())
    });
    if awaits {
        // SAFETY: this frame owns nothing.
        unsafe { complete(begun, id) }
    } else {
        begun
    }
}

/// True if an event follows.
///
/// # Safety
/// `parameters` is NULL or readable.
unsafe fn accept(id: *mut rdma_cm_id, parameters: *const rdma_conn_param) -> Result<bool, Errno> {
    let identifier = identifier(id)?;
    let engine = &identifier.engine;
    let datagrams = engine.is_datagram();
    // SAFETY: the caller says so; the identifier was found.
    unsafe {
        if engine.state() != State::Connect {
            return Err(Errno::EINVAL);
        }
        check(id, engine, parameters)?;
        let most = depth_max(engine)?;
        keep_depths(&identifier, parameters, |responder, initiator| {
            (responder.min(most), initiator.min(most))
        });
        let asked = from_c(id, &identifier, parameters)?;
        if !datagrams && !(*id).qp.is_null() {
            let depths = (asked.responder_resources, asked.initiator_depth);
            queue_pairs::connect((*id).qp, engine, Some(depths))?;
        }
        if let Err(error) = engine.accept(&asked) {
            // A request that could not be accepted like this is rejected; where there was none, nothing has happened.
            if matches!(error, Error::Argument(_)) {
                queue_pairs::fail(id);
                let _ = engine.reject(&[], REJECT_CONSUMER);
            }
            return Err(refused(error));
        }
        if datagrams && identifier.is_synchronous() {
            acknowledge_last(id);
        }
    }
    Ok(!datagrams)
}

/// `rdma_reject(3)`: -1 with `EINVAL` (nothing to reject, too much private data).
pub(crate) unsafe extern "C-unwind" fn rdma_reject(
    id: *mut rdma_cm_id,
    data: *const c_void,
    length: u8,
) -> c_int {
    // SAFETY: the program's promise is the same.
    zero(|| unsafe { reject(id, data, length, REJECT_CONSUMER) })
}

/// `rdma_reject_ece(3)`: as [`rdma_reject`]; the other side reads that it is for the options of its vendor.
pub(crate) unsafe extern "C-unwind" fn rdma_reject_ece(
    id: *mut rdma_cm_id,
    data: *const c_void,
    length: u8,
) -> c_int {
    // SAFETY: the program's promise is the same.
    zero(|| unsafe { reject(id, data, length, REJECT_VENDOR_OPTION) })
}

/// # Safety
/// `data` is NULL or leads to `length` bytes.
unsafe fn reject(id: *mut rdma_cm_id, data: *const c_void, length: u8, reason: i32) -> Result<(), Errno> {
    // SAFETY: the caller says so.
    let data = unsafe { private_data(data, length) };
    identifier(id)?.engine.reject(&data, reason).map_err(refused)
}

/// `rdma_establish(3)`: -1 with `EINVAL` (it has a queue pair, or there was no CONNECT_RESPONSE).
pub(crate) unsafe extern "C-unwind" fn rdma_establish(id: *mut rdma_cm_id) -> c_int {
    zero(|| {
        let identifier = identifier(id)?;
        // SAFETY: the identifier was found.
        if unsafe { !(*id).qp.is_null() } {
            return Err(Errno::EINVAL);
        }
        identifier.engine.establish().map_err(refused)
    })
}

/// `rdma_notify(3)`: -1 with `EINVAL` (no device, no connection to be).
pub(crate) unsafe extern "C-unwind" fn rdma_notify(id: *mut rdma_cm_id, event: c_int) -> c_int {
    zero(|| {
        let engine = &identifier(id)?.engine;
        if event == IBV_EVENT_COMM_EST {
            return engine.notify_established().map_err(refused);
        }
        let connects = matches!(engine.state(), State::Connect | State::Disconnect);
        if connects { Ok(()) } else { Err(Errno::EINVAL) }
    })
}

/// `rdma_disconnect(3)`: -1 with `EINVAL` (never connected). The queue pair goes to ERR; DISCONNECTED comes when the other side has
/// ended the connection too. Of datagrams nothing happens.
pub(crate) unsafe extern "C-unwind" fn rdma_disconnect(id: *mut rdma_cm_id) -> c_int {
    let mut awaits = false;
    let begun = zero(|| {
        awaits = disconnect(id)?;
        Ok(())
    });
    if awaits {
        // SAFETY: this frame owns nothing.
        unsafe { complete(begun, id) }
    } else {
        begun
    }
}

/// Whether no event but TIMEWAIT_EXIT follows one of this kind.
fn is_last(kind: EventKind) -> bool {
    use EventKind::{ConnectError, Disconnected, Rejected, TimewaitExit, Unreachable};
    matches!(kind, ConnectError | Disconnected | Rejected | TimewaitExit | Unreachable)
}

/// True if an event follows.
fn disconnect(id: *mut rdma_cm_id) -> Result<bool, Errno> {
    let identifier = identifier(id)?;
    let engine = &identifier.engine;
    if engine.context().is_none() {
        return Err(Errno::EINVAL);
    }
    let datagrams = engine.is_datagram();
    if !datagrams {
        if !matches!(engine.state(), State::Connect | State::Disconnect) {
            return Err(Errno::EINVAL);
        }
        // SAFETY: the identifier was found.
        unsafe { queue_pairs::fail(id) };
    }
    engine.disconnect().map_err(refused)?;
    // SAFETY: as above; the event is looked up.
    let last = EVENTS.find(unsafe { (*id).event });
    // A synchronous call would wait for an end that it was told of already.
    let has_ended = last.is_ok_and(|event| is_last(event.kind));
    Ok(!datagrams && !has_ended)
}
