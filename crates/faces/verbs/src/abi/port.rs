//! The attributes of a port.

use core::ffi::c_int;

/// What the inline `ibv_query_port` asks for.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_port_attr {
    pub state: c_int,
    pub max_mtu: c_int,
    pub active_mtu: c_int,
    pub gid_tbl_len: c_int,
    pub port_cap_flags: u32,
    pub max_msg_sz: u32,
    pub bad_pkey_cntr: u32,
    pub qkey_viol_cntr: u32,
    pub pkey_tbl_len: u16,
    pub lid: u16,
    pub sm_lid: u16,
    pub lmc: u8,
    pub max_vl_num: u8,
    pub sm_sl: u8,
    pub subnet_timeout: u8,
    pub init_type_reply: u8,
    pub active_width: u8,
    pub active_speed: u8,
    pub phys_state: u8,
    pub link_layer: u8,
    pub flags: u8,
    pub port_cap_flags2: u16,
}

/// What the exported `ibv_query_port` may write: programs older than `port_cap_flags2` gave it no more room.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_port_attr_short {
    pub state: c_int,
    pub max_mtu: c_int,
    pub active_mtu: c_int,
    pub gid_tbl_len: c_int,
    pub port_cap_flags: u32,
    pub max_msg_sz: u32,
    pub bad_pkey_cntr: u32,
    pub qkey_viol_cntr: u32,
    pub pkey_tbl_len: u16,
    pub lid: u16,
    pub sm_lid: u16,
    pub lmc: u8,
    pub max_vl_num: u8,
    pub sm_sl: u8,
    pub subnet_timeout: u8,
    pub init_type_reply: u8,
    pub active_width: u8,
    pub active_speed: u8,
    pub phys_state: u8,
    pub link_layer: u8,
    pub flags: u8,
}

layout! {
    ibv_port_attr: 52 {
        state @ 0, max_mtu @ 4, active_mtu @ 8, gid_tbl_len @ 12, port_cap_flags @ 16, max_msg_sz @ 20,
        bad_pkey_cntr @ 24, qkey_viol_cntr @ 28, pkey_tbl_len @ 32, lid @ 34, sm_lid @ 36, lmc @ 38, max_vl_num @ 39,
        sm_sl @ 40, subnet_timeout @ 41, init_type_reply @ 42, active_width @ 43, active_speed @ 44, phys_state @ 45,
        link_layer @ 46, flags @ 47, port_cap_flags2 @ 48,
    }
    ibv_port_attr_short: 48 { state @ 0, pkey_tbl_len @ 32, link_layer @ 46, flags @ 47 }
}
