//! Datagrams of queue pair 1 as packets, and the answers to those that nobody takes.

use std::sync::Arc;
use std::time::Instant;

use nonic_protocol::Psn;
use nonic_roce::{
    Body, ConnectionManager, Ends, MANAGEMENT, MANAGEMENT_Q_KEY, ManagementDatagram, ManagerSettings,
};
use nonic_wire::{Arrival, Pushed, Route, Station, Wire};

/// Hop limit of what is answered here.
const HOP_LIMIT: u8 = 64;

/// Sends a management datagram. False: the kernel had no room, or it is longer than the way carries.
pub(crate) fn send_management(wire: &Wire, station: &Arc<Station>, route: &Route, bytes: &[u8]) -> bool {
    let packet = ManagementDatagram::packet(Psn(0));
    let mut outgoing = wire.outgoing();
    let pushed = outgoing.push(station, route, &packet, bytes.len() as u32, |place| {
        place.copy_from_slice(bytes);
        true
    });
    let sent = pushed == Pushed::Pushed && outgoing.flush();
    wire.put_back(outgoing);
    sent
}

/// Answers a management datagram that no process of this user takes, as a host does on which nobody listens and nobody is connected: who asks
/// is refused at once, and who wants the end of a connection has it.
pub(crate) fn answer_for_nobody(wire: &Wire, arrival: &Arrival, datagram: &[u8]) {
    let Ok((packet, bytes, _)) = arrival.read(datagram) else { return };
    let is_right = matches!(packet.body, Body::Datagram(came)
        if (came.q_key, came.source) == (MANAGEMENT_Q_KEY, MANAGEMENT));
    let parsed = bytes.try_into().ok().and_then(ManagementDatagram::parse);
    let (true, Some(asked)) = (is_right, parsed) else { return };
    let ends = Ends { local: arrival.station.address(), remote: arrival.source };
    let mut nobody = ConnectionManager::new(ManagerSettings::new(0), Box::new(nonic_sys::random_u64));
    nobody.handle(Instant::now(), ends, &asked);
    let route = Route { to: arrival.source, traffic_class: 0, hop_limit: HOP_LIMIT };
    while let Some(answer) = nobody.poll_transmit() {
        send_management(wire, &arrival.station, &route, &answer.datagram.emit());
    }
}
