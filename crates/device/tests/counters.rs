//! What queue pairs have done is counted, whichever way it went, and stays counted when they are gone. The counts are of the process:
//! each test has one of its own.

mod common;

use std::sync::{Arc, Weak};

use common::{End, NoObserver};
use nonic_device::{
    Config, Counter, Counters, EngineHandle, Key, Operation, QpState, RemoteRange, Status, devices_with,
};
use nonic_second_process::{SecondProcess, role};

/// Whether this is a process of this test's own. If not, two have been: one in which peers are reached as well as can be, and one
/// in which everything goes through the ring.
fn is_alone(test: &str) -> bool {
    let alone = role().is_some();
    if !alone {
        for tier in ["auto", "ring"] {
            SecondProcess::start(test, "alone", &[("NONIC_TIER", tier)]).finish();
        }
    }
    alone
}

/// Two connected ends on a device with or without the express ways, of which the requester is idle.
fn connected(express: bool) -> [End; 2] {
    let ends = [(); 2].map(|()| {
        let context = devices_with(Config { express, ..Config::from_environment() })[0].open().unwrap();
        let completions = context.create_completion_queue(256, 0, None, 0).unwrap();
        End::with_queue(context, completions, None::<Weak<NoObserver>>)
    });
    ends[0].connect(ends[1].pair.number());
    ends[1].connect(ends[0].pair.number());
    ends
}

fn remote(end: &End, key: Key) -> RemoteRange {
    RemoteRange { address: end.buffer.as_ptr() as u64 + 1024, key }
}

/// What was counted since `before`, but for what was not.
fn since(end: &End, before: &Counters) -> Vec<(Counter, u64)> {
    let now = end.context().counters().unwrap();
    let more = Counter::ALL.map(|(counter, _)| (counter, now.get(counter) - before.get(counter)));
    more.into_iter().filter(|(_, more)| *more > 0).collect()
}

#[test]
fn what_queue_pairs_do_is_counted_by_every_way_and_stays_counted() {
    use Counter as C;
    if !is_alone("what_queue_pairs_do_is_counted_by_every_way_and_stays_counted") {
        return;
    }
    let ring = std::env::var("NONIC_TIER").unwrap() == "ring";
    for express in [true, false] {
        let [one, other] = connected(express);
        let counted = |before| since(&one, before);
        let key = other.region.remote_key();
        let before = one.context().counters().unwrap();
        other.post_receive(1);
        one.post(2, Operation::Send { immediate: None }, &[one.piece(0, 100)]);
        assert_eq!(other.completion().id, 1);
        assert_eq!(one.completion().id, 2);
        let sent = vec![(C::Sends, 1), (C::SendBytes, 100), (C::Received, 1), (C::ReceivedBytes, 100)];
        assert_eq!(counted(&before), sent, "express: {express}");

        let before = one.context().counters().unwrap();
        let there = remote(&other, key);
        one.post(3, Operation::Write { remote: there, immediate: None }, &[one.piece(0, 64)]);
        one.completion();
        one.post(4, Operation::Read { remote: there }, &[one.piece(0, 32)]);
        one.completion();
        one.post(5, Operation::FetchAdd { remote: there, add: 1 }, &[one.piece(0, 8)]);
        one.completion();
        let own = [
            (C::Writes, 1),
            (C::WriteBytes, 64),
            (C::Reads, 1),
            (C::ReadBytes, 32),
            (C::Atomics, 1),
            (C::AtomicBytes, 8),
        ];
        let by_peer = [(C::Served, 3), (C::ServedBytes, 64 + 32 + 8), (C::Asked, 3)];
        let expected = if ring { [&own[..], &by_peer].concat() } else { own.to_vec() };
        assert_eq!(counted(&before), expected, "express: {express}");

        // One is refused; those behind it are flushed, and nothing of them is counted.
        let before = one.context().counters().unwrap();
        let wrong = RemoteRange { key: Key(key.0 ^ 1), ..there };
        for id in 6..9 {
            one.post(id, Operation::Write { remote: wrong, immediate: None }, &[one.piece(0, 64)]);
        }
        assert_eq!(one.completion().status, Status::RemoteAccess);
        assert_eq!([one.completion().status, one.completion().status], [Status::Flushed; 2]);
        assert_eq!(one.pair.state(), QpState::Error);
        let found = counted(&before);
        assert_eq!(found[..2], [(C::Failed, 1), (C::Refused, 1)], "express: {express}");

        // They stay when the queue pairs are gone.
        let before = one.context().counters().unwrap();
        other.pair.destroy().unwrap();
        one.pair.destroy().unwrap();
        assert_eq!(counted(&before), []);
    }
}

#[test]
fn a_request_that_meets_no_receive_is_counted_as_refused_and_sent_again() {
    if !is_alone("a_request_that_meets_no_receive_is_counted_as_refused_and_sent_again") {
        return;
    }
    let [one, other] = connected(true);
    let before = one.context().counters().unwrap();
    one.post(1, Operation::Send { immediate: None }, &[one.piece(0, 8)]);
    let refused = || since(&one, &before).iter().any(|(counter, _)| *counter == Counter::Repeated);
    while !refused() {
        one.completions.poll(|_| panic!("it was taken"), 1).unwrap();
        other.completions.poll(|_| panic!("it was taken"), 1).unwrap();
    }
    other.post_receive(2);
    assert_eq!(other.completion().status, Status::Success);
    assert_eq!(one.completion().status, Status::Success);
    let now = one.context().counters().unwrap();
    let [refused, repeated, sends] =
        [Counter::Refused, Counter::Repeated, Counter::Sends].map(|counter| now.get(counter));
    assert!(refused >= 1 && repeated >= 1 && repeated <= refused, "{refused} refused, {repeated} repeated");
    assert_eq!((sends, now.get(Counter::Received), now.get(Counter::Failed)), (1, 1, 0));
}

#[test]
fn devices_of_one_engine_and_of_the_process_are_on_different_engines() {
    if !is_alone("devices_of_one_engine_and_of_the_process_are_on_different_engines") {
        return;
    }
    let engine = EngineHandle::create(Config { devices: 2, ..Config::default() }).unwrap();
    let devices = engine.devices();
    assert_eq!(devices.iter().map(|device| device.index()).collect::<Vec<_>>(), [0, 1]);
    let [own, shared] = [&devices[1], &nonic_device::devices()[0]].map(|device| device.open().unwrap());
    let numbers = [&own, &shared].map(|context| {
        let completions = context.create_completion_queue(16, 0, None, 0).unwrap();
        End::with_queue(Arc::clone(context), completions, None::<Weak<NoObserver>>)
    });
    numbers[0].connect(numbers[1].pair.number());
    numbers[1].connect(numbers[0].pair.number());
    numbers[1].post_receive(1);
    numbers[0].post(2, Operation::Send { immediate: None }, &[numbers[0].piece(0, 32)]);
    assert_eq!(numbers[0].completion().status, Status::Success);
    assert_eq!(numbers[1].completion().status, Status::Success);
    let counted = [&own, &shared].map(|context| context.counters().unwrap());
    assert_eq!(
        counted.map(|counters| [Counter::Sends, Counter::Received].map(|one| counters.get(one))),
        [[1, 0], [0, 1]]
    );
    own.close();
    shared.close();
}
