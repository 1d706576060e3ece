//! The end of connections, by either side.

use super::*;

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
