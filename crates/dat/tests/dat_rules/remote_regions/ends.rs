//! The end of contexts, of binds under way, and of what they lead to.

use super::*;

/// RMR-8.
#[test]
fn a_bind_that_fails_later_breaks_the_connection() {
    let (server, client) = connected(true);
    let remote = RemoteRegion::create(&server.zone).unwrap();
    let other = RemoteRegion::create(&server.zone).unwrap();
    let segment = server.piece(0, 16);
    let kept = server.bind(&other, segment, REMOTE);
    server.post_send(0, 0, 8).unwrap();
    remote.bind(segment, REMOTE, &server.endpoint, 1, CompletionFlags::SUPPRESS).unwrap();
    other.bind(segment, REMOTE, &server.endpoint, 2, CompletionFlags::SUPPRESS).unwrap();
    remote.free().unwrap();
    client.post_receive(1, 0, 8).unwrap();
    client.expect(1, TransferStatus::Success);
    server.expect(0, TransferStatus::Success);
    // Failures are shown, suppressed or not.
    server.expect_bind(1, TransferStatus::BindFailed);
    server.expect_bind(2, TransferStatus::Flushed);
    expect_broken(&server, &client);
    assert_eq!(server.endpoint.state(), EndpointState::Disconnected);
    assert_eq!(other.facts().context, kept);
    other.free().unwrap();
    server.region.free().unwrap();
}

/// RMR-12.
#[test]
fn binds_that_a_disconnect_finds_waiting_are_flushed() {
    let (server, client) = connected(true);
    let remote = RemoteRegion::create(&server.zone).unwrap();
    server.post_send(0, 0, 8).unwrap();
    remote.bind(server.piece(0, 16), REMOTE, &server.endpoint, 1, PLAIN).unwrap();
    server.endpoint.disconnect(false).unwrap();
    server.expect(0, TransferStatus::Flushed);
    server.expect_bind(1, TransferStatus::Flushed);
    assert_eq!(server.connection_event(), ConnectionEvent::Disconnected);
    assert_eq!(client.connection_event(), ConnectionEvent::Disconnected);
    assert_eq!(remote.facts().context, 0);
    server.region.free().unwrap();
}

/// Binds of an endpoint that is freed hold nothing.
#[test]
fn binds_go_with_their_endpoint() {
    let (server, _client) = connected(true);
    let remote = RemoteRegion::create(&server.zone).unwrap();
    server.post_send(0, 0, 8).unwrap();
    remote.bind(server.piece(0, 16), REMOTE, &server.endpoint, 1, PLAIN).unwrap();
    assert_eq!(server.region.free(), Err(bad_state(StateKind::LmrInUse)));
    server.endpoint.free().unwrap();
    server.region.free().unwrap();
    remote.free().unwrap();
}

/// RMR-7 for `dat_rmr_free`.
#[test]
fn a_region_that_is_freed_takes_its_context_with_it() {
    for coherent in [true, false] {
        let (server, client) = connected(coherent);
        let remote = RemoteRegion::create(&server.zone).unwrap();
        let segment = server.piece(0, 16);
        let context = server.bind(&remote, segment, REMOTE);
        assert_eq!(server.zone.free(), Err(bad_state(StateKind::PzInUse)));
        remote.free().unwrap();
        client.pages.fill(1);
        assert_eq!(client.write(far(context, segment)), TransferStatus::RemoteAccess);
        show(&server);
        assert_bytes(&server.pages, 0, 16, 0);
        server.region.free().unwrap();
    }
}

/// What is suppressed holds nothing once it is done.
#[test]
fn a_region_can_be_freed_behind_a_suppressed_unbind() {
    let (server, client) = connected(true);
    let remote = RemoteRegion::create(&server.zone).unwrap();
    let bind =
        |segment| remote.bind(segment, REMOTE, &server.endpoint, 5, CompletionFlags::SUPPRESS).unwrap();
    bind(server.piece(0, 16));
    assert_eq!(server.region.free(), Err(bad_state(StateKind::LmrInUse)));
    bind(NOWHERE);
    client.post_receive(0, 0, 8).unwrap();
    server.post_send(0, 0, 8).unwrap();
    server.expect(0, TransferStatus::Success);
    server.region.free().unwrap();
}
