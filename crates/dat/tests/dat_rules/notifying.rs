//! Which completions wake who waits: modes, thresholds, notification objects, and dispatchers that overflow.

use std::iter::once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use crate::common;
use crate::common::bad_state;
use crate::common::connected::{
    PATIENCE, PLAIN, Plan, Seen, Side, connected, dequeue, done, failed, next, pair, seen, told,
};
use crate::common::waiting::{named_thread, until_asleep};
use nonic_dat::{
    AsyncObject, CompletionFlags, ConnectionEvent, DatError, DatResult, EndpointAttributes, Event,
    EventDispatcher, NotificationObject, RemoteRegion, RemoteSegment, StateKind, Subtype, TransferKind,
    TransferStatus,
};

use TransferKind::{RdmaRead, RdmaWrite, Receive, Send};

const NOW: Option<Duration> = Some(Duration::ZERO);
const UNSIGNALLED: CompletionFlags = CompletionFlags::UNSIGNALLED;
const SOLICITED: CompletionFlags = CompletionFlags::SOLICITED_WAIT;
const SUPPRESS: CompletionFlags = CompletionFlags::SUPPRESS;

fn wait(dispatcher: &EventDispatcher, timeout: Option<Duration>, threshold: i32) -> (DatResult<Seen>, i32) {
    let mut found = None;
    let (outcome, left) = dispatcher.wait(timeout, threshold, |event| found = Some(seen(event)));
    (outcome.map(|()| found.unwrap()), left)
}

fn timed_out(left: i32) -> (DatResult<Seen>, i32) {
    (Err(DatError::TIMEOUT_EXPIRED), left)
}

/// Waits until this many events are queued.
fn until_queued(dispatcher: &EventDispatcher, count: i32) {
    let deadline = Instant::now() + Duration::from_secs(60);
    // What is refused says how many there are.
    while dispatcher.wait(NOW, i32::MAX, |_| {}).1 < count {
        assert!(Instant::now() < deadline);
        let _ = dispatcher.wait(Some(Duration::from_millis(1)), 255, |_| {});
    }
}

fn with_flags(receive: CompletionFlags, request: CompletionFlags) -> Plan {
    let attributes = EndpointAttributes {
        receive_flags: receive.bits(),
        request_flags: request.bits(),
        ..EndpointAttributes::default()
    };
    Plan { attributes, ..Plan::default() }
}

#[test]
fn many_sleepers_on_many_dispatchers_are_each_woken_by_their_own() {
    let sides: Vec<_> = (0..4).map(|_| pair()).collect();
    std::thread::scope(|scope| {
        let waiters: Vec<_> = sides
            .iter()
            .map(|(_, far)| {
                far.receive(1, 64);
                named_thread(scope, || wait(&far.transfers, PATIENCE, 1))
            })
            .collect();
        for (_, thread) in &waiters {
            until_asleep(*thread);
        }
        for ((near, _), (waiter, _)) in sides.iter().zip(waiters).rev() {
            near.send(2, 8, PLAIN).unwrap();
            assert_eq!(waiter.join().unwrap(), (Ok(done(1, Receive, 8)), 0));
        }
    });
}

#[test]
fn a_threshold_is_reached_by_that_many_events_and_takes_one() {
    let (near, far) = pair();
    (0..4).for_each(|number| far.receive(number, 64));
    assert_eq!(wait(&far.transfers, NOW, 3), timed_out(0));
    near.send(1, 8, PLAIN).unwrap();
    near.send(2, 8, PLAIN).unwrap();
    until_queued(&far.transfers, 2);
    let (began, timeout) = (Instant::now(), Duration::from_millis(20));
    assert_eq!(wait(&far.transfers, Some(timeout), 3), timed_out(2));
    assert!(began.elapsed() >= timeout);
    std::thread::scope(|scope| {
        let (waiter, thread) = named_thread(scope, || wait(&far.transfers, None, 3));
        until_asleep(thread);
        near.send(3, 8, PLAIN).unwrap();
        assert_eq!(waiter.join().unwrap(), (Ok(done(0, Receive, 8)), 2));
    });
    // Other events count as well.
    far.transfers.post_software(9).unwrap();
    assert_eq!(wait(&far.transfers, NOW, 3), (Ok(done(1, Receive, 8)), 2));
    assert_eq!(wait(&far.transfers, NOW, 1), (Ok(done(2, Receive, 8)), 1));
    assert_eq!(wait(&far.transfers, NOW, 1), (Ok(Seen::Software(9)), 0));
}

#[test]
fn only_solicited_messages_and_failures_wake_who_waits_for_such() {
    let (near, far) = connected(&Plan::default(), &with_flags(SOLICITED, PLAIN));
    assert_eq!(far.transfers.facts().unwrap().state & 0x30, 0x20);
    (0..4).for_each(|number| far.receive(number, 64));
    near.send(1, 8, PLAIN).unwrap();
    until_queued(&far.transfers, 1);
    // It is there, and can be taken by who does not wait, but it wakes nobody.
    assert_eq!(wait(&far.transfers, Some(Duration::from_millis(20)), 1), timed_out(1));
    assert_eq!(wait(&far.transfers, NOW, 2).0, Err(bad_state(StateKind::EvdConfigSolicited)));
    std::thread::scope(|scope| {
        let (waiter, thread) = named_thread(scope, || wait(&far.transfers, None, 1));
        until_asleep(thread);
        near.send(2, 8, PLAIN).unwrap();
        near.send(3, 8, SOLICITED).unwrap();
        // The oldest comes out, whatever it is.
        assert_eq!(waiter.join().unwrap().0, Ok(done(0, Receive, 8)));
    });
    assert_eq!(dequeue(&far.transfers), Ok(done(1, Receive, 8)));
    assert_eq!(wait(&far.transfers, PATIENCE, 1), (Ok(done(2, Receive, 8)), 0));
    std::thread::scope(|scope| {
        let (waiter, thread) = named_thread(scope, || wait(&far.transfers, None, 1));
        until_asleep(thread);
        near.endpoint.disconnect(false).unwrap();
        let flushed = failed(3, Receive, TransferStatus::Flushed);
        assert_eq!(waiter.join().unwrap(), (Ok(flushed), 0));
    });
}

#[test]
fn requests_posted_not_to_notify_wake_nobody_and_come_out_in_order() {
    let (near, far) = connected(&with_flags(PLAIN, UNSIGNALLED), &Plan::default());
    assert_eq!(near.transfers.facts().unwrap().state & 0x30, 0x30, "receives came first");
    let (near_two, far_two) = {
        let plan = with_flags(UNSIGNALLED, UNSIGNALLED);
        connected(&plan, &Plan::default())
    };
    drop((near, far));
    let (near, far) = (near_two, far_two);
    assert_eq!(near.transfers.facts().unwrap().state & 0x30, 0x10);
    let write = |cookie, flags| {
        near.endpoint.post_rdma_write(once(near.piece(0, 8)), cookie, far.remote(0, 8), flags).unwrap();
    };
    // Cookies are the consumer's, whatever their bits.
    for cookie in [u64::MAX, 1 << 63, 1 << 62, 0] {
        write(cookie, UNSIGNALLED);
        until_queued(&near.transfers, 1);
        assert_eq!(wait(&near.transfers, Some(Duration::from_millis(5)), 1), timed_out(1));
        assert_eq!(dequeue(&near.transfers), Ok(done(cookie, RdmaWrite, 8)));
    }
    assert_eq!(wait(&near.transfers, NOW, 2).0, Err(bad_state(StateKind::EvdConfigNotify)));
    write(1, UNSIGNALLED);
    write(u64::MAX, PLAIN);
    assert_eq!(wait(&near.transfers, PATIENCE, 1), (Ok(done(1, RdmaWrite, 8)), 1));
    assert_eq!(wait(&near.transfers, PATIENCE, 1), (Ok(done(u64::MAX, RdmaWrite, 8)), 0));
    // A failure wakes.
    let nowhere = RemoteSegment { context: 0, ..far.remote(0, 8) };
    near.endpoint.post_rdma_write(once(near.piece(0, 8)), 3, nowhere, UNSIGNALLED).unwrap();
    let failure = failed(3, RdmaWrite, TransferStatus::RemoteAccess);
    assert_eq!(wait(&near.transfers, PATIENCE, 1).0, Ok(failure));
}

#[test]
fn receives_posted_not_to_notify_wake_nobody() {
    let (near, far) = connected(&Plan::default(), &with_flags(UNSIGNALLED, UNSIGNALLED));
    let receive = |cookie, flags| {
        far.endpoint.post_receive(once(far.piece(4096, 64)), cookie, flags).unwrap();
    };
    receive(1 << 63, UNSIGNALLED);
    receive(7, UNSIGNALLED);
    receive(u64::MAX, PLAIN);
    near.send(1, 8, PLAIN).unwrap();
    near.send(2, 8, PLAIN).unwrap();
    until_queued(&far.transfers, 2);
    assert_eq!(wait(&far.transfers, Some(Duration::from_millis(5)), 1), timed_out(2));
    near.send(3, 8, PLAIN).unwrap();
    assert_eq!(wait(&far.transfers, PATIENCE, 1), (Ok(done(1 << 63, Receive, 8)), 2));
    assert_eq!(wait(&far.transfers, PATIENCE, 1), (Ok(done(7, Receive, 8)), 1));
    assert_eq!(wait(&far.transfers, PATIENCE, 1), (Ok(done(u64::MAX, Receive, 8)), 0));
}

#[test]
fn numbered_cookies_survive_many_rounds_and_refused_requests() {
    let (near, far) = connected(&with_flags(UNSIGNALLED, UNSIGNALLED), &Plan::default());
    let limit = near.endpoint.facts().unwrap().attributes.max_requests as u64;
    for round in 0..200u64 {
        for number in 0..limit {
            let flags = if number % 3 == 0 { UNSIGNALLED } else { PLAIN };
            let cookie = (round << 32) | number;
            near.endpoint.post_rdma_write(once(near.piece(0, 8)), cookie, far.remote(0, 8), flags).unwrap();
        }
        // No more than the queue holds, as often as one likes.
        for _ in 0..3 {
            let refused = near.endpoint.post_rdma_write(once(near.piece(0, 8)), 5, far.remote(0, 8), PLAIN);
            assert!(refused.is_err());
        }
        for number in 0..limit {
            let deadline = Instant::now() + Duration::from_secs(60);
            let event = loop {
                match dequeue(&near.transfers) {
                    Ok(event) => break event,
                    Err(error) => assert!(error == DatError::QUEUE_EMPTY && Instant::now() < deadline),
                }
            };
            assert_eq!(event, done((round << 32) | number, RdmaWrite, 8));
        }
    }
}

#[test]
fn a_bind_whose_success_is_suppressed_is_never_seen_and_wakes_nobody() {
    let (near, far) = pair();
    let region = RemoteRegion::create(&near.zone).unwrap();
    let bind = |cookie, flags| {
        region
            .bind(near.piece(0, 64), nonic_dat::Privileges::REMOTE_READ, &near.endpoint, cookie, flags)
            .unwrap()
    };
    let first = bind(1, SUPPRESS);
    assert_eq!(wait(&near.transfers, Some(Duration::from_millis(5)), 1).0, Err(DatError::TIMEOUT_EXPIRED));
    assert!(near.is_quiet());
    let second = bind(2, PLAIN);
    assert_ne!(first, second);
    assert_eq!(near.next(), Seen::Bind { cookie: 2, status: TransferStatus::Success });
    let third = bind(3, SUPPRESS);
    let fourth = bind(4, PLAIN);
    assert_eq!(near.next(), Seen::Bind { cookie: 4, status: TransferStatus::Success });
    assert!(near.is_quiet());
    assert_eq!(region.facts().context, fourth);
    assert_ne!(third, fourth);
    let remote = RemoteSegment { context: fourth, address: near.region.facts().address, length: 64 };
    far.endpoint.post_rdma_read(once(far.piece(0, 64)), 5, remote, PLAIN).unwrap();
    assert_eq!(far.next(), done(5, RdmaRead, 64));
    near.endpoint.disconnect(false).unwrap();
    assert_eq!(next(&near.connections), told(ConnectionEvent::Disconnected));
    bind(6, SUPPRESS);
    assert_eq!(near.next(), Seen::Bind { cookie: 6, status: TransferStatus::Flushed });
    near.endpoint.free().unwrap();
    region.free().unwrap();
    near.region.free().unwrap();
}

#[test]
fn a_notification_object_is_triggered_by_completions() {
    let (near, far) = pair();
    let object = NotificationObject::create(&far.adapter, None).unwrap();
    far.transfers.modify_notification(Some(&object)).unwrap();
    for number in 0..20 {
        far.receive(number, 64);
        std::thread::scope(|scope| {
            let (waiter, thread) = named_thread(scope, || object.wait(None));
            if number % 2 == 0 {
                until_asleep(thread);
            }
            near.send(number, 8, PLAIN).unwrap();
            assert!(Arc::ptr_eq(&waiter.join().unwrap().unwrap(), &far.transfers));
        });
        assert_eq!(dequeue(&far.transfers), Ok(done(number, Receive, 8)));
        assert_eq!(object.wait(NOW).unwrap_err(), DatError::QUEUE_EMPTY);
        assert_eq!(near.next(), done(number, Send, 8));
    }
}

#[test]
fn an_agent_may_take_completions_post_requests_and_be_set_again() {
    let (near, far) = pair();
    let object = NotificationObject::create(&far.adapter, None).unwrap();
    far.transfers.modify_notification(Some(&object)).unwrap();
    let (far, object) = (Arc::new(far), object);
    let (called, calls) = mpsc::channel();
    for number in 0..20 {
        far.receive(number, 64);
        near.receive(number, 64);
        let (side, called) = (Arc::clone(&far), called.clone());
        object
            .set_agent(Some(Box::new(move |dispatcher| {
                let event = dequeue(dispatcher).unwrap();
                side.send(number, 8, PLAIN).unwrap();
                called.send(event).unwrap();
            })))
            .unwrap();
        near.send(number, 8, PLAIN).unwrap();
        assert_eq!(calls.recv_timeout(Duration::from_secs(60)).unwrap(), done(number, Receive, 8));
        assert_eq!([near.next(), near.next()], [done(number, Send, 8), done(number, Receive, 8)]);
        assert_eq!(far.next(), done(number, Send, 8));
    }
}

#[test]
fn completions_that_find_no_room_kill_the_dispatcher_and_the_adapter_is_told() {
    let small = Plan { length: 2, ..Plan::default() };
    let (near, far) = connected(&Plan::default(), &small);
    (0..4).for_each(|number| far.receive(number, 64));
    (0..4).for_each(|number| near.send(number, 8, PLAIN).unwrap());
    let errors = far.adapter.async_dispatcher().unwrap();
    let mut told_of = false;
    let outcome = errors.wait(PATIENCE, 1, |event| {
        let Event::Async { kind, object: AsyncObject::Adapter(adapter), reason } = event else {
            panic!("{event:?}")
        };
        told_of = *kind == nonic_dat::AsyncError::DispatcherOverflow && *reason == 0;
        assert!(Arc::ptr_eq(adapter, &far.adapter));
    });
    assert!(outcome.0 == Ok(()) && told_of);
    let dead = DatError::state(Subtype::None);
    assert_eq!(dequeue(&far.transfers), Err(dead));
    assert_eq!(wait(&far.transfers, None, 1).0, Err(dead));
    assert_eq!(errors.dequeue(|_| {}), Err(DatError::QUEUE_EMPTY), "it is told once");
    // The endpoints that feed it break.
    assert_eq!(next(&far.connections), told(ConnectionEvent::Broken));
    assert_eq!(next(&near.connections), told(ConnectionEvent::Broken));
    far.endpoint.free().unwrap();
    far.transfers.free().unwrap();
}

#[test]
fn connection_events_that_find_no_room_kill_the_dispatcher() {
    let near = Side::new(&Plan::default());
    let plan = Plan { merged: true, length: 1, ..Plan::default() };
    let far = Side::new(&plan);
    far.transfers.post_software(1).unwrap();
    common::connected::accept(&near, &far);
    let errors = far.adapter.async_dispatcher().unwrap();
    assert_eq!(next(&errors), Seen::Overflow);
    assert_eq!(dequeue(&far.transfers), Err(DatError::state(Subtype::None)));
}

#[test]
fn waiting_threads_and_one_that_posts_lose_nothing() {
    const ROUNDS: u64 = 3000;
    let (near, far) = pair();
    (0..8).for_each(|number| far.receive(number, 64));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..ROUNDS {
                assert_eq!(wait(&far.transfers, PATIENCE, 1).0, Ok(done(round % 8, Receive, 8)));
                far.receive(round % 8, 64);
            }
        });
        for round in 0..ROUNDS {
            near.send(round, 8, PLAIN).unwrap();
            assert_eq!(wait(&near.transfers, PATIENCE, 1).0, Ok(done(round, Send, 8)));
        }
    });
}

#[test]
fn waits_of_every_kind_at_once_lose_nothing() {
    const MESSAGES: u64 = 20_000;
    const CREDITS: u64 = 8;
    let (near, far) = pair();
    let object = NotificationObject::create(&far.adapter, None).unwrap();
    far.transfers.modify_notification(Some(&object)).unwrap();
    (0..CREDITS).for_each(|number| far.receive(number, 64));
    let taken = AtomicU64::new(0);
    let take = |outcome: DatResult<Seen>| {
        if let Ok(Seen::Transfer { cookie, status, .. }) = outcome {
            assert_eq!(status, TransferStatus::Success);
            far.receive(cookie, 64);
            taken.fetch_add(1, Ordering::SeqCst);
        }
    };
    let short = |turn: u64| Some(Duration::from_micros(turn % 7 * 50));
    let is_over = || taken.load(Ordering::SeqCst) >= MESSAGES;
    std::thread::scope(|scope| {
        // One waits for the dispatcher, now and then only for a moment; two wait for the object.
        scope.spawn(|| {
            for turn in 0.. {
                let timeout = if turn % 3 == 0 { Some(Duration::from_millis(50)) } else { short(turn) };
                take(wait(&far.transfers, timeout, 1).0);
                if is_over() {
                    break;
                }
                if turn % 5 == 0 {
                    std::thread::yield_now();
                }
            }
        });
        for _ in 0..2 {
            scope.spawn(|| {
                for turn in 0.. {
                    let timeout = if turn % 2 == 0 { Some(Duration::from_millis(50)) } else { short(turn) };
                    let _ = object.wait(timeout);
                    take(dequeue(&far.transfers));
                    if is_over() {
                        break;
                    }
                }
            });
        }
        let deadline = Instant::now() + Duration::from_secs(60);
        for number in 0..MESSAGES {
            // No more than there are receives for, or the sender would wait before it tries again.
            while number - taken.load(Ordering::SeqCst) >= CREDITS {
                assert!(Instant::now() < deadline, "message {number} of {MESSAGES} was forgotten");
                std::thread::yield_now();
            }
            near.send(number, 8, PLAIN).unwrap();
            assert_eq!(near.next(), done(number, Send, 8));
        }
    });
    assert_eq!(taken.load(Ordering::SeqCst), MESSAGES);
}
