//! Where an endpoint is: a node and a port on it.

use std::fmt;

/// A node and a port on it (`struct scif_portID`: two 16-bit numbers).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct PortId {
    /// The node: 0 is the host, cards are 1 and up.
    pub node: u16,
    /// The port, 1 to 65535.
    pub port: u16,
}

impl fmt::Display for PortId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.node, self.port)
    }
}
