//! Numbers of 2.0 that 1.2 does not have, or has otherwise. Their names are those of the header without `DAT_`.

#![allow(missing_docs, reason = "the names are those of the C header")]

pub const EP_FIELD_COMM: u64 = 0x4;
pub const EP_FIELD_SRQ_HANDLE: u64 = 0x800;
pub const EP_FIELD_ALL: u64 = 0x7fff_ffff;
pub const LMR_FIELD_ALL: u32 = 0x7ff;
pub const RMR_FIELD_ALL: u32 = 0x7f;
/// `DAT_CNO_FIELD_ALL` is not the union of the others.
pub const CNO_FIELDS: u32 = 0x7;
pub const CSP_FIELD_ALL: u32 = 0xf;
pub const IA_FIELD_ALL: u64 = 0x3f_ffff_ffff;
pub const PROVIDER_FIELD_ALL: u64 = 0x7fff_ffff;

pub const SRQ_STATE_ERROR: u32 = 0;
pub const SRQ_STATE_OPERATIONAL: u32 = 1;
pub const COMPLETION_LMR_INVALIDATE_FENCE: u32 = 0x20;
pub const CONNECT_MULTIPATH_REQUIRED: u32 = 2;
pub const EVD_EXTENSION: u32 = 0x200;
pub const VA_TYPE_VA: u32 = 0;
pub const VA_TYPE_ZB: u32 = 1;
pub const RMR_SCOPE_PZ: u32 = 1;
pub const PROXY_TYPE_NONE: u32 = 0;
pub const PROXY_TYPE_AGENT: u32 = 1;
pub const PROXY_TYPE_FD: u32 = 2;

/// `DAT_IB_*`: the extensions of OFED that are here.
pub const EXTENSION_IB: u32 = 1;
pub const EXTENSION_VERSION: u32 = 209;
pub const PRIVILEGE_REMOTE_ATOMIC: u32 = 0x40;
pub const IB_DTO_EVENT: u32 = 0x4_0000;
pub const OP_FETCH_AND_ADD: u32 = 0;
pub const OP_CMP_AND_SWAP: u32 = 1;
pub const OP_RDMA_WRITE_IMMED: u32 = 2;
pub const OP_OPEN_QUERY: u32 = 0x1000;
pub const OP_CLOSE_QUERY: u32 = 0x2000;
pub const EXT_FETCH_AND_ADD: u32 = 0;
pub const EXT_CMP_AND_SWAP: u32 = 1;
pub const EXT_RDMA_WRITE_IMMED: u32 = 2;
pub const EXT_RDMA_WRITE_IMMED_DATA: u32 = 3;
pub const DTO_RDMA_WRITE_IMMED: u32 = 8;
pub const DTO_RECV_IMMED: u32 = 9;
pub const DTO_FETCH_ADD: u32 = 10;
pub const DTO_CMP_SWAP: u32 = 11;
