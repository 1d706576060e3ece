//! The tables of function pointers that the header's inline functions call.

use core::ffi::c_void;
use core::ptr;

use crate::abi::{ibv_context, ibv_context_ops, verbs_context};
use crate::entry::{
    completion_queue, counters, device_memory, extended_completion_queue, extended_domain, memory_window,
    paging, parent_domain, posting, query, queue_pair, shared_receive_queue,
};
use crate::errno::Errno;
use crate::guard;

/// The table every context begins with. The header calls what is in it without looking for NULL, and very old
/// programs call slots that no header names any more: none is empty.
pub(crate) fn basic() -> ibv_context_ops {
    ibv_context_ops {
        _compat_query_device: Some(query::query_device),
        _compat_query_port: Some(query::query_port_short),
        _compat_alloc_pd: Some(forgotten),
        _compat_dealloc_pd: Some(forgotten),
        _compat_reg_mr: Some(forgotten),
        _compat_rereg_mr: Some(forgotten),
        _compat_dereg_mr: Some(forgotten),
        alloc_mw: Some(memory_window::alloc_mw),
        bind_mw: Some(memory_window::bind_mw),
        dealloc_mw: Some(memory_window::dealloc_mw),
        _compat_create_cq: Some(forgotten),
        poll_cq: Some(completion_queue::poll_cq),
        req_notify_cq: Some(completion_queue::req_notify_cq),
        _compat_cq_event: Some(forgotten),
        _compat_resize_cq: Some(forgotten),
        _compat_destroy_cq: Some(forgotten),
        _compat_create_srq: Some(forgotten),
        _compat_modify_srq: Some(forgotten),
        _compat_query_srq: Some(forgotten),
        _compat_destroy_srq: Some(forgotten),
        post_srq_recv: Some(posting::post_srq_recv),
        _compat_create_qp: Some(forgotten),
        _compat_query_qp: Some(forgotten),
        _compat_modify_qp: Some(forgotten),
        _compat_destroy_qp: Some(forgotten),
        post_send: Some(posting::post_send),
        post_recv: Some(posting::post_recv),
        _compat_create_ah: Some(forgotten),
        _compat_destroy_ah: Some(forgotten),
        _compat_attach_mcast: Some(forgotten),
        _compat_detach_mcast: Some(forgotten),
        _compat_async_event: Some(forgotten),
    }
}

/// The larger table around a context. What this release lacks stays empty: the header then answers
/// `EOPNOTSUPP` by itself. The two placeholders repeat `create_flow` and `destroy_flow` for programs of one
/// old release: empty, as these.
pub(crate) fn verbs(context: ibv_context) -> verbs_context {
    verbs_context {
        query_port: Some(query::query_port),
        advise_mr: Some(paging::advise_mr),
        alloc_null_mr: Some(paging::alloc_null_mr),
        read_counters: Some(counters::read_counters),
        attach_counters_point_flow: Some(counters::attach_counters_point_flow),
        create_counters: Some(counters::create_counters),
        destroy_counters: Some(counters::destroy_counters),
        reg_dm_mr: Some(device_memory::reg_dm_mr),
        alloc_dm: Some(device_memory::alloc_dm),
        free_dm: Some(device_memory::free_dm),
        modify_flow_action_esp: None,
        destroy_flow_action: None,
        create_flow_action_esp: None,
        modify_qp_rate_limit: None,
        alloc_parent_domain: Some(parent_domain::alloc_parent_domain),
        dealloc_td: Some(parent_domain::dealloc_td),
        alloc_td: Some(parent_domain::alloc_td),
        modify_cq: Some(completion_queue::modify_cq),
        post_srq_ops: None,
        destroy_rwq_ind_table: None,
        create_rwq_ind_table: None,
        destroy_wq: None,
        modify_wq: None,
        create_wq: None,
        query_rt_values: Some(query::query_rt_values),
        create_cq_ex: Some(extended_completion_queue::create_cq_ex),
        r#priv: ptr::null_mut(),
        query_device_ex: Some(query::query_device_ex),
        ibv_destroy_flow: None,
        ABI_placeholder2: None,
        ibv_create_flow: None,
        ABI_placeholder1: None,
        open_qp: Some(extended_domain::open_qp),
        create_qp_ex: Some(queue_pair::create_qp_ex),
        get_srq_num: Some(extended_domain::get_srq_num),
        create_srq_ex: Some(shared_receive_queue::create_srq_ex),
        open_xrcd: Some(extended_domain::open_xrcd),
        close_xrcd: Some(extended_domain::close_xrcd),
        _ABI_placeholder3: 0,
        sz: size_of::<verbs_context>(),
        context,
    }
}

/// A slot no header of the last fifteen years calls: NULL with `ENOSYS`.
unsafe extern "C" fn forgotten() -> *mut c_void {
    guard::or_null(|| Err(Errno(libc::ENOSYS)))
}
