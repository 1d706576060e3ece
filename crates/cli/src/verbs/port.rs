//! The port of a device.

use std::net::IpAddr;

use super::library::CallError;
use super::session::Session;

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

impl Session {
    /// Has queue pairs that connect from now on speak from that address of this host. False: the port has it not.
    pub(crate) fn speak_from(&self, address: IpAddr) -> Result<bool, CallError> {
        let wanted = match address {
            IpAddr::V4(four) => four.to_ipv6_mapped().octets(),
            IpAddr::V6(six) => six.octets(),
        };
        for index in 0..self.port()?.gid_count {
            if self.gid(index)? == wanted {
                self.gid_index.set(index as u8);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Index of the address that queue pairs speak from.
    pub(super) fn gid_index(&self) -> u8 {
        self.gid_index.get()
    }
}
