//! Datagrams that arrive.

use std::sync::atomic::Ordering;

use nonic_memory::SharedSlice;
use nonic_protocol::{
    BaseHeader, CompletionOpcode, Datagram, Delivery, Happening, Outcome, QpType, Receive, Status,
};

use crate::completion_queue::SendCredit;
use crate::queue_pair::{Inner, QueuePair};

impl QueuePair {
    pub(crate) fn take_datagram(
        &self,
        inner: &mut Inner,
        base: BaseHeader,
        datagram: Datagram,
        payload: SharedSlice<'_>,
    ) -> Delivery {
        if self.transport != QpType::UnreliableDatagram || !inner.state().receives() {
            return Delivery::Quiet;
        }
        if datagram.q_key != inner.attributes.q_key {
            self.context().port_state().qkey_violations.fetch_add(1, Ordering::Relaxed);
            return Delivery::Quiet;
        }
        let head = if datagram.global_header { GLOBAL_HEADER } else { 0 };
        let Some(length) = payload.length().checked_sub(head) else { return Delivery::Quiet };
        let fits = |receive: &Receive| (length + GLOBAL_HEADER) as u64 <= receive.pieces.length();
        let receive = match inner.next_receive(&mut { self }) {
            Ok(receive) => receive,
            Err(Outcome::Hold) => return Delivery::Held,
            Err(_) => return Delivery::Quiet,
        };
        if !fits(&receive) {
            self.put_receive_back(inner, receive);
            return Delivery::Quiet;
        }
        let placed = (head == 0 || self.place(&receive, 0, payload.part(0, GLOBAL_HEADER)))
            && self.place(&receive, GLOBAL_HEADER as u64, payload.part(head, length));
        if !placed {
            self.complete_receive(&receive, Status::LocalProtection);
            inner.fail(&mut { self });
            return Delivery::Filled;
        }
        let service_level = self.packet_type(&datagram, &payload);
        self.witness.sees(Happening::Taken { psn: base.psn, bytes: length as u32, receive: true });
        self.receive_is_over();
        self.receive_completions.push(SendCredit::NONE, datagram.solicited, |completion| {
            completion.set_bare(receive.id, CompletionOpcode::Receive, Status::Success, self.number);
            completion.byte_length = (length + GLOBAL_HEADER) as u32;
            completion.immediate = datagram.immediate;
            completion.source_qp = base.source;
            completion.has_global_header = datagram.global_header;
            completion.source_lid = datagram.source_lid;
            completion.service_level = service_level;
        });
        Delivery::Filled
    }

    /// What stands in the place of the service level: on Ethernet the kind of the packet.
    fn packet_type(&self, datagram: &Datagram, payload: &SharedSlice<'_>) -> u8 {
        if !datagram.global_header || !self.context().port_state().is_ethernet() {
            return 0;
        }
        let mut first = [0];
        payload.part(0, 1).read(&mut first);
        packet_type(first[0])
    }
}

/// The kind of a packet whose header, in the place of the global one, begins with this byte (IBTA vol. 1, A17.4.5.1: the completion says
/// whether it was IPv4 or IPv6), as cards number it: 8 for UDP, with 2 for an IPv4 header and 1 for IPv6. The 40 bytes of an IPv4
/// header begin with 20 that say nothing.
fn packet_type(first: u8) -> u8 {
    const OVER_UDP: u8 = 8;
    const IPV6: u8 = 1;
    const IPV4: u8 = 2;
    OVER_UDP | if first >> 4 == 6 { IPV6 } else { IPV4 }
}

/// Bytes before the data of a datagram.
pub(super) const GLOBAL_HEADER: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::port::Port;
    use nonic_protocol::GlobalRoute;

    #[test]
    fn a_datagram_tells_which_kind_of_address_its_packet_had() {
        let port = Port::new(&Config { ethernet: true, ..Config::default() }, 0);
        let find = |v4: bool| port.gids().iter().find(|entry| (entry.gid[..12] == V4_MAPPED) == v4);
        for (v4, kind) in [(false, 9), (true, 10)] {
            let Some(entry) = find(v4) else { continue };
            let route = GlobalRoute {
                destination: entry.gid,
                source_index: entry.index as u8,
                flow_label: 0,
                hop_limit: 1,
                traffic_class: 0,
            };
            assert_eq!(packet_type(port.global_header(&route, 1)[0]), kind);
        }
    }

    /// How a GID that is an IPv4 address begins.
    const V4_MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
}
