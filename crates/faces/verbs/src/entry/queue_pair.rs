//! Queue pairs.

use core::ffi::c_int;
use core::ptr;
use std::sync::Arc;

use nonic_device::{AttributeMask, Capabilities, QpAttributes, QpNumber, QpState, QpType, QueuePairRequest};

use super::work_request;
use crate::abi::{
    IBV_QP_CREATE_BLOCK_SELF_MCAST_LB, IBV_QP_INIT_ATTR_CREATE_FLAGS, IBV_QP_INIT_ATTR_IND_TABLE,
    IBV_QP_INIT_ATTR_MAX_TSO_HEADER, IBV_QP_INIT_ATTR_PD, IBV_QP_INIT_ATTR_RX_HASH,
    IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, IBV_QP_INIT_ATTR_XRCD, IBV_QP_STATE, IBV_QPT_XRC_RECV, Synchronization,
    ibv_context, ibv_ece, ibv_pd, ibv_qp, ibv_qp_attr, ibv_qp_ex, ibv_qp_init_attr, ibv_qp_init_attr_ex,
    ibv_xrcd,
};
use crate::convert;
use crate::errno::Errno;
use crate::guard;
use crate::objects::{
    COMPLETION_QUEUES, EXTENDED_DOMAINS, QUEUE_PAIRS, QueuePairParts, SHARED_RECEIVE_QUEUES, ZONES,
};

versions! {
    nonic_ibv_create_qp => "ibv_create_qp@@IBVERBS_1.1";
    nonic_ibv_modify_qp => "ibv_modify_qp@@IBVERBS_1.1";
    nonic_ibv_query_qp => "ibv_query_qp@@IBVERBS_1.1";
    nonic_ibv_destroy_qp => "ibv_destroy_qp@@IBVERBS_1.1";
    nonic_ibv_qp_to_qp_ex => "ibv_qp_to_qp_ex@@IBVERBS_1.6";
    nonic_ibv_query_qp_data_in_order => "ibv_query_qp_data_in_order@@IBVERBS_1.14";
    nonic_ibv_query_ece => "ibv_query_ece@@IBVERBS_1.10";
    nonic_ibv_set_ece => "ibv_set_ece@@IBVERBS_1.10";
}

/// `ibv_create_qp(3)`: writes the real capabilities back. NULL with `EINVAL` (unknown domain, queue or type,
/// capabilities beyond the device's, parts of different contexts), `EOPNOTSUPP` (a type this release lacks),
/// `ENOMEM` (no more queue pairs).
///
/// # Safety
/// `init` is readable and writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_create_qp(pd: *mut ibv_pd, init: *mut ibv_qp_init_attr) -> *mut ibv_qp {
    // SAFETY: the caller's promise is the same.
    guard::or_null(|| unsafe { create(pd, init, Wanted::default()) })
}

/// What only `ibv_create_qp_ex(3)` can ask for.
#[derive(Clone, Copy, Default)]
struct Wanted {
    /// The builder calls, with these operations.
    operations: Option<u64>,
    /// What it sends to a group it does not receive itself.
    skips_own_multicast: bool,
}

/// As both calls do.
///
/// # Safety
/// `init` is readable and writable.
unsafe fn create(pd: *mut ibv_pd, init: *mut ibv_qp_init_attr, wanted: Wanted) -> Result<*mut ibv_qp, Errno> {
    let zone = ZONES.parent(pd)?;
    // SAFETY: the caller's attributes are readable.
    let asked = unsafe { init.read() };
    let transport = convert::transport_from_c(asked.qp_type)?;
    let operations = wanted.operations.map(|flags| convert::send_operations(flags, transport)).transpose()?;
    let shared_receive_queue =
        if asked.srq.is_null() { None } else { Some(SHARED_RECEIVE_QUEUES.parent(asked.srq)?) };
    if transport == QpType::ExtendedReceive {
        // It has no protection domain, but belongs to an XRC domain.
        return Err(Errno::EINVAL);
    }
    let send_queue = COMPLETION_QUEUES.parent(asked.send_cq)?;
    let receive_queue =
        if transport.responds() { COMPLETION_QUEUES.parent(asked.recv_cq)? } else { Arc::clone(&send_queue) };
    let reservation = QUEUE_PAIRS.reserve();
    let engine = zone.create_queue_pair(QueuePairRequest {
        transport,
        send_queue,
        receive_queue,
        shared_receive_queue,
        capabilities: convert::capabilities_from_c(&asked.cap),
        signal_all: asked.sq_sig_all != 0,
        cookie: reservation.cookie(),
        observer: None,
    })?;
    if wanted.skips_own_multicast {
        engine.skip_own_multicast();
    }
    // SAFETY: the attributes are writable; the domain is in use by the queue pair and so cannot be destroyed.
    let context = unsafe {
        (*init).cap = convert::capabilities_to_c(&engine.capabilities());
        (*pd).context
    };
    let qp_num = engine.number().0;
    Ok(reservation.fill(QueuePairParts::new(engine, operations), |handle| {
        work_request::extended(ibv_qp {
            context,
            qp_context: asked.qp_context,
            pd,
            send_cq: asked.send_cq,
            recv_cq: asked.recv_cq,
            srq: asked.srq,
            handle,
            qp_num,
            state: QpState::Reset as c_int,
            qp_type: asked.qp_type,
            synchronization: Synchronization::NEW,
            events_completed: 0,
        })
    }))
}

/// `ibv_create_qp_ex(3)`, for what the header does not turn into [`nonic_ibv_create_qp`] itself. What asks
/// for nothing beyond that function works, and so do `send_ops_flags`, the operations of the builder calls, the flag
/// `IBV_QP_CREATE_BLOCK_SELF_MCAST_LB`, and the type `IBV_QPT_XRC_RECV`; other creation flags, offloads, and operations that the type does not have are not in this release
/// (`EOPNOTSUPP`); unknown bits, or no domain (an XRC domain for `IBV_QPT_XRC_RECV`, a protection domain for all others), are
/// `EINVAL`.
///
/// # Safety
/// `init` is readable and writable.
pub(crate) unsafe extern "C" fn create_qp_ex(
    context: *mut ibv_context,
    init: *mut ibv_qp_init_attr_ex,
) -> *mut ibv_qp {
    // SAFETY: the caller's promise is the same.
    guard::or_null(|| unsafe { create_extended(context, init) })
}

/// Creates a queue pair; as `ibv_create_qp_ex(3)`.
///
/// # Safety
/// `init` is readable and writable.
pub unsafe fn create_extended(
    context: *mut ibv_context,
    init: *mut ibv_qp_init_attr_ex,
) -> Result<*mut ibv_qp, Errno> {
    // SAFETY: the caller's attributes are readable, and begin with the plain ones; only a domain that was
    // found is followed.
    unsafe {
        let (pd, xrcd, wanted) = extended_attributes(init)?;
        if (*init).qp_type == IBV_QPT_XRC_RECV {
            return create_target(context, xrcd, init, wanted.operations);
        }
        ZONES.parent(pd)?;
        if (*pd).context != context { Err(Errno::EINVAL) } else { create(pd, init.cast(), wanted) }
    }
}

/// A queue pair that receives for an XRC domain: its queues and sizes mean nothing.
///
/// # Safety
/// `init` is readable and writable.
unsafe fn create_target(
    context: *mut ibv_context,
    xrcd: *mut ibv_xrcd,
    init: *mut ibv_qp_init_attr_ex,
    send_ops_flags: Option<u64>,
) -> Result<*mut ibv_qp, Errno> {
    let domain = EXTENDED_DOMAINS.parent(xrcd)?;
    // SAFETY: the domain was found.
    if unsafe { (*xrcd).context } != context {
        return Err(Errno::EINVAL);
    }
    let transport = QpType::ExtendedReceive;
    let operations = send_ops_flags.map(|flags| convert::send_operations(flags, transport)).transpose()?;
    let reservation = QUEUE_PAIRS.reserve();
    let engine = domain.create_queue_pair(reservation.cookie())?;
    // SAFETY: the caller says so.
    let (qp_context, qp_type) = unsafe {
        (*init).cap = convert::capabilities_to_c(&Capabilities::default());
        ((*init).qp_context, (*init).qp_type)
    };
    let qp_num = engine.number().0;
    Ok(reservation.fill(QueuePairParts::new(engine, operations), |handle| {
        work_request::extended(ibv_qp {
            context,
            qp_context,
            pd: ptr::null_mut(),
            send_cq: ptr::null_mut(),
            recv_cq: ptr::null_mut(),
            srq: ptr::null_mut(),
            handle,
            qp_num,
            state: QpState::Reset as c_int,
            qp_type,
            synchronization: Synchronization::NEW,
            events_completed: 0,
        })
    }))
}

/// The domain, and what is wanted out of the ordinary, if that can be had.
///
/// # Safety
/// `init` is readable.
unsafe fn extended_attributes(
    init: *const ibv_qp_init_attr_ex,
) -> Result<(*mut ibv_pd, *mut ibv_xrcd, Wanted), Errno> {
    /// `enum ibv_qp_create_flags`: what others understand, and this release only the first of.
    const CREATE_FLAGS: u32 = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 11;
    // SAFETY: the caller says so. Members count only where the mask names them.
    let (mask, create_flags, tso, operations, pd) = unsafe {
        ((*init).comp_mask, (*init).create_flags, (*init).max_tso_header, (*init).send_ops_flags, (*init).pd)
    };
    let has = |bit| mask & bit != 0;
    let refused = IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
    let known = refused
        | IBV_QP_INIT_ATTR_XRCD
        | IBV_QP_INIT_ATTR_PD
        | IBV_QP_INIT_ATTR_CREATE_FLAGS
        | IBV_QP_INIT_ATTR_MAX_TSO_HEADER
        | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    if mask & !known != 0 || (has(IBV_QP_INIT_ATTR_CREATE_FLAGS) && create_flags & !CREATE_FLAGS != 0) {
        return Err(Errno::EINVAL);
    }
    if has(refused)
        || (has(IBV_QP_INIT_ATTR_CREATE_FLAGS) && create_flags & !IBV_QP_CREATE_BLOCK_SELF_MCAST_LB != 0)
        || (has(IBV_QP_INIT_ATTR_MAX_TSO_HEADER) && tso != 0)
    {
        return Err(Errno::EOPNOTSUPP);
    }
    let wanted = Wanted {
        operations: has(IBV_QP_INIT_ATTR_SEND_OPS_FLAGS).then_some(operations),
        skips_own_multicast: has(IBV_QP_INIT_ATTR_CREATE_FLAGS)
            && create_flags & IBV_QP_CREATE_BLOCK_SELF_MCAST_LB != 0,
    };
    // SAFETY: as above.
    let (kind, xrcd) = unsafe { ((*init).qp_type, (*init).xrcd) };
    // A domain of the one kind means nothing to a queue pair that is in one of the other.
    let needed = if kind == IBV_QPT_XRC_RECV { IBV_QP_INIT_ATTR_XRCD } else { IBV_QP_INIT_ATTR_PD };
    if has(needed) { Ok((pd, xrcd, wanted)) } else { Err(Errno::EINVAL) }
}

/// `ibv_modify_qp(3)`: 0, `ENOENT` (unknown or overwritten handle), `EINVAL` (no such move, an attribute
/// missing, too many, or out of range). A refused call changes nothing.
///
/// # Safety
/// `attr` is readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int) -> c_int {
    guard::status(|| {
        QUEUE_PAIRS.find(qp)?;
        // SAFETY: the caller's attributes are readable; each is a number, whatever was written there.
        let (attributes, mask) = convert::modify_request(unsafe { &*attr }, mask)?;
        modify(qp, &attributes, mask)
    })
}

/// Moves a queue pair on; as [`nonic_ibv_modify_qp`].
#[expect(clippy::not_unsafe_ptr_arg_deref, reason = "only what was found is followed")]
pub fn modify(qp: *mut ibv_qp, attributes: &QpAttributes, mask: AttributeMask) -> Result<(), Errno> {
    let parts = QUEUE_PAIRS.find(qp)?;
    parts.modify(attributes, mask)?;
    if mask.has(AttributeMask::STATE) {
        // SAFETY: the queue pair was found; the field is the program's to read and ours to write.
        unsafe { (*qp).state = attributes.state as c_int };
    }
    Ok(())
}

/// The number of a queue pair, and whether it receives from a shared queue.
#[expect(clippy::not_unsafe_ptr_arg_deref, reason = "only what was found is followed")]
pub fn facts(qp: *const ibv_qp) -> Result<(QpNumber, bool), Errno> {
    let parts = QUEUE_PAIRS.find(qp)?;
    // SAFETY: the queue pair was found.
    Ok((parts.number(), unsafe { !(*qp).srq.is_null() }))
}

/// `ibv_query_qp(3)`: 0 with all attributes, `ENOENT` (unknown or overwritten handle), `EIO` (its device has failed, or it is another
/// process's, which has ended).
///
/// # Safety
/// `attr` and `init` are writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_query_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    mask: c_int,
    init: *mut ibv_qp_init_attr,
) -> c_int {
    guard::status(|| {
        let parts = QUEUE_PAIRS.find(qp)?;
        let (capabilities, signals_all) = parts.sizes();
        let answer = convert::query_answer(&parts.attributes()?, &capabilities);
        // SAFETY: the queue pair was found; the caller's places are writable.
        unsafe {
            init.write(ibv_qp_init_attr {
                qp_context: (*qp).qp_context,
                send_cq: (*qp).send_cq,
                recv_cq: (*qp).recv_cq,
                srq: (*qp).srq,
                cap: answer.cap,
                qp_type: (*qp).qp_type,
                sq_sig_all: c_int::from(signals_all),
            });
            if mask & IBV_QP_STATE != 0 {
                (*qp).state = answer.qp_state;
            }
            attr.write(answer);
        }
        Ok(())
    })
}

/// `ibv_destroy_qp(3)`: 0, `ENOENT` (unknown or overwritten handle), `EBUSY` (attached to a multicast group).
/// Waits until every event got for it was acknowledged; its completions not yet polled vanish.
///
/// # Safety
/// No other thread posts to the queue pair any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_destroy_qp(qp: *mut ibv_qp) -> c_int {
    guard::status(|| destroy(qp))
}

/// Destroys a queue pair; as [`nonic_ibv_destroy_qp`].
pub fn destroy(qp: *mut ibv_qp) -> Result<(), Errno> {
    let claim = QUEUE_PAIRS.claim(qp)?;
    claim.engine().destroy()?;
    claim.retire();
    Ok(())
}

/// `ibv_qp_to_qp_ex(3)`: the same queue pair with the builder calls; NULL if it was created without
/// `IBV_QP_INIT_ATTR_SEND_OPS_FLAGS`, or is none.
///
/// # Safety
/// None beyond the signature's: the pointer is looked up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_qp_to_qp_ex(qp: *mut ibv_qp) -> *mut ibv_qp_ex {
    let builds = guard::caught(|| Ok(QUEUE_PAIRS.find(qp)?.builder.is_some()));
    if builds == Ok(true) { qp.cast() } else { ptr::null_mut() }
}

/// `ibv_query_qp_data_in_order(3)`: 0, no promise that bytes arrive in order within a message.
///
/// # Safety
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_query_qp_data_in_order(
    _qp: *mut ibv_qp,
    _opcode: c_int,
    _flags: u32,
) -> c_int {
    0
}

/// What is not in this release, asked of a queue pair: `ENOENT` (unknown or overwritten handle), else
/// `EOPNOTSUPP`.
fn not_yet(qp: *mut ibv_qp) -> c_int {
    guard::status(|| {
        QUEUE_PAIRS.find(qp)?;
        Err(Errno::EOPNOTSUPP)
    })
}

/// `ibv_query_ece(3)`: there are no enhanced connection options here; `EOPNOTSUPP`.
///
/// # Safety
/// None beyond the signature's: the pointer is looked up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_query_ece(qp: *mut ibv_qp, _ece: *mut ibv_ece) -> c_int {
    not_yet(qp)
}

/// `ibv_set_ece(3)`: there are no enhanced connection options here; `EOPNOTSUPP`.
///
/// # Safety
/// None beyond the signature's: the pointer is looked up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_set_ece(qp: *mut ibv_qp, _ece: *mut ibv_ece) -> c_int {
    not_yet(qp)
}
