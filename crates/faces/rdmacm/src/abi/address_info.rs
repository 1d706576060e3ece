//! What `rdma_getaddrinfo(3)` answers.

use core::ffi::{c_char, c_int, c_void};

use libc::{sockaddr, socklen_t};

#[repr(C)]
pub struct rdma_addrinfo {
    pub ai_flags: c_int,
    pub ai_family: c_int,
    pub ai_qp_type: c_int,
    pub ai_port_space: c_int,
    pub ai_src_len: socklen_t,
    pub ai_dst_len: socklen_t,
    pub ai_src_addr: *mut sockaddr,
    pub ai_dst_addr: *mut sockaddr,
    pub ai_src_canonname: *mut c_char,
    pub ai_dst_canonname: *mut c_char,
    pub ai_route_len: usize,
    pub ai_route: *mut c_void,
    pub ai_connect_len: usize,
    pub ai_connect: *mut c_void,
    pub ai_next: *mut rdma_addrinfo,
}

/// An address of the family AF_IB (`infiniband/ib.h`).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sockaddr_ib {
    pub sib_family: u16,
    /// Network order, as all that follow but the last.
    pub sib_pkey: u16,
    pub sib_flowinfo: u32,
    pub sib_addr: [u8; 16],
    pub sib_sid: u64,
    pub sib_sid_mask: u64,
    pub sib_scope_id: u64,
}

nonic_verbs::layout! {
    rdma_addrinfo: 96 {
        ai_flags @ 0, ai_family @ 4, ai_qp_type @ 8, ai_port_space @ 12, ai_src_len @ 16, ai_dst_len @ 20,
        ai_src_addr @ 24, ai_dst_addr @ 32, ai_src_canonname @ 40, ai_dst_canonname @ 48, ai_route_len @ 56,
        ai_route @ 64, ai_connect_len @ 72, ai_connect @ 80, ai_next @ 88,
    }
    sockaddr_ib: 48 {
        sib_family @ 0, sib_pkey @ 2, sib_flowinfo @ 4, sib_addr @ 8, sib_sid @ 24, sib_sid_mask @ 32,
        sib_scope_id @ 40,
    }
}
