//! Connecting, accepting, rejecting, handing off, disconnecting: every state, and every refusal with nothing changed.

mod common;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::connected::{
    PATIENCE, PLAIN, Plan, Seen, Side, accept, connect, dequeue, done, flushed, next, pair, told,
};
use common::{bad_handle, bad_state, open};
use nonic_dat::ConnectionEvent::{
    AcceptCompletionError, Broken, Disconnected, Established, NonPeerRejected, PeerRejected, TimedOut,
    Unreachable,
};
use nonic_dat::{
    ConnectionRequest, DatError, DatResult, Endpoint, EndpointChange, EndpointSetup, EndpointState, Event,
    EventDispatcher, HandleKind, InterfaceAdapter, Kind, PublicServicePoint, ReservedServicePoint,
    ServicePoint, StateKind, Streams, Subtype, TransferKind,
};

const ALL: Streams = Streams::CONNECTION_REQUEST;

/// A dispatcher of requests, and a service point that tells it.
fn listening(
    adapter: &Arc<InterfaceAdapter>,
    length: i32,
) -> (Arc<EventDispatcher>, u64, Arc<PublicServicePoint>) {
    let requests = EventDispatcher::create(adapter, length, None, ALL).unwrap();
    let (conn_qual, point) = PublicServicePoint::create_any(adapter, &requests, false).unwrap();
    (requests, conn_qual, point)
}

/// The next request, and the qualifier at which it came.
fn next_request(requests: &EventDispatcher) -> (Arc<ConnectionRequest>, u64) {
    let mut found = None;
    let (result, _) = requests.wait(PATIENCE, 1, |event| {
        let Event::Request { request, conn_qual, .. } = event else { panic!("{event:?}") };
        found = Some((Arc::clone(request), *conn_qual));
    });
    result.unwrap();
    found.unwrap()
}

fn ask(side: &Side, conn_qual: u64, data: &[u8]) {
    side.endpoint.connect(side.adapter.address(), conn_qual, PATIENCE, data, 0, 0).unwrap();
}

fn state(side: &Side) -> EndpointState {
    side.endpoint.state()
}

fn argument(number: u8) -> DatError {
    DatError::argument(number)
}

#[test]
fn the_facts_of_a_connection_are_known_on_both_sides() {
    let (near, far) = (Side::new(&Plan::default()), Side::new(&Plan::default()));
    let (requests, conn_qual, point) = listening(&far.adapter, 4);
    assert_eq!(near.endpoint.facts().unwrap().remote, None);
    let data: Vec<u8> = (0..=255).collect();
    ask(&near, conn_qual, &data);
    assert_eq!(state(&near), EndpointState::ActiveConnectionPending);
    let mut found = None;
    requests
        .wait(PATIENCE, 1, |event| {
            let Event::Request { point: ServicePoint::Public(at), address, conn_qual, request } = event
            else {
                panic!("{event:?}")
            };
            assert!(Arc::ptr_eq(at, &point));
            assert_eq!(*address, far.adapter.address());
            found = Some((Arc::clone(request), *conn_qual));
        })
        .0
        .unwrap();
    let (request, at) = found.unwrap();
    let facts = request.facts().unwrap();
    assert_eq!((at, facts.address, &*facts.private_data), (conn_qual, near.adapter.address(), &data[..]));
    assert!(facts.port != 0 && facts.endpoint.is_none());
    request.accept(Some(&far.endpoint), &data[1..]).unwrap();
    assert_eq!(next(&near.connections), Seen::Connection(Established, data[1..].to_vec()));
    assert_eq!(next(&far.connections), told(Established));
    let (active, passive) = (near.endpoint.facts().unwrap(), far.endpoint.facts().unwrap());
    assert_eq!(active.remote, Some((near.adapter.address(), conn_qual)));
    assert_eq!(
        (passive.local_port, passive.remote),
        (conn_qual, Some((near.adapter.address(), active.local_port)))
    );
    assert_eq!(facts.port, active.local_port);
    // The request is consumed.
    let gone = bad_handle(HandleKind::ConnectionRequest);
    assert_eq!(request.facts().unwrap_err(), gone);
    assert_eq!(request.accept(Some(&far.endpoint), &[]), Err(gone));
    assert_eq!((request.reject(&[]), request.hand_off(1)), (Err(gone), Err(gone)));
}

#[test]
fn a_connect_that_cannot_be_is_refused_and_changes_nothing() {
    let side = Side::new(&Plan::default());
    let (requests, conn_qual, _point) = listening(&side.adapter, 4);
    let address = side.adapter.address();
    let connect = |endpoint: &Arc<Endpoint>, address: SocketAddr, timeout, data: &[u8], qos, flags| {
        endpoint.connect(address, conn_qual, timeout, data, qos, flags)
    };
    let zero = Some(Duration::ZERO);
    assert_eq!(connect(&side.endpoint, address, zero, &[], 0, 0), Err(argument(4)));
    assert_eq!(connect(&side.endpoint, address, PATIENCE, &[0; 257], 0, 0), Err(argument(5)));
    assert_eq!(connect(&side.endpoint, address, PATIENCE, &[], 1, 0), Err(DatError::MODEL_NOT_SUPPORTED));
    assert_eq!(connect(&side.endpoint, address, PATIENCE, &[], 0, 1), Err(DatError::MODEL_NOT_SUPPORTED));
    let malformed = DatError::new(Kind::InvalidAddress, Subtype::AddressMalformed);
    for nowhere in ["0.0.0.0:0", "224.0.0.1:0", "[::]:0"] {
        assert_eq!(connect(&side.endpoint, nowhere.parse().unwrap(), PATIENCE, &[], 0, 0), Err(malformed));
    }
    let create = |setup| Endpoint::create(&side.adapter, setup).unwrap();
    let mute = create(EndpointSetup { zone: Some(Arc::clone(&side.zone)), ..EndpointSetup::default() });
    let no_dispatcher = bad_handle(HandleKind::ConnectionDispatcher);
    assert_eq!(connect(&mute, address, PATIENCE, &[], 0, 0), Err(no_dispatcher));
    let unzoned =
        create(EndpointSetup { connect: Some(Arc::clone(&side.connections)), ..EndpointSetup::default() });
    assert_eq!(connect(&unzoned, address, PATIENCE, &[], 0, 0), Err(bad_state(StateKind::EpNotReady)));
    for endpoint in [&side.endpoint, &mute, &unzoned] {
        assert_eq!(endpoint.state(), EndpointState::Unconnected);
        assert_eq!(endpoint.facts().unwrap().remote, None);
    }
    mute.free().unwrap();
    assert_eq!(connect(&mute, address, PATIENCE, &[], 0, 0), Err(bad_handle(HandleKind::Endpoint)));
    assert_eq!(dequeue(&requests), Err(DatError::QUEUE_EMPTY));
    assert_eq!(dequeue(&side.connections), Err(DatError::QUEUE_EMPTY));
    // In every other state.
    ask(&side, conn_qual, &[]);
    let again = connect(&side.endpoint, address, PATIENCE, &[], 0, 0);
    assert_eq!(again, Err(bad_state(StateKind::EpActiveConnectionPending)));
    side.endpoint.disconnect(false).unwrap();
    let again = connect(&side.endpoint, address, PATIENCE, &[], 0, 0);
    assert_eq!(again, Err(bad_state(StateKind::EpDisconnected)));
}

#[test]
fn what_becomes_of_an_attempt_is_told() {
    let (near, far) = (Side::new(&Plan::default()), Side::new(&Plan::default()));
    let (requests, conn_qual, point) = listening(&far.adapter, 2);
    let again = |kind: Seen| {
        assert_eq!(next(&near.connections), kind);
        assert_eq!(state(&near), EndpointState::Disconnected);
        assert_eq!(near.endpoint.facts().unwrap().remote, None);
        near.endpoint.reset().unwrap();
        assert_eq!(state(&near), EndpointState::Unconnected);
    };
    // Rejected by the program, with or without words.
    for words in [&b""[..], b"go away"] {
        ask(&near, conn_qual, b"");
        next_request(&requests).0.reject(words).unwrap();
        again(Seen::Connection(PeerRejected, words.to_vec()));
    }
    // No room for the request: the dispatcher is none the worse for it.
    let others: Vec<_> = (0..2).map(|_| Side::new(&Plan::default())).collect();
    others.iter().for_each(|other| ask(other, conn_qual, b""));
    while requests.facts().unwrap().length > 0 && point.facts().is_ok() && waiting(&requests) < 2 {
        std::thread::yield_now();
    }
    ask(&near, conn_qual, b"");
    again(told(NonPeerRejected));
    for other in &others {
        next_request(&requests).0.reject(b"").unwrap();
        assert_eq!(next(&other.connections), told(PeerRejected));
    }
    // Time.
    let since = Instant::now();
    let time = Some(Duration::from_millis(50));
    near.endpoint.connect(far.adapter.address(), conn_qual, time, b"", 0, 0).unwrap();
    again(told(TimedOut));
    assert!(since.elapsed() >= Duration::from_millis(50));
    // Who accepts it now learns that it was too late.
    let (late, _) = next_request(&requests);
    far.receive(7, 8);
    late.accept(Some(&far.endpoint), b"").unwrap();
    assert_eq!(next(&far.connections), told(AcceptCompletionError));
    assert_eq!(state(&far), EndpointState::Disconnected);
    assert_eq!(far.next(), flushed(7, TransferKind::Receive));
    // A program that frees what the request came to without looking.
    ask(&near, conn_qual, b"");
    while waiting(&requests) == 0 {
        std::thread::yield_now();
    }
    point.free().unwrap();
    requests.free().unwrap();
    again(told(NonPeerRejected));
    // Nobody listens.
    ask(&near, conn_qual, b"");
    again(told(NonPeerRejected));
    // An address that is another machine's.
    near.receive(1, 8);
    near.endpoint.connect("192.0.2.1:0".parse().unwrap(), conn_qual, None, b"", 0, 0).unwrap();
    assert_eq!(next(&near.connections), told(Unreachable));
    assert_eq!(near.next(), flushed(1, TransferKind::Receive));
    near.endpoint.reset().unwrap();
    // The same endpoints can still be connected, at every address of this machine.
    far.endpoint.reset().unwrap();
    connect(&near, &far);
}

/// Events in a dispatcher, as far as it tells without handing them out.
fn waiting(dispatcher: &EventDispatcher) -> i32 {
    dispatcher.wait(Some(Duration::ZERO), dispatcher.facts().unwrap().length, |_| panic!("too many")).1
}

#[test]
fn every_address_of_this_machine_leads_here() {
    let far = Side::new(&Plan::default());
    let (requests, conn_qual, _point) = listening(&far.adapter, 4);
    for address in ["127.0.0.1:9", "127.1.2.3:0", "[::1]:0", "[::ffff:127.0.0.1]:0"] {
        let near = Side::new(&Plan::default());
        near.endpoint.connect(address.parse().unwrap(), conn_qual, PATIENCE, b"", 0, 0).unwrap();
        next_request(&requests).0.reject(b"").unwrap();
        assert_eq!(next(&near.connections), told(PeerRejected));
    }
}

#[test]
fn an_accept_that_cannot_be_is_refused_and_the_request_stays() {
    let (near, far) = (Side::new(&Plan::default()), Side::new(&Plan::default()));
    let (requests, conn_qual, _point) = listening(&far.adapter, 4);
    ask(&near, conn_qual, b"first");
    let (request, _) = next_request(&requests);
    let no_endpoint = Err(bad_handle(HandleKind::Endpoint));
    assert_eq!(request.accept(Some(&far.endpoint), &[0; 257]), Err(argument(3)));
    assert_eq!(request.accept(None, &[]), no_endpoint);
    assert_eq!(request.accept(Some(&near.endpoint), &[]), no_endpoint);
    let create = |setup| Endpoint::create(&far.adapter, setup).unwrap();
    let mute = create(EndpointSetup { zone: Some(Arc::clone(&far.zone)), ..EndpointSetup::default() });
    let unzoned =
        create(EndpointSetup { connect: Some(Arc::clone(&far.connections)), ..EndpointSetup::default() });
    assert_eq!(request.accept(Some(&mute), &[]), no_endpoint);
    assert_eq!(request.accept(Some(&unzoned), &[]), no_endpoint);
    mute.free().unwrap();
    assert_eq!(request.accept(Some(&mute), &[]), no_endpoint);
    assert_eq!(request.reject(&[0; 257]), Err(argument(2)));
    assert_eq!(request.hand_off(conn_qual + 70_000), Err(argument(2)));
    // An endpoint that is used already.
    let other = Side { endpoint: far.endpoint.clone(), ..Side::new(&Plan::default()) };
    other.endpoint.connect(far.adapter.address(), conn_qual, PATIENCE, b"second", 0, 0).unwrap();
    assert_eq!(request.accept(Some(&far.endpoint), &[]), Err(DatError::bare(Kind::InvalidState)));
    next_request(&requests).0.reject(&[]).unwrap();
    assert_eq!(next(&far.connections), told(PeerRejected));
    assert_eq!(request.accept(Some(&far.endpoint), &[]), Err(DatError::bare(Kind::InvalidState)));
    far.endpoint.reset().unwrap();
    // After all of this it can be accepted.
    assert_eq!(state(&near), EndpointState::ActiveConnectionPending);
    request.accept(Some(&far.endpoint), b"at last").unwrap();
    assert_eq!(next(&near.connections), Seen::Connection(Established, b"at last".to_vec()));
    assert_eq!(next(&far.connections), told(Established));
}

#[test]
fn receives_posted_before_the_connection_take_its_first_messages() {
    let (near, far) = (Side::new(&Plan::default()), Side::new(&Plan { merged: true, ..Plan::default() }));
    near.receive(1, 8);
    far.receive(2, 8);
    accept(&near, &far);
    assert_eq!(next(&near.connections), Seen::Connection(Established, b"welcome".to_vec()));
    near.send(3, 8, PLAIN).unwrap();
    // In one dispatcher ESTABLISHED is first, whichever came first.
    assert_eq!(far.next(), told(Established));
    assert_eq!(far.next(), done(2, TransferKind::Receive, 8));
    assert_eq!(near.next(), done(3, TransferKind::Send, 8));
    far.send(4, 8, PLAIN).unwrap();
    assert_eq!(near.next(), done(1, TransferKind::Receive, 8));
}

#[test]
fn an_abrupt_disconnect_flushes_on_both_sides_and_is_told_behind_it() {
    let plan = Plan { merged: true, ..Plan::default() };
    let (near, far) = (Side::new(&plan), Side::new(&plan));
    accept(&near, &far);
    assert!(matches!(near.next(), Seen::Connection(Established, _)));
    assert_eq!(far.next(), told(Established));
    near.receive(1, 8);
    far.receive(2, 8);
    near.endpoint.disconnect(false).unwrap();
    for (side, cookie) in [(&near, 1), (&far, 2)] {
        assert_eq!(side.next(), flushed(cookie, TransferKind::Receive));
        assert_eq!(side.next(), told(Disconnected));
        assert_eq!(state(side), EndpointState::Disconnected);
        // Again: nothing happens.
        side.endpoint.disconnect(false).unwrap();
        side.endpoint.disconnect(true).unwrap();
        assert!(side.is_quiet());
        side.endpoint.reset().unwrap();
    }
    connect_merged(&near, &far);
}

fn connect_merged(near: &Side, far: &Side) {
    accept(near, far);
    assert!(matches!(near.next(), Seen::Connection(Established, _)));
    assert_eq!(far.next(), told(Established));
}

#[test]
fn a_graceful_disconnect_lets_requests_finish_and_takes_no_more() {
    let (near, far) = pair();
    // Nobody has posted a receive: the send waits.
    near.send(1, 8, PLAIN).unwrap();
    near.endpoint.disconnect(true).unwrap();
    assert_eq!(state(&near), EndpointState::DisconnectPending);
    assert_eq!(near.send(2, 8, PLAIN), Err(bad_state(StateKind::EpDisconnectPending)));
    near.endpoint.disconnect(true).unwrap();
    assert_eq!(dequeue(&near.connections), Err(DatError::QUEUE_EMPTY));
    far.receive(3, 8);
    assert_eq!(far.next(), done(3, TransferKind::Receive, 8));
    assert_eq!(near.next(), done(1, TransferKind::Send, 8));
    assert_eq!(next(&near.connections), told(Disconnected));
    assert_eq!(next(&far.connections), told(Disconnected));
    // One that waits in vain can still be cut short.
    let (near, far) = pair();
    near.send(1, 8, PLAIN).unwrap();
    near.endpoint.disconnect(true).unwrap();
    near.endpoint.disconnect(false).unwrap();
    assert_eq!(near.next(), flushed(1, TransferKind::Send));
    assert_eq!(next(&near.connections), told(Disconnected));
    assert_eq!(next(&far.connections), told(Disconnected));
    // And one with nothing under way is over at once.
    let (near, _far) = pair();
    near.endpoint.disconnect(true).unwrap();
    assert_eq!(state(&near), EndpointState::Disconnected);
}

#[test]
fn what_is_not_connected_cannot_be_disconnected() {
    let (near, far) = (Side::new(&Plan::default()), Side::new(&Plan::default()));
    let (requests, conn_qual, _point) = listening(&far.adapter, 4);
    assert_eq!(near.endpoint.disconnect(false), Err(bad_state(StateKind::EpUnconnected)));
    let reserved =
        ReservedServicePoint::create(&far.adapter, conn_qual + 70_000, &far.endpoint, &requests).unwrap();
    assert_eq!(far.endpoint.disconnect(false), Err(bad_state(StateKind::EpReserved)));
    ask(&near, conn_qual + 70_000, b"");
    let (request, _) = next_request(&requests);
    assert_eq!(far.endpoint.disconnect(true), Err(bad_state(StateKind::EpPassiveConnectionPending)));
    // Attempts can be given up, on either side.
    near.endpoint.disconnect(true).unwrap();
    assert_eq!(next(&near.connections), told(Disconnected));
    request.accept(None, b"").unwrap();
    assert_eq!(next(&far.connections), told(AcceptCompletionError));
    near.endpoint.reset().unwrap();
    far.endpoint.reset().unwrap();
    reserved.free().unwrap();
    ask(&near, conn_qual, b"");
    let (request, _) = next_request(&requests);
    request.accept(Some(&far.endpoint), b"").unwrap();
    far.endpoint.disconnect(false).unwrap();
    // The peer may have known of the connection already.
    let mut ended = next(&near.connections);
    if let Seen::Connection(Established, _) = ended {
        ended = next(&near.connections);
    }
    assert!(ended == told(Disconnected) || ended == told(NonPeerRejected), "{ended:?}");
    let mut own = next(&far.connections);
    if own == told(Established) {
        own = next(&far.connections);
    }
    assert_eq!(own, told(Disconnected));
}

#[test]
fn a_failed_request_breaks_the_connection_on_both_sides() {
    let (near, far) = pair();
    far.receive(9, 8);
    let wrong = nonic_dat::RemoteSegment { context: 0xdead_0000, ..far.remote(0, 8) };
    near.endpoint.post_rdma_write(std::iter::once(near.piece(0, 8)), 1, wrong, PLAIN).unwrap();
    assert!(matches!(near.next(), Seen::Transfer { cookie: 1, .. }));
    assert_eq!(next(&near.connections), told(Broken));
    assert_eq!(next(&far.connections), told(Broken));
    assert_eq!(far.next(), flushed(9, TransferKind::Receive));
    for side in [&near, &far] {
        assert_eq!(state(side), EndpointState::Disconnected);
        assert_eq!(dequeue(&side.connections), Err(DatError::QUEUE_EMPTY));
        side.endpoint.reset().unwrap();
    }
    connect(&near, &far);
}

#[test]
fn freeing_an_endpoint_disconnects_its_peer() {
    let (near, far) = pair();
    near.endpoint.free().unwrap();
    assert_eq!(next(&far.connections), told(Disconnected));
    assert_eq!(dequeue(&near.connections), Err(DatError::QUEUE_EMPTY));
    // So does closing the adapter.
    let (near, far) = pair();
    near.adapter.close(false).unwrap();
    assert_eq!(next(&far.connections), told(Disconnected));
    // A request that was not answered is refused.
    let (near, far) = (Side::new(&Plan::default()), Side::new(&Plan::default()));
    let (requests, conn_qual, _point) = listening(&far.adapter, 4);
    ask(&near, conn_qual, b"");
    let (request, _) = next_request(&requests);
    far.adapter.close(false).unwrap();
    assert_eq!(next(&near.connections), told(NonPeerRejected));
    assert_eq!(request.reject(b""), Err(bad_handle(HandleKind::ConnectionRequest)));
}

#[test]
fn a_connection_can_be_asked_for_where_another_leads() {
    let (near, far) = (Side::new(&Plan::default()), Side::new(&Plan::default()));
    let (requests, conn_qual, _point) = listening(&far.adapter, 4);
    ask(&near, conn_qual, b"");
    next_request(&requests).0.accept(Some(&far.endpoint), b"").unwrap();
    assert!(matches!(next(&near.connections), Seen::Connection(Established, _)));
    let second = Side::new(&Plan::default());
    let duplicate =
        |timeout, data: &[u8], qos| second.endpoint.duplicate_connect(&near.endpoint, timeout, data, qos);
    assert_eq!(duplicate(Some(Duration::ZERO), b"", 0), Err(argument(3)));
    assert_eq!(duplicate(PATIENCE, &[0; 257], 0), Err(argument(4)));
    assert_eq!(duplicate(PATIENCE, b"", 2), Err(DatError::MODEL_NOT_SUPPORTED));
    let unconnected = Side::new(&Plan::default());
    let refused = second.endpoint.duplicate_connect(&unconnected.endpoint, PATIENCE, b"", 0);
    assert_eq!(refused, Err(bad_state(StateKind::EpUnconnected)));
    duplicate(PATIENCE, b"too", 0).unwrap();
    let (request, at) = next_request(&requests);
    assert_eq!((at, &*request.facts().unwrap().private_data), (conn_qual, &b"too"[..]));
    request.accept(Some(&Side { endpoint: unconnected.endpoint.clone(), ..far }.endpoint), b"").unwrap_err();
    request.reject(b"").unwrap();
    assert_eq!(next(&second.connections), told(PeerRejected));
}

#[test]
fn a_qualifier_is_taken_once_on_this_host() {
    let (one, two) = (open(true), open(true));
    let requests = |adapter| EventDispatcher::create(adapter, 4, None, ALL).unwrap();
    let (first, second) = (requests(&one), requests(&two));
    let (conn_qual, point) = PublicServicePoint::create_any(&one, &first, false).unwrap();
    let in_use = DatError::bare(Kind::ConnQualInUse);
    let refused = |result: DatResult<Arc<PublicServicePoint>>| result.unwrap_err();
    assert_eq!(refused(PublicServicePoint::create(&one, conn_qual, &first, false)), in_use);
    assert_eq!(refused(PublicServicePoint::create(&two, conn_qual, &second, true)), in_use);
    let side = Side::new(&Plan::default());
    let own = requests(&side.adapter);
    let reserved = ReservedServicePoint::create(&side.adapter, conn_qual, &side.endpoint, &own);
    assert_eq!(reserved.unwrap_err(), in_use);
    assert_eq!(state(&side), EndpointState::Unconnected);
    // Dispatchers of another adapter, or of other streams.
    let no_dispatcher = bad_handle(HandleKind::RequestDispatcherOfRequests);
    assert_eq!(refused(PublicServicePoint::create(&one, conn_qual + 70_000, &second, false)), no_dispatcher);
    let other = EventDispatcher::create(&one, 4, None, Streams::CONNECTION).unwrap();
    assert_eq!(refused(PublicServicePoint::create(&one, conn_qual + 70_000, &other, false)), no_dispatcher);
    let facts = point.facts().unwrap();
    assert_eq!((facts.conn_qual, facts.makes_endpoints), (conn_qual, false));
    assert!(Arc::ptr_eq(&facts.dispatcher, &first));
    assert_eq!(first.free(), Err(bad_state(StateKind::EvdInUse)));
    point.free().unwrap();
    assert_eq!(point.free(), Err(bad_handle(HandleKind::PublicServicePoint)));
    assert_eq!(point.facts().unwrap_err(), bad_handle(HandleKind::PublicServicePoint));
    first.free().unwrap();
    // Numbers are 64 bits wide.
    let wide =
        PublicServicePoint::create(&two, u64::MAX - u64::from(std::process::id()), &second, false).unwrap();
    wide.free().unwrap();
    second.free().unwrap();
    two.close(true).unwrap();
}

#[test]
fn a_reserved_point_takes_one_request_for_its_endpoint() {
    let (near, far) = (Side::new(&Plan::default()), Side::new(&Plan::default()));
    let requests = EventDispatcher::create(&far.adapter, 4, None, ALL).unwrap();
    let conn_qual = 70_000 + u64::from(std::process::id()) * 16;
    let create = || ReservedServicePoint::create(&far.adapter, conn_qual, &far.endpoint, &requests);
    let point = create().unwrap();
    assert_eq!(state(&far), EndpointState::Reserved);
    assert_eq!(create().unwrap_err(), bad_state(StateKind::EpReserved));
    assert_eq!(far.endpoint.free(), Err(bad_state(StateKind::EpReserved)));
    assert_eq!(far.endpoint.reset(), Err(bad_state(StateKind::EpReserved)));
    let facts = point.facts().unwrap();
    assert!(facts.conn_qual == conn_qual && Arc::ptr_eq(&facts.endpoint, &far.endpoint));
    // Given back unused.
    point.free().unwrap();
    assert_eq!(state(&far), EndpointState::Unconnected);
    assert_eq!(point.free(), Err(bad_handle(HandleKind::ReservedServicePoint)));

    let point = create().unwrap();
    ask(&near, conn_qual, b"one");
    let (request, _) = next_request(&requests);
    assert_eq!(state(&far), EndpointState::PassiveConnectionPending);
    assert!(request.facts().unwrap().endpoint.is_some_and(|brought| Arc::ptr_eq(&brought, &far.endpoint)));
    // A second request finds nobody.
    let third = Side::new(&Plan::default());
    ask(&third, conn_qual, b"two");
    assert_eq!(next(&third.connections), told(NonPeerRejected));
    // Rejected: the endpoint is free for something else, the point is used up.
    assert_eq!(request.accept(Some(&far.endpoint), b""), Err(bad_handle(HandleKind::Endpoint)));
    request.reject(b"").unwrap();
    assert_eq!(state(&far), EndpointState::Unconnected);
    assert_eq!(next(&near.connections), told(PeerRejected));
    near.endpoint.reset().unwrap();
    ask(&near, conn_qual, b"three");
    assert_eq!(next(&near.connections), told(NonPeerRejected));
    near.endpoint.reset().unwrap();
    point.free().unwrap();

    let point = create().unwrap();
    ask(&near, conn_qual, b"four");
    let (request, _) = next_request(&requests);
    point.free().unwrap();
    assert_eq!(state(&far), EndpointState::PassiveConnectionPending);
    request.accept(None, b"welcome").unwrap();
    assert_eq!(next(&near.connections), Seen::Connection(Established, b"welcome".to_vec()));
    assert_eq!(next(&far.connections), told(Established));
    assert_eq!(far.endpoint.facts().unwrap().local_port, conn_qual);
}

#[test]
fn a_point_can_make_an_endpoint_for_each_request() {
    let (near, far) = (Side::new(&Plan::default()), Side::new(&Plan::default()));
    let requests = EventDispatcher::create(&far.adapter, 4, None, ALL).unwrap();
    let (conn_qual, _point) = PublicServicePoint::create_any(&far.adapter, &requests, true).unwrap();
    ask(&near, conn_qual, b"");
    let (request, _) = next_request(&requests);
    let made = request.facts().unwrap().endpoint.unwrap();
    assert_eq!(made.state(), EndpointState::TentativeConnectionPending);
    assert_eq!(made.free(), Err(bad_state(StateKind::EpTentativeConnectionPending)));
    assert_eq!(made.disconnect(false), Err(bad_state(StateKind::EpTentativeConnectionPending)));
    // It has nothing yet.
    assert_eq!(request.accept(None, b""), Err(bad_handle(HandleKind::Endpoint)));
    made.modify(EndpointChange {
        zone: Some(Some(Arc::clone(&far.zone))),
        receive: Some(Some(Arc::clone(&far.transfers))),
        request: Some(Some(Arc::clone(&far.transfers))),
        connect: Some(Some(Arc::clone(&far.connections))),
        ..EndpointChange::default()
    })
    .unwrap();
    made.post_receive(std::iter::once(far.piece(4096, 8)), 5, PLAIN).unwrap();
    request.accept(None, b"").unwrap();
    assert!(matches!(next(&near.connections), Seen::Connection(Established, _)));
    assert_eq!(next(&far.connections), told(Established));
    near.send(6, 8, PLAIN).unwrap();
    assert_eq!(far.next(), done(5, TransferKind::Receive, 8));
    near.endpoint.disconnect(false).unwrap();
    assert_eq!(next(&near.connections), told(Disconnected));
    near.endpoint.reset().unwrap();
    // Rejected, it goes.
    ask(&near, conn_qual, b"");
    let (request, _) = next_request(&requests);
    let made = request.facts().unwrap().endpoint.unwrap();
    request.reject(b"").unwrap();
    assert_eq!(made.facts().unwrap_err(), bad_handle(HandleKind::Endpoint));
}

#[test]
fn a_request_can_be_handed_to_another_point() {
    let (near, far) = (Side::new(&Plan::default()), Side::new(&Plan::default()));
    let other = Side::new(&Plan::default());
    let (requests, conn_qual, _point) = listening(&far.adapter, 4);
    let (elsewhere, second, _second_point) = listening(&other.adapter, 4);
    ask(&near, conn_qual, b"wandering");
    let (request, _) = next_request(&requests);
    request.hand_off(second).unwrap();
    assert_eq!(request.reject(b""), Err(bad_handle(HandleKind::ConnectionRequest)));
    let (request, at) = next_request(&elsewhere);
    assert_eq!((at, &*request.facts().unwrap().private_data), (second, &b"wandering"[..]));
    assert_eq!(request.facts().unwrap().address, near.adapter.address());
    request.accept(Some(&other.endpoint), b"here").unwrap();
    assert_eq!(next(&near.connections), Seen::Connection(Established, b"here".to_vec()));
    assert_eq!(next(&other.connections), told(Established));
    other.receive(1, 8);
    near.send(2, 8, PLAIN).unwrap();
    assert_eq!(other.next(), done(1, TransferKind::Receive, 8));
    // A reserved point's endpoint is free again.
    let near = Side::new(&Plan::default());
    let conn_qual = 70_001 + u64::from(std::process::id()) * 16;
    let _reserved = ReservedServicePoint::create(&far.adapter, conn_qual, &far.endpoint, &requests).unwrap();
    ask(&near, conn_qual, b"");
    let (request, _) = next_request(&requests);
    request.hand_off(second).unwrap();
    assert_eq!(state(&far), EndpointState::Unconnected);
    next_request(&elsewhere).0.reject(b"").unwrap();
    assert_eq!(next(&near.connections), told(PeerRejected));
}

#[test]
fn many_connections_come_and_go_on_the_same_endpoints() {
    let (near, far) = (Side::new(&Plan::default()), Side::new(&Plan::default()));
    let (requests, conn_qual, _point) = listening(&far.adapter, 4);
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let mut counts = Vec::new();
    for turn in 0..2000u64 {
        far.receive(turn, 8);
        ask(&near, conn_qual, b"");
        next_request(&requests).0.accept(Some(&far.endpoint), b"").unwrap();
        assert!(matches!(next(&near.connections), Seen::Connection(Established, _)));
        near.send(turn, 8, PLAIN).unwrap();
        assert_eq!(far.next(), done(turn, TransferKind::Receive, 8));
        assert_eq!(near.next(), done(turn, TransferKind::Send, 8));
        assert_eq!(next(&far.connections), told(Established));
        let (ends, other) = if turn % 2 == 0 { (&near, &far) } else { (&far, &near) };
        ends.endpoint.disconnect(turn % 3 == 0).unwrap();
        for side in [ends, other] {
            assert_eq!(next(&side.connections), told(Disconnected));
            side.endpoint.reset().unwrap();
        }
        if turn % 500 == 499 {
            counts.push(descriptors());
        }
    }
    // Other tests of this process come and go meanwhile.
    assert!(counts.iter().all(|count| *count < 700), "{counts:?}");
}

#[test]
fn ten_thousand_endpoints_are_connected_at_once() {
    let many: usize =
        std::env::var("NONIC_TEST_MANY").ok().and_then(|text| text.parse().ok()).unwrap_or(1000);
    let near = Side::new(&Plan { length: 64, ..Plan::default() });
    let connections =
        EventDispatcher::create(&near.adapter, 4 * many as i32, None, Streams::CONNECTION).unwrap();
    let (requests, conn_qual, _point) = listening(&near.adapter, 2 * many as i32);
    let setup = || EndpointSetup {
        zone: Some(Arc::clone(&near.zone)),
        receive: Some(Arc::clone(&near.transfers)),
        request: Some(Arc::clone(&near.transfers)),
        connect: Some(Arc::clone(&connections)),
        ..EndpointSetup::default()
    };
    let make = || (0..many).map(|_| Endpoint::create(&near.adapter, setup()).unwrap()).collect::<Vec<_>>();
    let (asking, serving) = (make(), make());
    let since = Instant::now();
    for endpoint in &asking {
        endpoint.connect(near.adapter.address(), conn_qual, None, b"", 0, 0).unwrap();
    }
    for endpoint in &serving {
        next_request(&requests).0.accept(Some(endpoint), b"").unwrap();
    }
    for _ in 0..2 * many {
        assert!(matches!(next(&connections), Seen::Connection(Established, _)));
    }
    println!("{many} connections in {:?}", since.elapsed());
    let since = Instant::now();
    asking.iter().for_each(|endpoint| endpoint.free().unwrap());
    for _ in 0..many {
        assert_eq!(next(&connections), told(Disconnected));
    }
    println!("ended in {:?}", since.elapsed());
    serving.iter().for_each(|endpoint| endpoint.free().unwrap());
}
