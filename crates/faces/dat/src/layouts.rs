//! Structures that uDAPL 1.2 and 2.0 lay out alike. Handles and other pointers of programs are plain numbers here: none is
//! followed before it was looked up.

#![allow(missing_docs)] // Members are named as in the header, which describes them.

use core::ffi::c_char;

/// A handle of a program, or a pointer that goes back to it as it came.
pub type Handle = usize;

/// `DAT_RETURN`.
pub type Return = u32;

/// `DAT_COUNT`.
pub type Count = i32;

/// `DAT_CONTEXT`, `DAT_DTO_COOKIE`, `DAT_RMR_COOKIE`: eight bytes, passed by value.
pub type Context = u64;

/// `struct sockaddr`, opaque.
pub type SocketAddress = libc::sockaddr;

/// `DAT_NAME_MAX_LENGTH`.
pub const NAME_LENGTH: usize = 256;

/// A name in a structure, which ends with 0.
pub type Name = [c_char; NAME_LENGTH];

/// `DAT_REGION_DESCRIPTION`: the address or the handle of a region, and the address of the 40 bytes that name shared memory.
/// Passed by value.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RegionDescription {
    pub address: usize,
    pub shared_memory_id: usize,
}

/// `DAT_OS_WAIT_PROXY_AGENT`, passed by value.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ProxyAgent {
    pub instance_data: usize,
    pub function: Option<unsafe extern "C" fn(usize, Handle)>,
}

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
