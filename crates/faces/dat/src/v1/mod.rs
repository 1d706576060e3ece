//! uDAPL 1.2.

pub mod layouts;
pub mod library;
pub(crate) mod provider;

use core::ptr;

use nonic_dat::{AdapterAttributes, DatError, ProviderAttributes, RemoteSegment, Segment};

use crate::calls::{Handle, ProxyAgent};
use crate::error::Numbering;
use crate::layouts::{AsyncEvent, BindEvent, ConnectionEventData, SoftwareEvent, name};
use crate::opened::Opened;
use crate::version::{
    AttributesWanted, EndpointWords, EventWords, LocalRegionWords, RemoteRegionWords, SetupWords, Version,
    event_number,
};

/// uDAPL 1.2.
pub(crate) enum V1 {}

/// Members of `DAT_EP_PARAM`: all bits but 11, which means nothing.
const EP_MASK: u64 = 0x7fff_f7ff;

impl Version for V1 {
    const NUMBERING: Numbering = Numbering::V1_2;
    const NO_BYTES: DatError = DatError::argument(4);

    type LmrTriplet = layouts::LmrTriplet;
    type RmrTriplet = layouts::RmrTriplet;
    type Event = layouts::Event;
    type EpAttributes = layouts::EpAttributes;
    type EpParam = layouts::EpParam;
    type LmrParam = layouts::LmrParam;
    type RmrParam = layouts::RmrParam;
    type CnoParam = layouts::CnoParam;
    type IaAttributes = layouts::IaAttributes;
    type ProviderAttributes = layouts::ProviderAttributes;

    const IA_MASK: u64 = 0x7_ffff_ffff;
    const LMR_MASK: u32 = 0x3ff;
    const RMR_MASK: u32 = 0x1f;
    const CNO_MASK: u32 = 3;
    const SRQ_OPERATIONAL: u32 = 0;

    fn shown_adapter(opened: &Opened) -> Handle {
        opened.shown()
    }

    #[inline]
    fn segment(triplet: &Self::LmrTriplet) -> Segment {
        Segment {
            context: triplet.lmr_context,
            address: triplet.virtual_address,
            length: triplet.segment_length,
        }
    }

    #[inline]
    fn remote_segment(triplet: &Self::RmrTriplet) -> RemoteSegment {
        RemoteSegment {
            context: triplet.rmr_context,
            address: triplet.target_address,
            length: triplet.segment_length,
        }
    }

    #[inline]
    fn event(dispatcher: Handle, event: &EventWords) -> Self::Event {
        let (event_number, event_data) = match *event {
            EventWords::Transfer { endpoint, cookie, status, length, .. } => {
                let transfer = layouts::TransferEvent {
                    ep_handle: endpoint,
                    user_cookie: cookie,
                    status: status as u32,
                    transfered_length: length,
                };
                (event_number::TRANSFER, layouts::EventData { transfer })
            }
            EventWords::Bind { region, cookie, status } => {
                let bind = BindEvent { rmr_handle: region, user_cookie: cookie, status: status as u32 };
                (event_number::BIND, layouts::EventData { bind })
            }
            EventWords::Request { point, address, conn_qual, request } => {
                let request = layouts::RequestEvent {
                    sp_handle: point,
                    local_ia_address_ptr: address,
                    conn_qual,
                    cr_handle: request,
                };
                (event_number::REQUEST, layouts::EventData { request })
            }
            EventWords::Connection { kind, endpoint, private_data: (private_data, private_data_size) } => {
                let connection = ConnectionEventData { ep_handle: endpoint, private_data_size, private_data };
                (kind as u32, layouts::EventData { connection })
            }
            EventWords::Async { kind, object, reason } => {
                let async_error = AsyncEvent { dat_handle: object, reason };
                (kind as u32, layouts::EventData { async_error })
            }
            EventWords::Software { pointer } => {
                (event_number::SOFTWARE, layouts::EventData { software: SoftwareEvent { pointer } })
            }
        };
        layouts::Event { event_number, evd_handle: dispatcher, event_data }
    }

    fn software_event(event: &Self::Event) -> (u32, usize) {
        // SAFETY: every pattern of bits is a pointer that goes back as it came; programs fill in that member.
        (event.event_number, unsafe { event.event_data.software.pointer })
    }

    fn endpoint_attributes(attributes: &Self::EpAttributes) -> AttributesWanted {
        attributes.wanted(|length| length)
    }

    fn endpoint_mask(mask: u64) -> Option<u64> {
        (mask & !EP_MASK == 0).then_some(mask)
    }

    fn setup_words(param: &Self::EpParam) -> SetupWords {
        SetupWords {
            zone: param.pz_handle,
            receive: param.recv_evd_handle,
            request: param.request_evd_handle,
            connect: param.connect_evd_handle,
            attributes: Self::endpoint_attributes(&param.ep_attr),
        }
    }

    fn ep_param(words: &EndpointWords) -> Self::EpParam {
        layouts::EpParam {
            ia_handle: words.adapter,
            ep_state: words.state as u32,
            local_ia_address_ptr: words.local.0,
            local_port_qual: words.local.1,
            remote_ia_address_ptr: words.remote.0,
            remote_port_qual: words.remote.1,
            pz_handle: words.zone,
            recv_evd_handle: words.receive,
            request_evd_handle: words.request,
            connect_evd_handle: words.connect,
            srq_handle: words.shared_receives,
            ep_attr: Self::EpAttributes::shown(&words.attributes, |length| length),
        }
    }

    fn lmr_param(words: &LocalRegionWords) -> Self::LmrParam {
        layouts::LmrParam {
            ia_handle: words.adapter,
            mem_type: words.memory_type,
            region_desc: words.description,
            length: words.length,
            pz_handle: words.zone,
            mem_priv: words.privileges,
            lmr_context: words.local_context,
            rmr_context: words.remote_context,
            registered_size: words.registered_size,
            registered_address: words.registered_address,
        }
    }

    fn rmr_param(words: &RemoteRegionWords) -> Self::RmrParam {
        let Segment { context, address, length } = words.segment;
        layouts::RmrParam {
            ia_handle: words.adapter,
            pz_handle: words.zone,
            lmr_triplet: layouts::LmrTriplet {
                lmr_context: context,
                pad: 0,
                virtual_address: address,
                segment_length: length,
            },
            mem_priv: words.privileges,
            rmr_context: words.context,
        }
    }

    fn cno_param(adapter: Handle, agent: ProxyAgent) -> Self::CnoParam {
        layouts::CnoParam { ia_handle: adapter, agent }
    }

    fn ia_attributes(attributes: &AdapterAttributes, address: usize) -> Self::IaAttributes {
        layouts::IaAttributes {
            adapter_name: name(&attributes.adapter_name),
            vendor_name: name(attributes.vendor_name),
            hardware_version_major: attributes.hardware_version.0,
            hardware_version_minor: attributes.hardware_version.1,
            firmware_version_major: attributes.firmware_version.0,
            firmware_version_minor: attributes.firmware_version.1,
            ia_address_ptr: address,
            max_eps: attributes.max_endpoints,
            max_dto_per_ep: attributes.max_transfers_per_endpoint,
            max_rdma_read_per_ep_in: attributes.max_rdma_reads_per_endpoint_in,
            max_rdma_read_per_ep_out: attributes.max_rdma_reads_per_endpoint_out,
            max_evds: attributes.max_dispatchers,
            max_evd_qlen: attributes.max_dispatcher_length,
            max_iov_segments_per_dto: attributes.max_pieces_per_transfer,
            max_lmrs: attributes.max_local_regions,
            max_lmr_block_size: attributes.max_region_length,
            max_lmr_virtual_address: attributes.max_region_address,
            max_pzs: attributes.max_zones,
            max_message_size: attributes.max_message_size,
            max_rdma_size: attributes.max_rdma_size,
            max_rmrs: attributes.max_remote_regions,
            max_rmr_target_address: attributes.max_remote_region_address,
            max_srqs: attributes.max_shared_receive_queues,
            max_ep_per_srq: attributes.max_endpoints_per_shared_receive_queue,
            max_recv_per_srq: attributes.max_receives_per_shared_receive_queue,
            max_iov_segments_per_rdma_read: attributes.max_pieces_per_rdma_read,
            max_iov_segments_per_rdma_write: attributes.max_pieces_per_rdma_write,
            max_rdma_read_in: attributes.max_rdma_reads_in,
            max_rdma_read_out: attributes.max_rdma_reads_out,
            max_rdma_read_per_ep_in_guaranteed: attributes.max_rdma_reads_per_endpoint_in_guaranteed.into(),
            max_rdma_read_per_ep_out_guaranteed: attributes.max_rdma_reads_per_endpoint_out_guaranteed.into(),
            num_transport_attr: 0,
            transport_attr: ptr::null(),
            num_vendor_attr: 0,
            vendor_attr: ptr::null(),
        }
    }

    fn provider_attributes(attributes: &ProviderAttributes) -> Self::ProviderAttributes {
        layouts::ProviderAttributes {
            provider_name: name(attributes.provider_name),
            provider_version_major: 1,
            provider_version_minor: 2,
            dapl_version_major: 1,
            dapl_version_minor: 2,
            lmr_mem_types_supported: attributes.memory_types,
            iov_ownership_on_return: attributes.list_ownership,
            dat_qos_supported: attributes.qualities_of_service,
            completion_flags_supported: attributes.completion_flags,
            // As entries of dat.conf say, which have to agree.
            is_thread_safe: 0,
            max_private_data_size: attributes.max_private_data,
            supports_multipath: attributes.multipath.into(),
            ep_creator: attributes.endpoint_creator,
            pz_support: attributes.zone_support,
            optimal_buffer_alignment: attributes.optimal_alignment as u32,
            evd_stream_merging_supported: attributes.stream_merging.map(|row| row.map(u32::from)),
            srq_supported: attributes.shared_receive_queues.into(),
            srq_watermarks_supported: attributes.shared_receive_watermarks as i32,
            srq_ep_pz_difference_supported: attributes.shared_receive_zone_difference.into(),
            srq_info_supported: attributes.shared_receive_information as i32,
            ep_recv_info_supported: attributes.endpoint_receive_information as i32,
            lmr_sync_req: attributes.sync_required.into(),
            dto_async_return_guaranteed: attributes.posts_return_asynchronously.into(),
            rdma_write_for_rdma_read_req: attributes.read_target_needs_remote_write.into(),
            num_provider_specific_attr: 0,
            provider_specific_attr: ptr::null(),
        }
    }
}
