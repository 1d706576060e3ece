//! Event channels, events, and what these bring.

use core::ffi::{c_int, c_void};

use super::{ibv_ah_attr, rdma_cm_id};

#[repr(C)]
pub struct rdma_event_channel {
    pub fd: c_int,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct rdma_conn_param {
    pub private_data: *const c_void,
    pub private_data_len: u8,
    pub responder_resources: u8,
    pub initiator_depth: u8,
    pub flow_control: u8,
    pub retry_count: u8,
    pub rnr_retry_count: u8,
    pub srq: u8,
    pub qp_num: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct rdma_ud_param {
    pub private_data: *const c_void,
    pub private_data_len: u8,
    pub ah_attr: ibv_ah_attr,
    pub qp_num: u32,
    pub qkey: u32,
}

/// Which member counts follows from the kind of the event and the type of the identifier.
#[repr(C)]
#[derive(Clone, Copy)]
pub union rdma_cm_event_param {
    pub conn: rdma_conn_param,
    pub ud: rdma_ud_param,
    pub arg: u64,
}

#[repr(C)]
pub struct rdma_cm_event {
    pub id: *mut rdma_cm_id,
    pub listen_id: *mut rdma_cm_id,
    pub event: c_int,
    pub status: c_int,
    pub param: rdma_cm_event_param,
}

nonic_verbs::layout! {
    rdma_event_channel: 4 { fd @ 0 }
    rdma_conn_param: 24 {
        private_data @ 0, private_data_len @ 8, responder_resources @ 9, initiator_depth @ 10, flow_control @ 11,
        retry_count @ 12, rnr_retry_count @ 13, srq @ 14, qp_num @ 16,
    }
    rdma_ud_param: 56 { private_data @ 0, private_data_len @ 8, ah_attr @ 16, qp_num @ 48, qkey @ 52 }
    rdma_cm_event: 80 { id @ 0, listen_id @ 8, event @ 16, status @ 20, param @ 24 }
}
