//! What makes 2.0 another version: its layouts, its masks, and what it adds.

use core::ptr;
use core::sync::atomic::Ordering;

use nonic_dat::{
    AdapterAttributes, DatError, Kind, Privileges, ProviderAttributes, RemoteSegment, Segment, Subtype,
};

use super::abi;
use super::extended_completions::{extends, extension, operation};
use super::named_attributes::SPECIFIC;
use super::nowhere::Nowhere;
use super::numbers::{
    CNO_FIELDS, EP_FIELD_ALL, EP_FIELD_COMM, EXTENSION_IB, EXTENSION_VERSION, IA_FIELD_ALL, IB_DTO_EVENT,
    LMR_FIELD_ALL, PRIVILEGE_REMOTE_ATOMIC, PROXY_TYPE_AGENT, PROXY_TYPE_NONE, RMR_FIELD_ALL, RMR_SCOPE_PZ,
    SRQ_STATE_OPERATIONAL, VA_TYPE_VA,
};
use super::registry::number_of;
use crate::calls::{Handle, ProxyAgent};
use crate::error::Numbering;
use crate::handles::Object;
use crate::layouts::{AsyncEvent, BindEvent, ConnectionEventData, SoftwareEvent, name};
use crate::opened::Opened;
use crate::version::{
    AttributesWanted, EndpointWords, EventWords, LocalRegionWords, RemoteRegionWords, SetupWords, Version,
    event_number,
};

/// uDAPL 2.0.
pub(crate) enum V2 {}

/// The members of `DAT_EP_PARAM` between `comm`, which is new, and the attributes, whose bits are those of 1.2.
const EP_MEMBERS_MOVED: u64 = 0xff8;
/// In masks of 1.2, the bit that means nothing there and `comm` here.
const EP_COMM_IN_1_2: u64 = 0x800;

impl Version for V2 {
    const NUMBERING: Numbering = Numbering::V2_0;
    // As its test programs want it.
    const NO_BYTES: DatError = DatError::new(Kind::LengthError, Subtype::None);

    type LmrTriplet = abi::LmrTriplet;
    type RmrTriplet = abi::RmrTriplet;
    type Event = abi::Event;
    type EpAttributes = abi::EpAttr;
    type EpParam = abi::EpParam;
    type LmrParam = abi::LmrParam;
    type RmrParam = abi::RmrParam;
    type CnoParam = abi::CnoParam;
    type IaAttributes = abi::IaAttr;
    type ProviderAttributes = abi::ProviderAttr;

    const IA_MASK: u64 = IA_FIELD_ALL;
    const LMR_MASK: u32 = LMR_FIELD_ALL;
    const RMR_MASK: u32 = RMR_FIELD_ALL;
    const CNO_MASK: u32 = CNO_FIELDS;
    const SRQ_OPERATIONAL: u32 = SRQ_STATE_OPERATIONAL;
    /// As in OFED, whose programs give that of another buffer.
    const IGNORES_REMOTE_LENGTH: bool = true;

    fn privileges(bits: u32) -> Option<Privileges> {
        let privileges = Privileges::from_bits(bits & !PRIVILEGE_REMOTE_ATOMIC)?;
        let atomic = bits & PRIVILEGE_REMOTE_ATOMIC != 0;
        Some(if atomic { privileges | Privileges::REMOTE_ATOMIC } else { privileges })
    }

    fn shown_adapter(opened: &Opened) -> Handle {
        if opened.number.load(Ordering::Relaxed) == 0
            && let Some(number) = number_of(opened.mark().get())
        {
            opened.number.store(number, Ordering::Relaxed);
        }
        opened.shown()
    }

    #[inline]
    fn segment(triplet: &Self::LmrTriplet) -> Segment {
        Segment {
            context: triplet.lmr_context,
            address: triplet.virtual_address,
            length: triplet.segment_length.into(),
        }
    }

    #[inline]
    fn remote_segment(triplet: &Self::RmrTriplet) -> RemoteSegment {
        RemoteSegment {
            context: triplet.rmr_context,
            address: triplet.virtual_address,
            length: triplet.segment_length.into(),
        }
    }

    #[inline]
    fn event(dispatcher: Handle, event: &EventWords) -> Self::Event {
        let mut event_extension_data = [0; 8];
        let (event_number, event_data) = match *event {
            EventWords::Transfer { endpoint, cookie, status, length, kind, immediate } => {
                event_extension_data = extension(kind, immediate);
                let dto_completion_event_data = abi::DtoCompletion {
                    ep_handle: endpoint,
                    user_cookie: cookie,
                    status: status as u32,
                    transfered_length: short(length),
                    operation: operation(kind),
                    rmr_context: 0,
                };
                let number = if extends(kind) { IB_DTO_EVENT } else { event_number::TRANSFER };
                (number, abi::EventData { dto_completion_event_data })
            }
            EventWords::Bind { region, cookie, status } => {
                let rmr_completion_event_data =
                    BindEvent { rmr_handle: region, user_cookie: cookie, status: status as u32 };
                (event_number::BIND, abi::EventData { rmr_completion_event_data })
            }
            EventWords::Request { point, address, conn_qual, request } => {
                let cr_arrival_event_data = abi::RequestArrival {
                    sp_handle: point,
                    local_ia_address_ptr: address,
                    conn_qual,
                    cr_handle: request,
                    truncate_flag: 0,
                };
                (event_number::REQUEST, abi::EventData { cr_arrival_event_data })
            }
            EventWords::Connection { kind, endpoint, private_data: (private_data, private_data_size) } => {
                let connect_event_data =
                    ConnectionEventData { ep_handle: endpoint, private_data_size, private_data };
                (kind as u32, abi::EventData { connect_event_data })
            }
            EventWords::Async { kind, object, reason } => {
                let asynch_error_event_data = AsyncEvent { dat_handle: object, reason };
                (kind as u32, abi::EventData { asynch_error_event_data })
            }
            EventWords::Software { pointer } => {
                let software_event_data = SoftwareEvent { pointer };
                (event_number::SOFTWARE, abi::EventData { software_event_data })
            }
        };
        abi::Event { event_number, evd_handle: dispatcher, event_data, event_extension_data }
    }

    fn software_event(event: &Self::Event) -> (u32, usize) {
        // SAFETY: every pattern of bits is a pointer that goes back as it came; programs fill in that member.
        (event.event_number, unsafe { event.event_data.software_event_data.pointer })
    }

    fn endpoint_attributes(attributes: &Self::EpAttributes) -> AttributesWanted {
        attributes.wanted(at_least)
    }

    fn endpoint_mask(mask: u64) -> Option<u64> {
        if mask & !EP_FIELD_ALL != 0 {
            return None;
        }
        let comm = if mask & EP_FIELD_COMM != 0 { EP_COMM_IN_1_2 } else { 0 };
        Some(mask & !(EP_FIELD_COMM | EP_MEMBERS_MOVED) | (mask & EP_MEMBERS_MOVED) >> 1 | comm)
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
        abi::EpParam {
            ia_handle: words.adapter,
            ep_state: words.state as u32,
            comm: abi::Comm { domain: libc::AF_INET, r#type: libc::SOCK_STREAM, protocol: 0 },
            local_ia_address_ptr: words.local.0,
            local_port_qual: words.local.1,
            remote_ia_address_ptr: if words.remote.0 == 0 { Nowhere::place() } else { words.remote.0 },
            remote_port_qual: words.remote.1,
            pz_handle: words.zone,
            recv_evd_handle: words.receive,
            request_evd_handle: words.request,
            connect_evd_handle: words.connect,
            srq_handle: words.shared_receives,
            ep_attr: Self::EpAttributes::shown(&words.attributes, short),
        }
    }

    fn lmr_param(words: &LocalRegionWords) -> Self::LmrParam {
        abi::LmrParam {
            ia_handle: words.adapter,
            mem_type: words.memory_type,
            region_desc: words.description,
            length: words.length,
            pz_handle: words.zone,
            mem_priv: words.privileges,
            va_type: VA_TYPE_VA,
            lmr_context: words.local_context,
            rmr_context: words.remote_context,
            registered_size: words.registered_size,
            registered_address: words.registered_address,
        }
    }

    fn rmr_param(words: &RemoteRegionWords) -> Self::RmrParam {
        let Segment { context, address, length } = words.segment;
        abi::RmrParam {
            ia_handle: words.adapter,
            pz_handle: words.zone,
            lmr_triplet: abi::LmrTriplet {
                virtual_address: address,
                segment_length: short(length),
                lmr_context: context,
            },
            mem_priv: words.privileges,
            rmr_context: words.context,
            rmr_scope: RMR_SCOPE_PZ,
            va_type: VA_TYPE_VA,
        }
    }

    fn cno_param(adapter: Handle, agent: ProxyAgent) -> Self::CnoParam {
        let proxy_type = if agent.function.is_some() { PROXY_TYPE_AGENT } else { PROXY_TYPE_NONE };
        abi::CnoParam { ia_handle: adapter, proxy_type, proxy: abi::Proxy { agent } }
    }

    fn ia_attributes(attributes: &AdapterAttributes, address: usize) -> Self::IaAttributes {
        abi::IaAttr {
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
            max_lmr_block_size: short(attributes.max_region_length),
            max_lmr_virtual_address: attributes.max_region_address,
            max_pzs: attributes.max_zones,
            max_message_size: short(attributes.max_message_size),
            max_rdma_size: short(attributes.max_rdma_size),
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
            zb_supported: 0,
            extension_supported: EXTENSION_IB,
            extension_version: EXTENSION_VERSION as i32,
            num_transport_attr: 0,
            transport_attr: ptr::null(),
            num_vendor_attr: 0,
            vendor_attr: ptr::null(),
        }
    }

    fn provider_attributes(attributes: &ProviderAttributes) -> Self::ProviderAttributes {
        abi::ProviderAttr {
            provider_name: name(attributes.provider_name),
            provider_version_major: 2,
            provider_version_minor: 0,
            dapl_version_major: 2,
            dapl_version_minor: 0,
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
            rdma_read_lmr_rmr_context_exposure: 0,
            rmr_scope_supported: RMR_SCOPE_PZ,
            is_signal_safe: 0,
            ha_supported: 0,
            ha_loadbalancing: 0,
            num_provider_specific_attr: SPECIFIC.0.len() as i32,
            provider_specific_attr: SPECIFIC.0.as_ptr(),
        }
    }
}

/// A limit that a program asks for: it gets the adapter's, as in OFED, whose programs move more than they asked for. More than
/// that is left to be refused.
fn at_least(size: u32) -> u64 {
    const MOST: u32 = 1 << 31;
    if size <= MOST { 0 } else { size.into() }
}

/// A length where 2.0 has room for 32 bits only.
fn short(length: u64) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use nonic_dat::TransferKind;

    use super::*;

    #[test]
    fn masks_of_endpoints_become_those_of_1_2() {
        // Identity and state, then `comm`, then the members from the local address to the shared receive queue.
        assert_eq!(V2::endpoint_mask(0x3), Some(0x3));
        assert_eq!(V2::endpoint_mask(EP_FIELD_COMM), Some(0x800));
        assert_eq!(V2::endpoint_mask(0x8), Some(0x4));
        assert_eq!(V2::endpoint_mask(0x800), Some(0x400));
        assert_eq!(V2::endpoint_mask(0x7fff_f000), Some(0x7fff_f000));
        assert_eq!(V2::endpoint_mask(EP_FIELD_ALL), Some(0x7fff_ffff));
        assert_eq!(V2::endpoint_mask(0x8000_0000), None);
    }

    #[test]
    fn extended_completions_say_what_they_are_where_programs_look() {
        let words = EventWords::Transfer {
            endpoint: 1,
            cookie: 2,
            status: nonic_dat::TransferStatus::Success,
            length: 256,
            kind: TransferKind::ReceiveImmediate,
            immediate: 0x7777,
        };
        let event = V2::event(5, &words);
        // SAFETY: the words are as long as the structure, which is numbers.
        let extended: abi::ExtensionData = unsafe { core::mem::transmute(event.event_extension_data) };
        assert_eq!((event.event_number, extended.r#type, extended.immediate), (IB_DTO_EVENT, 3, 0x7777));
        // SAFETY: an event of a transfer.
        assert_eq!(unsafe { event.event_data.dto_completion_event_data.operation }, 9);
    }

    #[test]
    fn lengths_that_have_no_room_become_the_largest() {
        assert_eq!(short(4096), 4096);
        assert_eq!(short(1 << 32), u32::MAX);
    }
}
