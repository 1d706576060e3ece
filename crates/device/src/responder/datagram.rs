//! Datagrams that arrive.

use std::sync::atomic::Ordering;

use nonic_memory::SharedSlice;
use nonic_protocol::{
    BaseHeader, CompletionOpcode, Datagram, Delivery, Happening, Outcome, Psn, QpNumber, QpType, Receive,
    Status,
};

use crate::bytes::Source;
use crate::completion_queue::SendCredit;
use crate::queue_pair::{Inner, QueuePair};

/// What a datagram's completion says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DatagramFacts {
    pub(crate) source: QpNumber,
    pub(crate) psn: Psn,
    pub(crate) source_lid: u16,
    pub(crate) immediate: Option<u32>,
    pub(crate) solicited: bool,
}

impl QueuePair {
    pub(crate) fn take_datagram(
        &self,
        inner: &mut Inner,
        base: BaseHeader,
        datagram: Datagram,
        payload: SharedSlice<'_>,
    ) -> Delivery {
        let carries = self.context().port_state().carries(inner.attributes.pkey_index);
        if self.transport != QpType::UnreliableDatagram || !inner.state().receives() || !carries {
            return Delivery::Quiet;
        }
        if !self.has_q_key(inner, datagram.q_key) {
            return Delivery::Quiet;
        }
        let head = if datagram.global_header { GLOBAL_HEADER } else { 0 };
        let Some(length) = payload.length().checked_sub(head) else { return Delivery::Quiet };
        let receive = match inner.next_receive(&mut { self }) {
            Ok(receive) => receive,
            Err(Outcome::Hold) => return Delivery::Held,
            Err(_) => return Delivery::Quiet,
        };
        let facts = DatagramFacts {
            source: base.source,
            psn: base.psn,
            source_lid: datagram.source_lid,
            immediate: datagram.immediate,
            solicited: datagram.solicited,
        };
        let header = (head > 0).then(|| payload.part(0, head));
        self.fill_with_datagram(inner, receive, &facts, header, payload.part(head, length))
    }

    /// Whether a datagram's Q_Key is the queue pair's; one whose is not is counted.
    pub(crate) fn has_q_key(&self, inner: &Inner, q_key: u32) -> bool {
        let is_own = q_key == inner.attributes.q_key;
        if !is_own {
            self.context().port_state().qkey_violations.fetch_add(1, Ordering::Relaxed);
        }
        is_own
    }

    /// Places a datagram in the receive that was taken for it, behind its header if it has one.
    pub(crate) fn fill_with_datagram<B: Source>(
        &self,
        inner: &mut Inner,
        receive: Receive,
        facts: &DatagramFacts,
        header: Option<B>,
        payload: B,
    ) -> Delivery {
        let length = payload.length();
        if (length + GLOBAL_HEADER) as u64 > receive.pieces.length() {
            self.put_receive_back(&mut inner.receives, receive);
            return Delivery::Quiet;
        }
        let placed = header.is_none_or(|header| self.place(&receive, 0, header))
            && self.place(&receive, GLOBAL_HEADER as u64, payload);
        if !placed {
            self.complete_receive(&receive, Status::LocalProtection);
            inner.fail(&mut { self });
            return Delivery::Filled;
        }
        let service_level = header.map_or(0, |header| self.packet_kind(header));
        self.witness.sees(Happening::Taken { psn: facts.psn, bytes: length as u32, receive: true });
        self.receive_is_over();
        self.receive_completions.push(SendCredit::NONE, facts.solicited, |completion| {
            completion.set_bare(receive.id, CompletionOpcode::Receive, Status::Success, self.number);
            completion.byte_length = (length + GLOBAL_HEADER) as u32;
            completion.immediate = facts.immediate;
            completion.source_qp = facts.source;
            completion.has_global_header = header.is_some();
            completion.source_lid = facts.source_lid;
            completion.service_level = service_level;
        });
        Delivery::Filled
    }

    /// What stands in the place of the service level: on Ethernet the kind of the packet.
    fn packet_kind(&self, header: impl Source) -> u8 {
        if !self.context().port_state().is_ethernet() {
            return 0;
        }
        let mut first = [0];
        header.copy_part(0, &SharedSlice::of_private(&mut first));
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
    use std::sync::Arc;

    #[test]
    fn a_datagram_tells_which_kind_of_address_its_packet_had() {
        let port = Port::new(&Config { ethernet: true, ..Config::default() }, 0, &Arc::default());
        let gids = port.gids();
        let find = |v4: bool| gids.iter().find(|entry| (entry.gid[..12] == V4_MAPPED) == v4);
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
