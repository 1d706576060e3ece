//! What becomes of requests, within a process and between two.

mod common;

use std::time::{Duration, Instant};

use common::*;
use nonic_connection::{DATA_MAX, FACTS_MAX, Refusal, Service, connect, services};
use nonic_second_process::descriptors;

#[test]
fn servant() {
    serve();
}

#[test]
fn facts_and_private_data_travel_whole_both_ways() {
    let number = fresh_number();
    let (_listener, requests) = offer(number);
    for length in [0, 1, 47, DATA_MAX] {
        let data: Vec<u8> = (0..length).map(|i| i as u8 ^ 0x5a).collect();
        let facts = &data[..length.min(FACTS_MAX)];
        let (witness, asked) = Witness::new(true);
        let connection = connect(&[(&space(), number)], facts, &data, None, witness).unwrap();
        let request = requests.next();
        assert_eq!((request.facts(), &**request.data()), (facts, &data[..]));
        let (witness, serving) = Witness::new(true);
        let accepted = request.accept(facts, &data, witness).unwrap();
        assert_eq!(asked.next(), Told::Accepted(facts.to_vec(), data.clone()));
        assert_eq!(serving.next(), Told::Established);
        connection.disconnect();
        assert_eq!(serving.next(), Told::Disconnected);
        accepted.disconnect();
        asked.stay_empty();
    }
}

#[test]
fn too_much_of_either_is_refused_before_anything_happens() {
    let number = fresh_number();
    let (_listener, requests) = offer(number);
    let (long, longer) = ([0; DATA_MAX + 1], [0; FACTS_MAX + 1]);
    for (facts, data) in [(&longer[..], &[][..]), (&[][..], &long[..])] {
        let error = connect(&[(&space(), number)], facts, data, None, Witness::new(true).0).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    }
    requests.stay_empty();
    let (_connection, asked) = ask(number, b"", None);
    let (error, request) = requests.next().accept(&longer, &[], Witness::new(true).0).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    asked.stay_empty();
    request.reject(b"after all");
    assert_eq!(asked.next(), Told::Rejected(b"after all".to_vec()));
}

#[test]
fn requests_are_answered_between_processes_in_every_way() {
    let number = fresh_number();
    let mut other = start();
    assert_eq!(other.tell(&format!("listen {number}")), "ok");

    let (connection, asked) = ask(number, b"to be accepted", None);
    assert_eq!(other.tell("next"), "to be accepted");
    other.tell("accept welcome");
    assert_eq!(asked.next(), accepted(b"welcome"));
    assert_eq!(other.tell("hear"), "Established");
    connection.disconnect();
    assert_eq!(other.tell("hear"), "Disconnected");

    let (_connection, asked) = ask(number, b"to be rejected", None);
    assert_eq!(other.tell("next"), "to be rejected");
    other.tell("reject no");
    assert_eq!(asked.next(), Told::Rejected(b"no".to_vec()));

    let (_connection, asked) = ask(number, b"to be dropped", None);
    assert_eq!(other.tell("next"), "to be dropped");
    other.tell("drop");
    assert_eq!(asked.next(), Told::Refused(Refusal::NobodyListens));

    let (_connection, asked) = ask(number, b"to be ended there", None);
    other.tell("next");
    other.tell("accept");
    assert_eq!(asked.next(), accepted(b""));
    other.tell("disconnect");
    assert_eq!(asked.next(), Told::Disconnected);

    let (_connection, asked) = ask(number, b"to fail there", None);
    other.tell("next");
    other.tell("accept");
    assert_eq!(asked.next(), accepted(b""));
    other.tell("fail");
    assert_eq!(asked.next(), Told::Lost);
    other.finish();
}

#[test]
fn who_was_accepted_may_not_be_able_to_go_on() {
    let number = fresh_number();
    let (_listener, requests) = offer(number);
    let (witness, asked) = Witness::new(false);
    let _connection = connect(&[(&space(), number)], b"", b"", None, witness).unwrap();
    let (_accepted, serving) = accept(requests.next(), b"");
    assert_eq!(asked.next(), accepted(b""));
    assert_eq!(serving.next(), Told::Disconnected);
    asked.stay_empty();
}

#[test]
fn a_number_belongs_to_one_listener_of_the_host() {
    let number = fresh_number();
    let mut other = start();
    let (listener, _requests) = offer(number);
    let in_use = |result: std::io::Result<_>| result.map(|_| ()).unwrap_err().kind();
    assert_eq!(in_use(offer_in(&space(), number)), std::io::ErrorKind::AddrInUse);
    assert_eq!(other.tell(&format!("listen {number}")), "AddrInUse");
    let listed =
        |number| services().iter().any(|Service { space: of, number: n, .. }| *of == space() && *n == number);
    assert!(listed(number));
    // Free when the listener is gone. A process that another test is just starting may still have its socket.
    drop(listener);
    eventually("the number is free", || !listed(number));
    let (_connection, asked) = ask(number, b"", None);
    assert_eq!(asked.next(), Told::Refused(Refusal::NobodyListens));
    assert_eq!(other.tell(&format!("listen {number}")), "ok");
    assert_eq!(in_use(offer_in(&space(), number)), std::io::ErrorKind::AddrInUse);
    // And when its process is.
    other.kill();
    let (_listener, _requests) = offer(number);
}

#[test]
fn requests_the_program_has_outlive_their_listener() {
    let number = fresh_number();
    let (listener, requests) = offer(number);
    let (_connection, asked) = ask(number, b"", None);
    let request = requests.next();
    drop(listener);
    let (_accepted, serving) = accept(request, b"still here");
    assert_eq!(asked.next(), accepted(b"still here"));
    assert_eq!(serving.next(), Told::Established);
}

/// The time of attempts that run out of it, but not before the other process, which may have to wait for a processor, has them.
const TIME: Duration = Duration::from_secs(1);

#[test]
fn an_attempt_ends_when_its_time_is_over() {
    let (mut other, number) = listening();
    let since = Instant::now();
    let (_connection, asked) = ask(number, b"", Some(TIME));
    other.tell("next");
    assert_eq!(asked.next(), Told::TimedOut);
    assert!(since.elapsed() >= TIME);
    // Whoever accepts it now learns that nobody is there.
    other.tell("accept");
    assert_eq!(other.tell("hear"), "Disconnected");
    asked.stay_empty();
    // One that is accepted has no time any more.
    let (_connection, asked) = ask(number, b"", Some(TIME));
    other.tell("next");
    other.tell("accept");
    assert_eq!(asked.next(), accepted(b""));
    std::thread::sleep(TIME + Duration::from_millis(50));
    asked.stay_empty();
    other.finish();
}

#[test]
fn an_attempt_can_be_given_up() {
    let number = fresh_number();
    let (_listener, requests) = offer(number);
    let (connection, asked) = ask(number, b"", None);
    let request = requests.next();
    connection.disconnect();
    connection.disconnect();
    let (_accepted, serving) = accept(request, b"");
    assert_eq!(serving.next(), Told::Disconnected);
    asked.stay_empty();
    serving.stay_empty();
}

#[test]
fn a_stopped_listener_costs_its_askers_their_time_and_nobody_else() {
    let (number, second) = (fresh_number(), fresh_number());
    let mut other = start();
    other.tell(&format!("listen {number}"));
    let (_listener, requests) = offer(second);
    other.stop();
    let before = descriptors(std::process::id());
    let asked: Vec<_> = (0..300).map(|_| ask(number, b"", Some(Duration::from_millis(400)))).collect();
    // Another service is reached meanwhile.
    let (_connection, answer) = ask(second, b"", None);
    let _accepted = accept(requests.next(), b"");
    assert_eq!(answer.next(), accepted(b""));
    // They have only some descriptors on their way at a time. Other tests of this process have some, too.
    assert!(descriptors(std::process::id()) < before + 100);
    for (_, notes) in &asked {
        assert_eq!(notes.next(), Told::TimedOut);
    }
    other.resume();
    // Requests that were given up are not shown.
    assert_eq!(other.tell("none"), "ok");
    let (_connection, answer) = ask(number, b"now", None);
    assert_eq!(other.tell("next"), "now");
    other.tell("accept");
    assert_eq!(answer.next(), accepted(b""));
    other.finish();
}

#[test]
fn a_request_can_be_handed_to_another_service() {
    let (first, second, third) = (fresh_number(), fresh_number(), fresh_number());
    let (mut one, mut two) = (start(), start());
    one.tell(&format!("listen {first}"));
    two.tell(&format!("listen {second}"));
    let (_listener, requests) = offer(third);

    // To another process.
    let (connection, asked) = ask(first, b"wandering", None);
    assert_eq!(one.tell("next"), "wandering");
    assert_eq!(one.tell(&format!("hand {second}")), "ok");
    assert_eq!(two.tell("next"), "wandering");
    two.tell("accept from two");
    assert_eq!(asked.next(), accepted(b"from two"));
    assert_eq!(two.tell("hear"), "Established");
    connection.disconnect();
    assert_eq!(two.tell("hear"), "Disconnected");

    // And back to who asks, and within its process.
    let (_connection, asked) = ask(first, b"farther", None);
    one.tell("next");
    one.tell(&format!("hand {second}"));
    two.tell("next");
    assert_eq!(two.tell(&format!("hand {third}")), "ok");
    let request = requests.next();
    assert_eq!(&**request.data(), b"farther");
    let fourth = fresh_number();
    let (_last, last_requests) = offer(fourth);
    request.hand_to(&space(), fourth).unwrap();
    let (_accepted, serving) = accept(last_requests.next(), b"home");
    assert_eq!(asked.next(), accepted(b"home"));
    assert_eq!(serving.next(), Told::Established);

    // Where nobody listens: it stays.
    let (_connection, asked) = ask(first, b"", None);
    one.tell("next");
    assert_eq!(one.tell(&format!("hand {}", fresh_number())), "nobody listens there");
    one.tell("reject stays");
    assert_eq!(asked.next(), Told::Rejected(b"stays".to_vec()));

    // Who handed it on may go.
    let (_connection, asked) = ask(first, b"", None);
    one.tell("next");
    one.tell(&format!("hand {second}"));
    two.tell("next");
    one.kill();
    two.tell("accept");
    assert_eq!(asked.next(), accepted(b""));

    // Who has it may die.
    let mut one = start();
    one.tell(&format!("listen {first}"));
    let (_connection, asked) = ask(first, b"", None);
    one.tell("next");
    one.tell(&format!("hand {second}"));
    two.tell("next");
    two.kill();
    assert_eq!(asked.next(), Told::Lost);
}

#[test]
fn a_request_handed_to_a_stopped_process_ends_with_its_time_or_that_process() {
    let (first, second) = (fresh_number(), fresh_number());
    let (mut one, mut two) = (start(), start());
    one.tell(&format!("listen {first}"));
    two.tell(&format!("listen {second}"));
    two.stop();
    let (_timed, in_time) = ask(first, b"", Some(TIME));
    one.tell("next");
    one.tell(&format!("hand {second}"));
    assert_eq!(in_time.next(), Told::TimedOut);
    let (_connection, asked) = ask(first, b"", None);
    one.tell("next");
    one.tell(&format!("hand {second}"));
    two.kill();
    assert_eq!(asked.next(), Told::Refused(Refusal::NobodyListens));
}
