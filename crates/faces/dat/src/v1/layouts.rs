//! Structures of uDAPL 1.2 whose layout other versions do not have.

#![allow(missing_docs)] // Members are named as in the header, which describes them.

use crate::layouts::{
    AsyncEvent, BindEvent, ConnectionEventData, Context, Count, Handle, MergeMatrix, Name, NamedAttribute,
    ProxyAgent, RegionDescription, SoftwareEvent,
};

/// `DAT_LMR_TRIPLET`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LmrTriplet {
    pub lmr_context: u32,
    pub pad: u32,
    pub virtual_address: u64,
    pub segment_length: u64,
}

/// `DAT_RMR_TRIPLET`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RmrTriplet {
    pub rmr_context: u32,
    pub pad: u32,
    pub target_address: u64,
    pub segment_length: u64,
}

/// `DAT_DTO_COMPLETION_EVENT_DATA`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TransferEvent {
    pub ep_handle: Handle,
    pub user_cookie: Context,
    pub status: u32,
    pub transfered_length: u64,
}

/// `DAT_CR_ARRIVAL_EVENT_DATA`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RequestEvent {
    pub sp_handle: Handle,
    pub local_ia_address_ptr: usize,
    pub conn_qual: u64,
    pub cr_handle: Handle,
}

/// `DAT_EVENT_DATA`.
#[repr(C)]
#[derive(Clone, Copy)]
pub union EventData {
    pub transfer: TransferEvent,
    pub bind: BindEvent,
    pub request: RequestEvent,
    pub connection: ConnectionEventData,
    pub async_error: AsyncEvent,
    pub software: SoftwareEvent,
}

/// `DAT_EVENT`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Event {
    pub event_number: u32,
    pub evd_handle: Handle,
    pub event_data: EventData,
}

/// `DAT_IA_ATTR`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct IaAttributes {
    pub adapter_name: Name,
    pub vendor_name: Name,
    pub hardware_version_major: u32,
    pub hardware_version_minor: u32,
    pub firmware_version_major: u32,
    pub firmware_version_minor: u32,
    pub ia_address_ptr: usize,
    pub max_eps: Count,
    pub max_dto_per_ep: Count,
    pub max_rdma_read_per_ep_in: Count,
    pub max_rdma_read_per_ep_out: Count,
    pub max_evds: Count,
    pub max_evd_qlen: Count,
    pub max_iov_segments_per_dto: Count,
    pub max_lmrs: Count,
    pub max_lmr_block_size: u64,
    pub max_lmr_virtual_address: u64,
    pub max_pzs: Count,
    pub max_message_size: u64,
    pub max_rdma_size: u64,
    pub max_rmrs: Count,
    pub max_rmr_target_address: u64,
    pub max_srqs: Count,
    pub max_ep_per_srq: Count,
    pub max_recv_per_srq: Count,
    pub max_iov_segments_per_rdma_read: Count,
    pub max_iov_segments_per_rdma_write: Count,
    pub max_rdma_read_in: Count,
    pub max_rdma_read_out: Count,
    pub max_rdma_read_per_ep_in_guaranteed: u32,
    pub max_rdma_read_per_ep_out_guaranteed: u32,
    pub num_transport_attr: Count,
    pub transport_attr: *const NamedAttribute,
    pub num_vendor_attr: Count,
    pub vendor_attr: *const NamedAttribute,
}

/// `DAT_PROVIDER_ATTR`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ProviderAttributes {
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
    pub max_private_data_size: Count,
    pub supports_multipath: u32,
    pub ep_creator: u32,
    pub pz_support: u32,
    pub optimal_buffer_alignment: u32,
    pub evd_stream_merging_supported: MergeMatrix,
    pub srq_supported: u32,
    pub srq_watermarks_supported: Count,
    pub srq_ep_pz_difference_supported: u32,
    pub srq_info_supported: Count,
    pub ep_recv_info_supported: Count,
    pub lmr_sync_req: u32,
    pub dto_async_return_guaranteed: u32,
    pub rdma_write_for_rdma_read_req: u32,
    pub num_provider_specific_attr: Count,
    pub provider_specific_attr: *const NamedAttribute,
}

/// `DAT_EP_ATTR`.
pub type EpAttributes = crate::endpoint_attributes::EpAttributes<u64>;

/// `DAT_EP_PARAM`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EpParam {
    pub ia_handle: Handle,
    pub ep_state: u32,
    pub local_ia_address_ptr: usize,
    pub local_port_qual: u64,
    pub remote_ia_address_ptr: usize,
    pub remote_port_qual: u64,
    pub pz_handle: Handle,
    pub recv_evd_handle: Handle,
    pub request_evd_handle: Handle,
    pub connect_evd_handle: Handle,
    pub srq_handle: Handle,
    pub ep_attr: EpAttributes,
}

/// `DAT_LMR_PARAM`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LmrParam {
    pub ia_handle: Handle,
    pub mem_type: u32,
    pub region_desc: RegionDescription,
    pub length: u64,
    pub pz_handle: Handle,
    pub mem_priv: u32,
    pub lmr_context: u32,
    pub rmr_context: u32,
    pub registered_size: u64,
    pub registered_address: u64,
}

/// `DAT_RMR_PARAM`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RmrParam {
    pub ia_handle: Handle,
    pub pz_handle: Handle,
    pub lmr_triplet: LmrTriplet,
    pub mem_priv: u32,
    pub rmr_context: u32,
}

/// `DAT_CNO_PARAM`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CnoParam {
    pub ia_handle: Handle,
    pub agent: ProxyAgent,
}

#[cfg(test)]
mod tests {
    use core::mem::offset_of;

    use crate::layouts::*;

    use super::*;

    /// Checks the size of a structure and the places of its members.
    macro_rules! laid_out {
        ($type:ty: $size:literal $(, $member:ident @ $offset:literal)*) => {
            assert_eq!(size_of::<$type>(), $size, stringify!($type));
            $(assert_eq!(offset_of!($type, $member), $offset, concat!(stringify!($type), ".", stringify!($member)));)*
        };
    }

    #[test]
    fn segments_and_events_have_the_layout_of_the_interface() {
        laid_out!(LmrTriplet: 24, lmr_context @ 0, virtual_address @ 8, segment_length @ 16);
        laid_out!(RmrTriplet: 24, rmr_context @ 0, target_address @ 8, segment_length @ 16);
        laid_out!(RegionDescription: 16, address @ 0, shared_memory_id @ 8);
        laid_out!(ProxyAgent: 16, instance_data @ 0, function @ 8);
        laid_out!(NamedAttribute: 16, name @ 0, value @ 8);
        laid_out!(Event: 48, event_number @ 0, evd_handle @ 8, event_data @ 16);
        laid_out!(TransferEvent: 32, ep_handle @ 0, user_cookie @ 8, status @ 16, transfered_length @ 24);
        laid_out!(BindEvent: 24, rmr_handle @ 0, user_cookie @ 8, status @ 16);
        laid_out!(RequestEvent: 32, sp_handle @ 0, local_ia_address_ptr @ 8, conn_qual @ 16, cr_handle @ 24);
        laid_out!(ConnectionEventData: 24, ep_handle @ 0, private_data_size @ 8, private_data @ 16);
        laid_out!(AsyncEvent: 16, dat_handle @ 0, reason @ 8);
        laid_out!(SoftwareEvent: 8, pointer @ 0);
    }

    #[test]
    fn attributes_have_the_layout_of_the_interface() {
        laid_out!(IaAttributes: 688, vendor_name @ 256, hardware_version_major @ 512, firmware_version_minor @ 524,
            ia_address_ptr @ 528, max_eps @ 536, max_dto_per_ep @ 540, max_rdma_read_per_ep_in @ 544,
            max_rdma_read_per_ep_out @ 548, max_evds @ 552, max_evd_qlen @ 556, max_iov_segments_per_dto @ 560,
            max_lmrs @ 564, max_lmr_block_size @ 568, max_lmr_virtual_address @ 576, max_pzs @ 584,
            max_message_size @ 592, max_rdma_size @ 600, max_rmrs @ 608, max_rmr_target_address @ 616, max_srqs @ 624,
            max_ep_per_srq @ 628, max_recv_per_srq @ 632, max_iov_segments_per_rdma_read @ 636,
            max_iov_segments_per_rdma_write @ 640, max_rdma_read_in @ 644, max_rdma_read_out @ 648,
            max_rdma_read_per_ep_in_guaranteed @ 652, max_rdma_read_per_ep_out_guaranteed @ 656,
            num_transport_attr @ 660, transport_attr @ 664, num_vendor_attr @ 672, vendor_attr @ 680);
        laid_out!(ProviderAttributes: 504, provider_version_major @ 256, dapl_version_major @ 264,
            lmr_mem_types_supported @ 272, iov_ownership_on_return @ 276, dat_qos_supported @ 280,
            completion_flags_supported @ 284, is_thread_safe @ 288, max_private_data_size @ 292,
            supports_multipath @ 296, ep_creator @ 300, pz_support @ 304, optimal_buffer_alignment @ 308,
            evd_stream_merging_supported @ 312, srq_supported @ 456, srq_watermarks_supported @ 460,
            srq_ep_pz_difference_supported @ 464, srq_info_supported @ 468, ep_recv_info_supported @ 472,
            lmr_sync_req @ 476, dto_async_return_guaranteed @ 480, rdma_write_for_rdma_read_req @ 484,
            num_provider_specific_attr @ 488, provider_specific_attr @ 496);
        laid_out!(EpAttributes: 104, service_type @ 0, max_message_size @ 8, max_rdma_size @ 16, qos @ 24,
            recv_completion_flags @ 28, request_completion_flags @ 32, max_recv_dtos @ 36, max_request_dtos @ 40,
            max_recv_iov @ 44, max_request_iov @ 48, max_rdma_read_in @ 52, max_rdma_read_out @ 56, srq_soft_hw @ 60,
            max_rdma_read_iov @ 64, max_rdma_write_iov @ 68, ep_transport_specific_count @ 72,
            ep_transport_specific @ 80, ep_provider_specific_count @ 88, ep_provider_specific @ 96);
    }

    #[test]
    fn parameters_have_the_layout_of_the_interface() {
        laid_out!(EpParam: 192, ia_handle @ 0, ep_state @ 8, local_ia_address_ptr @ 16, local_port_qual @ 24,
            remote_ia_address_ptr @ 32, remote_port_qual @ 40, pz_handle @ 48, recv_evd_handle @ 56,
            request_evd_handle @ 64, connect_evd_handle @ 72, srq_handle @ 80, ep_attr @ 88);
        laid_out!(LmrParam: 80, ia_handle @ 0, mem_type @ 8, region_desc @ 16, length @ 32, pz_handle @ 40,
            mem_priv @ 48, lmr_context @ 52, rmr_context @ 56, registered_size @ 64, registered_address @ 72);
        laid_out!(RmrParam: 48, ia_handle @ 0, pz_handle @ 8, lmr_triplet @ 16, mem_priv @ 40, rmr_context @ 44);
        laid_out!(EvdParam: 32, ia_handle @ 0, evd_qlen @ 8, evd_state @ 12, cno_handle @ 16, evd_flags @ 24);
        laid_out!(CnoParam: 24, ia_handle @ 0, agent @ 8);
        laid_out!(PzParam: 8, ia_handle @ 0);
        laid_out!(CrParam: 40, remote_ia_address_ptr @ 0, remote_port_qual @ 8, private_data_size @ 16,
            private_data @ 24, local_ep_handle @ 32);
        laid_out!(PspParam: 32, ia_handle @ 0, conn_qual @ 8, evd_handle @ 16, psp_flags @ 24);
        laid_out!(RspParam: 32, ia_handle @ 0, conn_qual @ 8, evd_handle @ 16, ep_handle @ 24);
        laid_out!(SrqAttributes: 12, max_recv_dtos @ 0, max_recv_iov @ 4, low_watermark @ 8);
        laid_out!(SrqParam: 48, ia_handle @ 0, srq_state @ 8, pz_handle @ 16, max_recv_dtos @ 24, max_recv_iov @ 28,
            low_watermark @ 32, available_dto_count @ 36, outstanding_dto_count @ 40);
        laid_out!(ProviderInfo: 268, ia_name @ 0, dapl_version_major @ 256, dapl_version_minor @ 260,
            is_thread_safe @ 264);
    }
}
