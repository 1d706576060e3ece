//! Service points: whose a qualifier is, and who answers there.

use super::*;

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
