//! Data transfer operations between two endpoints: what is moved, what completes, and in which order.

mod common;

use std::iter::once;

use common::connected::{
    PLAIN, Plan, Seen, accept, connect, connected, dequeue, done, failed, flushed, pair, told,
};
use common::{bad_state, connected::Side, connected::next};
use nonic_dat::{
    CompletionFlags, ConnectionEvent, DatError, EndpointAttributes, EndpointState, Kind, Privileges,
    RemoteSegment, Resource, Segment, StateKind, Subtype, TransferKind, TransferStatus,
};

const SUPPRESS: CompletionFlags = CompletionFlags::SUPPRESS;
const TOO_LONG: DatError = DatError::new(Kind::LengthError, Subtype::None);
use TransferKind::{RdmaRead, RdmaWrite, Receive, Send};

fn break_up(side: &Side) {
    assert_eq!(next(&side.connections), told(ConnectionEvent::Broken));
    assert_eq!(side.endpoint.state(), EndpointState::Disconnected);
}

#[test]
fn a_message_fills_the_receive_and_both_ends_are_told() {
    let (near, far) = pair();
    near.pages.write(0, 7);
    near.pages.write(99, 8);
    far.receive(u64::MAX, 4096);
    near.send(1 << 63, 100, PLAIN).unwrap();
    assert_eq!(far.next(), done(u64::MAX, Receive, 100));
    assert_eq!(near.next(), done(1 << 63, Send, 100));
    assert_eq!((far.pages.read(4096), far.pages.read(4096 + 99)), (7, 8));
    assert!(near.is_quiet() && far.is_quiet());
}

#[test]
fn messages_without_bytes_and_pieces_without_bytes_are_allowed() {
    let (near, far) = pair();
    far.endpoint.post_receive(std::iter::empty(), 1, PLAIN).unwrap();
    far.receive(2, 8);
    near.endpoint.post_send(std::iter::empty(), 3, PLAIN).unwrap();
    near.pages.write(5, 9);
    let nothing = Segment { context: 0, address: 0, length: 0 };
    let pieces = [nothing, near.piece(5, 1), nothing, near.piece(5, 1)];
    near.endpoint.post_send(pieces.into_iter(), 4, PLAIN).unwrap();
    assert_eq!([far.next(), far.next()], [done(1, Receive, 0), done(2, Receive, 2)]);
    assert_eq!([near.next(), near.next()], [done(3, Send, 0), done(4, Send, 2)]);
    assert_eq!((far.pages.read(4096), far.pages.read(4097)), (9, 9));
}

#[test]
fn an_rdma_write_places_bytes_and_tells_only_its_sender() {
    let (near, far) = pair();
    near.pages.write(3, 42);
    near.endpoint.post_rdma_write(once(near.piece(0, 8)), 5, far.remote(64, 8), PLAIN).unwrap();
    assert_eq!(near.next(), done(5, RdmaWrite, 8));
    assert_eq!(far.pages.read(67), 42);
    assert!(far.is_quiet());
}

#[test]
fn an_rdma_write_may_be_shorter_than_its_target_and_not_longer() {
    let (near, far) = pair();
    near.pages.fill(1);
    let long = near.endpoint.post_rdma_write(once(near.piece(0, 9)), 5, far.remote(0, 8), PLAIN);
    assert_eq!(long, Err(TOO_LONG));
    assert!(near.is_quiet());
    assert_eq!(far.pages.read(0), 0);
    near.endpoint.post_rdma_write(once(near.piece(0, 3)), 6, far.remote(0, 8), PLAIN).unwrap();
    assert_eq!(near.next(), done(6, RdmaWrite, 3));
    assert_eq!((far.pages.read(2), far.pages.read(3)), (1, 0));
}

#[test]
fn an_rdma_read_brings_the_remote_segment_and_leaves_the_rest() {
    let (near, far) = pair();
    far.pages.fill(3);
    let short = near.endpoint.post_rdma_read(once(near.piece(0, 7)), 5, far.remote(0, 8), PLAIN);
    assert_eq!(short, Err(TOO_LONG));
    assert!(near.is_quiet());
    assert_eq!(near.pages.read(0), 0);
    let pieces = [near.piece(0, 4), near.piece(100, 2), near.piece(200, 50), near.piece(300, 50)];
    near.endpoint.post_rdma_read(pieces.into_iter(), 6, far.remote(0, 8), PLAIN).unwrap();
    assert_eq!(near.next(), done(6, RdmaRead, 8));
    let read = |offset| near.pages.read(offset);
    assert_eq!([read(3), read(4), read(101), read(201), read(202), read(300)], [3, 0, 3, 3, 0, 0]);
    // Nothing may be read, too.
    near.endpoint.post_rdma_read(once(near.piece(300, 50)), 7, far.remote(0, 0), PLAIN).unwrap();
    assert_eq!(near.next(), done(7, RdmaRead, 0));
    assert_eq!(read(300), 0);
}

#[test]
fn completions_come_in_the_order_of_posting() {
    let (near, far) = pair();
    for round in 0..50 {
        (0..8).for_each(|number| far.receive(number, 64));
        for number in 0..8 {
            match number % 3 {
                0 => near.endpoint.post_rdma_read(once(near.piece(0, 8)), number, far.remote(0, 8), PLAIN),
                1 => near.endpoint.post_rdma_write(once(near.piece(0, 8)), number, far.remote(0, 8), PLAIN),
                _ => near.send(number, 8, PLAIN),
            }
            .unwrap();
        }
        let kinds = [RdmaRead, RdmaWrite, Send];
        for number in 0..8 {
            assert_eq!(near.next(), done(number, kinds[number as usize % 3], 8), "round {round}");
        }
        assert_eq!([far.next(), far.next()], [done(0, Receive, 8), done(1, Receive, 8)]);
        far.endpoint.status().unwrap();
        // The receives that were not used stay for the next round; too many must not gather.
        (2..8).for_each(|_| near.send(9, 8, SUPPRESS).unwrap());
        (2..8).for_each(|number| assert_eq!(far.next(), done(number, Receive, 8)));
    }
}

#[test]
fn a_suppressed_success_is_not_shown_and_a_failure_is() {
    let (near, far) = pair();
    far.receive(1, 8);
    near.send(1, 8, SUPPRESS).unwrap();
    near.endpoint.post_rdma_write(once(near.piece(0, 8)), 2, far.remote(0, 8), SUPPRESS).unwrap();
    near.endpoint.post_rdma_read(once(near.piece(0, 8)), 3, far.remote(0, 8), PLAIN).unwrap();
    assert_eq!(near.next(), done(3, RdmaRead, 8));
    assert_eq!(far.next(), done(1, Receive, 8));
    let nowhere = RemoteSegment { context: 0, ..far.remote(0, 8) };
    near.endpoint.post_rdma_write(once(near.piece(0, 8)), 4, nowhere, SUPPRESS).unwrap();
    near.endpoint.post_rdma_write(once(near.piece(0, 8)), 5, far.remote(0, 8), SUPPRESS).unwrap();
    assert_eq!(near.next(), failed(4, RdmaWrite, TransferStatus::RemoteAccess));
    assert_eq!(near.next(), flushed(5, RdmaWrite));
}

#[test]
fn a_wrong_remote_context_fails_the_transfer_and_breaks_both_sides() {
    for reads in [false, true] {
        let (near, far) = pair();
        far.receive(1, 8);
        let nowhere = RemoteSegment { context: far.remote(0, 8).context ^ 0x100, ..far.remote(0, 8) };
        near.pages.fill(5);
        let kind = if reads { RdmaRead } else { RdmaWrite };
        let piece = once(near.piece(0, 8));
        if reads {
            near.endpoint.post_rdma_read(piece, 4, nowhere, PLAIN).unwrap();
        } else {
            near.endpoint.post_rdma_write(piece, 4, nowhere, PLAIN).unwrap();
        }
        assert_eq!(near.next(), failed(4, kind, TransferStatus::RemoteAccess));
        break_up(&near);
        break_up(&far);
        assert_eq!(far.next(), flushed(1, Receive));
        assert_eq!((far.pages.read(0), near.pages.read(0)), (0, 5));
    }
}

#[test]
fn remote_privileges_are_those_of_the_region() {
    let local_only = Plan {
        privileges: Privileges::LOCAL_READ | Privileges::LOCAL_WRITE | Privileges::REMOTE_READ,
        ..Plan::default()
    };
    let (near, far) = connected(&Plan::default(), &local_only);
    near.endpoint.post_rdma_read(once(near.piece(0, 8)), 1, far.remote(0, 8), PLAIN).unwrap();
    assert_eq!(near.next(), done(1, RdmaRead, 8));
    near.pages.fill(5);
    near.endpoint.post_rdma_write(once(near.piece(0, 8)), 2, far.remote(0, 8), PLAIN).unwrap();
    assert_eq!(near.next(), failed(2, RdmaWrite, TransferStatus::RemoteAccess));
    assert_eq!(far.pages.read(0), 0);
    break_up(&far);
}

#[test]
fn wrong_local_memory_fails_the_transfer_and_breaks_the_connection() {
    for outside in [false, true] {
        let (near, far) = pair();
        far.receive(1, 64);
        let piece =
            if outside { near.piece(4 * 4096 - 4, 8) } else { Segment { context: 0, ..near.piece(0, 8) } };
        near.endpoint.post_send(once(piece), 2, PLAIN).unwrap();
        assert_eq!(near.next(), failed(2, Send, TransferStatus::LocalProtection));
        break_up(&near);
        assert_eq!(far.next(), flushed(1, Receive));
    }
}

#[test]
fn a_message_longer_than_the_receive_breaks_both_sides() {
    let (near, far) = pair();
    far.receive(1, 8);
    near.send(2, 9, PLAIN).unwrap();
    assert_eq!(far.next(), failed(1, Receive, TransferStatus::LocalLength));
    assert_eq!(near.next(), failed(2, Send, TransferStatus::RemoteResponder));
    break_up(&near);
    break_up(&far);
}

#[test]
fn a_transfer_in_a_disconnected_endpoint_is_taken_and_flushed() {
    let (near, far) = pair();
    near.receive(1, 8);
    near.endpoint.disconnect(false).unwrap();
    assert_eq!(next(&near.connections), told(ConnectionEvent::Disconnected));
    assert_eq!(next(&far.connections), told(ConnectionEvent::Disconnected));
    assert_eq!(near.next(), flushed(1, Receive));
    near.send(2, 8, PLAIN).unwrap();
    near.send(3, 8, SUPPRESS).unwrap();
    near.endpoint.post_rdma_write(once(near.piece(0, 8)), 4, far.remote(0, 8), PLAIN).unwrap();
    near.endpoint.post_rdma_read(once(near.piece(0, 8)), 5, far.remote(0, 8), PLAIN).unwrap();
    near.receive(6, 8);
    let expected = [
        flushed(2, Send),
        flushed(3, Send),
        flushed(4, RdmaWrite),
        flushed(5, RdmaRead),
        flushed(6, Receive),
    ];
    for event in expected {
        assert_eq!(near.next(), event);
    }
    assert!(near.is_quiet());
    assert_eq!(near.endpoint.status(), Ok((EndpointState::Disconnected, true, true)));
}

#[test]
fn a_disconnect_comes_behind_the_completions_in_a_dispatcher_of_both() {
    let merged = Plan { merged: true, ..Plan::default() };
    let (near, far) = connected(&merged, &merged);
    (1..=4).for_each(|number| far.receive(number, 64));
    (1..=2).for_each(|number| near.send(number, 8, PLAIN).unwrap());
    far.transfers.post_software(1).unwrap();
    assert_eq!([near.next(), near.next()], [done(1, Send, 8), done(2, Send, 8)]);
    near.endpoint.disconnect(false).unwrap();
    assert_eq!(near.next(), told(ConnectionEvent::Disconnected));
    let mut events = Vec::new();
    while events.last() != Some(&told(ConnectionEvent::Disconnected)) {
        events.push(far.next());
    }
    events.retain(|event| *event != Seen::Software(1));
    let last = told(ConnectionEvent::Disconnected);
    let expected = [done(1, Receive, 8), done(2, Receive, 8), flushed(3, Receive), flushed(4, Receive), last];
    assert_eq!(events, expected);
    assert!(far.is_quiet());
}

#[test]
fn merged_streams_come_out_in_the_order_in_which_they_went_in() {
    let (near, far) = pair();
    for round in 0..20 {
        for number in 0..3 {
            near.endpoint.post_rdma_read(once(near.piece(0, 8)), number, far.remote(0, 8), PLAIN).unwrap();
            // It is in the queue before the event is posted.
            while !near.endpoint.status().unwrap().2 {
                assert_eq!(far.transfers.dequeue(|_| {}), Err(DatError::QUEUE_EMPTY));
            }
            near.transfers.post_software(number as usize).unwrap();
        }
        for number in 0..3 {
            assert_eq!(near.next(), done(number, RdmaRead, 8), "round {round}");
            assert_eq!(near.next(), Seen::Software(number as usize));
        }
    }
}

#[test]
fn established_is_seen_before_the_first_receive() {
    for _ in 0..200 {
        let merged = Plan { merged: true, ..Plan::default() };
        let (near, far) = (Side::new(&Plan::default()), Side::new(&merged));
        far.receive(1, 64);
        accept(&near, &far);
        let welcome = Seen::Connection(ConnectionEvent::Established, b"welcome".to_vec());
        assert_eq!(next(&near.connections), welcome);
        near.send(2, 8, PLAIN).unwrap();
        // Whoever comes first, the message or the word that the connection stands.
        let first = loop {
            match dequeue(&far.transfers) {
                Ok(event) => break event,
                Err(DatError::QUEUE_EMPTY) => {}
                Err(error) => panic!("{error}"),
            }
        };
        assert_eq!(first, told(ConnectionEvent::Established));
        assert_eq!(far.next(), done(1, Receive, 8));
        assert_eq!(near.next(), done(2, Send, 8));
    }
}

#[test]
fn requests_beyond_the_limits_are_refused_and_move_nothing() {
    let attributes = EndpointAttributes {
        max_request_pieces: 2,
        max_read_pieces: 1,
        max_write_pieces: 3,
        max_message_size: 100,
        max_rdma_size: 200,
        ..EndpointAttributes::default()
    };
    let (near, far) = connected(&Plan { attributes, ..Plan::default() }, &Plan::default());
    far.receive(1, 4096);
    let pieces = |count: usize| vec![near.piece(0, 8); count].into_iter();
    let endpoint = &near.endpoint;
    let too_many = Err(DatError::argument(2));
    assert_eq!(endpoint.post_send(pieces(3), 1, PLAIN), too_many);
    assert_eq!(endpoint.post_rdma_read(pieces(2), 1, far.remote(0, 8), PLAIN), too_many);
    assert_eq!(endpoint.post_rdma_write(pieces(4), 1, far.remote(0, 64), PLAIN), too_many);
    assert_eq!(near.send(1, 101, PLAIN), Err(TOO_LONG));
    let long = once(near.piece(0, 201));
    assert_eq!(endpoint.post_rdma_write(long.clone(), 1, far.remote(0, 4096), PLAIN), Err(TOO_LONG));
    assert_eq!(endpoint.post_rdma_read(long, 1, far.remote(0, 8), PLAIN), Err(TOO_LONG));
    for flags in [CompletionFlags::UNSIGNALLED, CompletionFlags::EVD_THRESHOLD] {
        assert_eq!(near.send(1, 8, flags), Err(DatError::argument(5)));
        let wrong = Err(DatError::argument(6));
        assert_eq!(endpoint.post_rdma_write(pieces(1), 1, far.remote(0, 8), flags), wrong);
        assert_eq!(endpoint.post_rdma_read(pieces(1), 1, far.remote(0, 8), flags), wrong);
    }
    assert_eq!(endpoint.status(), Ok((EndpointState::Connected, true, true)));
    assert!(near.is_quiet() && far.is_quiet());
    // What is allowed goes through.
    near.send(2, 100, CompletionFlags::SOLICITED_WAIT | CompletionFlags::BARRIER_FENCE).unwrap();
    endpoint.post_rdma_write(pieces(3), 3, far.remote(0, 64), PLAIN).unwrap();
    assert_eq!([near.next(), near.next()], [done(2, Send, 100), done(3, RdmaWrite, 24)]);
}

#[test]
fn a_full_queue_of_requests_is_said_and_nothing_is_lost() {
    let (near, far) = pair();
    let limit = near.endpoint.facts().unwrap().attributes.max_requests as u64;
    // No receive is there, so nothing ends.
    (0..limit).for_each(|number| near.send(number, 8, PLAIN).unwrap());
    let full = DatError::resources(Subtype::Resource(Resource::Credits));
    assert_eq!(near.send(99, 8, PLAIN), Err(full));
    assert_eq!(near.endpoint.status().map(|status| status.2), Ok(false));
    for number in 0..limit {
        far.receive(number, 64);
        assert_eq!(far.next(), done(number, Receive, 8));
        assert_eq!(near.next(), done(number, Send, 8));
    }
    assert!(near.is_quiet() && far.is_quiet());
}

#[test]
fn a_reset_endpoint_connects_again_and_sees_nothing_of_before() {
    let (near, far) = pair();
    for round in 0..3 {
        near.receive(1, 8);
        far.receive(1, 8);
        near.endpoint.disconnect(false).unwrap();
        assert_eq!(next(&near.connections), told(ConnectionEvent::Disconnected));
        assert_eq!(next(&far.connections), told(ConnectionEvent::Disconnected));
        near.endpoint.reset().unwrap();
        far.endpoint.reset().unwrap();
        assert_eq!(near.endpoint.status(), Ok((EndpointState::Unconnected, true, true)));
        assert!(near.is_quiet() && far.is_quiet());
        far.receive(7, 64);
        connect(&near, &far);
        near.send(round, 8, PLAIN).unwrap();
        assert_eq!(far.next(), done(7, Receive, 8));
        assert_eq!(near.next(), done(round, Send, 8));
    }
}

#[test]
fn only_a_disconnected_endpoint_is_reset() {
    let (near, far) = pair();
    assert_eq!(near.endpoint.reset(), Err(bad_state(StateKind::EpConnected)));
    far.receive(1, 64);
    near.send(2, 8, PLAIN).unwrap();
    assert_eq!(near.next(), done(2, Send, 8));
    let change = nonic_dat::EndpointChange { max_requests: Some(64), ..Default::default() };
    assert_eq!(near.endpoint.modify(change), Err(bad_state(StateKind::EpConnected)));
}

#[test]
fn freeing_a_connected_endpoint_disconnects_its_peer_and_its_events_go() {
    let merged = Plan { merged: true, ..Plan::default() };
    let (near, far) = connected(&merged, &Plan::default());
    near.receive(1, 8);
    near.endpoint.free().unwrap();
    assert_eq!(next(&far.connections), told(ConnectionEvent::Disconnected));
    assert!(near.is_quiet());
    near.transfers.free().unwrap();
    near.region.free().unwrap();
    near.zone.free().unwrap();
    assert_eq!(near.adapter.close(true), Ok(()));
}

#[test]
fn shared_receives_complete_at_the_endpoint_that_took_them() {
    let shared = Plan { shared_receives: Some(16), ..Plan::default() };
    let (near, far) = connected(&Plan::default(), &shared);
    let queue = far.shared.as_ref().unwrap();
    queue.post_receive(once(far.piece(4096, 64)), 5).unwrap();
    assert!(far.endpoint.post_receive(once(far.piece(0, 8)), 1, PLAIN).is_err());
    near.send(1, 8, PLAIN).unwrap();
    assert_eq!(far.next(), done(5, Receive, 8));
    assert_eq!(near.next(), done(1, Send, 8));
    assert_eq!(queue.facts().unwrap().outstanding, 0);
    assert_eq!(queue.free(), Err(bad_state(StateKind::SrqInUse)));
}

#[test]
fn the_soft_watermark_tells_once_and_the_hard_one_breaks_the_connection() {
    let shared = Plan { shared_receives: Some(32), ..Plan::default() };
    let (near, far) = connected(&Plan::default(), &shared);
    let queue = far.shared.as_ref().unwrap();
    let errors = far.adapter.async_dispatcher().unwrap();
    (0..16).for_each(|number| queue.post_receive(once(far.piece(4096, 64)), number).unwrap());
    let send = |number| {
        near.send(number, 8, PLAIN).unwrap();
        assert_eq!(near.next(), done(number, Send, 8));
    };
    let endpoint = &far.endpoint;
    assert_eq!(endpoint.receive_query(), Ok((0, 0)));
    assert_eq!(near.endpoint.receive_query(), Err(bad_state(StateKind::EpReceiveWatermark)));
    assert_eq!(near.endpoint.set_watermarks(1, 1), Err(bad_state(StateKind::EpReceiveWatermark)));
    assert_eq!(endpoint.set_watermarks(-2, 1), Err(DatError::argument(2)));
    assert_eq!(endpoint.set_watermarks(1, -3), Err(DatError::argument(3)));
    endpoint.set_watermarks(2, -1).unwrap();
    (0..2).for_each(send);
    assert_eq!(endpoint.receive_query(), Ok((2, 2)));
    assert_eq!(dequeue(&errors), Err(DatError::QUEUE_EMPTY));
    send(2);
    let mut reason = None;
    let told_of = errors.wait(common::connected::PATIENCE, 1, |event| {
        let nonic_dat::Event::Async { kind, object: nonic_dat::AsyncObject::Endpoint(about), reason: why } =
            event
        else {
            panic!("{event:?}")
        };
        assert!(std::sync::Arc::ptr_eq(about, endpoint));
        reason = Some((*kind, *why));
    });
    assert_eq!(told_of.0, Ok(()));
    assert_eq!(reason, Some((nonic_dat::AsyncError::EndpointBroken, 2)));
    // Once.
    send(3);
    (0..4).for_each(|number| assert_eq!(far.next(), done(number, Receive, 8)));
    assert_eq!(endpoint.receive_query(), Ok((0, 0)));
    assert_eq!(endpoint.state(), EndpointState::Connected);
    endpoint.set_watermarks(-1, 1).unwrap();
    send(4);
    assert_eq!(endpoint.state(), EndpointState::Connected);
    near.send(5, 8, PLAIN).unwrap();
    assert_eq!(next(&far.connections), told(ConnectionEvent::Broken));
    assert_eq!(next(&near.connections), told(ConnectionEvent::Broken));
}
