//! What programs read of the way to another host.

/// The way from an address of this host to one of another, as programs read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireRoute {
    /// GID of this side's address.
    pub source: [u8; 16],
    /// Of the peer's.
    pub destination: [u8; 16],
    /// Path MTU, as `enum ibv_mtu`.
    pub path_mtu: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Hop limit.
    pub hop_limit: u8,
}
