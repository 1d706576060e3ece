//! The part of `rdma/rdma_cma.h` that this command uses, written down once more on purpose: a C program's view, as
//! [`crate::verbs`] has it of `infiniband/verbs.h`, checked against the offsets of rdma-core 44 on x86-64 while compiling.
#![allow(non_camel_case_types)] // The names are those of the C header.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::mem::offset_of;

use libc::{sockaddr, sockaddr_storage};

#[repr(C)]
pub(super) struct rdma_event_channel {
    pub(super) fd: c_int,
}

/// Source and destination, and what InfiniBand calls them.
#[repr(C)]
pub(super) struct rdma_addr {
    pub(super) src_storage: sockaddr_storage,
    pub(super) dst_storage: sockaddr_storage,
    _ibaddr: [u64; 5],
}

#[repr(C)]
pub(super) struct rdma_route {
    pub(super) addr: rdma_addr,
    pub(super) path_rec: *mut c_void,
    pub(super) num_paths: c_int,
}

/// An identifier. Objects of verbs are known only by their addresses here.
#[repr(C)]
pub(super) struct rdma_cm_id {
    pub(super) verbs: *mut c_void,
    pub(super) channel: *mut rdma_event_channel,
    pub(super) context: *mut c_void,
    pub(super) qp: *mut c_void,
    pub(super) route: rdma_route,
    pub(super) ps: c_int,
    pub(super) port_num: u8,
    pub(super) event: *mut rdma_cm_event,
    _queues: [*mut c_void; 6],
    pub(super) qp_type: c_int,
}
const _: () = assert!(size_of::<rdma_addr>() == 296 && offset_of!(rdma_addr, dst_storage) == 128);
const _: () = assert!(size_of::<rdma_route>() == 312 && offset_of!(rdma_route, num_paths) == 304);
const _: () = assert!(size_of::<rdma_cm_id>() == 416 && offset_of!(rdma_cm_id, qp) == 24);
const _: () = assert!(offset_of!(rdma_cm_id, route) == 32 && offset_of!(rdma_cm_id, ps) == 344);
const _: () = assert!(offset_of!(rdma_cm_id, event) == 352 && offset_of!(rdma_cm_id, qp_type) == 408);

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct rdma_conn_param {
    pub(super) private_data: *const c_void,
    pub(super) private_data_len: u8,
    pub(super) responder_resources: u8,
    pub(super) initiator_depth: u8,
    pub(super) flow_control: u8,
    pub(super) retry_count: u8,
    pub(super) rnr_retry_count: u8,
    pub(super) srq: u8,
    pub(super) qp_num: u32,
}
const _: () = assert!(size_of::<rdma_conn_param>() == 24 && offset_of!(rdma_conn_param, qp_num) == 16);

/// An event of a reliable connection; that of a datagram has another, larger member behind the status.
#[repr(C)]
pub(super) struct rdma_cm_event {
    pub(super) id: *mut rdma_cm_id,
    pub(super) listen_id: *mut rdma_cm_id,
    pub(super) event: c_uint,
    pub(super) status: c_int,
    pub(super) conn: rdma_conn_param,
    _rest_of_param: [u64; 4],
}
const _: () = assert!(size_of::<rdma_cm_event>() == 80 && offset_of!(rdma_cm_event, event) == 16);
const _: () = assert!(offset_of!(rdma_cm_event, status) == 20 && offset_of!(rdma_cm_event, conn) == 24);

/// `RDMA_PS_TCP`: the port space of reliable connections.
pub(super) const RDMA_PS_TCP: c_int = 0x0106;

/// `RDMA_MAX_RESP_RES` and `RDMA_MAX_INIT_DEPTH`: as much as the device can.
pub(super) const RDMA_MAX_DEPTH: u8 = 0xff;

/// The exported functions that are called, with their types.
pub(super) type CreateEventChannel = unsafe extern "C" fn() -> *mut rdma_event_channel;
pub(super) type DestroyEventChannel = unsafe extern "C" fn(*mut rdma_event_channel);
pub(super) type CreateId =
    unsafe extern "C" fn(*mut rdma_event_channel, *mut *mut rdma_cm_id, *mut c_void, c_int) -> c_int;
/// `rdma_destroy_id`, `rdma_disconnect`.
pub(super) type OfId = unsafe extern "C" fn(*mut rdma_cm_id) -> c_int;
pub(super) type BindAddr = unsafe extern "C" fn(*mut rdma_cm_id, *mut sockaddr) -> c_int;
pub(super) type ResolveAddr =
    unsafe extern "C" fn(*mut rdma_cm_id, *mut sockaddr, *mut sockaddr, c_int) -> c_int;
/// `rdma_resolve_route` with milliseconds, `rdma_listen` with a backlog.
pub(super) type OfIdAndNumber = unsafe extern "C" fn(*mut rdma_cm_id, c_int) -> c_int;
pub(super) type CreateQp = unsafe extern "C" fn(*mut rdma_cm_id, *mut c_void, *mut c_void) -> c_int;
pub(super) type DestroyQp = unsafe extern "C" fn(*mut rdma_cm_id);
/// `rdma_connect`, `rdma_accept`.
pub(super) type WithParameters = unsafe extern "C" fn(*mut rdma_cm_id, *mut rdma_conn_param) -> c_int;
pub(super) type Reject = unsafe extern "C" fn(*mut rdma_cm_id, *const c_void, u8) -> c_int;
pub(super) type GetCmEvent = unsafe extern "C" fn(*mut rdma_event_channel, *mut *mut rdma_cm_event) -> c_int;
pub(super) type AckCmEvent = unsafe extern "C" fn(*mut rdma_cm_event) -> c_int;
pub(super) type EventStr = unsafe extern "C" fn(c_uint) -> *const c_char;
