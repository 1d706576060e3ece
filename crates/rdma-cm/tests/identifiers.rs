//! Identifiers without a peer: states, addresses, events that are not acknowledged, moving to another channel.

mod common;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{Side, connect, is_state, parameters, reached};
use nonic_rdma_cm::{Error, EventKind, IdOption, PortSpace, REJECT_CONSUMER, State};
use nonic_sys::wait_readable;

const TCP: PortSpace = PortSpace::Tcp;
const SOON: Duration = Duration::from_secs(2);

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

#[test]
fn each_call_is_refused_in_every_other_state_and_changes_nothing() {
    let side = Side::new();
    let id = side.id(TCP);
    let refuses_connection_calls = |state: State| {
        assert!(is_state(id.connect(&parameters(b"", 1))));
        assert!(is_state(id.accept(&parameters(b"", 1))));
        assert!(is_state(id.reject(b"", REJECT_CONSUMER)));
        assert!(is_state(id.establish()));
        assert!(is_state(id.disconnect()));
        assert!(is_state(id.notify_established()));
        assert_eq!(id.state(), state);
        assert!(side.is_silent());
    };
    refuses_connection_calls(State::Idle);
    assert!(is_state(id.resolve_route(SOON)));
    id.bind(at("127.0.0.1:0")).unwrap();
    let bound = id.source();
    refuses_connection_calls(State::AddressBound);
    assert!(is_state(id.bind(at("127.0.0.1:0"))));
    assert!(is_state(id.resolve_route(SOON)));
    assert_eq!(id.source(), bound);
    id.listen(1).unwrap();
    refuses_connection_calls(State::Listen);
    assert!(is_state(id.listen(1)));
    assert!(is_state(id.bind(at("127.0.0.1:0"))));
    assert!(is_state(id.resolve_address(None, at("127.0.0.1:1"), SOON)));
    assert!(is_state(id.set_option(IdOption::ReuseAddress(true))));
    assert_eq!((id.state(), id.source()), (State::Listen, bound));
    id.destroy();
    assert!(is_state(id.listen(1)));
}

#[test]
fn an_address_is_resolved_then_a_route_each_once() {
    let side = Side::new();
    let id = side.id(TCP);
    assert!(id.context().is_none());
    id.resolve_address(None, at("127.0.0.1:7"), SOON).unwrap();
    side.expect(EventKind::AddressResolved);
    assert!(id.context().is_some());
    assert_eq!(id.source().unwrap().ip(), at("127.0.0.1:0").ip());
    assert_ne!(id.source().unwrap().port(), 0);
    assert!(is_state(id.resolve_address(None, at("127.0.0.1:7"), SOON)));
    assert!(matches!(id.resolve_route(Duration::ZERO), Err(Error::Argument(_))));
    assert!(is_state(id.listen(1)));
    id.resolve_route(SOON).unwrap();
    side.expect(EventKind::RouteResolved);
    assert!(is_state(id.resolve_route(SOON)));
    assert_eq!(id.state(), State::RouteResolved);
}

#[test]
fn addresses_that_cannot_be_are_refused_at_once_and_foreign_ones_end_in_an_error_without_a_wire() {
    let side = Side::new();
    let id = side.id(TCP);
    let resolve = |from: Option<&str>, to: &str| id.resolve_address(from.map(at), at(to), SOON);
    assert!(matches!(resolve(Some("127.0.0.1:0"), "[::1]:7"), Err(Error::Argument(_))));
    assert!(matches!(resolve(Some("192.0.2.1:0"), "127.0.0.1:7"), Err(Error::AddressNotOwn(_))));
    assert!(matches!(id.bind(at("192.0.2.1:0")), Err(Error::AddressNotOwn(_))));
    assert!(matches!(id.bind(at("224.0.0.1:0")), Err(Error::AddressNotOwn(_))));
    assert!(matches!(id.bind(at("255.255.255.255:0")), Err(Error::AddressNotOwn(_))));
    assert_eq!(id.state(), State::Idle);
    id.stay_within_host();
    match resolve(None, "192.0.2.1:7") {
        // The machine has no way out.
        Err(Error::Unreachable(_)) => {}
        asked => {
            asked.unwrap();
            assert_eq!(side.expect(EventKind::AddressError).status, -113);
        }
    }
    // Then it may resolve another one.
    resolve(None, "0.0.0.0:7").unwrap();
    side.expect(EventKind::AddressResolved);
    assert_eq!(id.destination(), Some(at("127.0.0.1:7")));
}

#[test]
fn an_identifier_waits_for_its_events_to_be_acknowledged_before_it_goes() {
    let side = Side::new();
    let id = side.id(TCP);
    id.resolve_address(None, at("127.0.0.1:7"), SOON).unwrap();
    let event = side.expect(EventKind::AddressResolved);
    let gone = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            id.destroy();
            gone.store(true, Ordering::SeqCst);
        });
        while id.state() != State::Destroying {
            std::thread::yield_now();
        }
        assert!(!gone.load(Ordering::SeqCst));
        drop(event);
    });
    assert!(gone.load(Ordering::SeqCst));
}

#[test]
fn events_that_were_not_got_go_with_their_identifier() {
    let side = Side::new();
    let id = side.id(TCP);
    id.resolve_address(None, at("127.0.0.1:7"), SOON).unwrap();
    assert!(!side.is_silent());
    id.destroy();
    assert!(side.is_silent());
    let dropped = side.id(TCP);
    dropped.resolve_address(None, at("127.0.0.1:7"), SOON).unwrap();
    drop(dropped);
    assert!(side.is_silent());
}

#[test]
fn events_and_requests_that_wait_move_with_their_identifier() {
    let (near, far, other) = (Side::new(), Side::new(), Side::new());
    let listener = far.listener(TCP, "127.0.0.1", 0);
    let to = reached(&listener, "127.0.0.1");
    let _first = near.asking(TCP, to, b"1");
    assert!(wait_readable(far.channel.fd(), Some(common::PATIENCE)));
    listener.migrate(&other.channel).unwrap();
    assert!(far.is_silent());
    let request = other.expect(EventKind::ConnectRequest);
    assert!(Arc::ptr_eq(&request.id.channel(), &other.channel));
    let _second = near.asking(TCP, to, b"2");
    assert_eq!(common::connection(&other.expect(EventKind::ConnectRequest)).private_data[0], b'2');
}

#[test]
fn options_are_taken_in_their_states_only() {
    let side = Side::new();
    let id = side.id(TCP);
    id.set_option(IdOption::TypeOfService(32)).unwrap();
    id.set_option(IdOption::ReuseAddress(true)).unwrap();
    id.set_option(IdOption::ReuseAddress(false)).unwrap();
    id.set_option(IdOption::AddressFamilyOnly(true)).unwrap();
    id.set_option(IdOption::AckTimeout(14)).unwrap();
    assert!(is_state(id.set_option(IdOption::Path)));
    id.resolve_address(None, at("127.0.0.1:7"), SOON).unwrap();
    side.expect(EventKind::AddressResolved);
    assert!(is_state(id.set_option(IdOption::AddressFamilyOnly(false))));
    assert!(is_state(id.set_option(IdOption::ReuseAddress(false))));
    id.set_option(IdOption::Path).unwrap();
    side.expect(EventKind::RouteResolved);
    assert_eq!(id.state(), State::RouteResolved);
    let datagrams = side.id(PortSpace::Udp);
    assert!(matches!(datagrams.set_option(IdOption::AckTimeout(14)), Err(Error::Argument(_))));
}

#[test]
fn a_thousand_identifiers_share_a_channel_and_all_their_connections_come_and_go() {
    let (near, far) = (Side::new(), Side::new());
    let listener = far.listener(TCP, "127.0.0.1", 0);
    let to = reached(&listener, "127.0.0.1");
    let asking: Vec<_> = (0..1000).map(|_| near.asking(TCP, to, b"")).collect();
    let mut asked = Vec::new();
    for _ in &asking {
        let id = Arc::clone(&far.expect(EventKind::ConnectRequest).id);
        id.accept(&parameters(b"", 88)).unwrap();
        asked.push(id);
    }
    for _ in &asking {
        near.expect(EventKind::ConnectResponse).id.establish().unwrap();
    }
    for _ in &asking {
        far.expect(EventKind::Established);
    }
    asking.iter().for_each(|id| id.disconnect().unwrap());
    let mut ended = 0;
    while ended < asking.len() {
        let event = far.next();
        if event.kind == EventKind::Disconnected {
            event.id.disconnect().unwrap();
            ended += 1;
        }
    }
    let mut ended = 0;
    while ended < asking.len() {
        ended += usize::from(near.next().kind == EventKind::Disconnected);
    }
}

#[test]
fn a_connection_that_was_ended_before_it_is_destroyed_leaves_its_port_free() {
    let (near, far) = (Side::new(), Side::new());
    let listener = far.listener(TCP, "127.0.0.1", 0);
    let port = listener.source().unwrap();
    let again = far.id(TCP);
    assert!(matches!(again.bind(port), Err(Error::AddressOverlaps(_))));
    let _asking = near.asking(TCP, port, b"");
    let asked = Arc::clone(&far.expect(EventKind::ConnectRequest).id);
    listener.destroy();
    // One that was asked keeps no port.
    again.bind(port).unwrap();
    asked.destroy();
    near.expect(EventKind::Rejected);
    let (asking, _asked) = connect(&near, &far);
    assert_ne!(asking.source(), asking.destination());
}

#[test]
fn groups_are_joined_by_datagrams_that_have_a_device_and_left_once() {
    let side = Side::new();
    let group = "239.1.2.3".parse().unwrap();
    let id = side.id(PortSpace::Udp);
    assert!(is_state(id.join_multicast(group, true, 1)));
    let connections = side.id(TCP);
    connections.bind(at("127.0.0.1:0")).unwrap();
    assert!(matches!(connections.join_multicast(group, true, 1), Err(Error::Argument(_))));
    id.bind(at("127.0.0.1:0")).unwrap();
    assert!(matches!(id.join_multicast("0.0.0.0".parse().unwrap(), true, 1), Err(Error::Argument(_))));
    assert!(matches!(id.leave_multicast(group), Err(Error::AddressNotOwn(_))));
    assert!(side.is_silent());

    id.join_multicast(group, true, 77).unwrap();
    let joined = side.expect(EventKind::MulticastJoin);
    let nonic_rdma_cm::Parameters::Datagram(told) = &joined.parameters else { panic!("{joined:?}") };
    assert_eq!((told.cookie, told.queue_pair.0, told.queue_key), (77, 0xff_ffff, 0x0123_4567));
    let known = id.multicast_groups()[0];
    assert!(known.is_at(&told.address) && known.address == group);
    drop(joined);
    assert_eq!(id.leave_multicast(group).unwrap(), known);
    assert!(matches!(id.leave_multicast(group), Err(Error::AddressNotOwn(_))));
    // The way to a group leads to the device, too.
    let sends = side.id(PortSpace::Udp);
    sends.resolve_address(Some(at("127.0.0.1:0")), at("239.1.2.3:7"), SOON).unwrap();
    side.expect(EventKind::AddressResolved);
    sends.join_multicast(group, true, 79).unwrap();
    side.expect(EventKind::MulticastJoin);
    // One that was not got goes with the group.
    id.join_multicast(group, true, 78).unwrap();
    id.leave_multicast(group).unwrap();
    assert!(side.is_silent());
}
