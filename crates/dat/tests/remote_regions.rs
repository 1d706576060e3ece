//! Remote memory regions: `dat_rmr_create(3)`, `dat_rmr_bind(3)`, `dat_rmr_free(3)`, with a peer in the same process.

mod common;

use std::collections::HashSet;
use std::sync::Arc;

use common::peers::{PLAIN, Side, connect, connect_endpoints, connected, expect_broken, far};
use common::{Pages, bad_handle, bad_state, part, privileges_violation, register};
use nonic_dat::{
    AccessKind, CompletionFlags, ConnectionEvent, DatError, EndpointAttributes, EndpointChange,
    EndpointState, EventDispatcher, HandleKind, Kind, Privileges, ProtectionZone, RemoteRegion, Resource,
    Segment, StateKind, Streams, Subtype, TransferStatus,
};

const NOWHERE: Segment = Segment { context: 0, address: 0, length: 0 };
const REMOTE: Privileges = Privileges::REMOTE;

/// Bytes of the server's memory, and what they should be.
#[track_caller]
fn assert_bytes(pages: &Pages, offset: usize, length: usize, byte: u8) {
    (offset..offset + length).for_each(|at| assert_eq!(pages.read(at), byte, "at {at}"));
}

/// Shows the server's program what peers wrote, if that has to be asked for.
fn show(server: &Side) {
    server.adapter.sync_rdma_write(std::iter::once(server.piece(0, server.pages.length()))).unwrap();
}

/// RMR-1, RMR-2, RMR-3, RMR-11: and what is bound can be used, and no more than that.
#[test]
fn a_bind_gives_a_context_for_a_part_of_a_region() {
    for coherent in [true, false] {
        let (server, client) = connected(coherent);
        let remote = RemoteRegion::create(&server.zone).unwrap();
        let facts = remote.facts();
        assert_eq!((facts.segment, facts.privileges, facts.context), (NOWHERE, Privileges::NONE, 0));
        assert!(Arc::ptr_eq(&facts.zone, &server.zone));
        let segment = server.piece(100, 200);
        for cookie in [0, 0, u64::MAX] {
            let context = remote.bind(segment, REMOTE, &server.endpoint, cookie, PLAIN).unwrap();
            server.expect_bind(cookie, TransferStatus::Success);
            let facts = remote.facts();
            assert_eq!((facts.segment, facts.privileges, facts.context), (segment, REMOTE, context));
            assert_ne!(context, 0);
        }
        let context = remote.facts().context;
        client.pages.fill(5);
        assert_eq!(client.write(far(context, segment)), TransferStatus::Success);
        show(&server);
        assert_bytes(&server.pages, 0, 100, 0);
        assert_bytes(&server.pages, 100, 200, 5);
        assert_bytes(&server.pages, 300, 100, 0);
        assert_eq!(client.read(far(context, segment)), TransferStatus::Success);
        let beyond = server.piece(100, 201);
        assert_eq!(client.write(far(context, beyond)), TransferStatus::RemoteAccess);
        show(&server);
        assert_bytes(&server.pages, 300, 100, 0);
        expect_broken(&server, &client);
    }
}

/// RMR-7, LMR-14: and nothing moves.
#[test]
fn the_previous_context_is_dead_when_the_next_bind_is_done() {
    for coherent in [true, false] {
        for unbind in [false, true] {
            let (server, client) = connected(coherent);
            let remote = RemoteRegion::create(&server.zone).unwrap();
            let segment = server.piece(0, 64);
            let old = server.bind(&remote, segment, REMOTE);
            client.pages.fill(9);
            let again = if unbind { NOWHERE } else { segment };
            let new = server.bind(&remote, again, REMOTE);
            assert_ne!(new, old);
            assert_eq!(client.write(far(old, segment)), TransferStatus::RemoteAccess);
            show(&server);
            assert_bytes(&server.pages, 0, 64, 0);
            expect_broken(&server, &client);
            assert_eq!(client.endpoint.state(), EndpointState::Disconnected);
            assert_eq!(server.endpoint.state(), EndpointState::Disconnected);
        }
    }
}

/// RMR-2: not after 256 binds either, when tags of the engine are used up.
#[test]
fn no_context_comes_back() {
    let (server, client) = connected(true);
    let remote = RemoteRegion::create(&server.zone).unwrap();
    let mut seen = HashSet::new();
    for turn in 0..3000 {
        let segment = server.piece(turn % 100, 8);
        assert!(seen.insert(server.bind(&remote, segment, REMOTE)), "after {turn} binds");
    }
    let facts = remote.facts();
    assert_eq!(client.write(far(facts.context, facts.segment)), TransferStatus::Success);
}

/// RMR-10.
#[test]
fn a_bind_of_no_bytes_unbinds() {
    let (server, _client) = connected(true);
    let remote = RemoteRegion::create(&server.zone).unwrap();
    // Unbound already, of a context that is none, at an address that is none.
    let nothing = Segment { context: u32::MAX, address: u64::MAX, length: 0 };
    for _ in 0..2 {
        server.bind(&remote, nothing, REMOTE);
        let facts = remote.facts();
        assert_eq!((facts.segment, facts.privileges, facts.context), (NOWHERE, Privileges::NONE, 0));
        server.bind(&remote, server.piece(0, 8), REMOTE);
        assert_eq!(server.region.free(), Err(bad_state(StateKind::LmrInUse)));
        server.bind(&remote, nothing, Privileges::NONE);
    }
    server.region.free().unwrap();
}

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

/// RMR-5, RMR-6.
#[test]
fn a_context_that_is_sent_behind_its_bind_is_good_when_it_arrives() {
    for coherent in [true, false] {
        let (server, client) = connected(coherent);
        let remote = RemoteRegion::create(&server.zone).unwrap();
        let target = server.piece(4096, 64);
        client.pages.fill(3);
        for turn in 0..200 {
            client.post_receive(turn, 4096, 4).unwrap();
            let context =
                remote.bind(target, REMOTE, &server.endpoint, turn, CompletionFlags::SUPPRESS).unwrap();
            (0..4).for_each(|byte| server.pages.write(byte, context.to_ne_bytes()[byte]));
            server.post_send(turn, 0, 4).unwrap();
            client.expect(turn, TransferStatus::Success);
            let told = u32::from_ne_bytes(std::array::from_fn(|byte| client.pages.read(4096 + byte)));
            assert_eq!(client.write(far(told, target)), TransferStatus::Success);
            server.expect(turn, TransferStatus::Success);
        }
        show(&server);
        assert_bytes(&server.pages, 4096, 64, 3);
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
    let region = register(&server.zone, &server.pages, Privileges::REMOTE_WRITE).unwrap();
    let bind = |privileges| remote.bind(part(&region, 0, 8), privileges, &server.endpoint, 0, PLAIN);
    assert_eq!(bind(Privileges::REMOTE_WRITE), Err(privileges_violation(AccessKind::RdmaWrite)));
    assert_eq!(bind(Privileges::ALL), Err(privileges_violation(AccessKind::RdmaWrite)));
    assert_eq!(remote.facts().context, 0);
    assert!(server.has_nothing());
    // Remote read needs nothing.
    bind(Privileges::REMOTE_READ).unwrap();
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
    // A message that nobody takes holds up everything behind it.
    server.post_send(0, 0, 8).unwrap();
    for cookie in 1..places {
        bind(cookie).unwrap();
    }
    let full = bind(places).unwrap_err();
    assert_eq!(full.kind, Kind::InsufficientResources);
    assert_eq!(full.subtype, Subtype::Resource(Resource::Credits));
    assert_eq!(remote.facts().context, 0);
    assert_eq!(server.region.free(), Err(bad_state(StateKind::LmrInUse)));
    client.post_receive(1, 0, 8).unwrap();
    client.expect(1, TransferStatus::Success);
    server.expect(0, TransferStatus::Success);
    for cookie in 1..places {
        server.expect_bind(cookie, TransferStatus::Success);
    }
    assert_ne!(remote.facts().context, 0);
    server.bind(&remote, NOWHERE, REMOTE);
    server.region.free().unwrap();
}

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

/// A region serves every endpoint of its zone.
#[test]
fn a_context_is_good_on_every_connection_of_the_zone() {
    let (server, client) = connected(true);
    let (second, far_second) = (server.endpoint_of(&server.zone), client.endpoint_of(&client.zone));
    connect_endpoints((&server, &second), (&client, &far_second));
    let remote = RemoteRegion::create(&server.zone).unwrap();
    let segment = server.piece(0, 16);
    let context = server.bind(&remote, segment, REMOTE);
    for endpoint in [&client.endpoint, &far_second] {
        let piece = std::iter::once(client.piece(0, 16));
        endpoint.post_rdma_write(piece, 3, far(context, segment), PLAIN).unwrap();
        client.expect(3, TransferStatus::Success);
    }
    // It is bound again through the other endpoint.
    let again = remote.bind(segment, REMOTE, &second, 8, PLAIN).unwrap();
    server.expect_bind(8, TransferStatus::Success);
    assert_eq!(client.write(far(again, segment)), TransferStatus::Success);
}

/// Two threads bind one region through two endpoints: whoever comes last counts, and nothing stays counted.
#[test]
fn a_region_is_bound_through_two_endpoints_at_once() {
    let (server, client) = connected(true);
    let (second, far_second) = (server.endpoint_of(&server.zone), client.endpoint_of(&client.zone));
    connect_endpoints((&server, &second), (&client, &far_second));
    let remote = RemoteRegion::create(&server.zone).unwrap();
    let segment = server.piece(0, 16);
    for _ in 0..50 {
        std::thread::scope(|scope| {
            for endpoint in [&server.endpoint, &second] {
                let remote = &remote;
                scope.spawn(move || {
                    for flags in [CompletionFlags::SUPPRESS, PLAIN] {
                        remote.bind(segment, REMOTE, endpoint, 5, flags).unwrap();
                    }
                });
            }
        });
        server.expect_bind(5, TransferStatus::Success);
        server.expect_bind(5, TransferStatus::Success);
        assert!(server.has_nothing());
        assert_eq!(client.write(far(remote.facts().context, segment)), TransferStatus::Success);
    }
    server.bind(&remote, NOWHERE, REMOTE);
    server.region.free().unwrap();
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
