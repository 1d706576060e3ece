//! The table of functions that a provider of 2.0 gives to the registry.

use core::ffi::c_char;

/// A function in a [`Provider`].
///
/// The registry and macros of programs call it with the arguments of its name; nothing here does.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Function(pub *const ());

// SAFETY: the address of code.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

/// `DAT_PROVIDER`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Provider {
    pub device_name: *const c_char,
    pub extension: usize,
    pub ia_open: Function,
    pub ia_query: Function,
    pub ia_close: Function,
    pub set_consumer_context: Function,
    pub get_consumer_context: Function,
    pub get_handle_type: Function,
    pub cno_create: Function,
    pub cno_modify_agent: Function,
    pub cno_query: Function,
    pub cno_free: Function,
    pub cno_wait: Function,
    pub cr_query: Function,
    pub cr_accept: Function,
    pub cr_reject: Function,
    pub cr_handoff: Function,
    pub evd_create: Function,
    pub evd_query: Function,
    pub evd_modify_cno: Function,
    pub evd_enable: Function,
    pub evd_disable: Function,
    pub evd_wait: Function,
    pub evd_resize: Function,
    pub evd_post_se: Function,
    pub evd_dequeue: Function,
    pub evd_free: Function,
    pub ep_create: Function,
    pub ep_query: Function,
    pub ep_modify: Function,
    pub ep_connect: Function,
    pub ep_dup_connect: Function,
    pub ep_disconnect: Function,
    pub ep_post_send: Function,
    pub ep_post_recv: Function,
    pub ep_post_rdma_read: Function,
    pub ep_post_rdma_write: Function,
    pub ep_get_status: Function,
    pub ep_free: Function,
    pub lmr_create: Function,
    pub lmr_query: Function,
    pub lmr_free: Function,
    pub rmr_create: Function,
    pub rmr_query: Function,
    pub rmr_bind: Function,
    pub rmr_free: Function,
    pub psp_create: Function,
    pub psp_query: Function,
    pub psp_free: Function,
    pub rsp_create: Function,
    pub rsp_query: Function,
    pub rsp_free: Function,
    pub pz_create: Function,
    pub pz_query: Function,
    pub pz_free: Function,
    pub psp_create_any: Function,
    pub ep_reset: Function,
    pub evd_set_unwaitable: Function,
    pub evd_clear_unwaitable: Function,
    pub lmr_sync_rdma_read: Function,
    pub lmr_sync_rdma_write: Function,
    pub ep_create_with_srq: Function,
    pub ep_recv_query: Function,
    pub ep_set_watermark: Function,
    pub srq_create: Function,
    pub srq_free: Function,
    pub srq_post_recv: Function,
    pub srq_query: Function,
    pub srq_resize: Function,
    pub srq_set_lw: Function,
    pub csp_create: Function,
    pub csp_query: Function,
    pub csp_free: Function,
    pub ep_common_connect: Function,
    pub rmr_create_for_ep: Function,
    pub ep_post_send_with_invalidate: Function,
    pub ep_post_rdma_read_to_rmr: Function,
    pub cno_fd_create: Function,
    pub cno_trigger: Function,
    pub ia_ha_related: Function,
    pub handle_extendedop: Function,
}

layout! {
    Provider: 648 {
        device_name @ 0, extension @ 8, ia_open @ 16, srq_set_lw @ 552, csp_create @ 560, handle_extendedop @ 640,
    }
}
