//! Version `IBVERBS_1.0` of functions that changed in 2007: other structures, other numbers. The symbols
//! exist so that such a program starts and is told; no call does anything but fail with `ENOSYS`.
//!
//! The functions declare no arguments because they look at none. In the C calling convention of every
//! platform with this library the caller places and removes them, so one function can stand for many.

use core::ffi::{c_int, c_void};

use crate::errno::Errno;
use crate::guard;

const REFUSAL: Errno = Errno(libc::ENOSYS);

versions! {
    nonic_oldest_null =>
        "ibv_alloc_pd@IBVERBS_1.0", "ibv_create_ah@IBVERBS_1.0", "ibv_create_cq@IBVERBS_1.0",
        "ibv_create_qp@IBVERBS_1.0", "ibv_create_srq@IBVERBS_1.0", "ibv_get_device_guid@IBVERBS_1.0",
        "ibv_get_device_list@IBVERBS_1.0", "ibv_get_device_name@IBVERBS_1.0", "ibv_open_device@IBVERBS_1.0",
        "ibv_reg_mr@IBVERBS_1.0";
    nonic_oldest_minus_one =>
        "ibv_close_device@IBVERBS_1.0", "ibv_get_async_event@IBVERBS_1.0", "ibv_get_cq_event@IBVERBS_1.0",
        "ibv_query_gid@IBVERBS_1.0", "ibv_query_pkey@IBVERBS_1.0";
    nonic_oldest_errno =>
        "ibv_attach_mcast@IBVERBS_1.0", "ibv_dealloc_pd@IBVERBS_1.0", "ibv_dereg_mr@IBVERBS_1.0",
        "ibv_destroy_ah@IBVERBS_1.0", "ibv_destroy_cq@IBVERBS_1.0", "ibv_destroy_qp@IBVERBS_1.0",
        "ibv_destroy_srq@IBVERBS_1.0", "ibv_detach_mcast@IBVERBS_1.0", "ibv_modify_qp@IBVERBS_1.0",
        "ibv_modify_srq@IBVERBS_1.0", "ibv_query_device@IBVERBS_1.0", "ibv_query_port@IBVERBS_1.0",
        "ibv_query_qp@IBVERBS_1.0", "ibv_query_srq@IBVERBS_1.0", "ibv_resize_cq@IBVERBS_1.0";
    nonic_oldest_nothing =>
        "ibv_ack_async_event@IBVERBS_1.0", "ibv_ack_cq_events@IBVERBS_1.0", "ibv_free_device_list@IBVERBS_1.0",
        "ibv_register_driver@IBVERBS_1.1";
}

/// For functions that return a pointer or a GUID: NULL, or 0, with `ENOSYS`.
#[unsafe(no_mangle)]
pub extern "C" fn nonic_oldest_null() -> *mut c_void {
    guard::or_null(|| Err(REFUSAL))
}

/// For functions that return -1 on failure: -1 with `ENOSYS`.
#[unsafe(no_mangle)]
pub extern "C" fn nonic_oldest_minus_one() -> c_int {
    guard::or_minus_one(|| Err(REFUSAL))
}

/// For functions that return an errno: `ENOSYS`.
#[unsafe(no_mangle)]
pub extern "C" fn nonic_oldest_errno() -> c_int {
    guard::status(|| Err(REFUSAL))
}

/// For functions that return nothing, among them the way drivers made themselves known before 2017.
#[unsafe(no_mangle)]
pub extern "C" fn nonic_oldest_nothing() {}
