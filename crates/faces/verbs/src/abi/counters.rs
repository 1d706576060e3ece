//! Counters of flow rules, and hints about how a card should reach memory.

use core::ffi::c_int;

use super::ibv_context;

#[repr(C)]
pub struct ibv_counters_init_attr {
    pub comp_mask: u32,
}

#[repr(C)]
pub struct ibv_counters {
    pub context: *mut ibv_context,
}

#[repr(C)]
pub struct ibv_counter_attach_attr {
    pub counter_desc: c_int,
    pub index: u32,
    pub comp_mask: u32,
}

/// Of release 59.
#[repr(C)]
pub struct ibv_dmah {
    pub context: *mut ibv_context,
}

/// Of release 59.
#[repr(C)]
pub struct ibv_dmah_init_attr {
    pub comp_mask: u32,
    pub cpu_id: u32,
    pub ph: u8,
    pub tph_mem_type: u8,
}

layout! {
    ibv_counters_init_attr: 4 { comp_mask @ 0 }
    ibv_counters: 8 { context @ 0 }
    ibv_counter_attach_attr: 12 { counter_desc @ 0, index @ 4, comp_mask @ 8 }
    ibv_dmah: 8 { context @ 0 }
    ibv_dmah_init_attr: 12 { comp_mask @ 0, cpu_id @ 4, ph @ 8, tph_mem_type @ 9 }
}
