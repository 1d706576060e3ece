//! Notification objects: waiting for several dispatchers at once, and agents.

use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use crate::common::waiting::{
    cpu_time_of_this_thread, interrupt, let_signals_interrupt, named_thread, until_asleep,
};
use crate::common::{bad_handle, bad_state, open};
use nonic_dat::{
    Agent, DatError, EventDispatcher, HandleKind, InterfaceAdapter, Kind, NotificationObject, StateKind,
    Streams, Subtype,
};

const LONG: Option<Duration> = Some(Duration::from_secs(60));
const NOW: Option<Duration> = Some(Duration::ZERO);

fn object(adapter: &Arc<InterfaceAdapter>) -> Arc<NotificationObject> {
    NotificationObject::create(adapter, None).unwrap()
}

fn attached(object: &Arc<NotificationObject>) -> Arc<EventDispatcher> {
    EventDispatcher::create(object.adapter(), 8, Some(object), Streams::SOFTWARE).unwrap()
}

fn take(dispatcher: &EventDispatcher) {
    dispatcher.dequeue(|_| {}).unwrap();
}

/// Who is named by a wait that need not wait.
fn named(object: &NotificationObject) -> Result<Arc<EventDispatcher>, DatError> {
    object.wait(NOW)
}

fn is(found: &Result<Arc<EventDispatcher>, DatError>, wanted: &Arc<EventDispatcher>) -> bool {
    found.as_ref().is_ok_and(|found| Arc::ptr_eq(found, wanted))
}

/// An agent that says which dispatcher it was called for.
fn agent() -> (Agent, mpsc::Receiver<Arc<EventDispatcher>>) {
    let (called, calls) = mpsc::channel();
    (Box::new(move |dispatcher| called.send(Arc::clone(dispatcher)).unwrap()), calls)
}

#[test]
fn a_wait_names_the_dispatcher_that_holds_events_until_they_are_taken() {
    let adapter = open(true);
    let object = object(&adapter);
    let (one, two) = (attached(&object), attached(&object));
    assert_eq!(named(&object).unwrap_err(), DatError::QUEUE_EMPTY);
    two.post_software(1).unwrap();
    two.post_software(2).unwrap();
    assert!(is(&named(&object), &two) && is(&named(&object), &two));
    take(&two);
    assert!(is(&named(&object), &two));
    take(&two);
    assert_eq!(named(&object).unwrap_err(), DatError::QUEUE_EMPTY);
    one.post_software(3).unwrap();
    assert!(is(&object.wait(None), &one));
}

#[test]
fn dispatchers_that_hold_events_are_named_in_turn() {
    let adapter = open(true);
    let object = object(&adapter);
    let all = [attached(&object), attached(&object), attached(&object)];
    all.iter().for_each(|one| one.post_software(1).unwrap());
    for _ in 0..2 {
        let named: Vec<_> = (0..3).map(|_| named(&object).unwrap()).collect();
        for one in &all {
            assert_eq!(named.iter().filter(|found| Arc::ptr_eq(found, one)).count(), 1);
        }
    }
}

#[test]
fn a_wait_ends_at_its_time() {
    let adapter = open(true);
    let object = object(&adapter);
    let _dispatcher = attached(&object);
    let (began, timeout) = (Instant::now(), Duration::from_millis(30));
    assert_eq!(object.wait(Some(timeout)).unwrap_err(), DatError::QUEUE_EMPTY);
    assert!(began.elapsed() >= timeout && began.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_sleeper_is_woken_by_an_event_of_any_dispatcher_and_costs_nothing_until_then() {
    let adapter = open(true);
    let object = object(&adapter);
    let (_one, two) = (attached(&object), attached(&object));
    std::thread::scope(|scope| {
        let (waiter, thread) = named_thread(scope, || {
            let before = cpu_time_of_this_thread();
            (object.wait(None), cpu_time_of_this_thread() - before)
        });
        until_asleep(thread);
        // The time asleep is what is measured: long enough for looking in vain to show.
        std::thread::sleep(Duration::from_millis(300));
        two.post_software(5).unwrap();
        let (found, cost) = waiter.join().unwrap();
        assert!(is(&found, &two));
        assert!(cost < Duration::from_millis(100), "waiting took {cost:?} of a CPU");
    });
}

#[test]
fn a_signal_interrupts_the_wait() {
    let adapter = open(true);
    let object = object(&adapter);
    let_signals_interrupt();
    std::thread::scope(|scope| {
        let (waiter, thread) = named_thread(scope, || object.wait(LONG));
        until_asleep(thread);
        interrupt(thread);
        let interrupted = DatError::new(Kind::InterruptedCall, Subtype::Interrupted);
        assert_eq!(waiter.join().unwrap().unwrap_err(), interrupted);
    });
    // It is not counted as a waiter any more.
    object.free().unwrap();
}

#[test]
fn a_disabled_dispatcher_triggers_nothing_until_it_is_enabled() {
    let adapter = open(true);
    let object = object(&adapter);
    let dispatcher = attached(&object);
    dispatcher.disable().unwrap();
    dispatcher.post_software(1).unwrap();
    assert_eq!(named(&object).unwrap_err(), DatError::QUEUE_EMPTY);
    std::thread::scope(|scope| {
        let (waiter, thread) = named_thread(scope, || object.wait(LONG));
        until_asleep(thread);
        dispatcher.enable().unwrap();
        assert!(is(&waiter.join().unwrap(), &dispatcher));
    });
}

#[test]
fn a_thread_that_waits_for_the_dispatcher_itself_keeps_its_events_from_the_object() {
    let adapter = open(true);
    let (agent, calls) = agent();
    let object = NotificationObject::create(&adapter, Some(agent)).unwrap();
    let dispatcher = attached(&object);
    std::thread::scope(|scope| {
        let (waiter, thread) = named_thread(scope, || dispatcher.wait(LONG, 1, |_| {}));
        until_asleep(thread);
        dispatcher.post_software(1).unwrap();
        assert_eq!(waiter.join().unwrap(), (Ok(()), 0));
    });
    assert_eq!(named(&object).unwrap_err(), DatError::QUEUE_EMPTY);
    assert!(calls.try_recv().is_err());
    // The agent is still there for the next event.
    dispatcher.post_software(2).unwrap();
    assert!(Arc::ptr_eq(&calls.recv_timeout(Duration::from_secs(60)).unwrap(), &dispatcher));
}

#[test]
fn an_agent_is_called_once_and_then_again_only_if_it_is_set_again() {
    let adapter = open(true);
    let (first, first_calls) = agent();
    let object = NotificationObject::create(&adapter, Some(first)).unwrap();
    let dispatcher = attached(&object);
    dispatcher.post_software(1).unwrap();
    let patience = Duration::from_secs(60);
    assert!(Arc::ptr_eq(&first_calls.recv_timeout(patience).unwrap(), &dispatcher));
    dispatcher.post_software(2).unwrap();
    // The closure is gone, so no call can come.
    assert_eq!(first_calls.recv_timeout(patience).unwrap_err(), mpsc::RecvTimeoutError::Disconnected);
    take(&dispatcher);
    take(&dispatcher);
    let (second, second_calls) = agent();
    object.set_agent(Some(second)).unwrap();
    assert!(second_calls.try_recv().is_err());
    dispatcher.post_software(3).unwrap();
    assert!(Arc::ptr_eq(&second_calls.recv_timeout(patience).unwrap(), &dispatcher));
}

#[test]
fn an_agent_that_is_set_while_events_wait_is_called_for_them() {
    let adapter = open(true);
    let object = object(&adapter);
    let dispatcher = attached(&object);
    dispatcher.post_software(1).unwrap();
    let (agent, calls) = agent();
    object.set_agent(Some(agent)).unwrap();
    assert!(Arc::ptr_eq(&calls.recv_timeout(Duration::from_secs(60)).unwrap(), &dispatcher));
}

#[test]
fn a_removed_agent_is_not_called() {
    let adapter = open(true);
    let (agent, calls) = agent();
    let object = NotificationObject::create(&adapter, Some(agent)).unwrap();
    let dispatcher = attached(&object);
    object.set_agent(None).unwrap();
    dispatcher.post_software(1).unwrap();
    assert_eq!(calls.recv().unwrap_err(), mpsc::RecvError);
}

#[test]
fn events_that_wait_trigger_the_object_to_which_their_dispatcher_moves() {
    let adapter = open(true);
    let (from, to) = (object(&adapter), object(&adapter));
    let dispatcher = attached(&from);
    dispatcher.post_software(1).unwrap();
    std::thread::scope(|scope| {
        let (waiter, thread) = named_thread(scope, || to.wait(LONG));
        until_asleep(thread);
        dispatcher.modify_notification(Some(&to)).unwrap();
        assert!(is(&waiter.join().unwrap(), &dispatcher));
    });
    assert!(Arc::ptr_eq(&dispatcher.facts().unwrap().notification.unwrap(), &to));
    assert_eq!(named(&from).unwrap_err(), DatError::QUEUE_EMPTY);
    dispatcher.modify_notification(None).unwrap();
    assert_eq!(named(&to).unwrap_err(), DatError::QUEUE_EMPTY);
    from.free().unwrap();
    to.free().unwrap();
}

#[test]
fn an_object_in_use_is_not_freed() {
    let adapter = open(true);
    let object = object(&adapter);
    let in_use = Err(bad_state(StateKind::CnoInUse));
    let dispatcher = attached(&object);
    assert_eq!(object.free(), in_use);
    dispatcher.free().unwrap();
    std::thread::scope(|scope| {
        let (waiter, thread) = named_thread(scope, || object.wait(LONG));
        until_asleep(thread);
        assert_eq!(object.free(), in_use);
        let dispatcher = attached(&object);
        dispatcher.post_software(1).unwrap();
        assert!(is(&waiter.join().unwrap(), &dispatcher));
        dispatcher.free().unwrap();
    });
    object.free().unwrap();
    let gone = bad_handle(HandleKind::NotificationObject);
    assert_eq!(object.free(), Err(gone));
    assert_eq!(object.set_agent(None), Err(gone));
    assert_eq!(object.wait(NOW).unwrap_err(), gone);
    let create = EventDispatcher::create(&adapter, 1, Some(&object), Streams::SOFTWARE);
    assert_eq!(create.unwrap_err(), gone);
    // What was refused was not made.
    assert_eq!(adapter.close(true), Ok(()));
}

#[test]
fn objects_of_another_adapter_are_refused() {
    let (adapter, other) = (open(true), open(true));
    let object = object(&other);
    let wrong = bad_handle(HandleKind::NotificationObject);
    assert_eq!(EventDispatcher::create(&adapter, 1, Some(&object), Streams::SOFTWARE).unwrap_err(), wrong);
    let dispatcher = EventDispatcher::create(&adapter, 1, None, Streams::SOFTWARE).unwrap();
    assert_eq!(dispatcher.modify_notification(Some(&object)), Err(wrong));
    assert!(dispatcher.facts().unwrap().notification.is_none());
    object.free().unwrap();
}

#[test]
fn closing_the_adapter_wakes_who_waits() {
    let adapter = open(true);
    let object = object(&adapter);
    let _dispatcher = attached(&object);
    std::thread::scope(|scope| {
        let (waiter, thread) = named_thread(scope, || object.wait(None));
        until_asleep(thread);
        adapter.close(false).unwrap();
        assert_eq!(waiter.join().unwrap().unwrap_err(), bad_state(StateKind::CnoDead));
    });
}
