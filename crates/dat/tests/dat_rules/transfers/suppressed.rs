//! Requests whose success is not shown.

use std::thread::yield_now;
use std::time::{Duration, Instant};

use super::*;
use crate::common;

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

/// How many requests may be outstanding.
fn places(side: &Side) -> u64 {
    side.endpoint.facts().unwrap().attributes.max_requests as u64
}

fn write(near: &Side, far: &Side, cookie: u64, flags: CompletionFlags) -> DatResult<()> {
    near.endpoint.post_rdma_write(once(near.piece(0, 8)), cookie, far.remote(0, 8), flags)
}

fn read(near: &Side, far: &Side, cookie: u64, flags: CompletionFlags) -> DatResult<()> {
    near.endpoint.post_rdma_read(once(near.piece(0, 8)), cookie, far.remote(0, 8), flags)
}

/// Posts, again as long as the queue is full: what is under way may need other threads to end.
fn patiently<T>(mut post: impl FnMut() -> DatResult<T>) -> T {
    let begun = Instant::now();
    loop {
        match post() {
            Err(error) if FULL == Err(error) => yield_now(),
            posted => return posted.unwrap(),
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "nothing ends");
    }
}

/// Waits until every request has ended. A bind is over when nobody is inside an operation any more that may have found the
/// old context, and that may be one of another test.
fn until_idle(side: &Side) {
    let begun = Instant::now();
    while !side.endpoint.status().unwrap().2 {
        assert!(begun.elapsed() < Duration::from_secs(20), "a request does not end");
        yield_now();
    }
}

const FULL: DatResult<()> = Err(DatError::resources(Subtype::Resource(Resource::Credits)));

#[test]
fn what_is_suppressed_takes_up_no_place_when_it_is_over() {
    let (near, far) = pair();
    let places = places(&near);
    for turn in 0..20 * places {
        patiently(|| write(&near, &far, turn, SUPPRESS));
        patiently(|| read(&near, &far, turn, SUPPRESS));
    }
    for _ in 0..20 {
        for cookie in 0..places {
            far.receive(cookie, 64);
            patiently(|| near.send(cookie, 8, SUPPRESS));
        }
        (0..places).for_each(|cookie| assert_eq!(far.next(), done(cookie, Receive, 8)));
    }
    assert!(near.is_quiet() && far.is_quiet());
    assert_eq!(near.endpoint.state(), EndpointState::Connected);
}

#[test]
fn what_is_suppressed_has_its_place_as_long_as_it_is_under_way() {
    let (near, far) = pair();
    let places = places(&near);
    // No receive is there, so nothing ends.
    (0..places).for_each(|cookie| near.send(cookie, 8, SUPPRESS).unwrap());
    near.pages.fill(5);
    for flags in [SUPPRESS, PLAIN] {
        assert_eq!(near.send(99, 8, flags), FULL);
        assert_eq!(write(&near, &far, 99, flags), FULL);
    }
    for cookie in 0..places {
        far.receive(cookie, 64);
        assert_eq!(far.next(), done(cookie, Receive, 8));
    }
    // The refused ones have not been: this is the first of its kind.
    assert_eq!(far.pages.read(0), 0);
    patiently(|| write(&near, &far, 1, PLAIN));
    assert_eq!(near.next(), done(1, RdmaWrite, 8));
    assert!(near.is_quiet() && far.is_quiet());
}

#[test]
fn a_completion_that_is_shown_has_its_place_until_it_is_taken() {
    let (near, far) = pair();
    let places = places(&near);
    for shown in 0..places {
        // The others go past those that are shown.
        (0..3 * places).for_each(|_| patiently(|| write(&near, &far, 99, SUPPRESS)));
        patiently(|| write(&near, &far, shown, PLAIN));
    }
    until_idle(&near);
    near.pages.fill(7);
    for flags in [SUPPRESS, PLAIN] {
        assert_eq!(write(&near, &far, 99, flags), FULL);
        assert_eq!(near.send(99, 8, flags), FULL);
    }
    assert_eq!(far.pages.read(0), 0);
    // One is taken, one may be posted.
    assert_eq!(near.next(), done(0, RdmaWrite, 8));
    write(&near, &far, places, PLAIN).unwrap();
    assert_eq!(write(&near, &far, 99, PLAIN), FULL);
    (1..=places).for_each(|shown| assert_eq!(near.next(), done(shown, RdmaWrite, 8)));
    assert!(near.is_quiet());
}

#[test]
fn completions_in_a_dispatcher_count_for_the_endpoint_they_are_of() {
    let (near, far) = pair();
    let places = places(&near);
    // Its own receives come to the same dispatcher, and are not requests.
    (0..places).for_each(|cookie| near.receive(cookie, 64));
    for cookie in 0..places {
        far.send(cookie, 8, PLAIN).unwrap();
        assert_eq!(far.next(), done(cookie, Send, 8));
    }
    (0..3 * places).for_each(|_| patiently(|| write(&near, &far, 99, SUPPRESS)));
    (0..places).for_each(|cookie| patiently(|| write(&near, &far, cookie, PLAIN)));
    assert_eq!(write(&near, &far, 99, SUPPRESS), FULL);
    (0..places).for_each(|cookie| assert_eq!(near.next(), done(cookie, Receive, 8)));
    assert_eq!(write(&near, &far, 99, SUPPRESS), FULL);
    (0..places).for_each(|cookie| assert_eq!(near.next(), done(cookie, RdmaWrite, 8)));
}

#[test]
fn what_a_broken_connection_flushes_is_told_suppressed_or_not() {
    let (near, far) = pair();
    let places = places(&near);
    (0..3 * places).for_each(|_| patiently(|| write(&near, &far, 99, SUPPRESS)));
    until_idle(&near);
    // Nothing of these ends before the connection does.
    (0..places - 1).for_each(|cookie| near.send(cookie, 8, SUPPRESS).unwrap());
    far.endpoint.disconnect(false).unwrap();
    assert_eq!(next(&near.connections), told(ConnectionEvent::Disconnected));
    // They were shown and not taken: one place is left.
    write(&near, &far, places - 1, SUPPRESS).unwrap();
    assert_eq!(write(&near, &far, 99, SUPPRESS), FULL);
    (0..places - 1).for_each(|cookie| assert_eq!(near.next(), flushed(cookie, Send)));
    assert_eq!(near.next(), flushed(places - 1, RdmaWrite));
    assert!(near.is_quiet());
}

/// Where some requests do not notify, all are numbered, and the numbers go round.
#[test]
fn cookies_are_kept_while_suppressed_requests_go_past() {
    let flags = SUPPRESS | CompletionFlags::UNSIGNALLED;
    let attributes = EndpointAttributes { request_flags: flags.bits(), ..EndpointAttributes::default() };
    let (near, far) = connected(&Plan { attributes, ..Plan::default() }, &Plan::default());
    let places = places(&near);
    let cookie = |number| 0xc0de_0000_0000_0000 | number;
    for round in 0..3 {
        for shown in 0..places {
            (0..9 * places).for_each(|_| patiently(|| write(&near, &far, 99, SUPPRESS)));
            patiently(|| write(&near, &far, cookie(shown), PLAIN));
        }
        assert_eq!(write(&near, &far, 99, SUPPRESS), FULL);
        (0..places).for_each(|shown| {
            assert_eq!(near.next(), done(cookie(shown), RdmaWrite, 8), "round {round}");
        });
    }
    let nowhere = RemoteSegment { context: 0, ..far.remote(0, 8) };
    near.endpoint.post_rdma_write(once(near.piece(0, 8)), cookie(7), nowhere, SUPPRESS).unwrap();
    (1..places).for_each(|late| patiently(|| write(&near, &far, cookie(late), SUPPRESS)));
    assert_eq!(near.next(), failed(cookie(7), RdmaWrite, TransferStatus::RemoteAccess));
    (1..places).for_each(|late| assert_eq!(near.next(), flushed(cookie(late), RdmaWrite)));
    // What a reset forgets does not stand in the way.
    break_up(&near);
    (0..places).for_each(|_| write(&near, &far, 99, PLAIN).unwrap());
    near.endpoint.reset().unwrap();
    break_up(&far);
    far.endpoint.reset().unwrap();
    connect(&near, &far);
    (0..9 * places).for_each(|_| patiently(|| write(&near, &far, 99, SUPPRESS)));
    (0..places).for_each(|shown| patiently(|| write(&near, &far, cookie(shown), PLAIN)));
    (0..places).for_each(|shown| assert_eq!(near.next(), done(cookie(shown), RdmaWrite, 8)));
}

#[test]
fn binds_that_are_suppressed_take_up_no_place_when_they_are_over() {
    let (near, _far) = pair();
    let places = places(&near);
    let region = RemoteRegion::create(&near.zone).unwrap();
    let bind = |cookie, flags| {
        region.bind(near.piece(0, 64), Privileges::REMOTE_READ, &near.endpoint, cookie, flags)
    };
    let mut context = 0;
    (0..20 * places).for_each(|cookie| context = patiently(|| bind(cookie, SUPPRESS)));
    until_idle(&near);
    assert_eq!(region.facts().context, context);
    bind(1, PLAIN).unwrap();
    assert_eq!(near.next(), Seen::Bind { cookie: 1, status: TransferStatus::Success });
    assert!(near.is_quiet());
    // Behind a completion that was not taken they wait with it.
    bind(2, PLAIN).unwrap();
    (1..places).for_each(|cookie| assert!(bind(cookie, SUPPRESS).is_ok()));
    until_idle(&near);
    let before = region.facts().context;
    assert_eq!(bind(99, SUPPRESS).map(drop), FULL);
    assert_eq!(region.facts().context, before);
    assert_eq!(near.next(), Seen::Bind { cookie: 2, status: TransferStatus::Success });
    bind(3, PLAIN).unwrap();
    assert_eq!(near.next(), Seen::Bind { cookie: 3, status: TransferStatus::Success });
}

#[test]
fn binds_that_are_suppressed_take_no_room_from_what_a_dispatcher_shows() {
    let (near, _far) = connected(&Plan { length: 4, ..Plan::default() }, &Plan::default());
    let places = places(&near);
    let region = RemoteRegion::create(&near.zone).unwrap();
    let bind = |cookie, flags| {
        region.bind(near.piece(0, 64), Privileges::REMOTE_READ, &near.endpoint, cookie, flags)
    };
    // Behind an event that nobody takes their ends gather.
    near.transfers.post_software(0).unwrap();
    bind(1, PLAIN).unwrap();
    (2..=places).for_each(|_| assert!(bind(99, SUPPRESS).is_ok()));
    assert_eq!(bind(99, SUPPRESS).map(drop), FULL);
    until_idle(&near);
    // Two are there, and there is room for two.
    assert_eq!(near.transfers.resize(1), Err(DatError::state(Subtype::None)));
    near.transfers.resize(2).unwrap();
    near.transfers.resize(4).unwrap();
    (1..3).for_each(|pointer| near.transfers.post_software(pointer).unwrap());
    let no_room = DatError::new(Kind::QueueFull, Subtype::None);
    assert_eq!(near.transfers.post_software(9), Err(no_room));
    let mut first = None;
    let (taken, left) =
        near.transfers.wait(common::connected::PATIENCE, 1, |event| first = Some(seen(event)));
    assert_eq!((taken, first, left), (Ok(()), Some(Seen::Software(0)), 3));
    assert_eq!(near.next(), Seen::Bind { cookie: 1, status: TransferStatus::Success });
    assert_eq!([near.next(), near.next()], [Seen::Software(1), Seen::Software(2)]);
    assert!(near.is_quiet());
    assert_eq!(near.endpoint.state(), EndpointState::Connected);
    // The dispatcher outlives what was suppressed there, and has its own length again.
    near.endpoint.free().unwrap();
    (0..4).for_each(|pointer| near.transfers.post_software(pointer).unwrap());
    assert_eq!(near.transfers.post_software(9), Err(no_room));
}
