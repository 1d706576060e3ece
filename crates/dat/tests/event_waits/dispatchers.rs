//! Event dispatchers: software events, waiting, and what can be set.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common;
use crate::common::waiting::{cpu_time_of_this_thread, named_thread, own_thread, until_asleep};
use crate::common::{bad_handle, bad_state, open};
use nonic_dat::{
    DatError, DatResult, Event, EventDispatcher, HandleKind, InterfaceAdapter, Kind, Resource, StateKind,
    Streams, Subtype,
};

const EMPTY: DatResult<()> = Err(DatError::QUEUE_EMPTY);
const TIMEOUT: DatResult<()> = Err(DatError::TIMEOUT_EXPIRED);

fn software(adapter: &Arc<InterfaceAdapter>, length: i32) -> Arc<EventDispatcher> {
    EventDispatcher::create(adapter, length, None, Streams::SOFTWARE).unwrap()
}

fn pointer(event: &Event<'_>) -> usize {
    match event {
        Event::Software { pointer } => *pointer,
        other => panic!("not a software event: {other:?}"),
    }
}

fn dequeue(dispatcher: &EventDispatcher) -> DatResult<usize> {
    let mut found = 0;
    dispatcher.dequeue(|event| found = pointer(event)).map(|()| found)
}

fn wait(dispatcher: &EventDispatcher, timeout: Option<Duration>, threshold: i32) -> (DatResult<usize>, i32) {
    let mut found = 0;
    let (outcome, left) = dispatcher.wait(timeout, threshold, |event| found = pointer(event));
    (outcome.map(|()| found), left)
}

#[test]
fn software_events_come_out_in_order_and_none_is_left() {
    let adapter = open(true);
    let dispatcher = software(&adapter, 4);
    assert_eq!(dispatcher.dequeue(|_| panic!("there is none")), EMPTY);
    for number in 1..=3 {
        dispatcher.post_software(number).unwrap();
    }
    assert_eq!([dequeue(&dispatcher), dequeue(&dispatcher), dequeue(&dispatcher)], [Ok(1), Ok(2), Ok(3)]);
    assert_eq!(dequeue(&dispatcher), Err(DatError::QUEUE_EMPTY));
}

#[test]
fn an_empty_queue_is_said_without_the_class_bit() {
    let adapter = open(true);
    let refused = dequeue(&software(&adapter, 1)).unwrap_err();
    assert!(refused.bare && refused.kind == Kind::QueueEmpty, "{refused:?}");
}

#[test]
fn a_full_dispatcher_refuses_software_events_and_is_none_the_worse() {
    let adapter = open(true);
    let dispatcher = software(&adapter, 2);
    dispatcher.post_software(1).unwrap();
    dispatcher.post_software(2).unwrap();
    let full = Err(DatError::new(Kind::QueueFull, Subtype::None));
    assert_eq!(dispatcher.post_software(3), full);
    assert_eq!(dequeue(&dispatcher), Ok(1));
    dispatcher.post_software(4).unwrap();
    assert_eq!([dequeue(&dispatcher), dequeue(&dispatcher)], [Ok(2), Ok(4)]);
}

#[test]
fn a_dispatcher_without_the_software_stream_takes_no_software_events() {
    let adapter = open(true);
    let dispatcher = EventDispatcher::create(&adapter, 4, None, Streams::CONNECTION).unwrap();
    assert_eq!(dispatcher.post_software(1), Err(DatError::argument(1)));
    assert_eq!(dequeue(&dispatcher), Err(DatError::QUEUE_EMPTY));
}

#[test]
fn lengths_and_streams_that_cannot_be_are_refused() {
    let adapter = open(true);
    let create = |length, streams| EventDispatcher::create(&adapter, length, None, streams).unwrap_err();
    assert_eq!(create(0, Streams::SOFTWARE), DatError::argument(2));
    assert_eq!(create(-1, Streams::SOFTWARE), DatError::argument(2));
    let too_long = DatError::resources(Subtype::Resource(Resource::TransportEventDispatcher));
    assert_eq!(create(i32::MAX, Streams::SOFTWARE), too_long);
    assert_eq!(create(4, Streams::ASYNC), DatError::argument(4));
    assert_eq!(create(4, Streams::ASYNC | Streams::SOFTWARE), DatError::argument(4));
    assert_eq!(create(4, Streams::default()), DatError::argument(4));
    // Nothing was made.
    assert_eq!(adapter.close(true), Ok(()));
}

#[test]
fn every_other_merge_of_streams_is_allowed() {
    let adapter = open(true);
    let streams = [
        Streams::SOFTWARE,
        Streams::CONNECTION_REQUEST,
        Streams::DATA_TRANSFER,
        Streams::CONNECTION,
        Streams::BIND,
    ];
    for bits in 1..1u32 << streams.len() {
        let merged = (0..streams.len()).filter(|bit| bits & (1 << bit) != 0);
        let merged = merged.fold(Streams::default(), |merged, bit| merged | streams[bit]);
        let dispatcher = EventDispatcher::create(&adapter, 1, None, merged).unwrap();
        assert_eq!(dispatcher.facts().unwrap().streams, merged);
        dispatcher.free().unwrap();
    }
}

#[test]
fn the_state_of_a_dispatcher_follows_the_calls() {
    let adapter = open(true);
    let dispatcher = software(&adapter, 3);
    let facts = dispatcher.facts().unwrap();
    assert_eq!((facts.length, facts.state), (3, 0x5));
    assert!(facts.notification.is_none());
    dispatcher.disable().unwrap();
    dispatcher.set_unwaitable().unwrap();
    assert_eq!(dispatcher.facts().unwrap().state, 0xa);
    // Both may be repeated.
    dispatcher.disable().unwrap();
    dispatcher.set_unwaitable().unwrap();
    dispatcher.enable().unwrap();
    dispatcher.enable().unwrap();
    assert_eq!(dispatcher.facts().unwrap().state, 0x9);
    dispatcher.clear_unwaitable().unwrap();
    assert_eq!(dispatcher.facts().unwrap().state, 0x5);
}

#[test]
fn resizing_loses_no_event_and_refuses_less_room_than_is_used() {
    let adapter = open(true);
    for streams in [Streams::SOFTWARE, Streams::SOFTWARE | Streams::DATA_TRANSFER] {
        let dispatcher = EventDispatcher::create(&adapter, 3, None, streams).unwrap();
        for number in 1..=3 {
            dispatcher.post_software(number).unwrap();
        }
        assert_eq!(dispatcher.resize(2), Err(DatError::state(Subtype::None)));
        assert_eq!(dispatcher.resize(0), Err(DatError::argument(2)));
        assert_eq!(dispatcher.facts().unwrap().length, 3);
        dispatcher.resize(4).unwrap();
        dispatcher.post_software(4).unwrap();
        assert_eq!((1..=4).map(|_| dequeue(&dispatcher)).collect::<Vec<_>>(), [Ok(1), Ok(2), Ok(3), Ok(4)]);
        dispatcher.resize(1).unwrap();
        assert_eq!(dispatcher.facts().unwrap().length, 1);
    }
}

#[test]
fn a_freed_dispatcher_is_refused_everywhere() {
    let adapter = open(true);
    let dispatcher = software(&adapter, 3);
    dispatcher.post_software(1).unwrap();
    dispatcher.free().unwrap();
    let gone = Err(bad_handle(HandleKind::First));
    assert_eq!(dispatcher.free(), gone);
    assert_eq!(dispatcher.post_software(1), gone);
    assert_eq!(dispatcher.resize(9), gone);
    assert_eq!(dispatcher.enable(), gone);
    assert_eq!(dispatcher.disable(), gone);
    assert_eq!(dispatcher.set_unwaitable(), gone);
    assert_eq!(dispatcher.clear_unwaitable(), gone);
    assert_eq!(dispatcher.modify_notification(None), gone);
    assert_eq!(dispatcher.facts().map(drop), gone);
    assert_eq!(dispatcher.dequeue(|_| panic!("it is gone")), gone);
    assert_eq!(dispatcher.wait(None, 1, |_| panic!("it is gone")), (gone, 0));
    assert_eq!(adapter.close(true), Ok(()));
}

#[test]
fn waiting_takes_what_is_there_and_says_what_is_left() {
    let adapter = open(true);
    let dispatcher = software(&adapter, 4);
    for number in 1..=3 {
        dispatcher.post_software(number).unwrap();
    }
    assert_eq!(wait(&dispatcher, None, 1), (Ok(1), 2));
    assert_eq!(wait(&dispatcher, Some(Duration::ZERO), 1), (Ok(2), 1));
    assert_eq!(wait(&dispatcher, Some(Duration::ZERO), 1), (Ok(3), 0));
    assert_eq!(wait(&dispatcher, Some(Duration::ZERO), 1), (Err(DatError::TIMEOUT_EXPIRED), 0));
}

#[test]
fn a_wait_ends_at_its_time_and_takes_nothing() {
    let adapter = open(true);
    for streams in [Streams::SOFTWARE, Streams::SOFTWARE | Streams::DATA_TRANSFER] {
        let dispatcher = EventDispatcher::create(&adapter, 4, None, streams).unwrap();
        let began = Instant::now();
        let timeout = Duration::from_millis(30);
        assert_eq!(dispatcher.wait(Some(timeout), 1, |_| panic!("there is none")), (TIMEOUT, 0));
        let took = began.elapsed();
        assert!(took >= timeout && took < Duration::from_secs(20), "{took:?}");
    }
}

#[test]
fn thresholds_that_cannot_be_are_refused() {
    let adapter = open(true);
    let dispatcher = software(&adapter, 4);
    dispatcher.post_software(7).unwrap();
    let wrong = (Err(DatError::argument(3)), 1);
    for threshold in [0, -1, i32::MIN, 5] {
        assert_eq!(wait(&dispatcher, Some(Duration::ZERO), threshold), wrong);
    }
    // No endpoint has asked for thresholds.
    let unasked = (Err(bad_state(StateKind::EvdConfigNotify)), 1);
    assert_eq!(wait(&dispatcher, Some(Duration::ZERO), 2), unasked);
    assert_eq!(wait(&dispatcher, None, 1), (Ok(7), 0));
}

#[test]
fn a_sleeper_is_woken_by_a_software_event_and_costs_nothing_until_then() {
    let adapter = open(true);
    for streams in [Streams::SOFTWARE, Streams::SOFTWARE | Streams::DATA_TRANSFER] {
        let dispatcher = EventDispatcher::create(&adapter, 4, None, streams).unwrap();
        std::thread::scope(|scope| {
            let (waiter, thread) = named_thread(scope, || {
                let before = cpu_time_of_this_thread();
                (wait(&dispatcher, None, 1), cpu_time_of_this_thread() - before)
            });
            until_asleep(thread);
            // The time asleep is what is measured: long enough for looking in vain to show.
            std::thread::sleep(Duration::from_millis(300));
            dispatcher.post_software(5).unwrap();
            let (outcome, cost) = waiter.join().unwrap();
            assert_eq!(outcome, (Ok(5), 0));
            assert!(cost < Duration::from_millis(100), "waiting took {cost:?} of a CPU");
        });
    }
}

#[test]
fn a_waiter_owns_the_dispatcher() {
    let adapter = open(true);
    let dispatcher = software(&adapter, 4);
    std::thread::scope(|scope| {
        let (waiter, thread) = named_thread(scope, || wait(&dispatcher, None, 1));
        until_asleep(thread);
        let owned = bad_state(StateKind::EvdWaiter);
        assert_eq!(wait(&dispatcher, None, 1), (Err(owned), 0));
        assert_eq!(dequeue(&dispatcher), Err(owned));
        assert_eq!(dispatcher.free(), Err(bad_state(StateKind::EvdInUse)));
        dispatcher.post_software(3).unwrap();
        assert_eq!(waiter.join().unwrap(), (Ok(3), 0));
    });
    dispatcher.post_software(4).unwrap();
    assert_eq!(dequeue(&dispatcher), Ok(4));
    dispatcher.free().unwrap();
}

#[test]
fn an_unwaitable_dispatcher_wakes_its_waiter_and_can_still_be_dequeued() {
    let adapter = open(true);
    let dispatcher = software(&adapter, 4);
    let unwaitable = (Err(bad_state(StateKind::EvdUnwaitable)), 0);
    std::thread::scope(|scope| {
        let (waiter, thread) = named_thread(scope, || wait(&dispatcher, None, 1));
        until_asleep(thread);
        dispatcher.set_unwaitable().unwrap();
        assert_eq!(waiter.join().unwrap(), unwaitable);
    });
    assert_eq!(wait(&dispatcher, Some(Duration::ZERO), 1), unwaitable);
    dispatcher.post_software(4).unwrap();
    assert_eq!(dequeue(&dispatcher), Ok(4));
    dispatcher.clear_unwaitable().unwrap();
    dispatcher.post_software(5).unwrap();
    assert_eq!(wait(&dispatcher, None, 1), (Ok(5), 0));
}

#[test]
fn closing_the_adapter_aborts_the_wait() {
    let adapter = open(true);
    let dispatcher = software(&adapter, 4);
    std::thread::scope(|scope| {
        let (waiter, thread) = named_thread(scope, || wait(&dispatcher, None, 1));
        until_asleep(thread);
        assert_eq!(adapter.close(true), Err(bad_state(StateKind::IaInUse)));
        adapter.close(false).unwrap();
        assert_eq!(waiter.join().unwrap(), (Err(DatError::new(Kind::Abort, Subtype::None)), 0));
    });
}

#[test]
fn a_signal_interrupts_the_wait() {
    let adapter = open(true);
    let dispatcher = software(&adapter, 4);
    common::waiting::let_signals_interrupt();
    for timeout in [None, Some(Duration::from_secs(100))] {
        std::thread::scope(|scope| {
            let (waiter, thread) = named_thread(scope, || wait(&dispatcher, timeout, 1));
            until_asleep(thread);
            common::waiting::interrupt(thread);
            let interrupted = DatError::new(Kind::InterruptedCall, Subtype::Interrupted);
            assert_eq!(waiter.join().unwrap(), (Err(interrupted), 0));
        });
    }
    assert_ne!(own_thread(), 0);
    // It can be waited for again.
    dispatcher.post_software(5).unwrap();
    assert_eq!(wait(&dispatcher, None, 1), (Ok(5), 0));
}

#[test]
fn many_posts_from_many_threads_all_arrive() {
    const THREADS: usize = 4;
    const EACH: usize = 2000;
    let adapter = open(true);
    let dispatcher = software(&adapter, 64);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let dispatcher = &dispatcher;
            scope.spawn(move || {
                for number in 0..EACH {
                    while dispatcher.post_software(thread * EACH + number).is_err() {
                        std::thread::yield_now();
                    }
                }
            });
        }
        let mut next = [0; THREADS];
        for _ in 0..THREADS * EACH {
            let found = wait(&dispatcher, Some(Duration::from_secs(60)), 1).0.unwrap();
            // In order, each thread's.
            assert_eq!(next[found / EACH], found % EACH);
            next[found / EACH] += 1;
        }
    });
    assert_eq!(dequeue(&dispatcher), Err(DatError::QUEUE_EMPTY));
}
