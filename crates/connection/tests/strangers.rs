//! What processes of other users can cost one that listens, and what they cannot. The bounds for strangers are driven by a
//! process of another user, which needs root; those for everybody by this one.

mod common;

use std::process::Command;
use std::time::{Duration, Instant};

use common::*;
use nonic_connection::Refusal;
use nonic_second_process::{SecondProcess, become_user, descriptors};
use nonic_sys::{
    PacketSocket, Received, Shares, descriptor_limit, effective_user, listen_abstract, random_u64,
};

/// A user that nobody is.
const STRANGER: u32 = 23_457;

#[test]
fn servant() {
    serve();
}

#[test]
fn stranger() {
    let Some(space) = nonic_second_process::role() else { return };
    become_user(STRANGER);
    let mut kept = Vec::new();
    nonic_second_process::serve(|command, rest| attack(&space, command, rest, &mut kept));
}

/// Starts a process of another user; `None` without root.
fn start_stranger() -> Option<SecondProcess> {
    if effective_user() != 0 {
        println!("SKIPPED: strangers: a process of another user needs root");
        return None;
    }
    Some(SecondProcess::start("stranger", &space(), &[]))
}

// What a stranger does.

fn words(kind: u32, numbers: &[u64]) -> Vec<u8> {
    let mut bytes = [&b"nonic-cm\x03\0\0\0"[..], &kind.to_le_bytes()].concat();
    numbers.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
    bytes
}

fn request(process: [u64; 2]) -> Vec<u8> {
    let mut bytes = words(1, &[process[0], process[1], random_u64()]);
    bytes.extend(96u16.to_le_bytes());
    bytes.extend([1; 96]);
    bytes.extend(256u16.to_le_bytes());
    bytes.extend([2; 256]);
    bytes
}

fn door_of(process: [u64; 2]) -> String {
    format!("nonic-connection.3/process.{:016x}{:016x}", process[0], process[1])
}

fn connect_patiently(name: &str) -> PacketSocket {
    loop {
        match PacketSocket::connect_abstract(name) {
            Ok(socket) => return socket,
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "{name}"),
        }
        std::thread::yield_now();
    }
}

/// Keeps a socket open while some thousands more are opened; the first stays.
fn keep(kept: &mut Vec<PacketSocket>, socket: PacketSocket) {
    kept.push(socket);
    if kept.len() > 8000 {
        kept.drain(1..4000);
    }
}

/// Obeys; what is kept stays open until the process ends.
fn attack(space: &str, command: &str, rest: &str, kept: &mut Vec<PacketSocket>) -> String {
    let mut words_of = rest.split(' ');
    let count: usize = words_of.next().and_then(|word| word.parse().ok()).unwrap_or(0);
    let place = words_of.next().unwrap_or_default();
    let service = format!("nonic-connection.3/{space}/{place}");
    match command {
        // Asks so often, reads nothing.
        "ask" => {
            let process = [random_u64(), random_u64()];
            kept.push(listen_abstract(&door_of(process)).unwrap());
            for _ in 0..count {
                let socket = connect_patiently(&service);
                let _ = socket.send(&request(process), &[]);
                // Whoever hangs up before is not heard.
                keep(kept, socket);
            }
        }
        // Asks by so many names of its own.
        "ask-by-names" => {
            for _ in 0..count {
                let process = [random_u64(), random_u64()];
                kept.push(listen_abstract(&door_of(process)).unwrap());
                kept.push(connect_patiently(&service));
                let _ = kept.last().unwrap().send(&request(process), &[]);
            }
        }
        // Says nothing.
        "stay" => {
            for _ in 0..count {
                keep(kept, connect_patiently(&service));
            }
        }
        // Opens channels and says something of no consequence.
        "open" => {
            for _ in 0..count {
                let socket = connect_patiently(place);
                let _ = socket.send(&words(6, &[random_u64(), 0, 0])[..26], &[]);
                kept.push(socket);
            }
        }
        // Opens a channel, has itself told so often that a connection is none, and does not read that.
        "provoke" => {
            let socket = connect_patiently(place);
            let message = words(4, &[random_u64(), random_u64()]);
            let mut sent = 0;
            while sent < count {
                match socket.send(&message, &[]) {
                    Ok(()) => sent += 1,
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => std::thread::yield_now(),
                    Err(_) => return format!("hung up after {}", sent > 1000),
                }
            }
        }
        "take-name" => kept.push(listen_abstract(&service).unwrap()),
        other => panic!("no such command: {other}"),
    }
    "ok".into()
}

// The process under attack is a servant, and this one is its honest peer.

fn shares() -> Shares {
    Shares::of_limit(descriptor_limit())
}

/// Connects and ends so many connections, one after the other; how long it took.
fn go_on(other: &mut SecondProcess, number: u64, count: usize) -> Duration {
    let since = Instant::now();
    for _ in 0..count {
        other.order("serve 1");
        let (connection, asked) = ask(number, b"", Some(LONG));
        assert_eq!(asked.next(), accepted(b""));
        assert_eq!(other.hear(), "ok");
        connection.disconnect();
        assert_eq!(other.tell("hear"), "Disconnected");
        other.tell("forget");
    }
    since.elapsed()
}

#[test]
fn a_stranger_that_asks_and_does_not_read_costs_no_more_than_its_share() {
    let Some(mut stranger) = start_stranger() else { return };
    let (mut other, number) = listening();
    go_on(&mut other, number, 10);
    let undecided = fresh_number();
    // The program decides about nothing there, and refuses everything here.
    let mut victims = Vec::new();
    for command in ["listen", "refuse-all"] {
        let mut victim = start();
        victim.tell(&format!("{command} {undecided}"));
        let before = victim.resident();
        assert_eq!(stranger.tell(&format!("ask 60000 {undecided}")), "ok");
        // The last of them is dealt with when one that comes later is.
        let (_connection, asked) = ask(undecided, b"", Some(LONG));
        if command == "refuse-all" {
            assert_eq!(asked.next(), Told::Refused(Refusal::NobodyListens));
        }
        let grown = victim.resident().saturating_sub(before);
        println!("{command}: {grown} KiB more after 60,000 requests");
        assert!(grown < 8 << 10, "{command}: {grown} KiB");
        victim.kill();
        victims.push(victim);
    }
    go_on(&mut other, number, 10);
    other.finish();
}

#[test]
fn a_channel_whose_other_end_does_not_read_is_closed() {
    let Some(mut stranger) = start_stranger() else { return };
    let (mut other, number) = listening();
    let door = only_door(other.id());
    let before = other.resident();
    assert_eq!(stranger.tell(&format!("provoke 300000 {door}")), "hung up after true");
    let grown = other.resident().saturating_sub(before);
    assert!(grown < 8 << 10, "{grown} KiB");
    go_on(&mut other, number, 10);
    other.finish();
}

#[test]
fn the_same_holds_for_the_own_user_whose_share_is_larger() {
    let (mut other, number) = listening();
    let socket = connect_patiently(&only_door(other.id()));
    let message = words(4, &[random_u64(), random_u64()]);
    let mut sent = 0u64;
    while !socket.is_hung_up() {
        match socket.send(&message, &[]) {
            Ok(()) => sent += 1,
            Err(_) => std::thread::yield_now(),
        }
        assert!(sent < 4_000_000, "nothing ends it");
    }
    println!("hung up after {sent} messages, {} MiB", other.resident() >> 10);
    assert!(sent > 100_000 && other.resident() < 192 << 10, "{sent} messages, {} KiB", other.resident());
    go_on(&mut other, number, 10);
    other.finish();
}

#[test]
fn strangers_hold_some_of_the_descriptors_and_not_those_of_honest_processes() {
    let Some(mut stranger) = start_stranger() else { return };
    let (mut other, number) = listening();
    let alone = go_on(&mut other, number, 200);
    let door = only_door(other.id());
    let before = other.descriptors();
    let most = before + shares().stranger.min(512) + 4;
    let place = number.to_string();
    for (command, place) in [("stay", &place), ("open", &door), ("ask-by-names", &place)] {
        assert_eq!(stranger.tell(&format!("{command} 1500 {place}")), "ok");
        let held = other.descriptors();
        assert!(held <= most, "{command}: {held} of {most} descriptors, {before} before");
    }
    // What it left undecided is in nobody's way; one more asks while the stranger goes on.
    other.tell(&format!("close {number}"));
    other.tell(&format!("listen {number}"));
    stranger.order(&format!("stay 20000 {number}"));
    let beside = go_on(&mut other, number, 200);
    assert_eq!(stranger.hear(), "ok");
    println!("200 connections took {alone:?} alone and {beside:?} beside a stranger's flood");
    other.finish();
}

#[test]
fn a_name_that_a_stranger_took_costs_a_refusal_that_names_it() {
    let Some(mut stranger) = start_stranger() else { return };
    let number = fresh_number();
    stranger.tell(&format!("take-name 0 {number}"));
    let error = offer_in(&space(), number).map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    let holder = format!("process {} of user {STRANGER}", stranger.id());
    assert!(error.to_string().ends_with(&holder), "{error}");
    let listed = nonic_connection::services();
    let service = listed.iter().find(|service| service.space == space() && service.number == number).unwrap();
    assert_eq!(service.holder().unwrap().to_string(), holder);
    // Whoever asks there is not kept for ever.
    let (_connection, asked) = ask(number, b"", None);
    assert_eq!(asked.next(), Told::Refused(Refusal::NobodyListens));
    // Other numbers are as they were.
    let (_listener, requests) = offer(fresh_number());
    requests.stay_empty();
}

#[test]
fn nonsense_is_told_once_however_often_it_comes() {
    const ROLE: &str = "nonsense_is_told_once_however_often_it_comes";
    if nonic_second_process::role().is_none() {
        // Alone in its process: what is counted is counted there.
        let program = std::env::current_exe().unwrap();
        let mut one = Command::new(program);
        let status = one.args(["--exact", ROLE, "--nocapture"]).env("NONIC_TEST_ROLE", "alone").status();
        assert!(status.unwrap().success());
        return;
    }
    nonic_second_process::count_warnings();
    let number = fresh_number();
    let (_listener, requests) = offer(number);
    let places = [format!("nonic-connection.3/{}/{number}", space()), only_door(std::process::id())];
    let since = Instant::now();
    for _ in 0..1000 {
        for place in &places {
            for nonsense in [&b"nonsense"[..], &words(2, &[])] {
                let socket = connect_patiently(place);
                let _ = socket.send(nonsense, &[]);
                eventually("it is closed", || matches!(socket.receive(&mut [0; 8]), Received::HungUp));
            }
        }
    }
    requests.stay_empty_now();
    let told = nonic_second_process::warnings();
    // Two kinds, each at most once in ten seconds.
    let most = 2 * (1 + since.elapsed().as_secs() / 10);
    assert!((1..=most).contains(&told), "{told} warnings in {:?}", since.elapsed());
    assert!(descriptors(std::process::id()) < 100);
}

/// The name at which other processes open channels to process `pid`, which has listened.
fn only_door(pid: u32) -> String {
    let mut doors = Vec::from_iter(doors(pid));
    assert_eq!(doors.len(), 1);
    doors.remove(0)
}
