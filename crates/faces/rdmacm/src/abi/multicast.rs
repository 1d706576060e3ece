//! Joining groups.

use libc::sockaddr;

#[repr(C)]
pub struct rdma_cm_join_mc_attr_ex {
    pub comp_mask: u32,
    pub join_flags: u32,
    pub addr: *mut sockaddr,
}

nonic_verbs::layout! {
    rdma_cm_join_mc_attr_ex: 16 { comp_mask @ 0, join_flags @ 4, addr @ 8 }
}
