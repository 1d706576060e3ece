//! Calls of later releases than the one whose header we follow, which programs that were built with those ask the loader for.

use core::ffi::{c_char, c_int};

use nonic_verbs::errno::Errno;

use super::zero;
use crate::abi::{rdma_addrinfo, rdma_cm_id};

/// `rdma_resolve_addrinfo(3)`: -1 with `ENOSYS`.
pub(crate) unsafe extern "C-unwind" fn rdma_resolve_addrinfo(
    _id: *mut rdma_cm_id,
    _node: *const c_char,
    _service: *const c_char,
    _hints: *const rdma_addrinfo,
) -> c_int {
    zero(|| Err(Errno::ENOSYS))
}

/// `rdma_query_addrinfo(3)`: -1 with `ENOSYS`.
pub(crate) unsafe extern "C-unwind" fn rdma_query_addrinfo(
    _id: *mut rdma_cm_id,
    _info: *mut *mut rdma_addrinfo,
) -> c_int {
    zero(|| Err(Errno::ENOSYS))
}

/// `rdma_write_cm_event(3)`: -1 with `ENOSYS`.
pub(crate) unsafe extern "C-unwind" fn rdma_write_cm_event(
    _id: *mut rdma_cm_id,
    _event: c_int,
    _status: c_int,
    _arg: u64,
) -> c_int {
    zero(|| Err(Errno::ENOSYS))
}
