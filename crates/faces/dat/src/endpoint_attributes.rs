//! What endpoints say of themselves: the same members in every version, but that lengths have another width.

#![allow(missing_docs)] // Members are named as in the header, which describes them.

use core::ptr;

use nonic_dat::EndpointAttributes;

use crate::layouts::{Count, NamedAttribute};
use crate::version::AttributesWanted;

/// `DAT_EP_ATTR`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EpAttributes<Length> {
    pub service_type: u32,
    pub max_message_size: Length,
    pub max_rdma_size: Length,
    pub qos: u32,
    pub recv_completion_flags: u32,
    pub request_completion_flags: u32,
    pub max_recv_dtos: Count,
    pub max_request_dtos: Count,
    pub max_recv_iov: Count,
    pub max_request_iov: Count,
    pub max_rdma_read_in: Count,
    pub max_rdma_read_out: Count,
    pub srq_soft_hw: Count,
    pub max_rdma_read_iov: Count,
    pub max_rdma_write_iov: Count,
    pub ep_transport_specific_count: Count,
    pub ep_transport_specific: *const NamedAttribute,
    pub ep_provider_specific_count: Count,
    pub ep_provider_specific: *const NamedAttribute,
}

impl<Length: Copy> EpAttributes<Length> {
    /// As a program reads them; `length` gives a length its width.
    pub(crate) fn shown(attributes: &EndpointAttributes, length: impl Fn(u64) -> Length) -> Self {
        Self {
            service_type: attributes.service_type,
            max_message_size: length(attributes.max_message_size),
            max_rdma_size: length(attributes.max_rdma_size),
            qos: attributes.qos,
            recv_completion_flags: attributes.receive_flags,
            request_completion_flags: attributes.request_flags,
            max_recv_dtos: attributes.max_receives,
            max_request_dtos: attributes.max_requests,
            max_recv_iov: attributes.max_receive_pieces,
            max_request_iov: attributes.max_request_pieces,
            max_rdma_read_in: attributes.max_reads_in,
            max_rdma_read_out: attributes.max_reads_out,
            srq_soft_hw: attributes.shared_soft_watermark,
            max_rdma_read_iov: attributes.max_read_pieces,
            max_rdma_write_iov: attributes.max_write_pieces,
            ep_transport_specific_count: 0,
            ep_transport_specific: ptr::null(),
            ep_provider_specific_count: 0,
            ep_provider_specific: ptr::null(),
        }
    }

    /// What a program wants that gives them; `length` says what a length of its means.
    pub(crate) fn wanted(&self, length: impl Fn(Length) -> u64) -> AttributesWanted {
        let common = EndpointAttributes {
            service_type: self.service_type,
            max_message_size: length(self.max_message_size),
            max_rdma_size: length(self.max_rdma_size),
            qos: self.qos,
            receive_flags: self.recv_completion_flags,
            request_flags: self.request_completion_flags,
            max_receives: self.max_recv_dtos,
            max_requests: self.max_request_dtos,
            max_receive_pieces: self.max_recv_iov,
            max_request_pieces: self.max_request_iov,
            max_reads_in: self.max_rdma_read_in,
            max_reads_out: self.max_rdma_read_out,
            shared_soft_watermark: self.srq_soft_hw,
            max_read_pieces: self.max_rdma_read_iov,
            max_write_pieces: self.max_rdma_write_iov,
        };
        let specific = (self.ep_transport_specific_count, self.ep_provider_specific_count);
        AttributesWanted { common, specific }
    }
}
