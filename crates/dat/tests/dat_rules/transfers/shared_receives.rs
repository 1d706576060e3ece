//! Receives from a shared queue, and its watermarks.

use super::*;
use crate::common;

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
