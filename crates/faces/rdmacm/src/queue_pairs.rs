//! The queue pair of an identifier: its completion queues, and its way from state to state.

use core::ffi::c_int;
use core::ptr;

use nonic_device::{AttributeMask, QpAttributes, QpState};
use nonic_rdma_cm::Id;
use nonic_verbs::abi::IBV_QPT_UD;
use nonic_verbs::entry::{completion_channel, completion_queue, queue_pair};
use nonic_verbs::errno::Errno;

use crate::abi::{ibv_comp_channel, ibv_cq, ibv_qp, rdma_cm_id};
use crate::errno::refused;

/// Makes a new queue pair ready: for receives, or if it sends datagrams for everything.
pub(crate) fn prepare(qp: *mut ibv_qp, qp_type: c_int, engine: &Id) -> Result<(), Errno> {
    step(qp, engine, QpState::Init, |_| {})?;
    if qp_type != IBV_QPT_UD {
        return Ok(());
    }
    let to = |state| QpAttributes { state, ..QpAttributes::default() };
    queue_pair::modify(qp, &to(QpState::ReadyToReceive), AttributeMask::STATE)?;
    let numbered = AttributeMask::STATE | AttributeMask::SQ_PSN;
    queue_pair::modify(qp, &to(QpState::ReadyToSend), numbered)
}

/// Moves a queue pair to RTS, by what the connection manager knows of the peer. `depths` are this side's, as responder and
/// as initiator; otherwise they are what was agreed upon.
pub(crate) fn connect(qp: *mut ibv_qp, engine: &Id, depths: Option<(u8, u8)>) -> Result<(), Errno> {
    // The program may have changed since what it was created with.
    step(qp, engine, QpState::Init, |_| {})?;
    step(qp, engine, QpState::ReadyToReceive, |attributes| {
        if let Some((responder, _)) = depths {
            attributes.max_dest_rd_atomic = responder;
        }
    })?;
    step(qp, engine, QpState::ReadyToSend, |attributes| {
        if let Some((_, initiator)) = depths {
            attributes.max_rd_atomic = initiator;
        }
    })
}

fn step(
    qp: *mut ibv_qp,
    engine: &Id,
    state: QpState,
    adjust: impl FnOnce(&mut QpAttributes),
) -> Result<(), Errno> {
    let (mut attributes, mask) = engine.queue_pair_attributes(state).map_err(refused)?;
    adjust(&mut attributes);
    queue_pair::modify(qp, &attributes, mask)
}

/// Moves an identifier's queue pair to ERR: what it was posted flushes. A queue pair that the program has destroyed itself, or
/// that was never moved, has nothing to flush.
///
/// # Safety
/// `id` is alive.
pub(crate) unsafe fn fail(id: *mut rdma_cm_id) {
    // SAFETY: the caller says so; the queue pair is looked up.
    let qp = unsafe { (*id).qp };
    if !qp.is_null() {
        let attributes = QpAttributes { state: QpState::Error, ..QpAttributes::default() };
        let _ = queue_pair::modify(qp, &attributes, AttributeMask::STATE);
    }
}

/// Creates the completion queues of an identifier that are to have entries, each with a channel of its own. All or none.
///
/// # Safety
/// `id` is alive, and has no queues where entries are named.
pub(crate) unsafe fn create_queues(id: *mut rdma_cm_id, send: u32, receive: u32) -> Result<(), Errno> {
    // SAFETY: the caller says so; the fields are ours to write.
    unsafe {
        if receive != 0 {
            ((*id).recv_cq_channel, (*id).recv_cq) = create_queue(id, receive)?;
        }
        if send != 0 {
            let created = create_queue(id, send).inspect_err(|_| destroy_made(id, 0, receive));
            ((*id).send_cq_channel, (*id).send_cq) = created?;
        }
    }
    Ok(())
}

/// # Safety
/// `id` is alive.
unsafe fn create_queue(
    id: *mut rdma_cm_id,
    entries: u32,
) -> Result<(*mut ibv_comp_channel, *mut ibv_cq), Errno> {
    let entries = c_int::try_from(entries).map_err(|_| Errno::EINVAL)?;
    // SAFETY: the caller says so.
    let verbs = unsafe { (*id).verbs };
    let channel = completion_channel::create(verbs)?;
    match completion_queue::create(verbs, entries, id.cast(), channel, 0) {
        Ok(queue) => Ok((channel, queue)),
        Err(errno) => {
            let _ = completion_channel::destroy(channel);
            Err(errno)
        }
    }
}

/// Destroys the queues that [`create_queues`] has made with these numbers of entries.
///
/// # Safety
/// `id` is alive.
pub(crate) unsafe fn destroy_made(id: *mut rdma_cm_id, send: u32, receive: u32) {
    // SAFETY: the caller says so; the fields are ours to write, and what they point to is looked up.
    unsafe {
        if receive != 0 {
            destroy_queue(&raw mut (*id).recv_cq, &raw mut (*id).recv_cq_channel);
        }
        if send != 0 {
            destroy_queue(&raw mut (*id).send_cq, &raw mut (*id).send_cq_channel);
        }
    }
}

/// Destroys all completion queues of an identifier, and their channels. What the program still uses otherwise stays.
///
/// # Safety
/// `id` is alive.
pub(crate) unsafe fn destroy_queues(id: *mut rdma_cm_id) {
    // SAFETY: the caller says so.
    unsafe { destroy_made(id, 1, 1) };
}

/// # Safety
/// The places are writable.
unsafe fn destroy_queue(queue: *mut *mut ibv_cq, channel: *mut *mut ibv_comp_channel) {
    // SAFETY: the caller says so.
    let (queue, channel) =
        unsafe { (ptr::replace(queue, ptr::null_mut()), ptr::replace(channel, ptr::null_mut())) };
    if !queue.is_null() {
        let _ = completion_queue::destroy(queue);
    }
    if !channel.is_null() {
        let _ = completion_channel::destroy(channel);
    }
}
