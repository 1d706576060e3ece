//! Two that keep to the rules, on a wire that loses nothing: from the request to the end, in both families of addresses, and
//! within one host.

use std::time::Duration;

use nonic_protocol::QpNumber;
use nonic_roce::{
    Accepts, ConnectionManager, Disconnection, Ends, Event, HostAddress, ManagerSettings, Naming, PortSpace,
    Side, Transport, behind_header,
};

use crate::host::{OFFER, OUR_PAIR, OURS, PORT, SERVICE, SIDE, THEIR_PAIR, THEIRS};

/// Managers by their addresses, on a wire that loses nothing.
struct Wire {
    hosts: Vec<(HostAddress, ConnectionManager<Duration>)>,
    now: Duration,
}

impl Wire {
    fn new(addresses: &[HostAddress]) -> Self {
        let host = |(index, address): (usize, &HostAddress)| {
            let mut number = 100 * index as u64;
            let numbers = move || {
                number += 1;
                number
            };
            let settings = ManagerSettings::new(index as u64);
            let mut manager = ConnectionManager::new(settings, Box::new(numbers));
            let connections = Accepts::Connections(Transport::Reliable);
            let service = PortSpace::Tcp.service_id(PORT);
            manager.listen(service, Naming::Ip, Some(*address), connections).expect("nobody listens");
            (*address, manager)
        };
        Self { hosts: addresses.iter().enumerate().map(host).collect(), now: Duration::ZERO }
    }

    fn of(&mut self, address: HostAddress) -> &mut ConnectionManager<Duration> {
        &mut self.hosts.iter_mut().find(|host| host.0 == address).expect("there is such a host").1
    }

    /// All that is said arrives.
    fn carry(&mut self) {
        while let Some(said) = self.hosts.iter_mut().find_map(|(_, manager)| manager.poll_transmit()) {
            let ends = Ends { local: said.ends.remote, remote: said.ends.local };
            let now = self.now;
            self.of(ends.local).handle(now, ends, &said.datagram);
        }
    }

    #[track_caller]
    fn event(&mut self, at: HostAddress) -> Event {
        self.carry();
        self.of(at).poll_event().expect("something happened")
    }
}

#[test]
fn two_hosts_or_one_connect_and_part_in_both_families() {
    let [six, sixth] =
        [1, 2].map(|last| HostAddress::V6([0xfd, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, last]));
    for (asker, asked) in [(OURS, THEIRS), (six, sixth), (OURS, OURS), (six, six)] {
        let addresses: &[_] = if asker == asked { &[asker] } else { &[asker, asked] };
        let mut wire = Wire::new(addresses);
        let (now, there) = (wire.now, Ends { local: asker, remote: asked });
        let id = wire.of(asker).connect(now, there, SERVICE, &OFFER, &SIDE, &[7; 56]).expect("it is asked");
        let Event::Asked { id: other, ends, header, request } = wire.event(asked) else {
            panic!("no request")
        };
        assert_eq!(ends, Ends { local: asked, remote: asker });
        assert_eq!(
            (request.qp_number, behind_header(header, &request.private_data)),
            (OUR_PAIR, &[7; 56][..])
        );
        let side = Side { qp_number: THEIR_PAIR, ..SIDE };
        wire.of(asked).accept(now, other, &side, &[8; 196]).expect("there is a request");
        let Event::Replied { id: replied, reply } = wire.event(asker) else { panic!("no reply") };
        assert_eq!((replied, reply.qp_number, reply.private_data), (id, QpNumber(0x1b), [8; 196]));
        wire.of(asker).establish(id, &[]).expect("there is a reply");
        assert_eq!(wire.event(asked), Event::Established { id: other });
        wire.of(asked).disconnect(now, other, &[]).expect("there is a connection");
        assert_eq!(
            wire.event(asker),
            Event::Disconnected { id, how: Disconnection::ByPeer, private_data: Some(Box::new([0; 220])) }
        );
        wire.of(asker).disconnect(now, id, &[]).expect("there was a connection");
        let agreed = Event::Disconnected { id: other, how: Disconnection::Agreed, private_data: None };
        assert_eq!(wire.event(asked), agreed);
        for address in addresses {
            let manager = wire.of(*address);
            while let Some(next) = manager.poll_timeout() {
                manager.handle_timeout(next);
            }
            assert!(matches!(manager.poll_event(), Some(Event::TimeWaitOver { .. })));
            assert!(manager.is_empty() && manager.poll_transmit().is_none());
        }
    }
}
