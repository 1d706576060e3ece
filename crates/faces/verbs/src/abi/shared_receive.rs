//! Shared receive queues and the work queues of packet programs.

use core::ffi::{c_int, c_void};

use super::{Synchronization, ibv_context, ibv_cq, ibv_pd, ibv_recv_wr, ibv_xrcd};

#[repr(C)]
pub struct ibv_srq {
    pub context: *mut ibv_context,
    pub srq_context: *mut c_void,
    pub pd: *mut ibv_pd,
    pub handle: u32,
    pub synchronization: Synchronization,
    pub events_completed: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_srq_attr {
    pub max_wr: u32,
    pub max_sge: u32,
    pub srq_limit: u32,
}

#[repr(C)]
pub struct ibv_srq_init_attr {
    pub srq_context: *mut c_void,
    pub attr: ibv_srq_attr,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_tm_cap {
    pub max_num_tags: u32,
    pub max_ops: u32,
}

/// Begins with the members of [`ibv_srq_init_attr`]; the header relies on that.
#[repr(C)]
pub struct ibv_srq_init_attr_ex {
    pub srq_context: *mut c_void,
    pub attr: ibv_srq_attr,
    pub comp_mask: u32,
    pub srq_type: c_int,
    pub pd: *mut ibv_pd,
    pub xrcd: *mut ibv_xrcd,
    pub cq: *mut ibv_cq,
    pub tm_cap: ibv_tm_cap,
}

#[repr(C)]
pub struct ibv_wq {
    pub context: *mut ibv_context,
    pub wq_context: *mut c_void,
    pub pd: *mut ibv_pd,
    pub cq: *mut ibv_cq,
    pub wq_num: u32,
    pub handle: u32,
    pub state: c_int,
    pub wq_type: c_int,
    pub post_recv:
        Option<unsafe extern "C" fn(*mut ibv_wq, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int>,
    pub synchronization: Synchronization,
    pub events_completed: u32,
    pub comp_mask: u32,
}

layout! {
    ibv_srq: 128 { context @ 0, srq_context @ 8, pd @ 16, handle @ 24, synchronization @ 32, events_completed @ 120 }
    ibv_srq_attr: 12 { max_wr @ 0, max_sge @ 4, srq_limit @ 8 }
    ibv_srq_init_attr: 24 { srq_context @ 0, attr @ 8 }
    ibv_srq_init_attr_ex: 64 {
        srq_context @ 0, attr @ 8, comp_mask @ 20, srq_type @ 24, pd @ 32, xrcd @ 40, cq @ 48, tm_cap @ 56,
    }
    ibv_wq: 152 {
        context @ 0, wq_context @ 8, pd @ 16, cq @ 24, wq_num @ 32, handle @ 36, state @ 40, wq_type @ 44,
        post_recv @ 48, synchronization @ 56, events_completed @ 144, comp_mask @ 148,
    }
}
