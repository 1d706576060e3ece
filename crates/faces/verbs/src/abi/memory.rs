//! Protection domains, regions, windows and device memory.

use core::ffi::{c_int, c_uint, c_void};

use super::{ibv_context, ibv_dmah};

#[repr(C)]
pub struct ibv_pd {
    pub context: *mut ibv_context,
    pub handle: u32,
}

#[repr(C)]
pub struct ibv_td_init_attr {
    pub comp_mask: u32,
}

/// A thread domain.
#[repr(C)]
pub struct ibv_td {
    pub context: *mut ibv_context,
}

#[repr(C)]
pub struct ibv_parent_domain_init_attr {
    pub pd: *mut ibv_pd,
    pub td: *mut ibv_td,
    pub comp_mask: u32,
    pub alloc: Option<unsafe extern "C" fn(*mut ibv_pd, *mut c_void, usize, usize, u64) -> *mut c_void>,
    pub free: Option<unsafe extern "C" fn(*mut ibv_pd, *mut c_void, *mut c_void, u64)>,
    pub pd_context: *mut c_void,
}

#[repr(C)]
pub struct ibv_mr {
    pub context: *mut ibv_context,
    pub pd: *mut ibv_pd,
    pub addr: *mut c_void,
    pub length: usize,
    pub handle: u32,
    pub lkey: u32,
    pub rkey: u32,
}

/// What `ibv_reg_mr_ex(3)` is asked for; later releases have more behind it.
#[repr(C)]
pub struct ibv_mr_init_attr {
    pub length: usize,
    pub access: c_int,
    pub comp_mask: u64,
    pub iova: u64,
    pub addr: *mut c_void,
    pub fd: c_int,
    pub fd_offset: u64,
    pub dmah: *mut ibv_dmah,
    /// Of release 64.
    pub buf: *mut c_void,
}

#[repr(C)]
pub struct ibv_mw {
    pub context: *mut ibv_context,
    pub pd: *mut ibv_pd,
    pub rkey: u32,
    pub handle: u32,
    pub r#type: c_int,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_mw_bind_info {
    pub mr: *mut ibv_mr,
    pub addr: u64,
    pub length: u64,
    pub mw_access_flags: c_uint,
}

#[repr(C)]
pub struct ibv_mw_bind {
    pub wr_id: u64,
    pub send_flags: c_uint,
    pub bind_info: ibv_mw_bind_info,
}

#[repr(C)]
pub struct ibv_alloc_dm_attr {
    pub length: usize,
    pub log_align_req: u32,
    pub comp_mask: u32,
}

#[repr(C)]
pub struct ibv_dm {
    pub context: *mut ibv_context,
    pub memcpy_to_dm: Option<unsafe extern "C" fn(*mut ibv_dm, u64, *const c_void, usize) -> c_int>,
    pub memcpy_from_dm: Option<unsafe extern "C" fn(*mut c_void, *mut ibv_dm, u64, usize) -> c_int>,
    pub comp_mask: u32,
    pub handle: u32,
}

layout! {
    ibv_pd: 16 { context @ 0, handle @ 8 }
    ibv_td_init_attr: 4 { comp_mask @ 0 }
    ibv_td: 8 { context @ 0 }
    ibv_parent_domain_init_attr: 48 { pd @ 0, td @ 8, comp_mask @ 16, alloc @ 24, free @ 32, pd_context @ 40 }
    ibv_mr: 48 { context @ 0, pd @ 8, addr @ 16, length @ 24, handle @ 32, lkey @ 36, rkey @ 40 }
    ibv_mr_init_attr: 72 {
        length @ 0, access @ 8, comp_mask @ 16, iova @ 24, addr @ 32, fd @ 40, fd_offset @ 48, dmah @ 56, buf @ 64,
    }
    ibv_mw: 32 { context @ 0, pd @ 8, rkey @ 16, handle @ 20, r#type @ 24 }
    ibv_mw_bind_info: 32 { mr @ 0, addr @ 8, length @ 16, mw_access_flags @ 24 }
    ibv_mw_bind: 48 { wr_id @ 0, send_flags @ 8, bind_info @ 16 }
    ibv_alloc_dm_attr: 16 { length @ 0, log_align_req @ 8, comp_mask @ 12 }
    ibv_dm: 32 { context @ 0, memcpy_to_dm @ 8, memcpy_from_dm @ 16, comp_mask @ 24, handle @ 28 }
}
