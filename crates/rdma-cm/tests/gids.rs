//! Addresses of the family `AF_IB`: how much a request carries, whom it is for, and services of the space of InfiniBand.

mod common;

use std::sync::Arc;

use common::{PATIENCE, Side, connection, parameters};
use nonic_rdma_cm::{
    Error, Event, EventKind, GidAddress, Id, Named, Parameters, PortSpace, State, gid_of_address,
};

const TCP: PortSpace = PortSpace::Tcp;
const UDP: PortSpace = PortSpace::Udp;
const IB: PortSpace = PortSpace::InfiniBand;

/// A service at 127.0.0.1.
fn at(service: u64) -> Named {
    let gid = gid_of_address("127.0.0.1".parse().unwrap());
    Named::Gid(GidAddress { gid, service, mask: u64::MAX })
}

/// The number of the service that a listener has got.
fn service_of(id: &Id) -> u64 {
    id.services()[0]
}

/// One that listens for any port of `ports`, and itself is of `space`.
fn listener(side: &Side, space: PortSpace, ports: PortSpace) -> Arc<Id> {
    let id = side.id(space);
    id.bind_named(at(ports.first_service())).unwrap();
    id.listen(0).unwrap();
    id
}

fn routed(side: &Side, id: Arc<Id>, to: Named) -> Arc<Id> {
    id.resolve_named(None, to, PATIENCE).unwrap();
    side.expect(EventKind::AddressResolved);
    id.resolve_route(PATIENCE).unwrap();
    side.expect(EventKind::RouteResolved);
    id
}

/// One of a space that has a route to a service.
fn to(side: &Side, space: PortSpace, service: u64) -> Arc<Id> {
    routed(side, side.id(space), at(service))
}

/// One that asks for a service, and says nothing.
fn asking(side: &Side, space: PortSpace, service: u64) -> Arc<Id> {
    let id = to(side, space, service);
    id.connect(&parameters(b"", 77)).unwrap();
    id
}

fn asked(event: &Event) -> &[u8] {
    match &event.parameters {
        Parameters::Connection(told) => &told.private_data,
        Parameters::Datagram(told) => &told.private_data,
        other => panic!("{other:?}"),
    }
}

/// As much data as there may be, the first byte of which is the manager's.
fn full(length: usize) -> Vec<u8> {
    let mut data: Vec<u8> = (0..length).map(|at| at as u8).collect();
    data[1] = 0xa5;
    data
}

#[test]
fn a_request_by_a_gid_carries_92_bytes_and_one_of_datagrams_216_and_not_one_more() {
    for (space, room) in [(TCP, 92), (UDP, 216), (IB, 92)] {
        let (near, far) = (Side::new(), Side::new());
        let there = listener(&far, space, space);
        let asking = to(&near, space, service_of(&there));
        let data = full(room);
        let longer = asking.connect(&parameters(&full(room + 1), 77));
        assert!(matches!(longer, Err(Error::Argument(_))), "{space:?}");
        assert_eq!((asking.state(), near.is_silent(), far.is_silent()), (State::RouteResolved, true, true));
        asking.connect(&parameters(&data, 77)).unwrap();
        let request = far.expect(EventKind::ConnectRequest);
        assert_eq!(asked(&request), data, "{space:?}");
        assert!(request.id.is_by_gid() && request.id.services() == [service_of(&there), 0]);
        // What the other side answers has the length that it has anywhere.
        let most = if space == UDP { 136 } else { 196 };
        request.id.accept(&parameters(&full(most), 88)).unwrap();
        let answer = near.next();
        assert_eq!(asked(&answer), full(most), "{space:?}");
    }
}

#[test]
fn who_listens_at_a_gid_is_shown_the_addresses_of_who_asked_by_an_address_and_his_56_bytes_behind() {
    let (near, far) = (Side::new(), Side::new());
    let there = listener(&far, TCP, TCP);
    let asking = near.asking(TCP, there.source().unwrap(), b"data");
    let request = far.expect(EventKind::ConnectRequest);
    let said = asked(&request);
    assert_eq!((said.len(), &said[..36]), (92, &asking.address_header().unwrap()[..]));
    assert_eq!((&said[36..40], &said[40..]), (&b"data"[..], &[0; 52][..]));
    let too_long = near.routed(TCP, there.source().unwrap());
    assert!(matches!(too_long.connect(&parameters(&[0; 57], 77)), Err(Error::Argument(_))));
}

#[test]
fn who_listens_at_an_address_rejects_who_asks_by_a_gid_unless_the_addresses_are_said() {
    let (near, far) = (Side::new(), Side::new());
    let there = far.listener(TCP, "127.0.0.1", 0);
    let asking = to(&near, TCP, service_of(&there));
    asking.connect(&parameters(b"\0data", 77)).unwrap();
    assert_eq!(near.expect(EventKind::Rejected).status, 28);
    assert!(far.is_silent());

    let asking = to(&near, TCP, service_of(&there));
    let said = [&asking.address_header().unwrap()[..], b"data"].concat();
    asking.connect(&parameters(&said, 77)).unwrap();
    let request = far.expect(EventKind::ConnectRequest);
    assert_eq!((asked(&request).len(), &asked(&request)[..5]), (56, &b"data\0"[..]));
    assert_eq!((request.id.destination(), request.id.is_by_gid()), (asking.source(), false));

    let there = far.listener(UDP, "127.0.0.1", 0);
    let asking = to(&near, UDP, service_of(&there));
    asking.connect(&parameters(b"\0data", 77)).unwrap();
    assert_eq!(near.expect(EventKind::Unreachable).status, 2);
    assert!(far.is_silent());
}

#[test]
fn an_identifier_of_the_space_of_infiniband_listens_for_a_port_of_another_and_has_it_alone() {
    for ports in [TCP, UDP, IB] {
        let (near, far) = (Side::new(), Side::new());
        let there = listener(&far, IB, ports);
        assert_eq!(service_of(&there) & !0xffff, ports.first_service());
        assert_eq!((there.space(), there.is_datagram()), (IB, false));
        let own = near.id(ports);
        assert!(matches!(own.bind(there.source().unwrap()), Err(Error::AddressOverlaps(_))), "{ports:?}");
        assert_eq!((own.state(), own.source()), (State::Idle, None));
        // One of its own space asks for it as for any port; who does not name a service asks for another.
        let asking = to(&near, IB, service_of(&there));
        asking.connect(&parameters(b"\0!", 77)).unwrap();
        let request = far.expect(EventKind::ConnectRequest);
        assert_eq!((request.id.space(), &asked(&request)[..2]), (IB, &b"\0!"[..]));
        request.id.accept(&parameters(b"", 88)).unwrap();
        near.expect(EventKind::ConnectResponse);
        asking.establish().unwrap();
        far.expect(EventKind::Established);
    }
}

#[test]
fn one_of_the_space_of_infiniband_reaches_who_listens_in_another_and_is_reached_from_there() {
    let (near, far) = (Side::new(), Side::new());
    let there = listener(&far, TCP, TCP);
    let _asking = asking(&near, IB, service_of(&there));
    let request = far.expect(EventKind::ConnectRequest);
    assert_eq!(request.id.space(), TCP);
    let there = listener(&far, IB, TCP);
    let _asking = near.asking(TCP, there.source().unwrap(), b"");
    assert_eq!(far.expect(EventKind::ConnectRequest).id.space(), IB);
}

#[test]
fn one_of_datagrams_in_the_space_of_infiniband_asks_services_of_datagrams() {
    let (near, far) = (Side::new(), Side::new());
    let there = Id::create_for_services(&far.channel, true, 0).unwrap();
    there.bind_named(at(UDP.first_service())).unwrap();
    there.listen(0).unwrap();
    let asking = to(&near, UDP, service_of(&there));
    asking.connect(&parameters(&full(216), 77)).unwrap();
    let request = far.expect(EventKind::ConnectRequest);
    assert_eq!((request.id.is_datagram(), asked(&request)), (true, &full(216)[..]));
    let asking = Id::create_for_services(&near.channel, true, 0).unwrap();
    let asking = routed(&near, asking, at(service_of(&there)));
    asking.connect(&parameters(b"", 77)).unwrap();
    far.expect(EventKind::ConnectRequest);
}

#[test]
fn a_connection_is_not_to_be_had_of_a_service_of_datagrams_nor_the_reverse() {
    let (near, far) = (Side::new(), Side::new());
    let (datagrams, connections) = (listener(&far, UDP, UDP), listener(&far, TCP, TCP));
    let _asking = asking(&near, IB, service_of(&datagrams));
    assert_eq!(near.expect(EventKind::Rejected).status, 28);
    let _asking = asking(&near, UDP, service_of(&connections));
    assert_eq!(near.expect(EventKind::Unreachable).status, 2);
    assert!(far.is_silent());
}

#[test]
fn a_service_that_is_no_port_is_reached_and_nobody_is_there() {
    let near = Side::new();
    for service in [0x1000_0000_0000_0007, 0x0153_0007, 0] {
        let _asking = asking(&near, IB, service);
        let rejected = near.expect(EventKind::Rejected);
        assert_eq!((rejected.status, connection(&rejected).private_data.len()), (8, 148), "{service:#x}");
    }
    let _asking = asking(&near, UDP, 7);
    assert_eq!(near.expect(EventKind::Unreachable).status, 1);
}

#[test]
fn a_service_that_is_no_port_of_the_space_is_not_bound_to_and_nothing_changes() {
    let side = Side::new();
    for (space, service) in [
        (TCP, UDP.first_service()),
        (UDP, TCP.first_service()),
        (TCP, IB.first_service()),
        (IB, 0x0153 << 16),
        (IB, 0x1000_0000_0000_0007),
        (IB, 7),
        (PortSpace::Scif, 0x0153 << 16),
    ] {
        let id = side.id(space);
        assert!(matches!(id.bind_named(at(service)), Err(Error::ForeignService(named)) if named == service));
        let resolved = id.resolve_named(Some(at(service)), at(TCP.first_service()), PATIENCE);
        assert!(matches!(resolved, Err(Error::ForeignService(_))));
        assert_eq!((id.state(), id.source(), id.is_by_gid()), (State::Idle, None, false));
        assert!(side.is_silent());
    }
    // Of which no bit counts: any port of its own.
    let Named::Gid(any) = at(7) else { panic!("it is one") };
    for (space, mask) in [(TCP, 0), (UDP, 0), (IB, 0)] {
        let id = side.id(space);
        id.bind_named(Named::Gid(GidAddress { mask, ..any })).unwrap();
        assert_eq!(service_of(&id) & !0xffff, space.first_service());
        assert_ne!(id.source().unwrap().port(), 7);
    }
}

#[test]
fn an_address_of_ip_and_a_gid_are_two_families_and_a_refusal_changes_nothing() {
    let side = Side::new();
    let ip = Named::Ip("127.0.0.1:0".parse().unwrap());
    for (own, peer) in [(ip, at(TCP.first_service())), (at(TCP.first_service()), ip)] {
        let id = side.id(TCP);
        assert!(matches!(id.resolve_named(Some(own), peer, PATIENCE), Err(Error::Argument(_))));
        assert_eq!((id.state(), id.source(), id.is_by_gid()), (State::Idle, None, false));
        id.bind_named(own).unwrap();
        let bound = id.source();
        assert!(matches!(id.resolve_named(None, peer, PATIENCE), Err(Error::Argument(_))));
        let now = (id.state(), id.source(), id.is_by_gid(), id.destination());
        assert_eq!(now, (State::AddressBound, bound, own.is_by_gid(), None));
        assert!(side.is_silent());
    }
}
