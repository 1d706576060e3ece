//! XRC domains.

use core::ffi::{c_int, c_void};

use super::ibv_context;

#[repr(C)]
pub struct ibv_xrcd {
    pub context: *mut ibv_context,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_xrcd_init_attr {
    pub comp_mask: u32,
    pub fd: c_int,
    pub oflags: c_int,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_qp_open_attr {
    pub comp_mask: u32,
    pub qp_num: u32,
    pub xrcd: *mut ibv_xrcd,
    pub qp_context: *mut c_void,
    pub qp_type: c_int,
}

layout! {
    ibv_xrcd: 8 { context @ 0 }
    ibv_xrcd_init_attr: 12 { comp_mask @ 0, fd @ 4, oflags @ 8 }
    ibv_qp_open_attr: 32 { comp_mask @ 0, qp_num @ 4, xrcd @ 8, qp_context @ 16, qp_type @ 24 }
}
