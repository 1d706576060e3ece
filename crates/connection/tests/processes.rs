//! Processes that end, stop, fork, send rubbish, or are many connections apart.

mod common;

use std::time::{Duration, Instant};

use common::*;
use nonic_connection::Refusal;
use nonic_second_process::descriptors;
use nonic_sys::{PacketSocket, Received};

#[test]
fn servant() {
    serve();
}

#[test]
fn a_killed_process_is_lost_at_every_step() {
    let number = fresh_number();
    // With the request undecided.
    let mut other = start();
    other.tell(&format!("listen {number}"));
    let (_connection, asked) = ask(number, b"", None);
    other.tell("next");
    other.kill();
    assert_eq!(asked.next(), Told::Lost);
    // Established, from either side.
    let mut other = start();
    other.tell(&format!("listen {number}"));
    let (_connection, asked) = take_one(&mut other, number);
    other.kill();
    assert_eq!(asked.next(), Told::Lost);
    // Stopped before it took the request.
    let mut other = start();
    other.tell(&format!("listen {number}"));
    other.stop();
    let (_connection, asked) = ask(number, b"", None);
    asked.stay_empty();
    other.kill();
    assert_eq!(asked.next(), Told::Refused(Refusal::NobodyListens));

    // Who asked, before the answer.
    let (_listener, requests) = offer(number);
    let mut other = start();
    other.tell(&format!("connect {number}"));
    let request = requests.next();
    other.kill();
    let (_accepted, serving) = accept(request, b"");
    assert!(matches!(serving.next(), Told::Lost | Told::Disconnected));
    serving.stay_empty();
    // Between the answer and its taking note.
    let mut other = start();
    other.tell(&format!("connect {number}"));
    let request = requests.next();
    other.stop();
    let (_accepted, serving) = accept(request, b"");
    serving.stay_empty();
    other.kill();
    assert_eq!(serving.next(), Told::Lost);
    // Established.
    let mut other = start();
    other.tell(&format!("connect {number}"));
    let (_accepted, serving) = accept(requests.next(), b"");
    assert_eq!(serving.next(), Told::Established);
    other.kill();
    assert_eq!(serving.next(), Told::Lost);
}

#[test]
fn a_process_that_exits_takes_leave() {
    let number = fresh_number();
    let (_listener, requests) = offer(number);
    let mut other = start();
    let theirs = fresh_number();
    other.tell(&format!("listen {theirs}"));
    let (_pending, undecided) = ask(theirs, b"", None);
    other.tell("next");
    let mut serving = Vec::new();
    for _ in 0..500 {
        other.tell(&format!("connect {number}"));
        let (connection, notes) = accept(requests.next(), b"");
        assert_eq!(notes.next(), Told::Established);
        serving.push((connection, notes));
    }
    other.finish();
    for (_, notes) in &serving {
        assert_eq!(notes.next(), Told::Disconnected);
        notes.stay_empty_now();
    }
    assert_eq!(undecided.next(), Told::Refused(Refusal::NobodyListens));
}

#[test]
fn connections_have_no_descriptors() {
    let (mut other, number) = listening();
    other.order("serve 1");
    let first = ask(number, b"", None);
    assert_eq!(first.1.next(), accepted(b""));
    other.hear();
    let own = || descriptors(std::process::id());
    let theirs = other.descriptors();
    let ours = own();
    const MANY: usize = 10_000;
    other.order(&format!("serve {MANY}"));
    let since = Instant::now();
    let open: Vec<_> = (0..MANY).map(|_| ask(number, b"", None)).collect();
    for (_, notes) in &open {
        assert_eq!(notes.next(), accepted(b""));
    }
    assert_eq!(other.hear(), "ok");
    println!("{MANY} connections at once: {:.0} in a second", MANY as f64 / since.elapsed().as_secs_f64());
    // Other tests of this process have some hundreds.
    assert!(own() < MANY / 10, "{} descriptors, {ours} before", own());
    assert!(other.descriptors() <= theirs + 4);
    // All of them end, and none is mixed up with another.
    drop(open);
    first.0.disconnect();
    assert_eq!(other.tell("all Disconnected"), "ok");
    other.finish();
}

#[test]
fn thousands_come_and_go_without_a_trace() {
    let (mut other, number) = listening();
    const TURNS: usize = 30;
    const EACH: usize = 100;
    let mut theirs = Vec::new();
    let since = Instant::now();
    for _ in 0..TURNS {
        other.order(&format!("serve {EACH}"));
        for _ in 0..EACH {
            let (connection, notes) = ask(number, b"", Some(LONG));
            assert_eq!(notes.next(), accepted(b""));
            connection.disconnect();
        }
        assert_eq!(other.hear(), "ok");
        assert_eq!(other.tell("all Disconnected"), "ok");
        other.tell("forget");
        theirs.push(other.descriptors());
    }
    let rate = (TURNS * EACH) as f64 / since.elapsed().as_secs_f64();
    println!("{rate:.0} connections in a second, one after the other");
    assert!(theirs.iter().all(|count| *count <= theirs[0] + 2), "{theirs:?}");
    other.finish();
}

#[test]
fn a_stopped_process_is_told_everything_when_it_goes_on() {
    let (mut other, number) = listening();
    const MANY: usize = 3000;
    other.order(&format!("serve {MANY}"));
    let open: Vec<_> = (0..MANY).map(|_| ask(number, b"", None)).collect();
    for (_, notes) in &open {
        assert_eq!(notes.next(), accepted(b""));
    }
    assert_eq!(other.hear(), "ok");
    other.stop();
    // More than a socket holds.
    drop(open);
    let (_listener, requests) = offer(fresh_number());
    requests.stay_empty();
    other.resume();
    assert_eq!(other.tell("all Disconnected"), "ok");
    other.finish();
}

#[test]
fn a_process_ends_for_its_peers_though_a_child_of_it_lives() {
    let (mut other, number) = listening();
    let (_connection, asked) = take_one(&mut other, number);
    let child: i32 = other.tell("fork").parse().unwrap();
    other.kill();
    assert_eq!(asked.next(), Told::Lost);
    let (_listener, _requests) = offer(number);
    // SAFETY: ends the child of the other process.
    unsafe { libc::kill(child, libc::SIGKILL) };
}

#[test]
fn few_descriptors_are_enough() {
    let (mut other, number) = listening();
    // Two for the channels, one for each way, and one to ask or be asked by.
    other.tell("spare 3");
    other.order("serve 200");
    let asked: Vec<_> = (0..200).map(|_| ask(number, b"", None)).collect();
    for (_, notes) in &asked {
        assert_eq!(notes.next(), accepted(b""));
    }
    assert_eq!(other.hear(), "ok");
    // And where one asks.
    let number = fresh_number();
    let (_listener, requests) = offer(number);
    for _ in 0..50 {
        other.tell(&format!("connect {number}"));
    }
    let _serving: Vec<_> = (0..50).map(|_| accept(requests.next(), b"")).collect();
    assert_eq!(other.tell("hear"), "Accepted");
    other.finish();
}

/// Whether each number that a process may give a descriptor is one.
fn has_none_left(pid: u32) -> bool {
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let limit: u32 = files.split_ascii_whitespace().nth(3).unwrap().parse().unwrap();
    (0..limit).all(|number| std::fs::symlink_metadata(format!("/proc/{pid}/fd/{number}")).is_ok())
}

#[test]
fn those_who_ask_do_not_hold_the_descriptors_that_their_answers_need() {
    // Who would be first, if nothing saw to it, depends on when the descriptor is there.
    for delay in 0..12 {
        let (mut other, number) = listening();
        other.tell("spare 2");
        other.tell("hold");
        let asked: Vec<_> = (0..20).map(|_| ask(number, b"", None)).collect();
        eventually("one who asks has the last", || has_none_left(other.id()));
        std::thread::sleep(Duration::from_millis(delay));
        other.tell("release");
        other.order("serve 20");
        for (_, notes) in &asked {
            assert_eq!(notes.next(), accepted(b""));
        }
        assert_eq!(other.hear(), "ok");
        other.finish();
    }
}

#[test]
fn nonsense_closes_the_socket_it_came_by_and_no_other() {
    let (mut other, number) = listening();
    let (_connection, asked) = take_one(&mut other, number);
    let mut places = Vec::from_iter(&doors(other.id()) | &doors(std::process::id()));
    assert_eq!(places.len(), 2, "either process has one door: {places:?}");
    places.push(format!("nonic-connection.3/{}/{number}", space()));
    let begins_well = [&b"nonic-cm\x03\0\0\0"[..], &[1, 0, 0, 0, 9, 9]].concat();
    for place in &places {
        for bytes in [&b"hello"[..], &[0; 400], &begins_well, &[0xff; 16]] {
            let socket = PacketSocket::connect_abstract(place).unwrap();
            socket.send(bytes, &[]).unwrap();
            eventually("the socket is closed", || matches!(socket.receive(&mut [0; 8]), Received::HungUp));
        }
    }
    asked.stay_empty();
    let (_second, _asked) = take_one(&mut other, number);
    other.finish();
}

#[test]
fn those_who_say_nothing_are_in_nobodys_way_and_sent_off() {
    let (mut other, number) = listening();
    let name = format!("nonic-connection.3/{}/{number}", space());
    let mut silent = Vec::new();
    while silent.len() < 500 {
        match PacketSocket::connect_abstract(&name) {
            Ok(socket) => silent.push(socket),
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    let (_connection, _asked) = take_one(&mut other, number);
    eventually("all are sent off", || silent.iter().all(PacketSocket::is_hung_up));
    other.finish();
}

#[test]
fn many_processes_ask_one() {
    let number = fresh_number();
    let (_listener, requests) = offer(number);
    const PROCESSES: usize = 24;
    const EACH: usize = 40;
    let mut others: Vec<_> = (0..PROCESSES).map(|_| start()).collect();
    for other in &mut others {
        (0..EACH).for_each(|_| other.order(&format!("connect {number}")));
    }
    let serving: Vec<_> = (0..PROCESSES * EACH).map(|_| accept(requests.next(), b"")).collect();
    for (_, notes) in &serving {
        assert_eq!(notes.next(), Told::Established);
    }
    for other in &mut others {
        (0..EACH).for_each(|_| assert_eq!(other.hear(), "ok"));
        other.tell("all Accepted([97, 110, 115, 119, 101, 114], [])");
    }
    // Half of them die, half leave, all at once.
    let lost = |process: usize| process.is_multiple_of(2);
    for (process, mut other) in others.into_iter().enumerate() {
        if lost(process) { other.kill() } else { other.finish() }
    }
    let mut counts = [0; 2];
    for (_, notes) in &serving {
        match notes.next() {
            Told::Lost => counts[0] += 1,
            Told::Disconnected => counts[1] += 1,
            told => panic!("{told:?}"),
        }
    }
    assert_eq!(counts, [PROCESSES / 2 * EACH; 2]);
}

#[test]
fn a_channel_that_is_not_used_is_closed_and_opened_again() {
    let (mut other, number) = listening();
    let before = other.descriptors();
    for _ in 0..2 {
        let (connection, asked) = ask(number, b"", None);
        other.tell("next");
        other.tell("accept");
        assert_eq!(asked.next(), accepted(b""));
        assert_eq!(other.tell("hear"), "Established");
        assert_eq!(other.descriptors(), before + 1);
        connection.disconnect();
        assert_eq!(other.tell("hear"), "Disconnected");
        eventually("the channel is closed", || other.descriptors() == before);
    }
    other.finish();
}
