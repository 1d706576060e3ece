//! Requests for services that were found before: they go over the channel to the process that offered them, and come to the
//! same as those that go by the name.

mod common;

use std::collections::BTreeSet;
use std::time::Duration;

use common::*;
use nonic_connection::Refusal;
use nonic_second_process::{SecondProcess, become_user, role};
use nonic_sys::{PacketSocket, Received, effective_user, listen_abstract, random_u64};

/// A user that nobody is.
const OTHER_USER: u32 = 23_458;

#[test]
fn servant() {
    serve();
}

/// The same as another user.
#[test]
fn foreign_servant() {
    if role().is_none() {
        return;
    }
    become_user(OTHER_USER);
    serve();
}

/// A process that listens and has taken a connection, which is kept: there is a channel.
fn found() -> (SecondProcess, u64, Kept) {
    let (mut other, number) = listening();
    let kept = take_one(&mut other, number);
    (other, number, kept)
}

type Kept = (nonic_connection::Connection, Notes<Told>);

/// Has a process accept requests whose private data are their numbers, each of which comes to it once.
fn take_each_once(other: &mut SecondProcess, asked: &[Kept]) {
    let mut came = BTreeSet::new();
    for _ in asked {
        assert!(came.insert(other.tell("next")));
        other.tell("accept");
    }
    assert_eq!(other.tell("none"), "ok");
    assert_eq!(came, (0..asked.len()).map(|number| number.to_string()).collect());
    for (_, notes) in asked {
        assert_eq!(notes.next(), accepted(b""));
    }
}

#[test]
fn a_second_request_does_not_go_past_the_name_of_the_service() {
    let (mut other, number, _kept) = found();
    // Whatever comes by the name takes a descriptor, and there are none.
    other.tell("spare 0");
    let mut third = start();
    third.tell(&format!("connect {number}"));
    assert_eq!(other.tell("none"), "ok");
    for _ in 0..3 {
        let (_connection, asked) = take_one(&mut other, number);
        assert_eq!(other.tell("hear"), "Established");
        asked.stay_empty_now();
    }
    // Its private data and what the program decides come as ever.
    let (_connection, asked) = ask(number, b"private", None);
    assert_eq!(other.tell("next"), "private");
    other.tell("reject no");
    assert_eq!(asked.next(), Told::Rejected(b"no".to_vec()));
    let (_connection, asked) = ask(number, b"", None);
    other.tell("next");
    other.tell("drop");
    assert_eq!(asked.next(), Told::Refused(Refusal::NobodyListens));
    other.finish();
}

#[test]
fn a_service_that_moved_to_another_process_is_found() {
    let (mut one, number, _kept) = found();
    one.tell(&format!("close {number}"));
    let mut two = start();
    assert_eq!(two.tell(&format!("listen {number}")), "ok");
    // So are those that were on their way to the first.
    let asked: Vec<_> = (0..40).map(|which| ask(number, which.to_string().as_bytes(), None)).collect();
    take_each_once(&mut two, &asked);
    // And back.
    two.tell(&format!("close {number}"));
    assert_eq!(one.tell(&format!("listen {number}")), "ok");
    let _back = take_one(&mut one, number);
    one.finish();
    two.finish();
}

#[test]
fn a_service_that_ended_is_refused_as_one_that_never_was() {
    let (mut other, number, kept) = found();
    other.tell(&format!("close {number}"));
    for number in [number, fresh_number()] {
        let (_connection, asked) = ask(number, b"", None);
        assert_eq!(asked.next(), Told::Refused(Refusal::NobodyListens));
        asked.stay_empty_now();
    }
    kept.1.stay_empty_now();
    other.finish();
}

#[test]
fn requests_come_over_the_channel_in_the_order_in_which_they_were_made() {
    let (mut other, number, _kept) = found();
    let asked: Vec<_> = (0..300).map(|which| ask(number, which.to_string().as_bytes(), None)).collect();
    for which in 0..300 {
        assert_eq!(other.tell("next"), which.to_string());
        other.tell("accept");
    }
    for (_, notes) in &asked {
        assert_eq!(notes.next(), accepted(b""));
    }
    other.finish();
}

#[test]
fn a_request_that_was_given_up_before_it_was_heard_is_not_shown() {
    let (mut other, number, _kept) = found();
    other.stop();
    let asked: Vec<_> = (0..100).map(|_| ask(number, b"", Some(Duration::from_millis(100)))).collect();
    let (given_up, silence) = ask(number, b"", None);
    for (_, notes) in &asked {
        assert_eq!(notes.next(), Told::TimedOut);
    }
    given_up.disconnect();
    silence.stay_empty();
    other.resume();
    assert_eq!(other.tell("none"), "ok");
    let _again = take_one(&mut other, number);
    other.finish();
}

#[test]
fn a_channel_that_ends_before_the_answer_leads_to_whoever_has_the_name_and_once() {
    // Nobody has it.
    let (mut one, number, kept) = found();
    one.stop();
    let (_connection, asked) = ask(number, b"", None);
    asked.stay_empty();
    one.kill();
    assert_eq!(asked.next(), Told::Refused(Refusal::NobodyListens));
    assert_eq!(kept.1.next(), Told::Lost);
    // Another process has it.
    let (mut one, number, kept) = found();
    one.tell(&format!("close {number}"));
    let mut two = start();
    assert_eq!(two.tell(&format!("listen {number}")), "ok");
    one.stop();
    let asked: Vec<_> = (0..30).map(|which| ask(number, which.to_string().as_bytes(), None)).collect();
    assert_eq!(two.tell("none"), "ok");
    one.kill();
    take_each_once(&mut two, &asked);
    assert_eq!(kept.1.next(), Told::Lost);
    two.finish();
}

#[test]
fn a_request_that_was_taken_over_the_channel_is_lost_with_its_process_and_not_made_again() {
    let (mut one, number, _kept) = found();
    let (_connection, asked) = ask(number, b"", None);
    one.tell("next");
    one.tell(&format!("close {number}"));
    let mut two = start();
    assert_eq!(two.tell(&format!("listen {number}")), "ok");
    one.kill();
    assert_eq!(asked.next(), Told::Lost);
    assert_eq!(two.tell("none"), "ok");
    two.finish();
}

#[test]
fn a_process_finds_its_own_services_again() {
    let number = fresh_number();
    let (_listener, requests) = offer(number);
    let mut kept = Vec::new();
    for _ in 0..3 {
        let (connection, asked) = ask(number, b"own", None);
        let (served, serving) = accept(requests.next(), b"self");
        assert_eq!(asked.next(), accepted(b"self"));
        assert_eq!(serving.next(), Told::Established);
        kept.push((connection, served, asked, serving));
    }
}

#[test]
fn requests_handed_on_are_handed_on_however_they_came() {
    let (mut one, number, _kept) = found();
    let (mut two, second) = listening();
    for _ in 0..2 {
        let (_connection, asked) = ask(number, b"on", None);
        assert_eq!(one.tell("next"), "on");
        hear_all();
        assert_eq!(one.tell(&format!("hand {second}")), "ok");
        assert_eq!(two.tell("next"), "on");
        two.tell("accept");
        assert_eq!(asked.next(), accepted(b""));
    }
    one.finish();
    two.finish();
}

#[test]
fn processes_of_two_users_find_each_other_by_the_name_each_time() {
    if effective_user() != 0 {
        println!("SKIPPED: two users: a process of another user needs root");
        return;
    }
    let foreigner = || SecondProcess::start("foreign_servant", &space(), &[]);
    // Who asks is another user.
    let (mut other, number, _kept) = found();
    let mut asking = foreigner();
    asking.order(&format!("connect {number}"));
    other.tell("serve 1");
    assert_eq!(asking.hear(), "ok");
    other.tell("spare 0");
    asking.tell(&format!("connect {number}"));
    assert_eq!(other.tell("none"), "ok");
    let _found = take_one(&mut other, number);
    // Who serves is.
    let number = fresh_number();
    let mut serving = foreigner();
    assert_eq!(serving.tell(&format!("listen {number}")), "ok");
    let _found = take_one(&mut serving, number);
    serving.tell("spare 0");
    let (_connection, asked) = ask(number, b"", None);
    assert_eq!(serving.tell("none"), "ok");
    asked.stay_empty_now();
}

/// This process's manager has heard what had been said to it. A turn that is under way may have looked before.
fn hear_all() {
    for _ in 0..2 {
        let (sender, done) = std::sync::mpsc::channel();
        nonic_connection::run(move || sender.send(()).unwrap());
        done.recv().unwrap();
    }
}

// A process that says by hand what others say.

/// The process name that stands for a door, and the door.
struct Door([u64; 2], PacketSocket);

impl Door {
    fn new() -> Self {
        let process = [random_u64(), random_u64()];
        let name = format!("nonic-connection.3/process.{:016x}{:016x}", process[0], process[1]);
        Self(process, listen_abstract(&name).unwrap())
    }

    fn inquiry(&self) -> Vec<u8> {
        let numbers = [self.0[0], self.0[1], random_u64()];
        let mut bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        bytes.extend([0; 4]);
        bytes
    }
}

fn message(kind: u32, rest: &[u8]) -> Vec<u8> {
    [&b"nonic-cm\x03\0\0\0"[..], &kind.to_le_bytes(), rest].concat()
}

fn ask_bytes(service: &str, inquiry: &[u8]) -> Vec<u8> {
    message(11, &[&(service.len() as u16).to_le_bytes(), service.as_bytes(), inquiry].concat())
}

fn kind_of_next(socket: &PacketSocket) -> u32 {
    let mut bytes = [0; 512];
    loop {
        match socket.receive(&mut bytes) {
            Received::Message(..) => return u32::from_le_bytes(bytes[12..16].try_into().unwrap()),
            Received::Nothing => std::thread::yield_now(),
            Received::HungUp => panic!("the channel is closed"),
        }
    }
}

#[test]
fn a_request_in_another_process_s_name_closes_the_channel_it_comes_by() {
    let (mut other, number) = listening();
    let service = format!("nonic-connection.3/{}/{number}", space());
    let (door, foreign) = (Door::new(), Door::new());
    let first = PacketSocket::connect_abstract(&service).unwrap();
    first.send(&message(1, &door.inquiry()), &[]).unwrap();
    other.tell("next");
    let channel = door.1.accept().unwrap();
    assert_eq!(kind_of_next(&channel), 4, "it is taken");
    // Where nobody listens, and where somebody does.
    channel.send(&ask_bytes(&format!("{service}0"), &door.inquiry()), &[]).unwrap();
    assert_eq!(kind_of_next(&channel), 12, "it is elsewhere");
    channel.send(&ask_bytes(&service, &door.inquiry()), &[]).unwrap();
    assert_eq!(kind_of_next(&channel), 4, "it is taken");
    other.tell("next");
    channel.send(&ask_bytes(&service, &foreign.inquiry()), &[]).unwrap();
    eventually("the channel is closed", || matches!(channel.receive(&mut [0; 512]), Received::HungUp));
    assert_eq!(other.tell("none"), "ok");
    other.finish();
}

/// Offers a service by hand, as a user of its own or not, accepts a first request, and goes on to be there. How the second
/// request comes: over the channel, or else by the name.
fn second_request_to(user: Option<u32>) -> &'static str {
    let number = fresh_number();
    let service = format!("nonic-connection.3/{}/{number}", space());
    let (ready, is_ready) = std::sync::mpsc::channel();
    std::thread::scope(|threads| {
        let server = threads.spawn(move || {
            if let Some(user) = user {
                // SAFETY: changes who this thread is, and touches no memory. It ends soon.
                assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, user, user, user) }, 0);
            }
            let listener = listen_abstract(&service).unwrap();
            ready.send(()).unwrap();
            let (socket, request) = accept_patiently(&listener);
            let numbers: Vec<_> =
                request[16..40].chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
            let door = format!("nonic-connection.3/process.{:016x}{:016x}", numbers[0], numbers[1]);
            let channel = PacketSocket::connect_abstract(&door).unwrap();
            let to = numbers[2].to_le_bytes();
            channel.send(&message(4, &[to, 1u64.to_le_bytes()].concat()), &[]).unwrap();
            // It may be closed by now: what came over the channel says as much.
            let _ = socket.send(&message(2, &[]), &[]);
            channel.send(&message(5, &[&to[..], &[0; 4]].concat()), &[]).unwrap();
            assert_eq!(kind_of_next(&channel), 7, "it is confirmed");
            ready.send(()).unwrap();
            loop {
                if listener.accept().is_ok() {
                    return "by the name";
                }
                let mut bytes = [0; 512];
                if let Received::Message(..) = channel.receive(&mut bytes) {
                    assert_eq!(bytes[12], 11);
                    return "over the channel";
                }
                std::thread::yield_now();
            }
        });
        is_ready.recv().unwrap();
        let _first = ask(number, b"", None);
        is_ready.recv().unwrap();
        let _second = ask(number, b"", None);
        server.join().unwrap()
    })
}

fn accept_patiently(listener: &PacketSocket) -> (PacketSocket, Vec<u8>) {
    loop {
        if let Ok(socket) = listener.accept() {
            let mut bytes = [0; 512];
            loop {
                match socket.receive(&mut bytes) {
                    Received::Message(length, _) => return (socket, bytes[..length].to_vec()),
                    Received::Nothing => std::thread::yield_now(),
                    Received::HungUp => panic!("who asked is gone"),
                }
            }
        }
        std::thread::yield_now();
    }
}

#[test]
fn only_a_process_of_the_own_user_is_asked_over_the_channel() {
    assert_eq!(second_request_to(None), "over the channel");
    if effective_user() == 0 {
        assert_eq!(second_request_to(Some(OTHER_USER)), "by the name");
    } else {
        println!("SKIPPED: another user: needs root");
    }
}
