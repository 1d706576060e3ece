//! `ibv_context` and the larger `verbs_context` in front of it, whose pointers the header's inline functions
//! call.

use core::ffi::{c_int, c_void};

use libc::pthread_mutex_t;

use super::{
    Opaque, ibv_alloc_dm_attr, ibv_counter_attach_attr, ibv_counters, ibv_counters_init_attr, ibv_cq,
    ibv_cq_ex, ibv_cq_init_attr_ex, ibv_device, ibv_device_attr, ibv_device_attr_ex, ibv_dm,
    ibv_modify_cq_attr, ibv_mr, ibv_mw, ibv_mw_bind, ibv_parent_domain_init_attr, ibv_pd, ibv_port_attr,
    ibv_port_attr_short, ibv_qp, ibv_qp_init_attr_ex, ibv_qp_open_attr, ibv_query_device_ex_input,
    ibv_recv_wr, ibv_send_wr, ibv_sge, ibv_srq, ibv_srq_init_attr_ex, ibv_td, ibv_td_init_attr,
    ibv_values_ex, ibv_wc, ibv_xrcd, ibv_xrcd_init_attr,
};

/// A function pointer whose arguments do not matter here: the slot is empty, or filled by a stub that looks
/// at none.
pub type Slot = Option<unsafe extern "C" fn() -> *mut c_void>;

/// The operations the oldest inline functions call without looking for NULL.
#[repr(C)]
pub struct ibv_context_ops {
    pub _compat_query_device: Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_device_attr) -> c_int>,
    pub _compat_query_port:
        Option<unsafe extern "C" fn(*mut ibv_context, u8, *mut ibv_port_attr_short) -> c_int>,
    pub _compat_alloc_pd: Slot,
    pub _compat_dealloc_pd: Slot,
    pub _compat_reg_mr: Slot,
    pub _compat_rereg_mr: Slot,
    pub _compat_dereg_mr: Slot,
    pub alloc_mw: Option<unsafe extern "C" fn(*mut ibv_pd, c_int) -> *mut ibv_mw>,
    pub bind_mw: Option<unsafe extern "C" fn(*mut ibv_qp, *mut ibv_mw, *mut ibv_mw_bind) -> c_int>,
    pub dealloc_mw: Option<unsafe extern "C" fn(*mut ibv_mw) -> c_int>,
    pub _compat_create_cq: Slot,
    pub poll_cq: Option<unsafe extern "C" fn(*mut ibv_cq, c_int, *mut ibv_wc) -> c_int>,
    pub req_notify_cq: Option<unsafe extern "C" fn(*mut ibv_cq, c_int) -> c_int>,
    pub _compat_cq_event: Slot,
    pub _compat_resize_cq: Slot,
    pub _compat_destroy_cq: Slot,
    pub _compat_create_srq: Slot,
    pub _compat_modify_srq: Slot,
    pub _compat_query_srq: Slot,
    pub _compat_destroy_srq: Slot,
    pub post_srq_recv:
        Option<unsafe extern "C" fn(*mut ibv_srq, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int>,
    pub _compat_create_qp: Slot,
    pub _compat_query_qp: Slot,
    pub _compat_modify_qp: Slot,
    pub _compat_destroy_qp: Slot,
    pub post_send:
        Option<unsafe extern "C" fn(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int>,
    pub post_recv:
        Option<unsafe extern "C" fn(*mut ibv_qp, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int>,
    pub _compat_create_ah: Slot,
    pub _compat_destroy_ah: Slot,
    pub _compat_attach_mcast: Slot,
    pub _compat_detach_mcast: Slot,
    pub _compat_async_event: Slot,
}

/// An open device, as programs see it.
#[repr(C)]
pub struct ibv_context {
    pub device: *mut ibv_device,
    pub ops: ibv_context_ops,
    pub cmd_fd: c_int,
    pub async_fd: c_int,
    pub num_comp_vectors: c_int,
    pub mutex: pthread_mutex_t,
    pub abi_compat: usize,
}

/// An open device with the operations added since 2012. The header finds it from the [`ibv_context`] at its
/// end when `abi_compat` is all ones, and a member when `sz` reaches it; an empty member answers `EOPNOTSUPP`
/// by itself.
#[repr(C)]
pub struct verbs_context {
    pub query_port: Option<unsafe extern "C" fn(*mut ibv_context, u8, *mut ibv_port_attr, usize) -> c_int>,
    pub advise_mr: Option<unsafe extern "C" fn(*mut ibv_pd, c_int, u32, *const ibv_sge, u32) -> c_int>,
    pub alloc_null_mr: Option<unsafe extern "C" fn(*mut ibv_pd) -> *mut ibv_mr>,
    pub read_counters: Option<unsafe extern "C" fn(*mut ibv_counters, *mut u64, u32, u32) -> c_int>,
    pub attach_counters_point_flow:
        Option<unsafe extern "C" fn(*mut ibv_counters, *mut ibv_counter_attach_attr, *mut Opaque) -> c_int>,
    pub create_counters:
        Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_counters_init_attr) -> *mut ibv_counters>,
    pub destroy_counters: Option<unsafe extern "C" fn(*mut ibv_counters) -> c_int>,
    pub reg_dm_mr: Option<unsafe extern "C" fn(*mut ibv_pd, *mut ibv_dm, u64, usize, u32) -> *mut ibv_mr>,
    pub alloc_dm: Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_alloc_dm_attr) -> *mut ibv_dm>,
    pub free_dm: Option<unsafe extern "C" fn(*mut ibv_dm) -> c_int>,
    pub modify_flow_action_esp: Slot,
    pub destroy_flow_action: Slot,
    pub create_flow_action_esp: Slot,
    pub modify_qp_rate_limit: Slot,
    pub alloc_parent_domain:
        Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_parent_domain_init_attr) -> *mut ibv_pd>,
    pub dealloc_td: Option<unsafe extern "C" fn(*mut ibv_td) -> c_int>,
    pub alloc_td: Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_td_init_attr) -> *mut ibv_td>,
    pub modify_cq: Option<unsafe extern "C" fn(*mut ibv_cq, *mut ibv_modify_cq_attr) -> c_int>,
    pub post_srq_ops: Slot,
    pub destroy_rwq_ind_table: Slot,
    pub create_rwq_ind_table: Slot,
    pub destroy_wq: Slot,
    pub modify_wq: Slot,
    pub create_wq: Slot,
    pub query_rt_values: Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_values_ex) -> c_int>,
    pub create_cq_ex:
        Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_cq_init_attr_ex) -> *mut ibv_cq_ex>,
    pub r#priv: *mut Opaque,
    pub query_device_ex: Option<
        unsafe extern "C" fn(
            *mut ibv_context,
            *const ibv_query_device_ex_input,
            *mut ibv_device_attr_ex,
            usize,
        ) -> c_int,
    >,
    pub ibv_destroy_flow: Slot,
    pub ABI_placeholder2: Slot,
    pub ibv_create_flow: Slot,
    pub ABI_placeholder1: Slot,
    pub open_qp: Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_qp_open_attr) -> *mut ibv_qp>,
    pub create_qp_ex: Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_qp_init_attr_ex) -> *mut ibv_qp>,
    pub get_srq_num: Option<unsafe extern "C" fn(*mut ibv_srq, *mut u32) -> c_int>,
    pub create_srq_ex:
        Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_srq_init_attr_ex) -> *mut ibv_srq>,
    pub open_xrcd: Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_xrcd_init_attr) -> *mut ibv_xrcd>,
    pub close_xrcd: Option<unsafe extern "C" fn(*mut ibv_xrcd) -> c_int>,
    pub _ABI_placeholder3: u64,
    pub sz: usize,
    pub context: ibv_context,
}

layout! {
    ibv_context_ops: 256 {
        _compat_query_device @ 0, _compat_query_port @ 8, alloc_mw @ 56, bind_mw @ 64, dealloc_mw @ 72, poll_cq @ 88,
        req_notify_cq @ 96, post_srq_recv @ 160, post_send @ 200, post_recv @ 208,
    }
    ibv_context: 328 {
        device @ 0, ops @ 8, cmd_fd @ 264, async_fd @ 268, num_comp_vectors @ 272, mutex @ 280, abi_compat @ 320,
    }
    verbs_context: 648 {
        query_port @ 0, advise_mr @ 8, alloc_null_mr @ 16, read_counters @ 24, attach_counters_point_flow @ 32,
        create_counters @ 40, destroy_counters @ 48, reg_dm_mr @ 56, alloc_dm @ 64, free_dm @ 72,
        modify_flow_action_esp @ 80, destroy_flow_action @ 88, create_flow_action_esp @ 96,
        modify_qp_rate_limit @ 104, alloc_parent_domain @ 112, dealloc_td @ 120, alloc_td @ 128, modify_cq @ 136,
        post_srq_ops @ 144, destroy_rwq_ind_table @ 152, create_rwq_ind_table @ 160, destroy_wq @ 168,
        modify_wq @ 176, create_wq @ 184, query_rt_values @ 192, create_cq_ex @ 200, r#priv @ 208,
        query_device_ex @ 216, ibv_destroy_flow @ 224, ABI_placeholder2 @ 232, ibv_create_flow @ 240,
        ABI_placeholder1 @ 248, open_qp @ 256, create_qp_ex @ 264, get_srq_num @ 272, create_srq_ex @ 280,
        open_xrcd @ 288, close_xrcd @ 296, sz @ 312, context @ 320,
    }
}
