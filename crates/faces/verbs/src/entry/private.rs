//! The private node: functions between `libibverbs` and the provider libraries of real devices, `libmlx5` and
//! others.
//!
//! Programs link such libraries even where no such device is, and the loader wants every symbol. No device of
//! theirs ever exists here, so the functions are only called while they are loaded, to register themselves,
//! and that is taken and forgotten. Everything else refuses. As in [`super::oldest`], one function without
//! arguments stands for many.
//!
//! The node's number changes with the release: 34 from release 34 to 56, then 57, 59 and 64; each has the
//! same symbols, the last two some more, of which the last releases under 34, and 57, have one.

use core::ffi::{c_int, c_void};

use crate::errno::Errno;
use crate::guard;

const REFUSAL: Errno = Errno::EOPNOTSUPP;

/// [`versions!`] for symbols of all four nodes; new programs would link with the first.
macro_rules! in_all_nodes {
    ($($local:ident => $($name:literal),+ $(,)?;)+) => {
        $($(versions! {
            $local =>
                concat!($name, "@@IBVERBS_PRIVATE_34"),
                concat!($name, "@IBVERBS_PRIVATE_57"),
                concat!($name, "@IBVERBS_PRIVATE_59"),
                concat!($name, "@IBVERBS_PRIVATE_64");
        })+)+
    };
}

/// [`versions!`] for symbols that only the two newer nodes have.
macro_rules! in_new_nodes {
    ($($local:ident => $($name:literal),+ $(,)?;)+) => {
        $($(versions! {
            $local => concat!($name, "@@IBVERBS_PRIVATE_64"), concat!($name, "@IBVERBS_PRIVATE_59");
        })+)+
    };
}

in_all_nodes! {
    nonic_private_errno =>
        "execute_ioctl",
        "ibv_cmd_advise_mr", "ibv_cmd_alloc_dm", "ibv_cmd_alloc_mw", "ibv_cmd_alloc_pd", "ibv_cmd_attach_mcast",
        "ibv_cmd_close_xrcd", "ibv_cmd_create_ah", "ibv_cmd_create_counters", "ibv_cmd_create_cq",
        "ibv_cmd_create_cq_ex", "ibv_cmd_create_flow", "ibv_cmd_create_flow_action_esp", "ibv_cmd_create_qp",
        "ibv_cmd_create_qp_ex", "ibv_cmd_create_qp_ex2", "ibv_cmd_create_rwq_ind_table", "ibv_cmd_create_srq",
        "ibv_cmd_create_srq_ex", "ibv_cmd_create_wq", "ibv_cmd_dealloc_mw", "ibv_cmd_dealloc_pd", "ibv_cmd_dereg_mr",
        "ibv_cmd_destroy_ah", "ibv_cmd_destroy_counters", "ibv_cmd_destroy_cq", "ibv_cmd_destroy_flow",
        "ibv_cmd_destroy_flow_action", "ibv_cmd_destroy_qp", "ibv_cmd_destroy_rwq_ind_table", "ibv_cmd_destroy_srq",
        "ibv_cmd_destroy_wq", "ibv_cmd_detach_mcast", "ibv_cmd_free_dm", "ibv_cmd_get_context", "ibv_cmd_modify_cq",
        "ibv_cmd_modify_flow_action_esp", "ibv_cmd_modify_qp", "ibv_cmd_modify_qp_ex", "ibv_cmd_modify_srq",
        "ibv_cmd_modify_wq", "ibv_cmd_open_qp", "ibv_cmd_open_xrcd", "ibv_cmd_post_recv", "ibv_cmd_post_send",
        "ibv_cmd_post_srq_recv", "ibv_cmd_query_context", "ibv_cmd_query_device_any", "ibv_cmd_query_mr",
        "ibv_cmd_query_port", "ibv_cmd_query_qp", "ibv_cmd_query_srq", "ibv_cmd_read_counters", "ibv_cmd_reg_dm_mr",
        "ibv_cmd_reg_dmabuf_mr", "ibv_cmd_reg_mr", "ibv_cmd_req_notify_cq", "ibv_cmd_rereg_mr", "ibv_cmd_resize_cq";
    nonic_private_minus_one => "ibv_cmd_poll_cq";
    nonic_private_null => "_verbs_init_and_alloc_context", "verbs_open_device";
    nonic_private_nothing =>
        "__ioctl_final_num_attrs", "__verbs_log", "verbs_init_cq", "verbs_set_ops", "verbs_uninit_context";
    nonic_private_allow_disassociate_destroy => "verbs_allow_disassociate_destroy";
}

in_new_nodes! {
    nonic_private_errno =>
        "ibv_cmd_alloc_dmah", "ibv_cmd_create_cq_ex2", "ibv_cmd_free_dmah", "ibv_cmd_query_port_speed",
        "ibv_cmd_reg_mr_ex";
    nonic_private_minus_one => "ibv_cmd_export_dmabuf_fd";
    nonic_private_null => "ibv_dmabuf_heap_alloc", "ibv_dmabuf_heap_cc_shared_init";
    nonic_private_nothing => "ibv_dmabuf_heap_destroy", "ibv_dmabuf_heap_free";
}

versions! {
    nonic_private_errno =>
        "ibv_cmd_create_cq_ex2@IBVERBS_PRIVATE_34", "ibv_cmd_create_cq_ex2@IBVERBS_PRIVATE_57";
    nonic_private_nothing =>
        "verbs_register_driver_34@@IBVERBS_PRIVATE_34", "verbs_register_driver_57@@IBVERBS_PRIVATE_57",
        "verbs_register_driver_59@@IBVERBS_PRIVATE_59", "verbs_register_driver_64@@IBVERBS_PRIVATE_64";
}

/// For functions that return an errno: `EOPNOTSUPP`.
#[unsafe(no_mangle)]
pub extern "C" fn nonic_private_errno() -> c_int {
    guard::status(|| Err(REFUSAL))
}

/// For functions that return -1 on failure: -1 with `EOPNOTSUPP`.
#[unsafe(no_mangle)]
pub extern "C" fn nonic_private_minus_one() -> c_int {
    guard::or_minus_one(|| Err(REFUSAL))
}

/// For functions that return a pointer: NULL with `EOPNOTSUPP`.
#[unsafe(no_mangle)]
pub extern "C" fn nonic_private_null() -> *mut c_void {
    guard::or_null(|| Err(REFUSAL))
}

/// For functions that return nothing anybody needs, drivers that register themselves among them.
#[unsafe(no_mangle)]
pub extern "C" fn nonic_private_nothing() -> usize {
    0
}

/// A C `bool` that providers read: whether objects of a device that is gone may still be destroyed.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "a symbol of the C interface")]
pub static nonic_private_allow_disassociate_destroy: bool = false;
