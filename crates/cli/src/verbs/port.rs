//! The port of a device.

/// The one port of a device.
pub(super) const PORT: u8 = 1;

/// What this command wants to know of a port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Port {
    /// Local identifier; 0 on Ethernet.
    pub(crate) lid: u16,
    /// Entries of the GID table.
    pub(crate) gid_count: u32,
    /// Whether packets carry a GID in any case (RoCE).
    pub(crate) ethernet: bool,
    /// Path MTU in the numbers of `enum ibv_mtu`.
    pub(super) mtu: u32,
}

impl Port {
    /// Its link layer in words.
    pub(crate) fn link_layer(&self) -> &'static str {
        if self.ethernet { "Ethernet" } else { "InfiniBand" }
    }
}
