//! What a process of another user can take of a service point, which needs root to be made.

mod common;

use std::net::Ipv4Addr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nonic_connection::{Connection, ConnectionSink, End, Refusal, Response, connect};
use nonic_dat::{Event, EventDispatcher, PublicServicePoint, Streams};
use nonic_second_process::{SecondProcess, become_user, role, say, told};

/// A user that nobody is.
const STRANGER: u32 = 23_459;
const LENGTH: usize = 16;

/// Tells how an attempt ended.
struct Witness(Mutex<Sender<Option<Refusal>>>);

impl ConnectionSink for Witness {
    fn accepted(&self, _: &[u8], _: &[u8]) -> Response {
        Response::Declined
    }

    fn established(&self) {}

    fn ended(&self, end: End<'_>) {
        let reason = if let End::Refused(reason) = end { Some(reason) } else { None };
        let _ = self.0.lock().unwrap().send(reason);
    }
}

/// Asks so often at once.
fn ask(conn_qual: u64, count: usize) -> (Vec<Connection>, Receiver<Option<Refusal>>) {
    let mut facts = vec![1, 0, 1, 1];
    facts.extend(5u32.to_le_bytes());
    facts.extend([0; 4]);
    facts.extend([1, 0, 0, 0]);
    facts.extend(Ipv4Addr::LOCALHOST.to_ipv6_mapped().octets());
    facts.extend([0; 8]);
    let (sender, ends) = channel();
    let connections = (0..count).map(|_| {
        let witness = Arc::new(Witness(Mutex::new(sender.clone())));
        connect(&[("dat", conn_qual)], &facts, b"", None, witness).unwrap()
    });
    (connections.collect(), ends)
}

fn next(ends: &Receiver<Option<Refusal>>) -> Option<Refusal> {
    ends.recv_timeout(Duration::from_secs(60)).expect("nothing came in a minute")
}

/// Takes every request that waits; how many.
fn take_all(dispatcher: &EventDispatcher) -> usize {
    let mut requests = 0;
    while dispatcher.dequeue(|event| assert!(matches!(event, Event::Request { .. }), "{event:?}")).is_ok() {
        requests += 1;
    }
    requests
}

#[test]
fn strangers_take_some_of_the_places_of_a_service_point_and_the_own_user_has_the_rest() {
    const NAME: &str = "strangers_take_some_of_the_places_of_a_service_point_and_the_own_user_has_the_rest";
    if let Some(conn_qual) = role() {
        become_user(STRANGER);
        let (_connections, ends) = ask(conn_qual.parse().unwrap(), 3 * LENGTH);
        for _ in 0..3 * LENGTH - LENGTH / 4 {
            assert_eq!(next(&ends), Some(Refusal::NoRoom));
        }
        say("the rest were refused");
        told();
        // Taken, they are no longer in the way.
        let (_connections, ends) = ask(conn_qual.parse().unwrap(), LENGTH);
        for _ in 0..LENGTH - LENGTH / 4 {
            assert_eq!(next(&ends), Some(Refusal::NoRoom));
        }
        say("and again");
        told();
        return;
    }
    if nonic_sys::effective_user() != 0 {
        println!("SKIPPED: requests of strangers: a process of another user needs root");
        return;
    }
    let adapter = common::open(true);
    let dispatcher =
        EventDispatcher::create(&adapter, LENGTH as i32, None, Streams::CONNECTION_REQUEST).unwrap();
    let (conn_qual, _point) = PublicServicePoint::create_any(&adapter, &dispatcher, false).unwrap();
    let mut stranger = SecondProcess::start(NAME, &conn_qual.to_string(), &[]);
    assert_eq!(stranger.hear(), "the rest were refused");
    // The own user has the places that are left, and no more than those.
    let own = LENGTH - LENGTH / 4;
    let (_connections, ends) = ask(conn_qual, own + 1);
    assert_eq!(next(&ends), Some(Refusal::NoRoom));
    assert_eq!(take_all(&dispatcher), LENGTH);
    stranger.order("go on");
    assert_eq!(stranger.hear(), "and again");
    assert_eq!(take_all(&dispatcher), LENGTH / 4);
}
