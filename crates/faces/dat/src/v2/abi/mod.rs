//! The structures of `dat2/udat.h` (uDAPL 2.0), written out by hand where they differ from those of 1.2.
//!
//! Sizes and offsets are promises to programs compiled years ago: each structure states them in a `layout!` block that
//! fails the build when they move, and `tests/v2_layout.rs` compares them with the header of the distribution. Names are
//! those of the header, as far as there is one.

#![allow(missing_docs, reason = "the fields are those of the C header and explained by its manual pages")]

use core::ffi::{c_char, c_int};

use crate::layouts::{
    AsyncEvent, BindEvent, ConnectionEventData, Handle, Name, NamedAttribute, ProxyAgent, RegionDescription,
    SoftwareEvent,
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

/// `DAT_EP_ATTR`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct EpAttr {
    pub service_type: u32,
    pub max_message_size: u32,
    pub max_rdma_size: u32,
    pub qos: u32,
    pub recv_completion_flags: u32,
    pub request_completion_flags: u32,
    pub max_recv_dtos: c_int,
    pub max_request_dtos: c_int,
    pub max_recv_iov: c_int,
    pub max_request_iov: c_int,
    pub max_rdma_read_in: c_int,
    pub max_rdma_read_out: c_int,
    pub srq_soft_hw: c_int,
    pub max_rdma_read_iov: c_int,
    pub max_rdma_write_iov: c_int,
    pub ep_transport_specific_count: c_int,
    pub ep_transport_specific: *const NamedAttribute,
    pub ep_provider_specific_count: c_int,
    pub ep_provider_specific: *const NamedAttribute,
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

/// `DAT_IA_ATTR`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct IaAttr {
    pub adapter_name: Name,
    pub vendor_name: Name,
    pub hardware_version_major: u32,
    pub hardware_version_minor: u32,
    pub firmware_version_major: u32,
    pub firmware_version_minor: u32,
    pub ia_address_ptr: usize,
    pub max_eps: c_int,
    pub max_dto_per_ep: c_int,
    pub max_rdma_read_per_ep_in: c_int,
    pub max_rdma_read_per_ep_out: c_int,
    pub max_evds: c_int,
    pub max_evd_qlen: c_int,
    pub max_iov_segments_per_dto: c_int,
    pub max_lmrs: c_int,
    pub max_lmr_block_size: u32,
    pub max_lmr_virtual_address: u64,
    pub max_pzs: c_int,
    pub max_message_size: u32,
    pub max_rdma_size: u32,
    pub max_rmrs: c_int,
    pub max_rmr_target_address: u64,
    pub max_srqs: c_int,
    pub max_ep_per_srq: c_int,
    pub max_recv_per_srq: c_int,
    pub max_iov_segments_per_rdma_read: c_int,
    pub max_iov_segments_per_rdma_write: c_int,
    pub max_rdma_read_in: c_int,
    pub max_rdma_read_out: c_int,
    pub max_rdma_read_per_ep_in_guaranteed: u32,
    pub max_rdma_read_per_ep_out_guaranteed: u32,
    pub zb_supported: u32,
    pub extension_supported: u32,
    pub extension_version: c_int,
    pub num_transport_attr: c_int,
    pub transport_attr: *const NamedAttribute,
    pub num_vendor_attr: c_int,
    pub vendor_attr: *const NamedAttribute,
}

/// `DAT_PROVIDER_ATTR`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ProviderAttr {
    pub provider_name: Name,
    pub provider_version_major: u32,
    pub provider_version_minor: u32,
    pub dapl_version_major: u32,
    pub dapl_version_minor: u32,
    pub lmr_mem_types_supported: u32,
    pub iov_ownership_on_return: u32,
    pub dat_qos_supported: u32,
    pub completion_flags_supported: u32,
    pub is_thread_safe: u32,
    pub max_private_data_size: c_int,
    pub supports_multipath: u32,
    pub ep_creator: u32,
    pub pz_support: u32,
    pub optimal_buffer_alignment: u32,
    pub evd_stream_merging_supported: [[u32; 6]; 6],
    pub srq_supported: u32,
    pub srq_watermarks_supported: c_int,
    pub srq_ep_pz_difference_supported: u32,
    pub srq_info_supported: c_int,
    pub ep_recv_info_supported: c_int,
    pub lmr_sync_req: u32,
    pub dto_async_return_guaranteed: u32,
    pub rdma_write_for_rdma_read_req: u32,
    pub rdma_read_lmr_rmr_context_exposure: u32,
    pub rmr_scope_supported: u32,
    pub is_signal_safe: u32,
    pub ha_supported: u32,
    pub ha_loadbalancing: u32,
    pub num_provider_specific_attr: c_int,
    pub provider_specific_attr: *const NamedAttribute,
}

/// A function in a [`Provider`].
///
/// The registry and macros of programs call it with the arguments of its name; nothing here does.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Function(pub *const ());

// SAFETY: the address of code.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

/// `DAT_PROVIDER`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Provider {
    pub device_name: *const c_char,
    pub extension: usize,
    pub ia_open: Function,
    pub ia_query: Function,
    pub ia_close: Function,
    pub set_consumer_context: Function,
    pub get_consumer_context: Function,
    pub get_handle_type: Function,
    pub cno_create: Function,
    pub cno_modify_agent: Function,
    pub cno_query: Function,
    pub cno_free: Function,
    pub cno_wait: Function,
    pub cr_query: Function,
    pub cr_accept: Function,
    pub cr_reject: Function,
    pub cr_handoff: Function,
    pub evd_create: Function,
    pub evd_query: Function,
    pub evd_modify_cno: Function,
    pub evd_enable: Function,
    pub evd_disable: Function,
    pub evd_wait: Function,
    pub evd_resize: Function,
    pub evd_post_se: Function,
    pub evd_dequeue: Function,
    pub evd_free: Function,
    pub ep_create: Function,
    pub ep_query: Function,
    pub ep_modify: Function,
    pub ep_connect: Function,
    pub ep_dup_connect: Function,
    pub ep_disconnect: Function,
    pub ep_post_send: Function,
    pub ep_post_recv: Function,
    pub ep_post_rdma_read: Function,
    pub ep_post_rdma_write: Function,
    pub ep_get_status: Function,
    pub ep_free: Function,
    pub lmr_create: Function,
    pub lmr_query: Function,
    pub lmr_free: Function,
    pub rmr_create: Function,
    pub rmr_query: Function,
    pub rmr_bind: Function,
    pub rmr_free: Function,
    pub psp_create: Function,
    pub psp_query: Function,
    pub psp_free: Function,
    pub rsp_create: Function,
    pub rsp_query: Function,
    pub rsp_free: Function,
    pub pz_create: Function,
    pub pz_query: Function,
    pub pz_free: Function,
    pub psp_create_any: Function,
    pub ep_reset: Function,
    pub evd_set_unwaitable: Function,
    pub evd_clear_unwaitable: Function,
    pub lmr_sync_rdma_read: Function,
    pub lmr_sync_rdma_write: Function,
    pub ep_create_with_srq: Function,
    pub ep_recv_query: Function,
    pub ep_set_watermark: Function,
    pub srq_create: Function,
    pub srq_free: Function,
    pub srq_post_recv: Function,
    pub srq_query: Function,
    pub srq_resize: Function,
    pub srq_set_lw: Function,
    pub csp_create: Function,
    pub csp_query: Function,
    pub csp_free: Function,
    pub ep_common_connect: Function,
    pub rmr_create_for_ep: Function,
    pub ep_post_send_with_invalidate: Function,
    pub ep_post_rdma_read_to_rmr: Function,
    pub cno_fd_create: Function,
    pub cno_trigger: Function,
    pub ia_ha_related: Function,
    pub handle_extendedop: Function,
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
    EpAttr: 88 {
        service_type @ 0, max_message_size @ 4, max_rdma_size @ 8, qos @ 12, recv_completion_flags @ 16,
        request_completion_flags @ 20, max_recv_dtos @ 24, max_request_dtos @ 28, max_recv_iov @ 32,
        max_request_iov @ 36, max_rdma_read_in @ 40, max_rdma_read_out @ 44, srq_soft_hw @ 48, max_rdma_read_iov @ 52,
        max_rdma_write_iov @ 56, ep_transport_specific_count @ 60, ep_transport_specific @ 64,
        ep_provider_specific_count @ 72, ep_provider_specific @ 80,
    }
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
    IaAttr: 688 {
        adapter_name @ 0, vendor_name @ 256, hardware_version_major @ 512, hardware_version_minor @ 516,
        firmware_version_major @ 520, firmware_version_minor @ 524, ia_address_ptr @ 528, max_eps @ 536,
        max_dto_per_ep @ 540, max_rdma_read_per_ep_in @ 544, max_rdma_read_per_ep_out @ 548, max_evds @ 552,
        max_evd_qlen @ 556, max_iov_segments_per_dto @ 560, max_lmrs @ 564, max_lmr_block_size @ 568,
        max_lmr_virtual_address @ 576, max_pzs @ 584, max_message_size @ 588, max_rdma_size @ 592, max_rmrs @ 596,
        max_rmr_target_address @ 600, max_srqs @ 608, max_ep_per_srq @ 612, max_recv_per_srq @ 616,
        max_iov_segments_per_rdma_read @ 620, max_iov_segments_per_rdma_write @ 624, max_rdma_read_in @ 628,
        max_rdma_read_out @ 632, max_rdma_read_per_ep_in_guaranteed @ 636, max_rdma_read_per_ep_out_guaranteed @ 640,
        zb_supported @ 644, extension_supported @ 648, extension_version @ 652, num_transport_attr @ 656,
        transport_attr @ 664, num_vendor_attr @ 672, vendor_attr @ 680,
    }
    ProviderAttr: 520 {
        provider_name @ 0, provider_version_major @ 256, provider_version_minor @ 260, dapl_version_major @ 264,
        dapl_version_minor @ 268, lmr_mem_types_supported @ 272, iov_ownership_on_return @ 276, dat_qos_supported @ 280,
        completion_flags_supported @ 284, is_thread_safe @ 288, max_private_data_size @ 292, supports_multipath @ 296,
        ep_creator @ 300, pz_support @ 304, optimal_buffer_alignment @ 308, evd_stream_merging_supported @ 312,
        srq_supported @ 456, srq_watermarks_supported @ 460, srq_ep_pz_difference_supported @ 464,
        srq_info_supported @ 468, ep_recv_info_supported @ 472, lmr_sync_req @ 476, dto_async_return_guaranteed @ 480,
        rdma_write_for_rdma_read_req @ 484, rdma_read_lmr_rmr_context_exposure @ 488, rmr_scope_supported @ 492,
        is_signal_safe @ 496, ha_supported @ 500, ha_loadbalancing @ 504, num_provider_specific_attr @ 508,
        provider_specific_attr @ 512,
    }
    Provider: 648 {
        device_name @ 0, extension @ 8, ia_open @ 16, srq_set_lw @ 552, csp_create @ 560, handle_extendedop @ 640,
    }
}
