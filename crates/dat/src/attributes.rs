//! What an adapter and its provider can do (`dat_ia_query`), as plain numbers.

use std::net::SocketAddr;

use nonic_device::Limits;

use crate::interface_adapter::InterfaceAdapter;

/// `DAT_IA_ATTR`, in its order. Counts are as many as can be created; sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The names are the specification's, spelled out.
pub struct AdapterAttributes {
    pub adapter_name: String,
    pub vendor_name: &'static str,
    pub hardware_version: (u32, u32),
    pub firmware_version: (u32, u32),
    /// Address of this machine, port 0.
    pub address: SocketAddr,
    pub max_endpoints: i32,
    pub max_transfers_per_endpoint: i32,
    pub max_rdma_reads_per_endpoint_in: i32,
    pub max_rdma_reads_per_endpoint_out: i32,
    pub max_dispatchers: i32,
    pub max_dispatcher_length: i32,
    pub max_pieces_per_transfer: i32,
    pub max_local_regions: i32,
    pub max_region_length: u64,
    pub max_region_address: u64,
    pub max_zones: i32,
    pub max_message_size: u64,
    pub max_rdma_size: u64,
    pub max_remote_regions: i32,
    pub max_remote_region_address: u64,
    pub max_shared_receive_queues: i32,
    pub max_endpoints_per_shared_receive_queue: i32,
    pub max_receives_per_shared_receive_queue: i32,
    pub max_pieces_per_rdma_read: i32,
    pub max_pieces_per_rdma_write: i32,
    pub max_rdma_reads_in: i32,
    pub max_rdma_reads_out: i32,
    /// Whether the per-endpoint numbers can be had on all endpoints at once.
    pub max_rdma_reads_per_endpoint_in_guaranteed: bool,
    pub max_rdma_reads_per_endpoint_out_guaranteed: bool,
}

/// `DAT_PROVIDER_ATTR`, in its order. Names and versions of the interface are the face's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ProviderAttributes {
    pub provider_name: &'static str,
    /// `DAT_MEM_TYPE`s: virtual, LMR and shared virtual memory, which make 3.
    pub memory_types: u32,
    /// `DAT_IOV_CONSUMER`: a list of pieces is the program's again when the call returns.
    pub list_ownership: u32,
    /// `DAT_QOS_BEST_EFFORT`.
    pub qualities_of_service: u32,
    /// Completion flags that are honoured.
    pub completion_flags: u32,
    pub max_private_data: i32,
    pub multipath: bool,
    /// `DAT_PSP_CREATES_EP_IFASKED`.
    pub endpoint_creator: u32,
    /// `DAT_PZ_UNIQUE`.
    pub zone_support: u32,
    pub optimal_alignment: i32,
    /// Streams that one dispatcher can take together, by the order SOFTWARE, CR, DTO, CONNECTION, RMR_BIND, ASYNC.
    pub stream_merging: [[bool; 6]; 6],
    pub shared_receive_queues: bool,
    /// Low watermark of a queue 1; soft high 0x10 and hard high 0x100 of an endpoint.
    pub shared_receive_watermarks: u32,
    /// Whether an endpoint may be of another zone than the queue its receives come from.
    pub shared_receive_zone_difference: bool,
    /// Available 1, outstanding 0x10.
    pub shared_receive_information: u32,
    /// Receives allotted 1, their span 0x10.
    pub endpoint_receive_information: u32,
    /// Whether `dat_lmr_sync_rdma_read` and `dat_lmr_sync_rdma_write` are needed.
    pub sync_required: bool,
    pub posts_return_asynchronously: bool,
    /// Whether the target of an RDMA read needs the right of remote write.
    pub read_target_needs_remote_write: bool,
}

/// Bytes of private data at most.
pub(crate) const PRIVATE_DATA_MAX: usize = 256;

/// Everything together but asynchronous errors, which are a stream of their own.
const fn merging() -> [[bool; 6]; 6] {
    let mut matrix = [[true; 6]; 6];
    let mut other = 0;
    while other < 5 {
        matrix[5][other] = false;
        matrix[other][5] = false;
        other += 1;
    }
    matrix
}

impl InterfaceAdapter {
    /// What the adapter holds.
    pub fn attributes(&self) -> AdapterAttributes {
        let limits: &Limits = self.context().limits();
        let reads = i32::from(limits.read_atomic_per_queue_pair);
        AdapterAttributes {
            adapter_name: self.name().to_owned(),
            vendor_name: "nonic",
            hardware_version: (1, 0),
            firmware_version: (1, 0),
            address: self.address(),
            max_endpoints: count(limits.queue_pairs),
            max_transfers_per_endpoint: count(limits.work_requests),
            max_rdma_reads_per_endpoint_in: reads,
            max_rdma_reads_per_endpoint_out: reads,
            max_dispatchers: count(limits.completion_queues),
            max_dispatcher_length: count(limits.completion_entries),
            max_pieces_per_transfer: count(limits.pieces),
            max_local_regions: count(limits.regions),
            max_region_length: limits.region_bytes,
            max_region_address: u64::MAX,
            max_zones: count(limits.zones),
            max_message_size: limits.message_bytes.into(),
            max_rdma_size: limits.message_bytes.into(),
            max_remote_regions: count(limits.windows),
            max_remote_region_address: u64::MAX,
            max_shared_receive_queues: count(limits.shared_receive_queues),
            max_endpoints_per_shared_receive_queue: count(limits.queue_pairs),
            max_receives_per_shared_receive_queue: count(limits.shared_receive_requests),
            max_pieces_per_rdma_read: count(limits.pieces),
            max_pieces_per_rdma_write: count(limits.pieces),
            max_rdma_reads_in: reads.saturating_mul(count(limits.queue_pairs)),
            max_rdma_reads_out: reads.saturating_mul(count(limits.queue_pairs)),
            max_rdma_reads_per_endpoint_in_guaranteed: true,
            max_rdma_reads_per_endpoint_out_guaranteed: true,
        }
    }

    /// What the provider does.
    pub fn provider_attributes(&self) -> ProviderAttributes {
        ProviderAttributes {
            provider_name: "nonic",
            memory_types: 3,
            list_ownership: 0,
            qualities_of_service: 0,
            completion_flags: 0x1f,
            max_private_data: PRIVATE_DATA_MAX as i32,
            multipath: false,
            endpoint_creator: 1,
            zone_support: 0,
            optimal_alignment: 256,
            stream_merging: const { merging() },
            shared_receive_queues: true,
            shared_receive_watermarks: 0x111,
            shared_receive_zone_difference: true,
            shared_receive_information: 0x11,
            endpoint_receive_information: 0x11,
            sync_required: !self.is_coherent(),
            posts_return_asynchronously: false,
            read_target_needs_remote_write: false,
        }
    }
}

fn count(limit: u32) -> i32 {
    i32::try_from(limit).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asynchronous_errors_are_a_stream_of_their_own() {
        let matrix = merging();
        for (row, streams) in matrix.iter().enumerate() {
            for (column, merges) in streams.iter().enumerate() {
                assert_eq!(*merges, row == column || (row != 5 && column != 5), "{row}, {column}");
            }
        }
    }
}
