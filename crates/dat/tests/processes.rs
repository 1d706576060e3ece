//! Connections between processes, of which one stops, ends, dies or forks.

mod common;

use std::iter::once;
use std::time::Instant;

use common::connected::{PATIENCE, PLAIN, Plan, Seen, Side, dequeue, done, flushed, next, told};
use common::other_process::{number, serve, start};
use nonic_dat::ConnectionEvent::{
    AcceptCompletionError, Broken, Disconnected, Established, NonPeerRejected, TimedOut,
};
use nonic_dat::{
    DatError, EndpointState, Event, EventDispatcher, PublicServicePoint, RemoteSegment, Streams,
    TransferKind, TransferStatus,
};
use nonic_second_process::SecondProcess;

#[test]
fn servant() {
    serve();
}

fn side() -> Side {
    Side::new(&Plan::default())
}

fn ask(side: &Side, other: &mut SecondProcess) {
    let conn_qual = number(other, "qualifier");
    side.endpoint.connect(side.adapter.address(), conn_qual, PATIENCE, b"hello", 0, 0).unwrap();
}

fn established(words: &str) -> Seen {
    Seen::Connection(Established, words.as_bytes().to_vec())
}

/// Connects to a new process.
fn connected() -> (Side, SecondProcess) {
    let (side, mut other) = (side(), start());
    ask(&side, &mut other);
    other.tell("next");
    assert_eq!(other.tell("accept welcome"), "ok");
    assert_eq!(next(&side.connections), established("welcome"));
    assert_eq!(other.tell("told"), "Connection(Established, [])");
    (side, other)
}

fn is_over(side: &Side) {
    assert_eq!(side.endpoint.state(), EndpointState::Disconnected);
    assert_eq!(dequeue(&side.connections), Err(DatError::QUEUE_EMPTY));
}

#[test]
fn messages_and_memory_go_between_processes() {
    let (near, mut other) = connected();
    other.tell("receive 1");
    near.receive(2, 4096);
    near.send(3, 64, PLAIN).unwrap();
    assert!(other.tell("done").contains("cookie: 1, status: Success, length: 64"));
    assert_eq!(near.next(), done(3, TransferKind::Send, 64));
    other.tell("send 4");
    assert_eq!(near.next(), done(2, TransferKind::Receive, 8));
    let memory = other.tell("memory");
    let mut words = memory.split(' ').map(|word| word.parse::<u64>().unwrap());
    let mut word = || words.next().unwrap();
    let remote = RemoteSegment { context: word() as u32, address: word(), length: word() };
    near.pages.write(17, 99);
    near.endpoint.post_rdma_write(once(near.piece(0, 4096)), 5, remote, PLAIN).unwrap();
    assert_eq!(near.next(), done(5, TransferKind::RdmaWrite, 4096));
    assert_eq!(other.tell("byte 17"), "99");
    other.finish();
}

#[test]
fn a_process_that_exits_disconnects() {
    let (near, other) = connected();
    near.receive(1, 8);
    other.finish();
    assert_eq!(next(&near.connections), told(Disconnected));
    assert_eq!(near.next(), flushed(1, TransferKind::Receive));
    is_over(&near);
}

#[test]
fn a_killed_process_breaks_its_connections() {
    let (near, mut other) = connected();
    near.receive(1, 8);
    other.kill();
    assert_eq!(next(&near.connections), told(Broken));
    assert_eq!(near.next(), flushed(1, TransferKind::Receive));
    is_over(&near);
    // With a request under way.
    let (near, mut other) = connected();
    other.stop();
    near.send(1, 8, PLAIN).unwrap();
    other.kill();
    assert_eq!(next(&near.connections), told(Broken));
    assert!(
        matches!(near.next(), Seen::Transfer { cookie: 1, status, .. } if status != TransferStatus::Success)
    );
    is_over(&near);
    // The endpoint can be used again.
    near.endpoint.reset().unwrap();
    let mut other = start();
    ask(&near, &mut other);
    other.tell("next");
    other.tell("accept again");
    assert_eq!(next(&near.connections), established("again"));
    other.finish();
}

#[test]
fn a_process_killed_while_it_connects_is_told_of() {
    // The request has not been taken.
    let (near, mut other) = (side(), start());
    let conn_qual = number(&mut other, "qualifier");
    other.stop();
    near.endpoint.connect(near.adapter.address(), conn_qual, PATIENCE, b"", 0, 0).unwrap();
    other.kill();
    assert_eq!(next(&near.connections), told(NonPeerRejected));
    is_over(&near);
    // Not decided.
    near.endpoint.reset().unwrap();
    let mut other = start();
    ask(&near, &mut other);
    other.tell("next");
    other.kill();
    assert_eq!(next(&near.connections), told(NonPeerRejected));
    is_over(&near);
    // Who asks, before and after the answer.
    let requests = EventDispatcher::create(&near.adapter, 8, None, Streams::CONNECTION_REQUEST).unwrap();
    let (conn_qual, _point) = PublicServicePoint::create_any(&near.adapter, &requests, false).unwrap();
    for stopped in [false, true] {
        near.endpoint.reset().unwrap();
        let mut other = start();
        other.tell(&format!("connect {conn_qual}"));
        let mut request = None;
        let (result, _) = requests.wait(PATIENCE, 1, |event| {
            let Event::Request { request: came, .. } = event else { panic!("{event:?}") };
            request = Some(std::sync::Arc::clone(came));
        });
        result.unwrap();
        if stopped {
            other.stop();
        } else {
            other.kill();
        }
        near.receive(3, 8);
        request.unwrap().accept(Some(&near.endpoint), b"").unwrap();
        if stopped {
            assert_eq!(near.endpoint.state(), EndpointState::CompletionPending);
            other.kill();
        }
        assert_eq!(next(&near.connections), told(AcceptCompletionError));
        assert_eq!(near.next(), flushed(3, TransferKind::Receive));
        is_over(&near);
    }
}

#[test]
fn a_stopped_process_costs_its_peer_the_time_it_gave() {
    let (near, mut other) = (side(), start());
    let conn_qual = number(&mut other, "qualifier");
    other.stop();
    let time = Some(std::time::Duration::from_millis(100));
    let since = Instant::now();
    near.endpoint.connect(near.adapter.address(), conn_qual, time, b"", 0, 0).unwrap();
    assert_eq!(next(&near.connections), told(TimedOut));
    assert!(since.elapsed() >= std::time::Duration::from_millis(100));
    // Connected, stopped, disconnected from here: it learns when it goes on.
    near.endpoint.reset().unwrap();
    other.resume();
    ask(&near, &mut other);
    other.tell("next");
    other.tell("accept");
    assert_eq!(next(&near.connections), established(""));
    assert_eq!(other.tell("told"), "Connection(Established, [])");
    other.stop();
    near.endpoint.disconnect(false).unwrap();
    assert_eq!(next(&near.connections), told(Disconnected));
    other.resume();
    assert_eq!(other.tell("told"), "Connection(Disconnected, [])");
    other.finish();
}

#[test]
fn a_child_cannot_touch_its_parents_connection() {
    let (near, mut other) = connected();
    assert_eq!(other.tell("fork"), "7");
    other.tell("receive 1");
    near.send(2, 8, PLAIN).unwrap();
    assert_eq!(near.next(), done(2, TransferKind::Send, 8));
    assert!(other.tell("done").contains("cookie: 1, status: Success"));
    near.endpoint.disconnect(true).unwrap();
    assert_eq!(other.tell("told"), "Connection(Disconnected, [])");
    other.finish();
}

#[test]
fn thousands_of_connections_leave_no_trace() {
    let (near, mut other) = (side(), start());
    let conn_qual = number(&mut other, "qualifier");
    let turns = |other: &mut SecondProcess, count: usize| {
        other.order(&format!("turns {count}"));
        let since = Instant::now();
        for _ in 0..count {
            near.endpoint.connect(near.adapter.address(), conn_qual, PATIENCE, b"", 0, 0).unwrap();
            assert_eq!(next(&near.connections), established(""));
            near.endpoint.disconnect(false).unwrap();
            assert_eq!(next(&near.connections), told(Disconnected));
            near.endpoint.reset().unwrap();
        }
        assert_eq!(other.hear(), "ok");
        count as f64 / since.elapsed().as_secs_f64()
    };
    turns(&mut other, 500);
    let (descriptors, resident) = (other.descriptors(), other.resident());
    let rate = turns(&mut other, 3000);
    println!("{rate:.0} connections in a second; {resident} KiB, then {} KiB", other.resident());
    assert!(
        other.descriptors() <= descriptors + 1,
        "{} descriptors, {descriptors} before",
        other.descriptors()
    );
    assert!(other.resident() < resident + 512, "{} KiB, {resident} before", other.resident());
    other.finish();
}
