//! A manager that hears whatever bytes say, from two hosts that keep to nothing, while its program does what bytes say, too.

use std::time::Duration;

use nonic_protocol::{Psn, QpNumber};
use nonic_roce::{
    Accepts, AddressHeader, CommunicationId, ConnectionManager, ConnectionOffer, Ends, Event, HostAddress,
    ManagementDatagram, ManagerSettings, Naming, PortSpace, Reason, Service, ServiceAnswer, Side, Transport,
};

const PORT: u16 = 7;
const SIDE: Side = Side {
    qp_number: QpNumber(3),
    starting_psn: Psn(5),
    responder_resources: 1,
    initiator_depth: 1,
    rnr_retry: 7,
    flow_control: false,
    has_srq: false,
    q_key: 0,
};
const OFFER: ConnectionOffer = ConnectionOffer {
    transport: Transport::Reliable,
    path_mtu: 3,
    retry_count: 7,
    traffic_class: 0,
    hop_limit: 64,
    flow_label: None,
};
const TCP: Service = Service::Port { space: PortSpace::Tcp, port: PORT, source_port: 1 };
/// Bounds that a few bytes reach. What is repeated twice is repeated fifteen times in the same way, and the fuzzer's time goes there.
const SETTINGS: ManagerSettings = ManagerSettings {
    repeats: 2,
    half_open: 6,
    half_open_of_source: 4,
    left_behind: 5,
    ..ManagerSettings::new(9)
};

fn ends(remote: u8) -> Ends {
    let address = |last| HostAddress::V4([10, 0, 0, last]);
    Ends { local: address(0), remote: address(1 + remote % 2) }
}

/// The bytes that say what happens.
struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn next(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }
}

/// A message whose numbers are small, as those of the manager are, and which is otherwise what is taken, but for some bytes.
fn datagram(script: &mut Script<'_>, ends: Ends) -> Option<ManagementDatagram> {
    let mut bytes = [0; ManagementDatagram::LENGTH];
    bytes[..4].copy_from_slice(&[1, 7, 2, 3]);
    bytes[17] = 0x10 + script.next() % 9;
    let (header, body) = bytes.split_at_mut(24);
    header[15] = script.next();
    (body[3], body[7]) = (script.next() % 32, script.next() % 32);
    let addresses = AddressHeader { source_port: 1, source: ends.remote, destination: ends.local };
    match header[17] {
        0x10 => {
            body[7] = 0;
            body[8..16].copy_from_slice(&PortSpace::Tcp.service_id(PORT).to_be_bytes());
            (body[34], body[48], body[49], body[50]) = (script.next() % 8, 0xff, 0xff, 3 << 4);
            body[56..72].copy_from_slice(&ends.remote.gid());
            body[72..88].copy_from_slice(&ends.local.gid());
            body[140..176].copy_from_slice(&addresses.emit());
        }
        // Whose queue pair an end is for.
        0x15 => body[10] = 3,
        0x17 => {
            body[8..16].copy_from_slice(&PortSpace::Udp.service_id(PORT).to_be_bytes());
            body[16..52].copy_from_slice(&addresses.emit());
        }
        _ => (),
    }
    for _ in 0..script.next() % 4 {
        let place = script.next() as usize % body.len();
        body[place] = script.next();
    }
    ManagementDatagram::parse(&bytes)
}

/// What the program does with one that it knows. Whether it may, it does not ask.
fn call(
    manager: &mut ConnectionManager<Duration>,
    now: Duration,
    id: CommunicationId,
    script: &mut Script<'_>,
) {
    let there = ServiceAnswer::QueuePair { number: QpNumber(3), q_key: 4 };
    let _ = match script.next() % 8 {
        0 | 1 => manager.accept(now, id, &SIDE, &[1]),
        2 => manager.establish(id, &[2]),
        3 => manager.communication_established(id),
        4 => manager.reject(now, id, Reason::CONSUMER, &[], &[]),
        5 => manager.disconnect(now, id, &[]),
        6 => manager.release(now, id),
        _ => manager.answer_service(now, id, there, &[]),
    };
}

/// Does what the bytes say, and then ends everything.
///
/// # Panics
/// If a datagram is answered by more than two, more is kept than may be, or something is left in the end.
pub fn try_hostile(bytes: &[u8]) {
    let mut script = Script(bytes);
    let mut number = 0;
    let numbers = move || {
        number += 1;
        number
    };
    let mut manager = ConnectionManager::new(SETTINGS, Box::new(numbers));
    let connections = Accepts::Connections(Transport::Reliable);
    manager.listen(PortSpace::Tcp.service_id(PORT), Naming::Ip, None, connections).expect("nobody listens");
    manager
        .listen(PortSpace::Udp.service_id(PORT), Naming::Ip, None, Accepts::Datagrams)
        .expect("nobody listens");
    let (mut now, mut known, mut asked) = (Duration::ZERO, Vec::new(), 0);
    while !script.0.is_empty() {
        let mut most = usize::MAX;
        match script.next() % 8 {
            0 => {
                let there = ends(script.next());
                known.extend(manager.connect(now, there, TCP, &OFFER, &SIDE, &[]));
                asked += 1;
            }
            1 => {
                let service = Service::Port { space: PortSpace::Udp, port: PORT, source_port: 1 };
                known.extend(manager.resolve_service(now, ends(script.next()), service, &[]));
                asked += 1;
            }
            2 => {
                now = manager.poll_timeout().unwrap_or(now).max(now);
                manager.handle_timeout(now);
            }
            3 | 4 if !known.is_empty() => {
                let index = script.next() as usize % known.len();
                call(&mut manager, now, known[index], &mut script);
            }
            _ => {
                let there = ends(script.next());
                if let Some(datagram) = datagram(&mut script, there) {
                    manager.handle(now, there, &datagram);
                    most = 2;
                }
            }
        }
        let said = std::iter::from_fn(|| manager.poll_transmit()).count();
        assert!(said <= most, "{said} datagrams for one");
        while let Some(event) = manager.poll_event() {
            if let Event::Asked { id, .. } | Event::ServiceAsked { id, .. } = event {
                known.push(id);
                asked += 1;
            }
        }
        assert!(manager.len() <= asked + SETTINGS.left_behind, "more is kept than anybody asked for");
    }
    for id in known {
        let _ = manager.release(now, id);
    }
    assert!(manager.len() <= SETTINGS.left_behind, "more is kept than may be");
    while let Some(next) = manager.poll_timeout() {
        manager.handle_timeout(next);
    }
    assert!(manager.is_empty(), "something is kept for ever");
    assert_eq!(manager.poll_event(), None, "told of what the program does not know any more");
}
