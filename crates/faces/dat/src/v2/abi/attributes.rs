//! What adapters, providers and endpoints say of themselves.

use core::ffi::c_int;

use crate::endpoint_attributes::EpAttributes;
use crate::layouts::{Name, NamedAttribute};

/// `DAT_EP_ATTR`.
pub type EpAttr = EpAttributes<u32>;

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

layout! {
    EpAttr: 88 {
        service_type @ 0, max_message_size @ 4, max_rdma_size @ 8, qos @ 12, recv_completion_flags @ 16,
        request_completion_flags @ 20, max_recv_dtos @ 24, max_request_dtos @ 28, max_recv_iov @ 32,
        max_request_iov @ 36, max_rdma_read_in @ 40, max_rdma_read_out @ 44, srq_soft_hw @ 48, max_rdma_read_iov @ 52,
        max_rdma_write_iov @ 56, ep_transport_specific_count @ 60, ep_transport_specific @ 64,
        ep_provider_specific_count @ 72, ep_provider_specific @ 80,
    }
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
}
