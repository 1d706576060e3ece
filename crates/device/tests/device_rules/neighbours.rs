//! Queue pairs of one process that send to each other.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::pair::{LENGTH, Memory, Side, some_bytes};
use nonic_device::{
    Config, Counter, EngineHandle, Operation, PostError, ReceiveRequest, ScatterGather, SendFlags,
    SendRequest, Status, Tier,
};

/// Where messages arrive.
const ARRIVALS: usize = LENGTH / 2;

const SEND: Operation = Operation::Send { immediate: None };

/// Two sides of one engine, over memory of their own or over the same. Each has sent something to the other and something inline: what a
/// queue pair needs for that is made for the first.
fn neighbours(config: &Config, shared: bool) -> (EngineHandle, [Side; 2]) {
    let engine = EngineHandle::create(config.clone()).unwrap();
    let memory = Arc::new(Memory::new());
    let side = || if shared { Side::with_memory(&engine, Arc::clone(&memory)) } else { Side::on(&engine) };
    let sides = [side(), side()];
    sides[0].connect(&sides[1]);
    for (from, to) in [(0, 1), (1, 0)] {
        for inline in [false, true] {
            receive(&sides[to], 0, 8);
            send(&sides[from], 0, &[1; 8], inline);
            ended(&sides[from], 0);
            arrives(&sides[to], 0, &[1; 8]);
        }
    }
    (engine, sides)
}

fn receive(side: &Side, id: u64, length: usize) {
    let pieces = [side.piece(ARRIVALS, length)];
    side.end.pair.post_receive(&ReceiveRequest { id, pieces: &pieces }).unwrap();
}

/// Posts a send of these bytes, inline or not.
fn send(side: &Side, id: u64, bytes: &[u8], inline: bool) {
    side.memory.set(0, bytes);
    let flags = SendFlags { inline, ..SendFlags::default() };
    let pieces = [side.piece(0, bytes.len())];
    let request = SendRequest { id, operation: SEND, flags, pieces: &pieces, destination: None };
    // SAFETY: the piece is a part of the side's memory.
    unsafe { side.end.pair.post_send(&request).unwrap() };
    side.end.pair.ring_doorbell();
}

/// The next message has these bytes.
fn arrives(side: &Side, id: u64, expected: &[u8]) {
    let received = side.end.completion();
    assert_eq!((received.id, received.status), (id, Status::Success));
    assert_eq!(received.byte_length as usize, expected.len());
    assert!(side.memory.get(ARRIVALS, expected.len()) == expected, "message {id}");
}

fn ended(side: &Side, id: u64) {
    let sent = side.end.completion();
    assert_eq!((sent.id, sent.status), (id, Status::Success));
}

#[test]
fn a_send_to_a_neighbour_has_ended_when_it_is_posted_and_is_counted() {
    let (_engine, [one, other]) = neighbours(&Config::default(), false);
    let (sends, received) = (one.count(Counter::Sends), other.count(Counter::Received));
    let (mut all, mut at_once) = (0, 0);
    for round in 0..20 {
        for length in [1, 8, 64, 4096, 20_000] {
            for inline in [false, true].into_iter().filter(|inline| !inline || length <= 64) {
                let message = some_bytes(length, all as u8);
                receive(&other, all, length);
                send(&one, all, &message, inline);
                // Nobody has looked at a ring meanwhile. One that another thread was in the way of went there all the same.
                at_once +=
                    u64::from(one.end.pair.idle() == (true, true) && other.end.pair.idle() == (true, true));
                arrives(&other, all, &message);
                ended(&one, all);
                all += 1;
            }
        }
        assert_eq!(all, (round + 1) * 8);
    }
    assert!(at_once >= all * 9 / 10, "{at_once} of {all} had ended");
    assert_eq!((one.count(Counter::Sends), other.count(Counter::Received)), (sends + all, received + all));
}

#[test]
fn messages_keep_their_order_whichever_ways_they_go() {
    for config in [
        Config::default(),
        Config { tier: Tier::Ring, ..Config::default() },
        Config { express: false, ..Config::default() },
    ] {
        let (_engine, [one, other]) = neighbours(&config, false);
        for round in 0..200u64 {
            let (first, second, third) = (
                some_bytes(40, round as u8),
                some_bytes(5000, (round + 1) as u8),
                some_bytes(16, (round + 2) as u8),
            );
            // It finds no receive and waits; the next finds one and must not pass it.
            if round % 2 == 0 {
                send(&one, 1, &first, true);
                receive(&other, 1, 64);
            } else {
                receive(&other, 1, 64);
                send(&one, 1, &first, true);
            }
            arrives(&other, 1, &first);
            receive(&other, 2, 8192);
            send(&one, 2, &second, false);
            arrives(&other, 2, &second);
            receive(&other, 3, 16);
            send(&one, 3, &third, true);
            arrives(&other, 3, &third);
            (1..=3).for_each(|id| ended(&one, id));
        }
    }
}

#[test]
fn bytes_that_move_within_themselves_arrive_as_they_were() {
    let (_engine, [one, other]) = neighbours(&Config::default(), true);
    for (from, to) in [(0, 64), (64, 0), (100, 100), (0, 3999)] {
        let message = some_bytes(4000, from as u8);
        one.memory.set(from, &message);
        let pieces = [other.piece(to, message.len())];
        other.end.pair.post_receive(&ReceiveRequest { id: 5, pieces: &pieces }).unwrap();
        assert_eq!(one.run(SEND, one.piece(from, message.len())), Status::Success);
        assert_eq!(other.end.completion().status, Status::Success);
        assert!(other.memory.get(to, message.len()) == message, "from {from} to {to}");
    }
}

#[test]
fn what_a_neighbour_may_not_take_is_refused_and_nothing_moves() {
    let refused = |to: &dyn Fn(&Side) -> ScatterGather, from: &dyn Fn(&Side) -> ScatterGather| {
        let (_engine, [one, other]) = neighbours(&Config::default(), false);
        one.memory.set(0, &[7; 64]);
        other.end.pair.post_receive(&ReceiveRequest { id: 9, pieces: &[to(&other)] }).unwrap();
        let before = other.memory.get(0, LENGTH);
        let sent = one.run(SEND, from(&one));
        assert_ne!(sent, Status::Success);
        assert!(other.memory.get(0, LENGTH) == before, "bytes moved that ended with {sent:?}");
        sent
    };
    let (whole, short) = (|side: &Side| side.piece(0, 64), |side: &Side| side.piece(ARRIVALS, 63));
    assert_eq!(refused(&short, &whole), Status::RemoteInvalidRequest);
    let wrong_key = |side: &Side| ScatterGather { key: side.region.remote_key(), ..side.piece(0, 64) };
    assert_eq!(refused(&wrong_key, &whole), Status::RemoteOperation);
    assert_eq!(refused(&whole, &wrong_key), Status::LocalProtection);
    let beyond = |side: &Side| side.piece(LENGTH - 63, 63);
    let beyond = |side: &Side| ScatterGather { length: 64, ..beyond(side) };
    assert_eq!(refused(&beyond, &whole), Status::RemoteOperation);
    assert_eq!(refused(&whole, &beyond), Status::LocalProtection);
}

#[test]
fn a_queue_pair_that_is_its_own_neighbour_hears_itself() {
    let engine = EngineHandle::create(Config::default()).unwrap();
    let side = Side::on(&engine);
    side.end.connect(side.end.pair.number());
    for round in 0..100 {
        let message = some_bytes(32, round as u8);
        receive(&side, 1, 32);
        send(&side, 2, &message, round % 2 == 0);
        let ids = [side.end.completion(), side.end.completion()].map(|end| (end.id, end.status));
        assert!(ids.contains(&(1, Status::Success)) && ids.contains(&(2, Status::Success)), "{ids:?}");
        assert!(side.memory.get(ARRIVALS, 32) == message);
    }
}

#[test]
fn a_neighbour_that_is_gone_takes_nothing_and_one_that_is_connected_anew_takes_all() {
    let (engine, [one, other]) = neighbours(&Config::default(), false);
    receive(&other, 1, 64);
    let memory = Arc::clone(&other.memory);
    let before = memory.get(0, LENGTH);
    other.leave();
    one.memory.set(0, &[9; 64]);
    assert_ne!(one.run(SEND, one.piece(0, 64)), Status::Success);
    assert!(memory.get(0, LENGTH) == before);
    let [one, other] = [Side::on(&engine), Side::on(&engine)];
    one.connect(&other);
    for round in 0..10 {
        let message = some_bytes(64, round as u8);
        receive(&other, round, 64);
        send(&one, round, &message, false);
        arrives(&other, round, &message);
        ended(&one, round);
    }
}

/// Sends numbers and takes those of the other side, in order, while that does the same.
fn talk(side: &Side, count: u64) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let (mut sent, mut under_way, mut posted, mut taken) = (0, 0, 0, 0);
    while sent < count || under_way > 0 || taken < count {
        assert!(Instant::now() < deadline, "{sent} sent, {under_way} under way, {taken} taken");
        while posted < count && posted < taken + 16 {
            let pieces = [side.piece(ARRIVALS + (posted as usize % 16) * 8, 8)];
            side.end.pair.post_receive(&ReceiveRequest { id: posted << 1, pieces: &pieces }).unwrap();
            posted += 1;
        }
        if sent < count && under_way < 8 {
            let place = (sent as usize % 8) * 8;
            side.memory.set(place, &sent.to_ne_bytes());
            let pieces = [side.piece(place, 8)];
            let flags = SendFlags { inline: sent % 3 == 0, ..SendFlags::default() };
            let request = SendRequest { id: 1, operation: SEND, flags, pieces: &pieces, destination: None };
            // SAFETY: as in `send`.
            match unsafe { side.end.pair.post_send(&request) } {
                Ok(()) => (sent, under_way) = (sent + 1, under_way + 1),
                Err(error) => assert!(matches!(error, PostError::QueueFull { .. }), "{error}"),
            }
            side.end.pair.ring_doorbell();
        }
        let look = |completion: &nonic_device::Completion| {
            assert_eq!(completion.status, Status::Success);
            if completion.id == 1 {
                under_way -= 1;
                return;
            }
            assert_eq!(completion.id, taken << 1);
            let place = ARRIVALS + (taken as usize % 16) * 8;
            assert_eq!(side.memory.get(place, 8), taken.to_ne_bytes());
            taken += 1;
        };
        side.end.completions.poll(look, 4).unwrap();
    }
}

#[test]
fn two_threads_whose_queue_pairs_send_to_each_other_do_not_wait_for_each_other() {
    let (_engine, [one, other]) = neighbours(&Config::default(), false);
    std::thread::scope(|scope| {
        scope.spawn(|| talk(&one, 30_000));
        scope.spawn(|| talk(&other, 30_000));
    });
}
