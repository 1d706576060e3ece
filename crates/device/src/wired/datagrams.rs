//! Datagrams to and from other hosts: each is one packet, and needs no machine.

use nonic_protocol::{DatagramDestination, Happening, Operation, Slot, Status, Step};
use nonic_roce::{Body, DatagramEnd, GLOBAL_HEADER, Packet};
use nonic_wire::Arrival;

use crate::engine::lock;
use crate::port::{DEFAULT_PKEY, Port};
use crate::queue_pair::{Core, DatagramWay, InRun, Inner, QueuePair};
use crate::responder::DatagramFacts;
use crate::wire_address::WireAddress;

/// The bits of a P_Key that name a partition: every packet is of the default one.
const PARTITION: u16 = DEFAULT_PKEY & 0x7fff;

impl QueuePair {
    /// Opens what is needed to send datagrams to another host, and to receive from it.
    pub(crate) fn datagram_way(&self, port: &Port, destination: &DatagramDestination) -> Option<DatagramWay> {
        if !self.engine().may_use_wire() {
            return None;
        }
        self.open_datagram_way(WireAddress::of(port, &destination.vector)?)
    }

    /// The same for those members of a group that are on other hosts.
    pub(crate) fn group_way(&self, port: &Port, destination: &DatagramDestination) -> Option<DatagramWay> {
        let engine = self.engine();
        if !engine.may_use_wire() {
            return None;
        }
        let address = WireAddress::of_group(port, &destination.vector)?;
        if engine.sends_to_group(&address) { self.open_datagram_way(address) } else { None }
    }

    fn open_datagram_way(&self, address: WireAddress) -> Option<DatagramWay> {
        let mut last = lock(&self.datagram_way);
        if let Some(way) = last.as_ref().filter(|way| way.address == address) {
            return Some(way.clone());
        }
        let (wire, station) = self.engine().station(address.from)?;
        let mtu = self.engine().path_mtu(&address.route, &station).ok().flatten()?;
        let way = DatagramWay { address, wire, station, mtu };
        *last = Some(way.clone());
        Some(way)
    }

    /// Sends a datagram to another host. One for which the kernel has no room is lost, as on any wire.
    pub(crate) fn send_on_wire(
        &self,
        inner: &mut Inner,
        number: u64,
        slot: &Slot,
        destination: &DatagramDestination,
        way: &DatagramWay,
    ) -> Step {
        let Operation::Send { immediate } = slot.operation else {
            return Step::Failed(Status::LocalQpOperation);
        };
        let end = DatagramEnd { number: self.number(), q_key: inner.attributes.q_key };
        let psn = inner.base(&self).psn;
        let Some(mut packet) = end.packet(psn, destination, immediate, slot.total, way.mtu) else {
            return Step::Failed(Status::LocalLength);
        };
        packet.base.solicited = slot.flags.solicited;
        let engine = self.engine();
        let sent = lock(&self.datagrams).send(&way.wire, engine.looks_at_wire(), |outgoing| {
            outgoing.push(&way.station, &way.address.route, &packet, slot.total as u32, |place| {
                self.gather(&inner.send, number, 0, place)
            })
        });
        match sent {
            InRun::Gone => return Step::Failed(Status::LocalProtection),
            InRun::Sent => {}
            InRun::Waits => {
                engine.hold_on_wire(self.number());
                engine.have_agent_look();
            }
        }
        Step::Finished
    }

    /// Sends datagrams that wait for others.
    pub(crate) fn flush_datagrams(&self) {
        lock(&self.datagrams).flush();
    }

    /// Takes a datagram that came for it.
    pub(crate) fn take_wire_datagram(&self, core: &mut Core, arrival: &Arrival, datagram: &[u8]) {
        match arrival.read(datagram) {
            Ok((packet, payload, envelope)) => {
                let header = arrival.global_header(&envelope, datagram);
                self.place_wire_datagram(core, &packet, &header, payload);
            }
            Err(_) => self.witness.sees(Happening::Dropped),
        }
    }

    /// The same for one that was read, whose receive begins with `header`.
    pub(crate) fn place_wire_datagram(
        &self,
        core: &mut Core,
        packet: &Packet,
        header: &[u8; GLOBAL_HEADER],
        payload: &[u8],
    ) {
        let Body::Datagram(came) = packet.body else { return self.witness.sees(Happening::Dropped) };
        let facts = DatagramFacts {
            source: came.source,
            psn: packet.base.psn,
            source_lid: 0,
            immediate: came.immediate,
            solicited: packet.base.solicited,
        };
        let carries = self.context().port_state().carries(core.attributes.pkey_index);
        let is_of_partition = carries && packet.base.p_key & PARTITION == PARTITION;
        if !core.state().receives() || !is_of_partition || !self.has_q_key(core, came.q_key) {
            return;
        }
        let Some(receive) = self.first_receive(&mut core.receives) else {
            return self.witness.sees(Happening::Dropped);
        };
        self.fill_with_datagram(core, receive, &facts, Some(&header[..]), payload);
    }
}
