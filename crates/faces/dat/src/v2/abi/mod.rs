//! The structures of `dat2/udat.h` (uDAPL 2.0), written out by hand where they differ from those of 1.2.
//!
//! Sizes and offsets are promises to programs compiled years ago: each structure states them in a `layout!` block that
//! fails the build when they move, and `tests/v2_layout.rs` compares them with the header of the distribution. Names are
//! those of the header, as far as there is one.

#![allow(missing_docs, reason = "the fields are those of the C header and explained by its manual pages")]

use core::ffi::c_int;

use crate::layouts::{
    AsyncEvent, BindEvent, ConnectionEventData, Handle, ProxyAgent, RegionDescription, SoftwareEvent,
};

/// States size and offsets of C structures and checks them while compiling.
macro_rules! layout {
    ($($name:ty: $size:literal { $($field:ident @ $offset:literal),* $(,)? })+) => {
        $(const _: () = {
            assert!(core::mem::size_of::<$name>() == $size, concat!("size of ", stringify!($name)));
            $(assert!(
                core::mem::offset_of!($name, $field) == $offset,
                concat!("offset of ", stringify!($field), " in ", stringify!($name))
            );)*
        };)+
    };
}

mod attributes;
mod provider_table;

pub use attributes::{EpAttr, IaAttr, ProviderAttr};
pub use provider_table::{Function, Provider};

/// `DAT_LMR_TRIPLET`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LmrTriplet {
    pub virtual_address: u64,
    pub segment_length: u32,
    pub lmr_context: u32,
}

/// `DAT_RMR_TRIPLET`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RmrTriplet {
    pub virtual_address: u64,
    pub segment_length: u32,
    pub rmr_context: u32,
}

/// `DAT_COMM`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Comm {
    pub domain: c_int,
    pub r#type: c_int,
    pub protocol: c_int,
}

/// `DAT_EVENT`: its number, its dispatcher, 40 bytes that the number gives their meaning to, and 64 for extensions.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Event {
    pub event_number: u32,
    pub evd_handle: Handle,
    pub event_data: EventData,
    pub event_extension_data: [u64; 8],
}

/// `DAT_EVENT_DATA`.
#[repr(C)]
#[derive(Clone, Copy)]
pub union EventData {
    pub dto_completion_event_data: DtoCompletion,
    pub rmr_completion_event_data: BindEvent,
    pub cr_arrival_event_data: RequestArrival,
    pub connect_event_data: ConnectionEventData,
    pub asynch_error_event_data: AsyncEvent,
    pub software_event_data: SoftwareEvent,
}

/// `DAT_DTO_COMPLETION_EVENT_DATA`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DtoCompletion {
    pub ep_handle: Handle,
    pub user_cookie: u64,
    pub status: u32,
    pub transfered_length: u32,
    pub operation: u32,
    pub rmr_context: u32,
}

/// `DAT_CR_ARRIVAL_EVENT_DATA`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RequestArrival {
    pub sp_handle: Handle,
    pub local_ia_address_ptr: usize,
    pub conn_qual: u64,
    pub cr_handle: Handle,
    pub truncate_flag: u32,
}

/// `DAT_IB_EXTENSION_EVENT_DATA`, which lies in `event_extension_data`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ExtensionData {
    pub r#type: u32,
    pub status: u32,
    pub immediate: u32,
    pub _padding: u32,
    pub _address_handle: [u64; 5],
    pub context: u64,
}

/// `DAT_EP_PARAM`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct EpParam {
    pub ia_handle: Handle,
    pub ep_state: u32,
    pub comm: Comm,
    pub local_ia_address_ptr: usize,
    pub local_port_qual: u64,
    pub remote_ia_address_ptr: usize,
    pub remote_port_qual: u64,
    pub pz_handle: Handle,
    pub recv_evd_handle: Handle,
    pub request_evd_handle: Handle,
    pub connect_evd_handle: Handle,
    pub srq_handle: Handle,
    pub ep_attr: EpAttr,
}

/// `DAT_LMR_PARAM`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LmrParam {
    pub ia_handle: Handle,
    pub mem_type: u32,
    pub region_desc: RegionDescription,
    pub length: u64,
    pub pz_handle: Handle,
    pub mem_priv: u32,
    pub va_type: u32,
    pub lmr_context: u32,
    pub rmr_context: u32,
    pub registered_size: u64,
    pub registered_address: u64,
}

/// `DAT_RMR_PARAM`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RmrParam {
    pub ia_handle: Handle,
    pub pz_handle: Handle,
    pub lmr_triplet: LmrTriplet,
    pub mem_priv: u32,
    pub rmr_context: u32,
    pub rmr_scope: u32,
    pub va_type: u32,
}

/// `DAT_CNO_PARAM`; the proxy is two words (an agent) or a descriptor.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CnoParam {
    pub ia_handle: Handle,
    pub proxy_type: u32,
    pub proxy: Proxy,
}

/// The proxy of a [`CnoParam`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union Proxy {
    pub agent: ProxyAgent,
    pub fd: c_int,
}

/// `DAT_CSP_PARAM`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CspParam {
    pub ia_handle: Handle,
    pub comm: usize,
    pub address_ptr: usize,
    pub evd_handle: Handle,
}

layout! {
    LmrTriplet: 16 { virtual_address @ 0, segment_length @ 8, lmr_context @ 12 }
    RmrTriplet: 16 { virtual_address @ 0, segment_length @ 8, rmr_context @ 12 }
    Comm: 12 { domain @ 0, r#type @ 4, protocol @ 8 }
    Event: 120 { event_number @ 0, evd_handle @ 8, event_data @ 16, event_extension_data @ 56 }
    EventData: 40 {}
    DtoCompletion: 32 {
        ep_handle @ 0, user_cookie @ 8, status @ 16, transfered_length @ 20, operation @ 24, rmr_context @ 28,
    }
    RequestArrival: 40 {
        sp_handle @ 0, local_ia_address_ptr @ 8, conn_qual @ 16, cr_handle @ 24, truncate_flag @ 32,
    }
    ExtensionData: 64 { r#type @ 0, status @ 4, immediate @ 8, context @ 56 }
    EpParam: 184 {
        ia_handle @ 0, ep_state @ 8, comm @ 12, local_ia_address_ptr @ 24, local_port_qual @ 32,
        remote_ia_address_ptr @ 40, remote_port_qual @ 48, pz_handle @ 56, recv_evd_handle @ 64,
        request_evd_handle @ 72, connect_evd_handle @ 80, srq_handle @ 88, ep_attr @ 96,
    }
    LmrParam: 80 {
        ia_handle @ 0, mem_type @ 8, region_desc @ 16, length @ 32, pz_handle @ 40, mem_priv @ 48, va_type @ 52,
        lmr_context @ 56, rmr_context @ 60, registered_size @ 64, registered_address @ 72,
    }
    RmrParam: 48 {
        ia_handle @ 0, pz_handle @ 8, lmr_triplet @ 16, mem_priv @ 32, rmr_context @ 36, rmr_scope @ 40, va_type @ 44,
    }
    CnoParam: 32 { ia_handle @ 0, proxy_type @ 8, proxy @ 16 }
    CspParam: 32 { ia_handle @ 0, comm @ 8, address_ptr @ 16, evd_handle @ 24 }
}
