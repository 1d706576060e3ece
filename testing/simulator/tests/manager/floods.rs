//! What strangers can make a host keep.

use nonic_protocol::QpNumber;
use nonic_roce::{
    AddressHeader, ConnectRequest, Event, HostAddress, ManagerSettings, Message, Reason, ServiceRequest,
};

use crate::host::{Host, OUR_GUID, OURS, SOURCE_PORT, THEIRS, notice, question, request};

/// A request of its own.
fn asked(from: HostAddress, number: u32) -> Message {
    let mut asked = ConnectRequest { local_id: number, qp_number: QpNumber(number), ..request() };
    asked.primary.local_gid = from.gid();
    let header = AddressHeader { source_port: SOURCE_PORT, source: from, destination: OURS };
    asked.private_data[..36].copy_from_slice(&header.emit());
    Message::ConnectRequest(asked)
}

fn small() -> ManagerSettings {
    ManagerSettings { half_open: 6, half_open_of_source: 4, left_behind: 5, ..ManagerSettings::new(OUR_GUID) }
}

fn other(last: u8) -> HostAddress {
    HostAddress::V4([10, 88, 0, last])
}

#[test]
fn who_asks_and_asks_has_a_share_and_the_rest_is_not_heard() {
    let mut host = Host::with(small());
    for number in 1..=100 {
        host.hears(asked(THEIRS, number));
    }
    assert_eq!(host.manager.len(), 4);
    host.is_silent();
    // Others have room, until all is taken.
    host.hears_from(other(1), asked(other(1), 1));
    host.hears_from(other(2), asked(other(2), 1));
    assert_eq!(host.manager.len(), 6);
    host.hears_from(other(3), asked(other(3), 1));
    assert_eq!(host.manager.len(), 6);
    host.is_silent();
    // Whoever leads to a connection, or is rejected, makes room.
    let Event::Asked { id, .. } = host.event() else { panic!("no request") };
    host.manager.reject(host.now, id, Reason::CONSUMER, &[], &[]).expect("there is a request");
    host.says();
    host.hears_from(other(3), asked(other(3), 1));
    assert_eq!(host.manager.len(), 7);
    host.hears(asked(THEIRS, 50));
    assert_eq!(host.manager.len(), 7);
}

#[test]
fn connections_take_no_share() {
    let mut host = Host::with(small());
    for number in 1..=20 {
        host.hears(asked(THEIRS, number));
        let Event::Asked { id, .. } = host.event() else { panic!("no request") };
        host.manager.accept(host.now, id, &crate::host::SIDE, &[]).expect("there is a request");
        host.says();
        let mut ready = notice(id);
        ready.ids.local = number;
        host.hears(Message::ReadyToUse(ready));
        assert_eq!(host.event(), Event::Established { id });
    }
    assert_eq!(host.manager.len(), 20);
}

#[test]
fn questions_take_a_share_too() {
    let mut host = Host::with(small());
    for number in 1..=100 {
        host.hears(Message::ServiceRequest(ServiceRequest { request_id: number, ..question() }));
    }
    assert_eq!(host.manager.len(), 4);
    host.is_silent();
}

#[test]
fn of_what_no_program_knows_any_more_the_oldest_is_forgotten() {
    let mut host = Host::with(small());
    for number in 1..=50 {
        host.hears(asked(THEIRS, number));
        let Event::Asked { id, .. } = host.event() else { panic!("no request") };
        host.manager.reject(host.now, id, Reason::CONSUMER, &[], &[]).expect("there is a request");
        host.says();
    }
    assert_eq!(host.manager.len(), 5);
    // The newest is remembered: it is rejected again and not told again.
    host.hears(asked(THEIRS, 50));
    assert!(matches!(host.says(), Message::Reject(_)));
    host.is_unmoved();
}

#[test]
fn a_driver_that_is_slow_is_not_made_to_keep_more() {
    let mut host = Host::new();
    for number in 1..=10_000 {
        // Each is answered.
        let mut refused = asked(THEIRS, number);
        if let Message::ConnectRequest(asked) = &mut refused {
            asked.service_id += 1;
        }
        host.hears(refused);
    }
    let answers = std::iter::from_fn(|| host.manager.poll_transmit()).count();
    assert_eq!(answers, 1024);
    // Each is told, and taken back.
    for number in 1..=10_000 {
        host.hears(asked(THEIRS, number));
        let gives_up = nonic_roce::Reject {
            ids: nonic_roce::Ids { local: number, remote: 0 },
            answered: nonic_roce::Answered::Request,
            reason: Reason::TIMEOUT,
            info_length: 8,
            info: {
                let mut info = [0; 72];
                info[..8].copy_from_slice(&crate::host::THEIR_GUID.to_be_bytes());
                info
            },
            private_data: [0; 148],
        };
        host.hears(Message::Reject(gives_up));
    }
    let told = std::iter::from_fn(|| host.manager.poll_event()).count();
    assert_eq!((told, host.manager.len()), (4096, 0));
}
