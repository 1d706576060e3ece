//! Numbers of `infiniband/verbs.h`, for the same reason written down once more as its layouts.

use std::ffi::{c_int, c_uint};

pub(super) const IBV_ACCESS_LOCAL_WRITE: c_uint = 1;
pub(super) const IBV_ACCESS_REMOTE_WRITE: c_uint = 2;
pub(super) const IBV_ACCESS_REMOTE_READ: c_uint = 4;
pub(super) const IBV_ACCESS_REMOTE_ATOMIC: c_uint = 8;
pub(super) const IBV_ACCESS_MW_BIND: c_uint = 16;
pub(super) const IBV_ACCESS_ZERO_BASED: c_uint = 32;
pub(super) const IBV_REREG_MR_CHANGE_ACCESS: c_uint = 4;

pub(super) const IBV_WR_RDMA_WRITE: c_uint = 0;
pub(super) const IBV_WR_SEND: c_uint = 2;
pub(super) const IBV_WR_SEND_WITH_IMM: c_uint = 3;
pub(super) const IBV_WR_RDMA_READ: c_uint = 4;
pub(super) const IBV_WR_ATOMIC_CMP_AND_SWP: c_uint = 5;
pub(super) const IBV_WR_ATOMIC_FETCH_AND_ADD: c_uint = 6;
pub(super) const IBV_WR_LOCAL_INV: c_uint = 7;
pub(super) const IBV_WR_BIND_MW: c_uint = 8;

pub(super) const IBV_SEND_SIGNALED: c_uint = 2;
pub(super) const IBV_SEND_INLINE: c_uint = 8;
pub(super) const IBV_WC_WITH_IMM: c_uint = 2;
pub(super) const IBV_QPT_RC: c_uint = 2;
pub(super) const IBV_MW_TYPE_2: c_uint = 2;
pub(super) const IBV_LINK_LAYER_ETHERNET: u8 = 2;

pub(super) const IBV_QPS_INIT: c_uint = 1;
pub(super) const IBV_QPS_RTR: c_uint = 2;
pub(super) const IBV_QPS_RTS: c_uint = 3;

pub(super) const IBV_QP_STATE: c_int = 1;
pub(super) const IBV_QP_ACCESS_FLAGS: c_int = 1 << 3;
pub(super) const IBV_QP_PKEY_INDEX: c_int = 1 << 4;
pub(super) const IBV_QP_PORT: c_int = 1 << 5;
pub(super) const IBV_QP_AV: c_int = 1 << 7;
pub(super) const IBV_QP_PATH_MTU: c_int = 1 << 8;
pub(super) const IBV_QP_TIMEOUT: c_int = 1 << 9;
pub(super) const IBV_QP_RETRY_CNT: c_int = 1 << 10;
pub(super) const IBV_QP_RNR_RETRY: c_int = 1 << 11;
pub(super) const IBV_QP_RQ_PSN: c_int = 1 << 12;
pub(super) const IBV_QP_MAX_QP_RD_ATOMIC: c_int = 1 << 13;
pub(super) const IBV_QP_MIN_RNR_TIMER: c_int = 1 << 15;
pub(super) const IBV_QP_SQ_PSN: c_int = 1 << 16;
pub(super) const IBV_QP_MAX_DEST_RD_ATOMIC: c_int = 1 << 17;
pub(super) const IBV_QP_DEST_QPN: c_int = 1 << 20;
