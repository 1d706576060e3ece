//! The numbers of the header's enumerations that this library reads or writes.

use core::ffi::c_int;

macro_rules! numbers {
    ($($kind:ty { $($name:ident = $value:expr),* $(,)? })+) => {
        $($(pub const $name: $kind = $value;)*)+
    };
}

numbers! {
    // Depths that stand for the device's.
    u8 { RDMA_MAX_RESP_RES = 0xff, RDMA_MAX_INIT_DEPTH = 0xff }
    // Flags of struct rdma_addrinfo
    c_int { RAI_PASSIVE = 1, RAI_NUMERICHOST = 1 << 1, RAI_FAMILY = 1 << 3, RAI_SA = 1 << 4 }
    // Levels and names of rdma_set_option()
    c_int {
        RDMA_OPTION_ID = 0, RDMA_OPTION_IB = 1, RDMA_OPTION_ID_TOS = 0, RDMA_OPTION_ID_REUSEADDR = 1,
        RDMA_OPTION_ID_AFONLY = 2, RDMA_OPTION_ID_ACK_TIMEOUT = 3, RDMA_OPTION_IB_PATH = 1,
    }
    // enum rdma_cm_join_mc_attr_mask, rdma_cm_mc_join_flags
    u32 {
        RDMA_CM_JOIN_MC_ATTR_ADDRESS = 1, RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS = 1 << 1,
        RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER = 1,
    }
    // The address family of InfiniBand (linux/socket.h)
    c_int { AF_IB = 27 }
    // enum ibv_event_type
    c_int { IBV_EVENT_COMM_EST = 4 }
}
