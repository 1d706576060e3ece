//! Options of an identifier.

/// An option and its value (`rdma_set_option(3)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdOption {
    /// `RDMA_OPTION_ID_TOS`: type of service. In any state.
    TypeOfService(u8),
    /// `RDMA_OPTION_ID_REUSEADDR`: the address may be bound more than once. Set: not while listening; cleared: in IDLE only.
    ReuseAddress(bool),
    /// `RDMA_OPTION_ID_AFONLY`: an IPv6 wildcard does not stand for IPv4. In IDLE or ADDR_BOUND.
    AddressFamilyOnly(bool),
    /// `RDMA_OPTION_ID_ACK_TIMEOUT`: 4.096 us x 2^n until an unacknowledged packet is sent again; 0 is for ever. Connections only.
    AckTimeout(u8),
    /// `RDMA_OPTION_IB_PATH`: paths are set by the program. In ADDR_RESOLVED; raises ROUTE_RESOLVED.
    Path,
}
