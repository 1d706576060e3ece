//! Port spaces.

/// Which ports an identifier's are (`enum rdma_port_space`). The numbers are those of the C interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum PortSpace {
    /// Datagrams as IP over InfiniBand sends them.
    Ipoib = 0x0002,
    /// Reliable connections.
    Tcp = 0x0106,
    /// Datagrams.
    Udp = 0x0111,
    /// Any service of InfiniBand.
    InfiniBand = 0x013f,
    /// Reliable connections of SCIF between hosts, with SCIF's own ports. Programs of the C interface cannot name it. Services of ports are
    /// numbered by protocols of IP; nobody runs the one of this number any more.
    Scif = 0x0153,
}

impl PortSpace {
    /// The space of a number; `None` if there is none.
    pub fn from_number(number: u32) -> Option<Self> {
        [Self::Ipoib, Self::Tcp, Self::Udp, Self::InfiniBand, Self::Scif]
            .into_iter()
            .find(|space| *space as u32 == number)
    }

    /// Whether programs may ask for it by its number.
    pub fn is_for_programs(self) -> bool {
        self != Self::Scif
    }

    /// Whether its identifiers send datagrams, and have no connections.
    pub fn is_datagram(self) -> bool {
        matches!(self, Self::Ipoib | Self::Udp)
    }
}
