//! Identifiers, and what they know of the way between two addresses.

use core::ffi::{c_int, c_void};

use libc::sockaddr_storage;

use super::{
    ibv_comp_channel, ibv_context, ibv_cq, ibv_gid, ibv_pd, ibv_qp, ibv_sa_path_rec, ibv_srq, rdma_cm_event,
    rdma_event_channel,
};

#[repr(C)]
#[derive(Clone, Copy)]
pub struct rdma_ib_addr {
    pub sgid: ibv_gid,
    pub dgid: ibv_gid,
    /// Network order.
    pub pkey: u16,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct rdma_addr {
    pub src_storage: sockaddr_storage,
    pub dst_storage: sockaddr_storage,
    pub ibaddr: rdma_ib_addr,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct rdma_route {
    pub addr: rdma_addr,
    pub path_rec: *mut ibv_sa_path_rec,
    pub num_paths: c_int,
}

#[repr(C)]
pub struct rdma_cm_id {
    pub verbs: *mut ibv_context,
    pub channel: *mut rdma_event_channel,
    pub context: *mut c_void,
    pub qp: *mut ibv_qp,
    pub route: rdma_route,
    pub ps: c_int,
    pub port_num: u8,
    pub event: *mut rdma_cm_event,
    pub send_cq_channel: *mut ibv_comp_channel,
    pub send_cq: *mut ibv_cq,
    pub recv_cq_channel: *mut ibv_comp_channel,
    pub recv_cq: *mut ibv_cq,
    pub srq: *mut ibv_srq,
    pub pd: *mut ibv_pd,
    pub qp_type: c_int,
}

nonic_verbs::layout! {
    rdma_ib_addr: 40 { sgid @ 0, dgid @ 16, pkey @ 32 }
    rdma_addr: 296 { src_storage @ 0, dst_storage @ 128, ibaddr @ 256 }
    rdma_route: 312 { addr @ 0, path_rec @ 296, num_paths @ 304 }
    rdma_cm_id: 416 {
        verbs @ 0, channel @ 8, context @ 16, qp @ 24, route @ 32, ps @ 344, port_num @ 348, event @ 352,
        send_cq_channel @ 360, send_cq @ 368, recv_cq_channel @ 376, recv_cq @ 384, srq @ 392, pd @ 400,
        qp_type @ 408,
    }
}
