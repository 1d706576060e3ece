//! Shared receive queues with peers: `dat_srq_create(3)` and what follows from it.

use std::sync::Arc;
use std::time::Duration;

use crate::common;
use crate::common::peers::{PLAIN, Side, connect_endpoints};
use crate::common::{bad_state, part};
use nonic_dat::{
    AsyncError, AsyncObject, DatError, Endpoint, EndpointAttributes, EndpointSetup, Event, InterfaceAdapter,
    ProtectionZone, SharedQueueAttributes, SharedReceiveQueue, StateKind, TransferStatus,
};

const LONG: Option<Duration> = Some(Duration::from_secs(20));
const LOW_WATERMARK: i32 = 2;

fn queue_of(side: &Side, zone: &Arc<ProtectionZone>, max_receives: i32) -> Arc<SharedReceiveQueue> {
    let attributes = SharedQueueAttributes { max_receives, max_pieces: 2, low_watermark: 0 };
    SharedReceiveQueue::create(&side.adapter, zone, attributes).unwrap()
}

/// An endpoint whose receives come from `queue`.
fn endpoint_on(side: &Side, queue: &Arc<SharedReceiveQueue>) -> Arc<Endpoint> {
    let setup = EndpointSetup {
        zone: Some(Arc::clone(&side.zone)),
        receive: Some(Arc::clone(&side.transfers)),
        request: Some(Arc::clone(&side.transfers)),
        connect: Some(Arc::clone(&side.connections)),
        shared_receives: Some(Arc::clone(queue)),
        attributes: Some(EndpointAttributes::default()),
    };
    Endpoint::create(&side.adapter, setup).unwrap()
}

fn counts(queue: &SharedReceiveQueue) -> (i32, i32) {
    let facts = queue.facts().unwrap();
    (facts.available, facts.outstanding)
}

#[test]
fn endpoints_take_receives_in_the_order_in_which_they_were_posted() {
    let (server, client) = (Side::new(true), Side::new(true));
    let queue = queue_of(&server, &server.zone, 8);
    let endpoints = [endpoint_on(&server, &queue), endpoint_on(&server, &queue)];
    let clients = [client.endpoint_of(&client.zone), client.endpoint_of(&client.zone)];
    for (one, other) in endpoints.iter().zip(&clients) {
        connect_endpoints((&server, one), (&client, other));
    }
    assert_eq!(queue.free(), Err(bad_state(StateKind::SrqInUse)));
    for cookie in 0..4 {
        queue.post_receive(std::iter::once(server.piece(cookie * 64, 64)), cookie).unwrap();
    }
    assert_eq!(counts(&queue), (4, 4));
    for (turn, sender) in [&clients[1], &clients[0], &clients[0]].into_iter().enumerate() {
        client.pages.fill(turn as u8 + 1);
        sender.post_send(std::iter::once(client.piece(0, 64)), 100, PLAIN).unwrap();
        client.expect(100, TransferStatus::Success);
        // Taken by the endpoint, and not yet by the program.
        assert_eq!(counts(&queue), (3 - turn as i32, 4 - turn as i32));
        server.expect(turn as u64, TransferStatus::Success);
        assert_eq!(counts(&queue), (3 - turn as i32, 3 - turn as i32));
        assert_eq!(server.pages.read(turn * 64), turn as u8 + 1);
    }
    for endpoint in &endpoints {
        let refused = endpoint.post_receive(std::iter::once(server.piece(0, 8)), 0, PLAIN);
        assert_eq!(refused.unwrap_err().kind, nonic_dat::Kind::InvalidState);
        endpoint.free().unwrap();
    }
    assert_eq!(counts(&queue), (1, 1));
    queue.free().unwrap();
}

/// Completions that go with their endpoint are outstanding no more.
#[test]
fn receives_that_nobody_will_see_are_not_outstanding() {
    let (server, client) = (Side::new(true), Side::new(true));
    let queue = queue_of(&server, &server.zone, 8);
    let (endpoint, other) = (endpoint_on(&server, &queue), endpoint_on(&server, &queue));
    connect_endpoints((&server, &endpoint), (&client, &client.endpoint));
    for cookie in 0..3 {
        queue.post_receive(std::iter::once(server.piece(0, 64)), cookie).unwrap();
    }
    client.post_send(1, 0, 8).unwrap();
    client.expect(1, TransferStatus::Success);
    assert_eq!(counts(&queue), (2, 3));
    assert_eq!(queue.resize(2), Err(bad_state(StateKind::SrqInUse)));
    endpoint.free().unwrap();
    assert_eq!(counts(&queue), (2, 2));
    queue.resize(2).unwrap();
    other.free().unwrap();
    queue.free().unwrap();
}

/// The queue's zone counts for its receives, the endpoint's for everything else.
#[test]
fn a_queue_may_be_of_another_zone_than_its_endpoints() {
    let (server, client) = (Side::new(true), Side::new(true));
    let zone = ProtectionZone::create(&server.adapter).unwrap();
    let queue = queue_of(&server, &zone, 4);
    let region = common::register(&zone, &server.pages, nonic_dat::Privileges::ALL).unwrap();
    let endpoint = endpoint_on(&server, &queue);
    connect_endpoints((&server, &endpoint), (&client, &client.endpoint));
    queue.post_receive(std::iter::once(part(&region, 0, 64)), 1).unwrap();
    queue.post_receive(std::iter::once(server.piece(0, 64)), 2).unwrap();
    client.pages.fill(3);
    client.post_send(5, 0, 8).unwrap();
    client.expect(5, TransferStatus::Success);
    server.expect(1, TransferStatus::Success);
    assert_eq!(server.pages.read(0), 3);
    // A region of the endpoint's zone is none for the queue.
    client.pages.fill(4);
    client.post_send(6, 0, 8).unwrap();
    server.expect(2, TransferStatus::LocalProtection);
    assert_eq!(server.pages.read(0), 3);
}

/// The next asynchronous error: its kind and reason, and whether it is about `queue`.
fn async_error(adapter: &InterfaceAdapter, queue: &Arc<SharedReceiveQueue>) -> (AsyncError, i32) {
    let mut found = None;
    let (result, _) = adapter.async_dispatcher().unwrap().wait(LONG, 1, |event| match event {
        Event::Async { kind, object: AsyncObject::SharedReceives(about), reason } => {
            assert!(Arc::ptr_eq(about, queue));
            found = Some((*kind, *reason));
        }
        other => panic!("{other:?}"),
    });
    result.unwrap();
    found.unwrap()
}

fn nothing_raised(adapter: &InterfaceAdapter) -> bool {
    adapter.async_dispatcher().unwrap().dequeue(|_| ()) == Err(DatError::QUEUE_EMPTY)
}

#[test]
fn one_event_tells_that_few_receives_are_left() {
    let (server, client) = (Side::with_async(), Side::new(true));
    let queue = queue_of(&server, &server.zone, 8);
    let endpoint = endpoint_on(&server, &queue);
    connect_endpoints((&server, &endpoint), (&client, &client.endpoint));
    let post = |count| {
        for _ in 0..count {
            queue.post_receive(std::iter::once(server.piece(0, 64)), 0).unwrap();
        }
    };
    let send = || {
        client.post_send(1, 0, 8).unwrap();
        client.expect(1, TransferStatus::Success);
        server.expect(0, TransferStatus::Success);
    };
    post(4);
    queue.set_low_watermark(3).unwrap();
    assert_eq!(queue.facts().unwrap().attributes.low_watermark, 3);
    send();
    assert!(nothing_raised(&server.adapter), "three are left");
    send();
    assert_eq!(async_error(&server.adapter, &queue), (AsyncError::ProviderInternalError, LOW_WATERMARK));
    // Once: not again before it is armed again.
    send();
    post(4);
    send();
    assert!(nothing_raised(&server.adapter));
    // At once where it is so already.
    queue.set_low_watermark(6).unwrap();
    assert_eq!(async_error(&server.adapter, &queue), (AsyncError::ProviderInternalError, LOW_WATERMARK));
    queue.set_low_watermark(0).unwrap();
    send();
    assert!(nothing_raised(&server.adapter));
}
