//! Contexts: what a bind gives, and what it takes.

use super::*;

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

/// RMR-5.
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

/// RMR-6: it leads neither to its own bytes yet, nor to those of the bind before, and the bind is none the worse for it.
#[test]
fn a_context_that_comes_before_its_bind_is_done_leads_nowhere() {
    for coherent in [true, false] {
        for (already_bound, to_the_old) in [(false, false), (true, false), (true, true)] {
            let (server, client) = connected(coherent);
            let (second, far_second) = (server.endpoint_of(&server.zone), client.endpoint_of(&client.zone));
            connect_endpoints((&server, &second), (&client, &far_second));
            let remote = RemoteRegion::create(&server.zone).unwrap();
            let (before, segment) = (server.piece(0, 64), server.piece(4096, 64));
            if already_bound {
                server.bind(&remote, before, REMOTE);
            }
            // A message that nobody takes holds up the bind.
            server.post_send(0, 8000, 8).unwrap();
            let context = remote.bind(segment, REMOTE, &server.endpoint, 1, PLAIN).unwrap();
            client.pages.fill(6);
            let early = far(context, if to_the_old { before } else { segment });
            far_second.post_rdma_write(std::iter::once(client.piece(0, 64)), 2, early, PLAIN).unwrap();
            client.expect(2, TransferStatus::RemoteAccess);
            expect_broken(&server, &client);
            show(&server);
            assert_bytes(&server.pages, 0, 8192, 0);
            client.post_receive(3, 100, 8).unwrap();
            client.expect(3, TransferStatus::Success);
            server.expect(0, TransferStatus::Success);
            server.expect_bind(1, TransferStatus::Success);
            assert_eq!(client.write(far(context, segment)), TransferStatus::Success);
            show(&server);
            assert_bytes(&server.pages, 0, 4096, 0);
            assert_bytes(&server.pages, 4096, 32, 6);
        }
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
