//! Structures that uDAPL 1.2 and 2.0 lay out alike. Handles and other pointers of programs are plain numbers here: none is
//! followed before it was looked up.

#![allow(missing_docs)] // Members are named as in the header, which describes them.

use core::ffi::c_char;

pub use crate::calls::{Context, Count, Handle, ProxyAgent, RegionDescription};

/// `DAT_NAME_MAX_LENGTH`.
pub const NAME_LENGTH: usize = 256;

/// A name in a structure, which ends with 0.
pub type Name = [c_char; NAME_LENGTH];

/// `DAT_NAMED_ATTR`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct NamedAttribute {
    pub name: *const c_char,
    pub value: *const c_char,
}

/// `DAT_PROVIDER_INFO`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ProviderInfo {
    pub ia_name: Name,
    pub dapl_version_major: u32,
    pub dapl_version_minor: u32,
    pub is_thread_safe: u32,
}

/// `DAT_RMR_COMPLETION_EVENT_DATA`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BindEvent {
    pub rmr_handle: Handle,
    pub user_cookie: Context,
    pub status: u32,
}

/// `DAT_CONNECTION_EVENT_DATA`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ConnectionEventData {
    pub ep_handle: Handle,
    pub private_data_size: Count,
    pub private_data: usize,
}

/// `DAT_ASYNCH_ERROR_EVENT_DATA`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AsyncEvent {
    pub dat_handle: Handle,
    pub reason: i32,
}

/// `DAT_SOFTWARE_EVENT_DATA`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SoftwareEvent {
    pub pointer: usize,
}

/// `DAT_EVD_PARAM`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EvdParam {
    pub ia_handle: Handle,
    pub evd_qlen: Count,
    pub evd_state: u32,
    pub cno_handle: Handle,
    pub evd_flags: u32,
}

/// `DAT_PZ_PARAM`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PzParam {
    pub ia_handle: Handle,
}

/// `DAT_CR_PARAM`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CrParam {
    pub remote_ia_address_ptr: usize,
    pub remote_port_qual: u64,
    pub private_data_size: Count,
    pub private_data: usize,
    pub local_ep_handle: Handle,
}

/// `DAT_PSP_PARAM`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PspParam {
    pub ia_handle: Handle,
    pub conn_qual: u64,
    pub evd_handle: Handle,
    pub psp_flags: u32,
}

/// `DAT_RSP_PARAM`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RspParam {
    pub ia_handle: Handle,
    pub conn_qual: u64,
    pub evd_handle: Handle,
    pub ep_handle: Handle,
}

/// `DAT_SRQ_ATTR`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SrqAttributes {
    pub max_recv_dtos: Count,
    pub max_recv_iov: Count,
    pub low_watermark: Count,
}

/// `DAT_SRQ_PARAM`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SrqParam {
    pub ia_handle: Handle,
    pub srq_state: u32,
    pub pz_handle: Handle,
    pub max_recv_dtos: Count,
    pub max_recv_iov: Count,
    pub low_watermark: Count,
    pub available_dto_count: Count,
    pub outstanding_dto_count: Count,
}

/// The merge matrix, indexed by stream type in the order software, requests, transfers, connection, binds, asynchronous.
pub type MergeMatrix = [[u32; 6]; 6];

/// A name in a structure: cut if it is too long.
pub fn name(text: &str) -> Name {
    let mut name = [0 as c_char; NAME_LENGTH];
    for (place, byte) in name.iter_mut().zip(text.bytes().take(NAME_LENGTH - 1)) {
        *place = byte as c_char;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_too_long_is_cut_and_still_ends() {
        let text: String = ['x'; 300].iter().collect();
        assert_eq!(name(&text)[254..], [b'x' as c_char, 0]);
        assert_eq!(name("nonic")[4..7], [b'c' as c_char, 0, 0]);
    }
}
