//! Asking for a connection, and what becomes of it.

use super::*;

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
    // An address of some link, and nobody knows of which: no way leads to it, whatever networks there are.
    near.receive(1, 8);
    near.endpoint.connect("[fe80::1]:0".parse().unwrap(), conn_qual, None, b"", 0, 0).unwrap();
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
