//! A device that somebody changes: the port goes down and up, tables change, the device fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common;
use crate::common::pair::{LENGTH, Pair, Side};
use nonic_device::{
    Access, AsyncElement, AsyncEvent, AsyncEventKind, Change, Completion, Config, Context, CreateError,
    EngineHandle, OpenError, Operation, PostError, QpState, ReceiveRequest, RegionMemory, RegionRequest,
    RegisterError, Status, Tier,
};

const TIERS: [Tier; 3] = [Tier::Ring, Tier::Kernel, Tier::Mapped];

fn change(context: &Context, words: &str) -> Result<&'static str, String> {
    context.change(words.parse::<Change>().unwrap())
}

fn of(side: &Side, words: &str) {
    assert_eq!(change(side.end.context(), words), Ok("done"), "{words}");
}

/// Two sides that never give up.
fn patient(tier: Tier) -> Pair {
    let config = Config { tier, ..Config::default() };
    let engines = [EngineHandle::create(config.clone()).unwrap(), EngineHandle::create(config).unwrap()];
    let sides = engines.each_ref().map(Side::on);
    for (one, other) in [(0, 1), (1, 0)] {
        sides[one].end.receive_from(sides[other].end.pair.number());
        sides[one].end.start_sending_with(0).unwrap();
    }
    Pair { engines, sides }
}

fn take(side: &Side) -> Option<Completion> {
    let mut found = None;
    side.end.completions.poll(|completion| found = Some(*completion), 1).unwrap();
    found
}

/// Both sides are driven for a while, and nothing completes on either.
fn nothing_happens(pair: &Pair) {
    let end = Instant::now() + Duration::from_millis(20);
    while Instant::now() < end {
        for side in &pair.sides {
            assert!(take(side).is_none());
        }
    }
}

#[test]
fn what_is_posted_while_a_port_is_down_is_carried_out_once_when_it_is_up() {
    for (tier, down) in TIERS.into_iter().flat_map(|tier| [(tier, 0), (tier, 1)]) {
        let pair = patient(tier);
        let [near, far] = &pair.sides;
        if tier > Tier::Ring {
            near.meet(far);
        }
        for length in [8, 300, 20_000] {
            let bytes = vec![length as u8 ^ 0x5a; length];
            near.memory.set(0, &bytes);
            far.memory.set(4096, &vec![0; length]);
            far.memory.set(LENGTH / 2, &vec![0; length]);
            far.memory.set(0, &40u64.to_ne_bytes());
            far.end
                .pair
                .post_receive(&ReceiveRequest { id: 9, pieces: &[far.piece(LENGTH / 2, LENGTH / 2)] })
                .unwrap();
            of(&pair.sides[down], "port down");
            let write = Operation::Write { remote: far.remote(4096), immediate: None };
            near.end.post(1, write, &[near.piece(0, length)]);
            near.end.post(2, Operation::Send { immediate: None }, &[near.piece(0, length)]);
            let add = Operation::FetchAdd { remote: far.remote(0), add: 2 };
            near.end.post(3, add, &[near.piece(LENGTH / 2, 8)]);
            nothing_happens(&pair);
            assert_eq!(far.memory.get(4096, length), vec![0; length], "{tier:?}: nothing was written");
            assert_eq!(far.memory.get(LENGTH / 2, length), vec![0; length], "{tier:?}: nothing was received");
            assert_eq!(far.memory.get(0, 8), 40u64.to_ne_bytes());
            of(&pair.sides[down], "port up");
            for id in 1..=3 {
                let completion = near.end.completion();
                assert_eq!((completion.id, completion.status), (id, Status::Success), "{tier:?}");
            }
            let received = far.end.completion();
            assert_eq!((received.id, received.status), (9, Status::Success));
            assert_eq!(received.byte_length as usize, length);
            assert!(far.memory.get(4096, length) == bytes && far.memory.get(LENGTH / 2, length) == bytes);
            assert_eq!(far.memory.get(0, 8), 42u64.to_ne_bytes());
            assert_eq!(near.memory.get(LENGTH / 2, 8), 40u64.to_ne_bytes());
        }
        pair.sides.into_iter().for_each(Side::leave);
    }
}

#[test]
fn a_request_fails_when_its_retries_are_used_up_before_the_port_is_up() {
    for (tier, down) in TIERS.into_iter().flat_map(|tier| [(tier, 0), (tier, 1)]) {
        let pair = Pair::new(&Config { tier, ..Config::default() });
        let [near, far] = &pair.sides;
        if tier > Tier::Ring {
            near.meet(far);
        }
        far.end.post_receive(9);
        of(&pair.sides[down], "port down");
        let write = Operation::Write { remote: far.remote(0), immediate: None };
        assert_eq!(near.run(write, near.piece(0, 8)), Status::RetryExceeded, "{tier:?}");
        assert_eq!(near.end.pair.state(), QpState::Error);
        assert_eq!(far.end.pair.state(), QpState::ReadyToSend);
        of(&pair.sides[down], "port up");
        assert_eq!(far.end.pair.idle(), (true, false), "its receive is there");
        pair.sides.into_iter().for_each(Side::leave);
    }
}

#[test]
fn nothing_is_lost_or_done_twice_while_ports_flap_under_load() {
    const ROUNDS: u64 = 40;
    const LENGTHS: [usize; 4] = [8, 500, 9000, 30_000];
    for tier in TIERS {
        let pair = patient(tier);
        let done = AtomicBool::new(false);
        let contexts = pair.sides.each_ref().map(|side| Arc::clone(side.end.context()));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut turn = 0u32;
                while !done.load(Ordering::Acquire) {
                    let context = &contexts[(turn % 2) as usize];
                    assert_eq!(change(context, "port down"), Ok("done"));
                    std::thread::sleep(Duration::from_micros(u64::from(turn * 37 % 500)));
                    assert_eq!(change(context, "port up"), Ok("done"));
                    std::thread::sleep(Duration::from_micros(u64::from(turn * 91 % 1500)));
                    turn += 1;
                }
            });
            let [near, far] = &pair.sides;
            let finish = Finish(&done);
            for round in 0..ROUNDS {
                let length = LENGTHS[round as usize % LENGTHS.len()];
                let bytes: Vec<_> = (0..length).map(|at| (at as u64 * 31 + round) as u8).collect();
                near.memory.set(4096, &bytes);
                let place = far.piece(LENGTH / 2, LENGTH / 2);
                far.end.pair.post_receive(&ReceiveRequest { id: round, pieces: &[place] }).unwrap();
                let add = Operation::FetchAdd { remote: far.remote(0), add: 1 };
                near.end.post(1, add, &[near.piece(0, 8)]);
                near.end.post(2, Operation::Send { immediate: None }, &[near.piece(4096, length)]);
                let read = Operation::Read { remote: far.remote(0) };
                near.end.post(3, read, &[near.piece(8, 8)]);
                let received = far.end.completion();
                assert_eq!((received.id, received.status), (round, Status::Success));
                assert!(far.memory.get(LENGTH / 2, length) == bytes, "{tier:?}: round {round}");
                for id in 1..=3 {
                    let completion = near.end.completion();
                    assert_eq!((completion.id, completion.status), (id, Status::Success), "{tier:?}");
                }
                assert_eq!(near.memory.get(0, 8), round.to_ne_bytes(), "{tier:?}: what was there before");
                assert_eq!(near.memory.get(8, 8), (round + 1).to_ne_bytes(), "{tier:?}: what is read then");
            }
            drop(finish);
        });
        pair.sides.into_iter().for_each(Side::leave);
    }
}

/// Ends the other thread also if this one fails.
struct Finish<'a>(&'a AtomicBool);

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

fn event(context: &Arc<Context>) -> AsyncEvent {
    context.next_async_event().unwrap()
}

fn has_no_event(context: &Arc<Context>) -> bool {
    !nonic_sys::wait_readable(context.async_fd(), Some(Duration::ZERO))
}

#[test]
fn every_open_context_hears_of_a_change_and_shows_it_at_once() {
    let engine = EngineHandle::create(Config::default()).unwrap();
    let device = &engine.devices()[0];
    let contexts = [device.open().unwrap(), device.open().unwrap()];
    let first = contexts[0].gid_table()[0].gid;
    let expected = [
        ("port down", AsyncEventKind::PortError),
        ("lid 0x77", AsyncEventKind::LidChange),
        ("pkey set 0 0x8123", AsyncEventKind::PkeyChange),
        ("gid set 0 fe80::77", AsyncEventKind::GidChange),
        ("client-reregister", AsyncEventKind::ClientReregister),
        ("sm-change 9", AsyncEventKind::SubnetManagerChange),
    ];
    for (words, kind) in expected {
        assert_eq!(change(&contexts[0], words), Ok("done"));
        for context in &contexts {
            let told = event(context);
            assert_eq!(told.kind, kind);
            assert!(matches!(told.element, AsyncElement::Port(1)), "{told:?}");
        }
    }
    let late = device.open().unwrap();
    for context in contexts.iter().chain([&late]) {
        let port = context.port();
        assert_eq!((port.active, port.lid, port.subnet_manager_lid), (false, 0x77, 9));
        assert_eq!(context.pkey(0), Some(0x8123));
        let gids = context.gid_table();
        assert_eq!(gids[0].gid, [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x77]);
        assert!(!gids.iter().any(|entry| entry.gid == first));
    }
    let (port, gids, pkeys) = device.port();
    assert_eq!((port.active, gids[0].gid[15], pkeys), (false, 0x77, vec![0x8123]));
    let before = late.port();
    for words in ["pkey set 1 0x8001", "gid set 64 fe80::1", "gid add fe80::77"] {
        assert!(change(&late, words).is_err(), "{words}");
    }
    assert_eq!(change(&late, "port down"), Ok("it is so already"));
    assert_eq!(late.port(), before);
    assert!(contexts.iter().chain([&late]).all(has_no_event));
    assert_eq!(change(&late, "port up"), Ok("done"));
    assert_eq!(event(&late).kind, AsyncEventKind::PortActive);
    assert!(late.port().active);
}

#[test]
fn a_partition_that_is_gone_carries_nothing_until_it_is_back() {
    let pair = patient(Tier::Mapped);
    let [near, far] = &pair.sides;
    near.meet(far);
    of(far, "pkey remove 0");
    near.memory.set(0, &[7; 64]);
    near.end.post(1, Operation::Write { remote: far.remote(0), immediate: None }, &[near.piece(0, 64)]);
    nothing_happens(&pair);
    assert_eq!(far.memory.get(0, 64), [0; 64]);
    of(far, "pkey set 0 0xffff");
    assert_eq!(near.end.completion().status, Status::Success);
    assert_eq!(far.memory.get(0, 64), [7; 64]);
    pair.sides.into_iter().for_each(Side::leave);
}

#[test]
fn a_queue_pair_that_is_connected_while_the_port_is_down_works_when_it_is_up() {
    let config = Config::default();
    let engines = [EngineHandle::create(config.clone()).unwrap(), EngineHandle::create(config).unwrap()];
    let sides = engines.each_ref().map(Side::on);
    of(&sides[0], "port down");
    for (one, other) in [(0, 1), (1, 0)] {
        sides[one].end.receive_from(sides[other].end.pair.number());
        sides[one].end.start_sending_with(0).unwrap();
    }
    let pair = Pair { engines, sides };
    let [near, far] = &pair.sides;
    far.memory.set(0, &[7; 64]);
    far.end.post(1, Operation::Write { remote: near.remote(0), immediate: None }, &[far.piece(0, 64)]);
    nothing_happens(&pair);
    of(near, "port up");
    assert_eq!(far.end.completion().status, Status::Success);
    assert_eq!(near.memory.get(0, 64), [7; 64]);
    pair.sides.into_iter().for_each(Side::leave);
}

#[test]
fn after_a_device_has_failed_every_call_says_so_and_giving_back_works() {
    let pair = Pair::new(&Config::default());
    let [near, far] = &pair.sides;
    near.meet(far);
    let end = &near.end;
    let idle = end.context().allocate_zone().unwrap();
    of(near, "fatal");
    let told = event(end.context());
    assert_eq!(told.kind, AsyncEventKind::DeviceFatal);
    assert!(matches!(told.element, AsyncElement::Device));
    assert!(end.context().has_failed());
    let piece = [near.piece(0, 8)];
    assert_eq!(end.pair.post_receive(&ReceiveRequest { id: 1, pieces: &piece }), Err(PostError::Gone));
    assert!(matches!(end.pair.post().map(|_| ()), Err(PostError::Gone)));
    assert!(end.completions.poll(|_| panic!("nothing completes"), 1).is_err());
    assert!(matches!(end.context().allocate_zone(), Err(CreateError::Gone)));
    let again = RegionRequest {
        memory: RegionMemory::Program { address: common::program(near.memory.address()), length: 4096 },
        base: 0,
        access: Access::LOCAL_WRITE,
    };
    assert!(matches!(end.zone.register(again), Err(RegisterError::Gone)));
    assert!(matches!(pair.engines[0].devices()[0].open(), Err(OpenError::Gone)));
    assert!(change(end.context(), "port down").is_err());
    // Who was connected to it finds nobody there.
    let write = Operation::Write { remote: near.remote(0), immediate: None };
    assert_eq!(far.run(write, far.piece(0, 8)), Status::RetryExceeded);
    end.pair.destroy().unwrap();
    near.region.deregister().unwrap();
    end.region.deregister().unwrap();
    idle.release().unwrap();
    end.completions.destroy().unwrap();
    end.zone.release().unwrap();
    pair.sides.into_iter().for_each(Side::leave);
}
