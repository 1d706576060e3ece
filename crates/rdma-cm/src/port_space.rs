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

    /// The service of its port 0 (`RDMA_IB_IP_PS_TCP` and others).
    pub const fn first_service(self) -> u64 {
        (self as u64) << 16
    }

    /// The space whose port a service is that programs can name; `None` if it is none.
    pub fn of_service(service: u64) -> Option<Self> {
        Self::NAMED.into_iter().find(|space| service & !PORT == space.first_service())
    }

    /// Whose ports an identifier of this space gets that is bound to a service, of which only the bits of a mask count: its own, but in the
    /// space of InfiniBand those of connections or of datagrams, too. `None` if they are none of these.
    pub fn of_own_service(self, service: u64, mask: u64) -> Option<Self> {
        let mut named = Self::NAMED.into_iter();
        named.find(|space| {
            let may = self == *space || self == Self::InfiniBand;
            may && (service ^ space.first_service()) & mask & !PORT == 0
        })
    }

    /// Those whose ports have services that programs can name, in the order in which a service that may be of several is one's.
    const NAMED: [Self; 3] = [Self::InfiniBand, Self::Tcp, Self::Udp];
}

/// What of a service's number is a port.
const PORT: u64 = 0xffff;

#[cfg(test)]
mod tests {
    use super::*;
    use PortSpace::{InfiniBand, Ipoib, Scif, Tcp, Udp};

    #[test]
    fn a_service_is_of_its_own_space_and_in_that_of_infiniband_of_any_that_programs_can_name() {
        let all = [InfiniBand, Tcp, Udp, Ipoib, Scif];
        let of = |service: u64, mask: u64| all.map(|own| own.of_own_service(service, mask));
        assert_eq!(of(0x0106_1c06, u64::MAX), [Some(Tcp), Some(Tcp), None, None, None]);
        assert_eq!(of(0x0111_1c06, u64::MAX), [Some(Udp), None, Some(Udp), None, None]);
        assert_eq!(of(0x013f_1c06, u64::MAX), [Some(InfiniBand), None, None, None, None]);
        // Neither nonic's own, nor one that only looks like a port, nor a number that is none.
        for service in [0x0153_1c06, 0x0002_1c06, 1 << 32 | 0x0106_1c06, 0x1000_0000_0000_0001] {
            assert_eq!(of(service, u64::MAX), [None; 5], "{service:#x}");
            assert_eq!(PortSpace::of_service(service), None);
        }
        assert_eq!(PortSpace::of_service(0x0111_0001), Some(Udp));
        // Of no bit of the space anything is said: each has its own.
        assert_eq!(of(0x1c06, 0xffff), [Some(InfiniBand), Some(Tcp), Some(Udp), None, None]);
        // Of those by which the spaces differ only what connections and datagrams have in common.
        assert_eq!(of(0x0100_0000, 0xffc0_0000), [Some(InfiniBand), Some(Tcp), Some(Udp), None, None]);
    }
}
