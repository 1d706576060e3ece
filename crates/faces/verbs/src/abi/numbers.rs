//! The numbers of the header's enumerations that this library reads or writes.

use core::ffi::c_int;

macro_rules! numbers {
    ($($(#[$doc:meta])* $kind:ty { $($name:ident = $value:expr),* $(,)? })+) => {
        $($(pub const $name: $kind = $value;)*)+
    };
}

numbers! {
    // enum ibv_node_type, ibv_transport_type
    c_int { IBV_NODE_CA = 1, IBV_TRANSPORT_IB = 0 }
    // enum ibv_gid_type, and the private enum ibv_gid_type_sysfs
    u32 { IBV_GID_TYPE_IB = 0, IBV_GID_TYPE_ROCE_V1 = 1, IBV_GID_TYPE_ROCE_V2 = 2 }
    c_int { IBV_GID_TYPE_SYSFS_IB_ROCE_V1 = 0, IBV_GID_TYPE_SYSFS_ROCE_V2 = 1 }
    // enum ibv_device_cap_flags
    u32 {
        IBV_DEVICE_BAD_QKEY_CNTR = 1 << 2, IBV_DEVICE_CURR_QP_STATE_MOD = 1 << 7,
        IBV_DEVICE_PORT_ACTIVE_EVENT = 1 << 10, IBV_DEVICE_SYS_IMAGE_GUID = 1 << 11, IBV_DEVICE_RC_RNR_NAK_GEN = 1 << 12,
        IBV_DEVICE_SRQ_RESIZE = 1 << 13, IBV_DEVICE_XRC = 1 << 20,
        IBV_DEVICE_MEM_WINDOW = 1 << 17, IBV_DEVICE_MEM_MGT_EXTENSIONS = 1 << 21, IBV_DEVICE_MEM_WINDOW_TYPE_2B = 1 << 24,
    }
    // enum ib_uverbs_device_cap_flags, of those beyond 32 bits
    u64 { IB_UVERBS_DEVICE_FLUSH_GLOBAL = 1 << 38, IB_UVERBS_DEVICE_ATOMIC_WRITE = 1 << 40 }
    // enum ibv_atomic_cap
    c_int { IBV_ATOMIC_GLOB = 2 }
    // enum ibv_port_state, physical states of IBTA vol. 1, link layers
    c_int { IBV_PORT_DOWN = 1, IBV_PORT_ACTIVE = 4 }
    u8 {
        PHYSICAL_POLLING = 2, PHYSICAL_LINK_UP = 5, IBV_LINK_LAYER_INFINIBAND = 1, IBV_LINK_LAYER_ETHERNET = 2, IBV_QPF_GRH_REQUIRED = 1,
        LINK_WIDTH_4X = 2, LINK_SPEED_EDR = 32,
    }
    // enum ibv_port_cap_flags
    u32 { IBV_PORT_CM_SUP = 1 << 16, IBV_PORT_IP_BASED_GIDS = 1 << 26 }
    // enum ibv_event_type
    c_int {
        IBV_EVENT_CQ_ERR = 0, IBV_EVENT_QP_FATAL = 1, IBV_EVENT_PATH_MIG_ERR = 7, IBV_EVENT_SRQ_ERR = 14,
        IBV_EVENT_SRQ_LIMIT_REACHED = 15, IBV_EVENT_QP_LAST_WQE_REACHED = 16,
    }
    // enum ibv_wc_flags
    u32 { IBV_WC_GRH = 1, IBV_WC_WITH_IMM = 2, IBV_WC_WITH_INV = 8 }
    // enum ibv_create_cq_wc_flags
    u64 {
        IBV_WC_STANDARD_FLAGS = 0x7f, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP = 1 << 7,
        IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK = 1 << 11,
    }
    // enum ibv_cq_init_attr_mask, ibv_create_cq_attr_flags, ibv_cq_attr_mask, ibv_values_mask
    u32 {
        IBV_CQ_INIT_ATTR_MASK_FLAGS = 1, IBV_CQ_INIT_ATTR_MASK_PD = 1 << 1,
        IBV_CREATE_CQ_ATTR_SINGLE_THREADED = 1, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN = 1 << 1,
        IBV_CQ_ATTR_MODERATE = 1, IBV_VALUES_MASK_RAW_CLOCK = 1,
    }
    // enum ibv_parent_domain_init_attr_mask
    c_int { IBV_COUNTER_BYTES = 1 }
    u32 { IBV_READ_COUNTERS_ATTR_PREFER_CACHED = 1 }
    u32 {
        IBV_DMAH_INIT_ATTR_MASK_CPU_ID = 1, IBV_DMAH_INIT_ATTR_MASK_PH = 1 << 1,
        IBV_DMAH_INIT_ATTR_MASK_TPH_MEM_TYPE = 1 << 2,
    }
    u32 { IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS = 1, IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT = 1 << 1 }
    // enum ibv_access_flags
    u32 {
        IBV_ACCESS_LOCAL_WRITE = 1, IBV_ACCESS_REMOTE_WRITE = 1 << 1, IBV_ACCESS_REMOTE_READ = 1 << 2,
        IBV_ACCESS_REMOTE_ATOMIC = 1 << 3, IBV_ACCESS_MW_BIND = 1 << 4, IBV_ACCESS_ZERO_BASED = 1 << 5,
        IBV_ACCESS_ON_DEMAND = 1 << 6, IBV_ACCESS_HUGETLB = 1 << 7, IBV_ACCESS_FLUSH_GLOBAL = 1 << 8,
        IBV_ACCESS_FLUSH_PERSISTENT = 1 << 9, IBV_ACCESS_OPTIONAL_RANGE = 0x3ff0_0000,
    }
    // enum ibv_odp_general_caps, ibv_odp_transport_cap_bits
    u64 { IBV_ODP_SUPPORT = 1, IBV_ODP_SUPPORT_IMPLICIT = 1 << 1 }
    u32 {
        IBV_ODP_SUPPORT_SEND = 1, IBV_ODP_SUPPORT_RECV = 1 << 1, IBV_ODP_SUPPORT_WRITE = 1 << 2, IBV_ODP_SUPPORT_READ = 1 << 3,
        IBV_ODP_SUPPORT_SRQ_RECV = 1 << 5, IBV_ODP_SUPPORT_FLUSH = 1 << 6,
    }
    // enum ib_uverbs_advise_mr_advice, ib_uverbs_advise_mr_flag
    c_int {
        IBV_ADVISE_MR_ADVICE_PREFETCH = 0, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE = 1,
        IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT = 2,
    }
    u32 { IBV_ADVISE_MR_FLAG_FLUSH = 1 }
    // enum ibv_mr_init_attr_mask (release 60)
    u64 {
        IBV_REG_MR_MASK_IOVA = 1, IBV_REG_MR_MASK_ADDR = 1 << 1, IBV_REG_MR_MASK_FD = 1 << 2,
        IBV_REG_MR_MASK_FD_OFFSET = 1 << 3, IBV_REG_MR_MASK_DMAH = 1 << 4, IBV_REG_MR_MASK_BUF = 1 << 5,
    }
    // enum ibv_rereg_mr_flags, ibv_rereg_mr_err_code
    c_int { IBV_REREG_MR_CHANGE_TRANSLATION = 1, IBV_REREG_MR_CHANGE_PD = 1 << 1, IBV_REREG_MR_CHANGE_ACCESS = 1 << 2 }
    c_int { IBV_REREG_MR_ERR_INPUT = -1, IBV_REREG_MR_ERR_CMD = -4 }
    // enum ibv_dm_mask
    u32 { IBV_DM_MASK_HANDLE = 1 }
    // enum ibv_mw_type
    c_int { IBV_MW_TYPE_1 = 1, IBV_MW_TYPE_2 = 2 }
    // enum ibv_srq_type, ibv_srq_init_attr_mask, ibv_srq_attr_mask
    c_int { IBV_SRQT_BASIC = 0, IBV_SRQT_XRC = 1, IBV_SRQT_TM = 2, IBV_SRQ_MAX_WR = 1, IBV_SRQ_LIMIT = 2 }
    u32 {
        IBV_SRQ_INIT_ATTR_TYPE = 1, IBV_SRQ_INIT_ATTR_PD = 1 << 1, IBV_SRQ_INIT_ATTR_XRCD = 1 << 2,
        IBV_XRCD_INIT_ATTR_FD = 1, IBV_XRCD_INIT_ATTR_OFLAGS = 1 << 1,
        IBV_QP_OPEN_ATTR_NUM = 1, IBV_QP_OPEN_ATTR_XRCD = 1 << 1, IBV_QP_OPEN_ATTR_CONTEXT = 1 << 2,
        IBV_QP_OPEN_ATTR_TYPE = 1 << 3,
        IBV_SRQ_INIT_ATTR_CQ = 1 << 3, IBV_SRQ_INIT_ATTR_TM = 1 << 4,
    }
    // enum ibv_qp_type
    c_int {
        IBV_QPT_RC = 2, IBV_QPT_UC = 3, IBV_QPT_UD = 4, IBV_QPT_RAW_PACKET = 8, IBV_QPT_XRC_SEND = 9,
        IBV_QPT_XRC_RECV = 10, IBV_QPT_DRIVER = 255,
    }
    // enum ibv_qp_init_attr_mask
    u32 {
        IBV_QP_INIT_ATTR_PD = 1, IBV_QP_INIT_ATTR_XRCD = 1 << 1, IBV_QP_INIT_ATTR_CREATE_FLAGS = 1 << 2,
        IBV_QP_INIT_ATTR_MAX_TSO_HEADER = 1 << 3, IBV_QP_INIT_ATTR_IND_TABLE = 1 << 4,
        IBV_QP_INIT_ATTR_RX_HASH = 1 << 5, IBV_QP_INIT_ATTR_SEND_OPS_FLAGS = 1 << 6,
    }
    // enum ibv_qp_create_flags
    u32 { IBV_QP_CREATE_BLOCK_SELF_MCAST_LB = 1 << 1 }
    // enum ibv_qp_create_send_ops_flags
    u64 {
        IBV_QP_EX_WITH_RDMA_WRITE = 1, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM = 1 << 1, IBV_QP_EX_WITH_SEND = 1 << 2,
        IBV_QP_EX_WITH_SEND_WITH_IMM = 1 << 3, IBV_QP_EX_WITH_RDMA_READ = 1 << 4,
        IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP = 1 << 5, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD = 1 << 6,
        IBV_QP_EX_WITH_LOCAL_INV = 1 << 7, IBV_QP_EX_WITH_BIND_MW = 1 << 8, IBV_QP_EX_WITH_SEND_WITH_INV = 1 << 9,
        IBV_QP_EX_WITH_TSO = 1 << 10, IBV_QP_EX_WITH_FLUSH = 1 << 11, IBV_QP_EX_WITH_ATOMIC_WRITE = 1 << 12,
    }
    // enum ibv_qp_attr_mask
    c_int { IBV_QP_STATE = 1 }
    // enum ibv_wr_opcode
    c_int {
        IBV_WR_RDMA_WRITE = 0, IBV_WR_RDMA_WRITE_WITH_IMM = 1, IBV_WR_SEND = 2, IBV_WR_SEND_WITH_IMM = 3,
        IBV_WR_RDMA_READ = 4, IBV_WR_ATOMIC_CMP_AND_SWP = 5, IBV_WR_ATOMIC_FETCH_AND_ADD = 6, IBV_WR_LOCAL_INV = 7,
        IBV_WR_BIND_MW = 8, IBV_WR_SEND_WITH_INV = 9, IBV_WR_TSO = 10, IBV_WR_FLUSH = 14, IBV_WR_ATOMIC_WRITE = 15,
    }
    // enum ibv_selectivity_level
    u8 { IBV_FLUSH_MR = 1 }
    // enum ibv_send_flags
    u32 { IBV_SEND_FENCE = 1, IBV_SEND_SIGNALED = 2, IBV_SEND_SOLICITED = 4, IBV_SEND_INLINE = 8 }
    // enum ibv_fork_status
    c_int { IBV_FORK_ENABLED = 1, IBV_FORK_UNNEEDED = 2 }
}
