//! The part of `infiniband/verbs.h` that this command uses, written down once more on purpose.
//!
//! The library has its own copy of these layouts. A command that shared it would agree with the library even where both
//! are wrong; this one is a C program's view, checked against the offsets of rdma-core 44 on x86-64 while compiling.
#![allow(non_camel_case_types)] // The names are those of the C header.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::mem::offset_of;

pub(super) use super::constants::*;

/// Known only by its address.
#[repr(C)]
pub(super) struct ibv_device {
    _opaque: [u8; 0],
}

/// Known only by its address.
#[repr(C)]
pub(super) struct ibv_pd {
    _opaque: [u8; 0],
}

/// Known only by its address.
#[repr(C)]
pub(super) struct ibv_cq {
    _opaque: [u8; 0],
}

/// Known only by its address.
#[repr(C)]
pub(super) struct ibv_comp_channel {
    _opaque: [u8; 0],
}

#[repr(C)]
pub(super) struct ibv_context {
    pub(super) device: *mut ibv_device,
    _ops_0: [*const c_void; 7],
    pub(super) alloc_mw: Option<unsafe extern "C" fn(*mut ibv_pd, c_uint) -> *mut ibv_mw>,
    _ops_8: [*const c_void; 1],
    pub(super) dealloc_mw: Option<unsafe extern "C" fn(*mut ibv_mw) -> c_int>,
    _ops_10: [*const c_void; 1],
    pub(super) poll_cq: Option<unsafe extern "C" fn(*mut ibv_cq, c_int, *mut ibv_wc) -> c_int>,
    pub(super) req_notify_cq: Option<unsafe extern "C" fn(*mut ibv_cq, c_int) -> c_int>,
    _ops_13: [*const c_void; 12],
    pub(super) post_send:
        Option<unsafe extern "C" fn(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int>,
    pub(super) post_recv:
        Option<unsafe extern "C" fn(*mut ibv_qp, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int>,
    _ops_27: [*const c_void; 5],
    pub(super) cmd_fd: c_int,
    pub(super) async_fd: c_int,
    pub(super) num_comp_vectors: c_int,
    _mutex: [u64; 5],
    pub(super) abi_compat: usize,
}
const _: () = assert!(size_of::<ibv_context>() == 328);
const _: () = assert!(offset_of!(ibv_context, alloc_mw) == 8 + 56);
const _: () = assert!(offset_of!(ibv_context, dealloc_mw) == 8 + 72);
const _: () = assert!(offset_of!(ibv_context, poll_cq) == 8 + 88);
const _: () = assert!(offset_of!(ibv_context, req_notify_cq) == 8 + 96);
const _: () = assert!(offset_of!(ibv_context, post_send) == 8 + 200);
const _: () = assert!(offset_of!(ibv_context, post_recv) == 8 + 208);
const _: () = assert!(offset_of!(ibv_context, abi_compat) == 320);

pub(super) type RegisterDeviceMemory =
    unsafe extern "C" fn(*mut ibv_pd, *mut ibv_dm, u64, usize, c_uint) -> *mut ibv_mr;
pub(super) type AllocateDeviceMemory =
    unsafe extern "C" fn(*mut ibv_context, *mut ibv_alloc_dm_attr) -> *mut ibv_dm;
pub(super) type FreeDeviceMemory = unsafe extern "C" fn(*mut ibv_dm) -> c_int;

/// What lies around the `ibv_context`; found by going back from it.
#[repr(C)]
pub(super) struct verbs_context {
    _ops_0: [*const c_void; 7],
    pub(super) reg_dm_mr: Option<RegisterDeviceMemory>,
    pub(super) alloc_dm: Option<AllocateDeviceMemory>,
    pub(super) free_dm: Option<FreeDeviceMemory>,
    _ops_10: [*const c_void; 29],
    pub(super) sz: usize,
    pub(super) context: ibv_context,
}
const _: () = assert!(size_of::<verbs_context>() == 648);
const _: () = assert!(offset_of!(verbs_context, reg_dm_mr) == 56);
const _: () = assert!(offset_of!(verbs_context, free_dm) == 72);
const _: () = assert!(offset_of!(verbs_context, sz) == 312);
const _: () = assert!(offset_of!(verbs_context, context) == 320);

#[repr(C)]
pub(super) struct ibv_mr {
    pub(super) context: *mut ibv_context,
    pub(super) pd: *mut ibv_pd,
    pub(super) addr: *mut c_void,
    pub(super) length: usize,
    pub(super) handle: u32,
    pub(super) lkey: u32,
    pub(super) rkey: u32,
}
const _: () = assert!(size_of::<ibv_mr>() == 48 && offset_of!(ibv_mr, rkey) == 40);

#[repr(C)]
pub(super) struct ibv_dm {
    pub(super) context: *mut ibv_context,
    pub(super) memcpy_to_dm: Option<unsafe extern "C" fn(*mut ibv_dm, u64, *const c_void, usize) -> c_int>,
    pub(super) memcpy_from_dm: Option<unsafe extern "C" fn(*mut c_void, *mut ibv_dm, u64, usize) -> c_int>,
    pub(super) comp_mask: u32,
    pub(super) handle: u32,
}
const _: () = assert!(size_of::<ibv_dm>() == 32);

#[repr(C)]
pub(super) struct ibv_alloc_dm_attr {
    pub(super) length: usize,
    pub(super) log_align_req: u32,
    pub(super) comp_mask: u32,
}
const _: () = assert!(size_of::<ibv_alloc_dm_attr>() == 16);

/// A memory window, as far as its key.
#[repr(C)]
pub(super) struct ibv_mw {
    _before: [u64; 2],
    pub(super) rkey: u32,
    pub(super) handle: u32,
    pub(super) kind: c_uint,
}
const _: () = assert!(size_of::<ibv_mw>() == 32 && offset_of!(ibv_mw, rkey) == 16);

/// A queue pair, as far as its number.
#[repr(C)]
pub(super) struct ibv_qp {
    _before: [u64; 6],
    pub(super) handle: u32,
    pub(super) qp_num: u32,
}
const _: () = assert!(offset_of!(ibv_qp, qp_num) == 52);

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct ibv_qp_cap {
    pub(super) max_send_wr: u32,
    pub(super) max_recv_wr: u32,
    pub(super) max_send_sge: u32,
    pub(super) max_recv_sge: u32,
    pub(super) max_inline_data: u32,
}

#[repr(C)]
pub(super) struct ibv_qp_init_attr {
    pub(super) qp_context: *mut c_void,
    pub(super) send_cq: *mut ibv_cq,
    pub(super) recv_cq: *mut ibv_cq,
    pub(super) srq: *mut c_void,
    pub(super) cap: ibv_qp_cap,
    pub(super) qp_type: c_uint,
    pub(super) sq_sig_all: c_int,
}
const _: () = assert!(size_of::<ibv_qp_init_attr>() == 64);

#[repr(C, align(8))]
#[derive(Clone, Copy, Default)]
pub(super) struct ibv_gid {
    pub(super) raw: [u8; 16],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct ibv_ah_attr {
    pub(super) dgid: ibv_gid,
    pub(super) flow_label: u32,
    pub(super) sgid_index: u8,
    pub(super) hop_limit: u8,
    pub(super) traffic_class: u8,
    pub(super) dlid: u16,
    pub(super) sl: u8,
    pub(super) src_path_bits: u8,
    pub(super) static_rate: u8,
    pub(super) is_global: u8,
    pub(super) port_num: u8,
}
const _: () = assert!(size_of::<ibv_ah_attr>() == 32 && offset_of!(ibv_ah_attr, dlid) == 24);

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct ibv_qp_attr {
    pub(super) qp_state: c_uint,
    pub(super) cur_qp_state: c_uint,
    pub(super) path_mtu: c_uint,
    pub(super) path_mig_state: c_uint,
    pub(super) qkey: u32,
    pub(super) rq_psn: u32,
    pub(super) sq_psn: u32,
    pub(super) dest_qp_num: u32,
    pub(super) qp_access_flags: c_uint,
    pub(super) cap: ibv_qp_cap,
    pub(super) ah_attr: ibv_ah_attr,
    pub(super) alt_ah_attr: ibv_ah_attr,
    pub(super) pkey_index: u16,
    pub(super) alt_pkey_index: u16,
    pub(super) en_sqd_async_notify: u8,
    pub(super) sq_draining: u8,
    pub(super) max_rd_atomic: u8,
    pub(super) max_dest_rd_atomic: u8,
    pub(super) min_rnr_timer: u8,
    pub(super) port_num: u8,
    pub(super) timeout: u8,
    pub(super) retry_cnt: u8,
    pub(super) rnr_retry: u8,
    pub(super) alt_port_num: u8,
    pub(super) alt_timeout: u8,
    pub(super) rate_limit: u32,
}
const _: () = assert!(size_of::<ibv_qp_attr>() == 144 && offset_of!(ibv_qp_attr, ah_attr) == 56);
const _: () = assert!(offset_of!(ibv_qp_attr, rnr_retry) == 132);

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct ibv_wc {
    pub(super) wr_id: u64,
    pub(super) status: c_uint,
    pub(super) opcode: c_uint,
    pub(super) vendor_err: u32,
    pub(super) byte_len: u32,
    pub(super) imm_data: u32,
    pub(super) qp_num: u32,
    pub(super) src_qp: u32,
    pub(super) wc_flags: c_uint,
    pub(super) pkey_index: u16,
    pub(super) slid: u16,
    pub(super) sl: u8,
    pub(super) dlid_path_bits: u8,
}
const _: () = assert!(size_of::<ibv_wc>() == 48);

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct ibv_sge {
    pub(super) addr: u64,
    pub(super) length: u32,
    pub(super) lkey: u32,
}

/// The arms of the union in `ibv_send_wr` that one-sided operations use: they agree in the first member.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct atomic {
    pub(super) remote_addr: u64,
    pub(super) compare_add: u64,
    pub(super) swap: u64,
    pub(super) rkey: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct rdma {
    pub(super) remote_addr: u64,
    pub(super) rkey: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) union one_sided {
    pub(super) rdma: rdma,
    pub(super) atomic: atomic,
}

/// The arm of the last union in `ibv_send_wr` that binds a window.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct bind_mw {
    pub(super) mw: *mut ibv_mw,
    pub(super) rkey: u32,
    pub(super) mr: *mut ibv_mr,
    pub(super) addr: u64,
    pub(super) length: u64,
    pub(super) mw_access_flags: c_uint,
}
const _: () = assert!(size_of::<bind_mw>() == 48 && offset_of!(bind_mw, mr) == 16);

impl bind_mw {
    /// For requests that bind nothing.
    pub(super) const NONE: Self = Self {
        mw: std::ptr::null_mut(),
        rkey: 0,
        mr: std::ptr::null_mut(),
        addr: 0,
        length: 0,
        mw_access_flags: 0,
    };
}

#[repr(C)]
pub(super) struct ibv_send_wr {
    pub(super) wr_id: u64,
    pub(super) next: *mut ibv_send_wr,
    pub(super) sg_list: *mut ibv_sge,
    pub(super) num_sge: c_int,
    pub(super) opcode: c_uint,
    pub(super) send_flags: c_uint,
    pub(super) imm_data: u32,
    pub(super) wr: one_sided,
    pub(super) _qp_type: u64,
    pub(super) bind_mw: bind_mw,
}
const _: () = assert!(size_of::<ibv_send_wr>() == 128 && offset_of!(ibv_send_wr, wr) == 40);
const _: () = assert!(offset_of!(ibv_send_wr, bind_mw) == 80);

#[repr(C)]
pub(super) struct ibv_recv_wr {
    pub(super) wr_id: u64,
    pub(super) next: *mut ibv_recv_wr,
    pub(super) sg_list: *mut ibv_sge,
    pub(super) num_sge: c_int,
}
const _: () = assert!(size_of::<ibv_recv_wr>() == 32);

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct ibv_port_attr {
    pub(super) state: c_uint,
    pub(super) max_mtu: c_uint,
    pub(super) active_mtu: c_uint,
    pub(super) gid_tbl_len: c_int,
    pub(super) port_cap_flags: u32,
    pub(super) max_msg_sz: u32,
    pub(super) bad_pkey_cntr: u32,
    pub(super) qkey_viol_cntr: u32,
    pub(super) pkey_tbl_len: u16,
    pub(super) lid: u16,
    pub(super) sm_lid: u16,
    pub(super) lmc: u8,
    pub(super) max_vl_num: u8,
    pub(super) sm_sl: u8,
    pub(super) subnet_timeout: u8,
    pub(super) init_type_reply: u8,
    pub(super) active_width: u8,
    pub(super) active_speed: u8,
    pub(super) phys_state: u8,
    pub(super) link_layer: u8,
    pub(super) flags: u8,
    pub(super) port_cap_flags2: u16,
}
const _: () = assert!(size_of::<ibv_port_attr>() == 52 && offset_of!(ibv_port_attr, link_layer) == 46);

/// The exported functions that are called, with their types.
pub(super) type GetDeviceList = unsafe extern "C" fn(*mut c_int) -> *mut *mut ibv_device;
pub(super) type FreeDeviceList = unsafe extern "C" fn(*mut *mut ibv_device);
pub(super) type GetDeviceName = unsafe extern "C" fn(*mut ibv_device) -> *const c_char;
pub(super) type OpenDevice = unsafe extern "C" fn(*mut ibv_device) -> *mut ibv_context;
pub(super) type CloseDevice = unsafe extern "C" fn(*mut ibv_context) -> c_int;
pub(super) type QueryPort = unsafe extern "C" fn(*mut ibv_context, u8, *mut ibv_port_attr) -> c_int;
pub(super) type QueryGid = unsafe extern "C" fn(*mut ibv_context, u8, c_int, *mut ibv_gid) -> c_int;
pub(super) type AllocPd = unsafe extern "C" fn(*mut ibv_context) -> *mut ibv_pd;
pub(super) type DeallocPd = unsafe extern "C" fn(*mut ibv_pd) -> c_int;
pub(super) type RegMr = unsafe extern "C" fn(*mut ibv_pd, *mut c_void, usize, c_int) -> *mut ibv_mr;
pub(super) type ReregMr =
    unsafe extern "C" fn(*mut ibv_mr, c_int, *mut ibv_pd, *mut c_void, usize, c_int) -> c_int;
pub(super) type DeregMr = unsafe extern "C" fn(*mut ibv_mr) -> c_int;
pub(super) type CreateCq =
    unsafe extern "C" fn(*mut ibv_context, c_int, *mut c_void, *mut c_void, c_int) -> *mut ibv_cq;
pub(super) type CreateCompChannel = unsafe extern "C" fn(*mut ibv_context) -> *mut ibv_comp_channel;
pub(super) type DestroyCompChannel = unsafe extern "C" fn(*mut ibv_comp_channel) -> c_int;
pub(super) type GetCqEvent =
    unsafe extern "C" fn(*mut ibv_comp_channel, *mut *mut ibv_cq, *mut *mut c_void) -> c_int;
pub(super) type AckCqEvents = unsafe extern "C" fn(*mut ibv_cq, c_uint);
pub(super) type DestroyCq = unsafe extern "C" fn(*mut ibv_cq) -> c_int;
pub(super) type CreateQp = unsafe extern "C" fn(*mut ibv_pd, *mut ibv_qp_init_attr) -> *mut ibv_qp;
pub(super) type ModifyQp = unsafe extern "C" fn(*mut ibv_qp, *mut ibv_qp_attr, c_int) -> c_int;
pub(super) type DestroyQp = unsafe extern "C" fn(*mut ibv_qp) -> c_int;
pub(super) type WcStatusStr = unsafe extern "C" fn(c_uint) -> *const c_char;
