//! Where a queue pair's peer is, as the address says that the queue pair was told.

use nonic_meeting::Namespace;
use nonic_protocol::{AddressVector, QpNumber};

use crate::port::Port;

/// What leads to a peer: the carrier that goes there, and what that one finds it by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerAddress {
    /// On this host: whichever process holds the number.
    ThisHost(QpNumber),
    /// In another network namespace of this host that is met in a folder: whichever process holds the number there.
    Met(Namespace, QpNumber),
}

impl PeerAddress {
    /// Where a queue pair of the number is to which `vector` leads from `port`; `None` if it leads nowhere.
    pub(crate) fn of(port: &Port, vector: &AddressVector, number: QpNumber) -> Option<Self> {
        if port.reaches(vector) {
            return Some(Self::ThisHost(number));
        }
        port.meets(vector).map(|namespace| Self::Met(namespace, number))
    }

    /// The queue pair's number where it is.
    #[inline(always)]
    pub(crate) fn number(self) -> QpNumber {
        match self {
            Self::ThisHost(number) | Self::Met(_, number) => number,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use nonic_protocol::GlobalRoute;
    use std::sync::Arc;

    fn vector(destination_lid: u16, destination: Option<[u8; 16]>) -> AddressVector {
        AddressVector {
            destination_lid,
            service_level: 0,
            source_path_bits: 0,
            static_rate: 0,
            port: 1,
            global: destination.map(|destination| GlobalRoute {
                destination,
                source_index: 0,
                flow_label: 0,
                hop_limit: 1,
                traffic_class: 0,
            }),
        }
    }

    #[test]
    fn an_address_of_a_device_of_this_host_leads_here_whatever_else_the_vector_says() {
        let port = Port::new(&Config { devices: 2, ..Config::default() }, 0, &Arc::default());
        let gid = port.gids()[0].gid;
        for vector in [vector(1, None), vector(2, None), vector(0, Some(gid)), vector(9, Some(gid))] {
            let address = PeerAddress::of(&port, &vector, QpNumber(7));
            assert_eq!(address, Some(PeerAddress::ThisHost(QpNumber(7))), "{vector:?}");
        }
    }

    #[test]
    fn an_address_of_nobody_leads_nowhere() {
        let port = Port::new(&Config { devices: 2, ..Config::default() }, 0, &Arc::default());
        for vector in [vector(0, None), vector(3, None), vector(1, Some([7; 16]))] {
            assert_eq!(PeerAddress::of(&port, &vector, QpNumber(7)), None, "{vector:?}");
        }
    }
}
