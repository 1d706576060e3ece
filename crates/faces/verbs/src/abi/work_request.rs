//! Work requests.

use core::ffi::{c_int, c_uint, c_void};

use super::{ibv_ah, ibv_mw, ibv_mw_bind_info};

/// A buffer of inline data.
#[repr(C)]
pub struct ibv_data_buf {
    pub addr: *mut c_void,
    pub length: usize,
}

/// One piece of local memory.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_sge {
    pub addr: u64,
    pub length: u32,
    pub lkey: u32,
}

#[repr(C)]
pub struct ibv_recv_wr {
    pub wr_id: u64,
    pub next: *mut ibv_recv_wr,
    pub sg_list: *mut ibv_sge,
    pub num_sge: c_int,
}

/// `wr.rdma`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_send_wr_rdma {
    pub remote_addr: u64,
    pub rkey: u32,
}

/// `wr.atomic`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_send_wr_atomic {
    pub remote_addr: u64,
    pub compare_add: u64,
    pub swap: u64,
    pub rkey: u32,
}

/// `wr.ud`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_send_wr_ud {
    pub ah: *mut ibv_ah,
    pub remote_qpn: u32,
    pub remote_qkey: u32,
}

/// `wr`; which member counts follows from the opcode and the type of the queue pair.
#[repr(C)]
#[derive(Clone, Copy)]
pub union ibv_send_wr_remote {
    pub rdma: ibv_send_wr_rdma,
    pub atomic: ibv_send_wr_atomic,
    pub ud: ibv_send_wr_ud,
}

/// `bind_mw`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_send_wr_bind_mw {
    pub mw: *mut ibv_mw,
    pub rkey: u32,
    pub bind_info: ibv_mw_bind_info,
}

/// `tso`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_send_wr_tso {
    pub hdr: *mut c_void,
    pub hdr_sz: u16,
    pub mss: u16,
}

/// The nameless union at the end.
#[repr(C)]
#[derive(Clone, Copy)]
pub union ibv_send_wr_last {
    pub bind_mw: ibv_send_wr_bind_mw,
    pub tso: ibv_send_wr_tso,
}

#[repr(C)]
pub struct ibv_send_wr {
    pub wr_id: u64,
    pub next: *mut ibv_send_wr,
    pub sg_list: *mut ibv_sge,
    pub num_sge: c_int,
    pub opcode: c_int,
    pub send_flags: c_uint,
    /// Also `invalidate_rkey`.
    pub imm_data: u32,
    pub wr: ibv_send_wr_remote,
    /// `qp_type.xrc.remote_srqn`.
    pub remote_srqn: u32,
    pub last: ibv_send_wr_last,
}

layout! {
    ibv_data_buf: 16 { addr @ 0, length @ 8 }
    ibv_sge: 16 { addr @ 0, length @ 8, lkey @ 12 }
    ibv_recv_wr: 32 { wr_id @ 0, next @ 8, sg_list @ 16, num_sge @ 24 }
    ibv_send_wr_rdma: 16 { remote_addr @ 0, rkey @ 8 }
    ibv_send_wr_atomic: 32 { remote_addr @ 0, compare_add @ 8, swap @ 16, rkey @ 24 }
    ibv_send_wr_ud: 16 { ah @ 0, remote_qpn @ 8, remote_qkey @ 12 }
    ibv_send_wr_bind_mw: 48 { mw @ 0, rkey @ 8, bind_info @ 16 }
    ibv_send_wr_tso: 16 { hdr @ 0, hdr_sz @ 8, mss @ 10 }
    ibv_send_wr: 128 {
        wr_id @ 0, next @ 8, sg_list @ 16, num_sge @ 24, opcode @ 28, send_flags @ 32, imm_data @ 36, wr @ 40,
        remote_srqn @ 72, last @ 80,
    }
}
