//! Binds that cannot be.

use super::*;

/// RMR-4.
#[test]
fn flags_are_those_of_a_bind_and_of_the_endpoint() {
    let flags = CompletionFlags::UNSIGNALLED.bits();
    for unsignalled in [false, true] {
        let attributes =
            EndpointAttributes { request_flags: if unsignalled { flags } else { 0 }, ..Default::default() };
        let (server, client) = (Side::with(true, attributes), Side::new(true));
        connect(&server, &client);
        let remote = RemoteRegion::create(&server.zone).unwrap();
        let segment = server.piece(0, 8);
        let bind = |flags| remote.bind(segment, REMOTE, &server.endpoint, 4, flags);
        for wrong in [CompletionFlags::SOLICITED_WAIT, CompletionFlags::EVD_THRESHOLD] {
            assert_eq!(bind(wrong), Err(DatError::argument(6)));
        }
        let silent = bind(CompletionFlags::UNSIGNALLED);
        if unsignalled {
            silent.unwrap();
            server.expect_bind(4, TransferStatus::Success);
        } else {
            assert_eq!(silent, Err(DatError::argument(6)));
            assert_eq!(remote.facts().context, 0);
        }
        bind(CompletionFlags::BARRIER_FENCE).unwrap();
        server.expect_bind(4, TransferStatus::Success);
        // Of a suppressed success nothing is to be seen but what it did.
        let context = bind(CompletionFlags::SUPPRESS).unwrap();
        // What is posted behind it begins when it is done.
        client.post_receive(1, 0, 8).unwrap();
        server.post_send(2, 0, 8).unwrap();
        server.expect(2, TransferStatus::Success);
        client.expect(1, TransferStatus::Success);
        assert!(server.has_nothing());
        assert_eq!(remote.facts().context, context);
        assert_eq!(client.write(far(context, segment)), TransferStatus::Success);
    }
}

/// RMR-9: and a peer can do only what the bind allows.
#[test]
fn privileges_of_a_bind_are_those_of_the_region_or_fewer() {
    for coherent in [true, false] {
        for (privileges, reads, writes) in [
            (Privileges::NONE, false, false),
            (Privileges::LOCAL_READ | Privileges::LOCAL_WRITE, false, false),
            (Privileges::REMOTE_READ, true, false),
            (Privileges::REMOTE_WRITE, false, true),
            (Privileges::ALL, true, true),
        ] {
            for write in [false, true] {
                let (server, client) = connected(coherent);
                let remote = RemoteRegion::create(&server.zone).unwrap();
                let segment = server.piece(0, 32);
                server.pages.fill(1);
                let whole = server.piece(0, server.pages.length());
                server.adapter.sync_rdma_read(std::iter::once(whole)).unwrap();
                client.pages.fill(2);
                let remote_segment = far(server.bind(&remote, segment, privileges), segment);
                let (status, allowed) = match write {
                    true => (client.write(remote_segment), writes),
                    false => (client.read(remote_segment), reads),
                };
                show(&server);
                let wanted = if allowed { TransferStatus::Success } else { TransferStatus::RemoteAccess };
                assert_eq!(status, wanted, "{privileges:?}, write {write}");
                assert_bytes(&server.pages, 0, 32, if write && allowed { 2 } else { 1 });
                assert_bytes(&client.pages, 0, 32, if !write && allowed { 1 } else { 2 });
            }
        }
    }
}

/// RMR-9, RMR-13.
#[test]
fn remote_write_needs_local_write_of_the_region() {
    let (server, _client) = connected(true);
    let remote = RemoteRegion::create(&server.zone).unwrap();
    let privileges = Privileges::LOCAL_READ | Privileges::REMOTE_WRITE;
    let region = register(&server.zone, &server.pages, privileges).unwrap();
    let bind = |privileges| remote.bind(part(&region, 0, 8), privileges, &server.endpoint, 0, PLAIN);
    assert_eq!(bind(Privileges::REMOTE_WRITE), Err(privileges_violation(AccessKind::RdmaWrite)));
    assert_eq!(bind(Privileges::ALL), Err(privileges_violation(AccessKind::RdmaWrite)));
    assert_eq!(remote.facts().context, 0);
    assert!(server.has_nothing());
}

#[test]
fn remote_read_needs_local_read_of_the_region() {
    let (server, _client) = connected(true);
    let remote = RemoteRegion::create(&server.zone).unwrap();
    let region = register(&server.zone, &server.pages, Privileges::LOCAL_WRITE).unwrap();
    let bind = |privileges| remote.bind(part(&region, 0, 8), privileges, &server.endpoint, 0, PLAIN);
    assert_eq!(bind(Privileges::REMOTE_READ), Err(privileges_violation(AccessKind::RdmaRead)));
    assert_eq!(bind(Privileges::ALL), Err(privileges_violation(AccessKind::RdmaRead)));
    assert_eq!(remote.facts().context, 0);
    assert!(server.has_nothing());
    bind(Privileges::REMOTE_WRITE).unwrap();
    server.expect_bind(0, TransferStatus::Success);
}

/// RMR-13.
#[test]
fn a_bind_that_cannot_be_is_refused_and_changes_nothing() {
    for coherent in [true, false] {
        let (server, client) = connected(coherent);
        let remote = RemoteRegion::create(&server.zone).unwrap();
        let segment = server.piece(0, 16);
        let held = server.bind(&remote, segment, REMOTE);
        let bind = |segment| remote.bind(segment, REMOTE, &server.endpoint, 0, PLAIN);
        let length = server.pages.length();
        let gone = register(&server.zone, &server.pages, Privileges::ALL).unwrap();
        let freed = part(&gone, 0, 8);
        gone.free().unwrap();
        for wrong in [
            server.piece(0, length + 1),
            server.piece(length, 1),
            server.piece(u64::MAX, 1),
            server.piece(1, u64::MAX),
            Segment { context: server.region.facts().remote_context, ..segment },
            Segment { context: 0, ..segment },
            freed,
            client.piece(0, 8),
        ] {
            assert_eq!(bind(wrong), Err(DatError::argument(2)), "{wrong:?}");
        }
        let other_zone = ProtectionZone::create(&server.adapter).unwrap();
        let violation = |kind| Err(DatError::new(Kind::ProtectionViolation, Subtype::Protection(kind)));
        let foreign = register(&other_zone, &server.pages, Privileges::ALL).unwrap();
        assert_eq!(bind(part(&foreign, 0, 8)), violation(AccessKind::RdmaWrite));
        let strange = RemoteRegion::create(&other_zone).unwrap();
        for (privileges, kind) in
            [(REMOTE, AccessKind::RdmaWrite), (Privileges::REMOTE_READ, AccessKind::RdmaRead)]
        {
            let refused = strange.bind(segment, privileges, &server.endpoint, 0, PLAIN);
            assert_eq!(refused, violation(kind));
            // The endpoint is of another zone than both.
            let refused = strange.bind(part(&foreign, 0, 8), privileges, &server.endpoint, 0, PLAIN);
            assert_eq!(refused, violation(kind));
            assert_eq!(strange.bind(NOWHERE, privileges, &server.endpoint, 0, PLAIN), violation(kind));
        }
        let freed = RemoteRegion::create(&server.zone).unwrap();
        freed.free().unwrap();
        assert_eq!(freed.free(), Err(bad_handle(HandleKind::RemoteRegion)));
        let refused = freed.bind(segment, REMOTE, &server.endpoint, 0, PLAIN);
        assert_eq!(refused, Err(bad_handle(HandleKind::RemoteRegion)));
        assert!(server.has_nothing());
        assert_eq!(remote.facts().context, held);
        assert_eq!(client.write(far(held, segment)), TransferStatus::Success);
    }
}

/// RMR-13.
#[test]
fn a_bind_needs_a_dispatcher_that_takes_its_completion() {
    let (server, client) = (Side::new(true), Side::new(true));
    let transfers = EventDispatcher::create(&server.adapter, 16, None, Streams::DATA_TRANSFER).unwrap();
    let change = EndpointChange { request: Some(Some(transfers)), ..EndpointChange::default() };
    server.endpoint.modify(change).unwrap();
    connect(&server, &client);
    let remote = RemoteRegion::create(&server.zone).unwrap();
    let refused = remote.bind(server.piece(0, 8), REMOTE, &server.endpoint, 0, PLAIN);
    assert_eq!(refused, Err(DatError::MODEL_NOT_SUPPORTED));
    server.region.free().unwrap();
}

/// RMR-12, RMR-13.
#[test]
fn a_bind_needs_an_endpoint_that_is_or_was_connected() {
    let (server, client) = connected(true);
    let remote = RemoteRegion::create(&server.zone).unwrap();
    let segment = server.piece(0, 16);
    let fresh = server.endpoint_of(&server.zone);
    let bind = |endpoint| remote.bind(segment, REMOTE, endpoint, 6, PLAIN);
    assert_eq!(bind(&fresh), Err(bad_state(StateKind::EpUnconnected)));
    assert_eq!(remote.bind(NOWHERE, REMOTE, &fresh, 6, PLAIN), Err(bad_state(StateKind::EpUnconnected)));
    let context = server.bind(&remote, segment, REMOTE);
    client.endpoint.disconnect(false).unwrap();
    assert_eq!(client.connection_event(), ConnectionEvent::Disconnected);
    assert_eq!(server.connection_event(), ConnectionEvent::Disconnected);
    bind(&server.endpoint).unwrap();
    server.expect_bind(6, TransferStatus::Flushed);
    assert!(server.has_nothing());
    // Nothing has changed, so the region is bound; and can be freed all the same.
    assert_eq!((remote.facts().context, remote.facts().segment), (context, segment));
    assert_eq!(server.region.free(), Err(bad_state(StateKind::LmrInUse)));
    remote.free().unwrap();
    server.region.free().unwrap();
    server.endpoint.reset().unwrap();
    assert_eq!(bind(&server.endpoint), Err(bad_handle(HandleKind::RemoteRegion)));
}

/// RMR-13.
#[test]
fn a_bind_takes_a_place_among_the_requests() {
    let (server, client) = connected(true);
    let places = server.endpoint.facts().unwrap().attributes.max_requests as u64;
    let remote = RemoteRegion::create(&server.zone).unwrap();
    let segment = server.piece(0, 16);
    let bind = |cookie| remote.bind(segment, REMOTE, &server.endpoint, cookie, PLAIN);
    let held = server.bind(&remote, server.piece(100, 8), REMOTE);
    // A message that nobody takes holds up everything behind it.
    server.post_send(0, 0, 8).unwrap();
    for cookie in 1..places {
        bind(cookie).unwrap();
    }
    let full = bind(places).unwrap_err();
    assert_eq!(full.kind, Kind::InsufficientResources);
    assert_eq!(full.subtype, Subtype::Resource(Resource::Credits));
    assert_eq!((remote.facts().context, remote.facts().segment), (held, server.piece(100, 8)));
    assert_eq!(server.region.free(), Err(bad_state(StateKind::LmrInUse)));
    client.post_receive(1, 0, 8).unwrap();
    client.expect(1, TransferStatus::Success);
    server.expect(0, TransferStatus::Success);
    for cookie in 1..places {
        server.expect_bind(cookie, TransferStatus::Success);
    }
    assert_eq!(remote.facts().segment, segment);
    server.bind(&remote, NOWHERE, REMOTE);
    server.region.free().unwrap();
}
