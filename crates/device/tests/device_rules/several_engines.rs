//! Several engines in one process are to each other what several processes are.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::pair::{LENGTH, Memory, Pair, Side, some_bytes};
use nonic_device::{
    AdoptionPolicy, Config, Counter, EngineHandle, Operation, QpState, ReceiveRequest, RemoteRange, Status,
    Tier,
};

const TIERS: [Tier; 3] = [Tier::Ring, Tier::Kernel, Tier::Mapped];

fn on(tier: Tier) -> Config {
    Config { tier, ..Config::default() }
}

/// A message of this length arrives.
fn send(from: &Side, to: &Side, length: usize, seed: u8) {
    let bytes = some_bytes(length, seed);
    from.memory.set(0, &bytes);
    to.end.pair.post_receive(&ReceiveRequest { id: 7, pieces: &[to.piece(LENGTH / 2, LENGTH / 2)] }).unwrap();
    assert_eq!(from.run(Operation::Send { immediate: None }, from.piece(0, length)), Status::Success);
    let received = to.end.completion();
    assert_eq!((received.id, received.status), (7, Status::Success));
    assert!(to.memory.get(LENGTH / 2, length) == bytes, "a message of {length} bytes");
}

#[test]
fn bytes_move_between_two_engines_on_every_tier_by_the_best_way() {
    for tier in TIERS {
        let pair = Pair::new(&on(tier));
        for (from, to) in [(0, 1), (1, 0)] {
            let (from, to) = (&pair.sides[from], &pair.sides[to]);
            for length in [1, 64, 4096, 20_000, LENGTH / 2] {
                let (sent, received) = (from.count(Counter::Sends), to.count(Counter::Received));
                send(from, to, length, tier as u8);
                assert_eq!(from.count(Counter::Sends), sent + 1);
                assert_eq!(to.count(Counter::Received), received + 1);
            }
            if tier > Tier::Ring {
                from.meet(to);
            }
            let maps = tier == Tier::Mapped && to.memory.is_adopted();
            let served = to.count(Counter::Served);
            for length in [8, 5000, LENGTH / 2] {
                let bytes = some_bytes(length, 77);
                from.memory.set(0, &bytes);
                let write = Operation::Write { remote: to.remote(100), immediate: None };
                assert_eq!(from.asks(write, from.piece(0, length)), tier == Tier::Ring, "{tier:?}: a write");
                assert!(to.memory.get(100, length) == bytes, "{tier:?}: {length} bytes written");
                let read = Operation::Read { remote: to.remote(100) };
                assert_eq!(
                    from.asks(read, from.piece(LENGTH / 2, length)),
                    tier == Tier::Ring,
                    "{tier:?}: a read"
                );
                assert!(from.memory.get(LENGTH / 2, length) == bytes, "{tier:?}: {length} bytes read");
            }
            to.memory.set(0, &40u64.to_ne_bytes());
            let add = Operation::FetchAdd { remote: to.remote(0), add: 2 };
            assert_eq!(from.asks(add, from.piece(0, 8)), !maps, "{tier:?}: an atomic");
            assert_eq!(from.memory.get(0, 8), 40u64.to_ne_bytes());
            assert_eq!(to.memory.get(0, 8), 42u64.to_ne_bytes());
            let served = to.count(Counter::Served) - served;
            let expected = if tier == Tier::Ring { 7 } else { u64::from(!maps) };
            assert_eq!(served, expected, "{tier:?}: what the target did for it");
        }
        pair.sides.into_iter().for_each(Side::leave);
    }
}

#[test]
fn what_was_acknowledged_before_a_queue_pair_is_taken_to_error_has_succeeded() {
    for tier in TIERS {
        let pair = Pair::new(&on(tier));
        let [one, other] = &pair.sides;
        other.end.pair.post_receive(&ReceiveRequest { id: 7, pieces: &[other.piece(0, 4096)] }).unwrap();
        one.end.post(8, Operation::Send { immediate: None }, &[one.piece(0, 4096)]);
        one.end.post(9, Operation::Send { immediate: None }, &[one.piece(0, 4096)]);
        let received = other.end.completion();
        assert_eq!((received.id, received.status), (7, Status::Success), "{tier:?}");
        // It goes, as a program does that has what it wants, and this side has heard of that by other means.
        other.end.to_error();
        one.end.to_error();
        let [sent, flushed] = [(); 2].map(|()| one.end.completion());
        assert_eq!((sent.id, sent.status), (8, Status::Success), "{tier:?}");
        assert_eq!((flushed.id, flushed.status), (9, Status::Flushed), "{tier:?}");
        pair.sides.into_iter().for_each(Side::leave);
    }
}

#[test]
fn engines_on_different_tiers_meet_on_the_lower_one() {
    for tiers in [[Tier::Ring, Tier::Mapped], [Tier::Kernel, Tier::Mapped], [Tier::Ring, Tier::Kernel]] {
        let pair = Pair::of(tiers.map(on));
        for (from, to) in [(0, 1), (1, 0)] {
            let (from, to) = (&pair.sides[from], &pair.sides[to]);
            send(from, to, 300, 1);
            from.memory.set(0, &some_bytes(5000, 2));
            let write = Operation::Write { remote: to.remote(4096), immediate: None };
            assert_eq!(from.run(write, from.piece(0, 5000)), Status::Success);
            assert!(to.memory.get(4096, 5000) == some_bytes(5000, 2), "{tiers:?}");
        }
        pair.sides.into_iter().for_each(Side::leave);
    }
}

#[test]
fn a_key_of_one_engine_is_unknown_in_the_other() {
    for (tier, is_read) in TIERS.into_iter().flat_map(|tier| [(tier, false), (tier, true)]) {
        let pair = Pair::new(&on(tier));
        let [one, other] = &pair.sides;
        if tier > Tier::Ring {
            one.meet(other);
        }
        // Each engine counts its keys for itself: this is one that the other has not come to yet.
        let regions: Vec<_> = (0..8).map(|_| Side::register(&one.end, &one.memory)).collect();
        one.memory.set(0, &[1; 64]);
        other.memory.set(0, &[2; 64]);
        let remote = RemoteRange { key: regions[7].remote_key(), ..one.remote(0) };
        let operation =
            if is_read { Operation::Read { remote } } else { Operation::Write { remote, immediate: None } };
        assert_eq!(one.run(operation, one.piece(64, 64)), Status::RemoteAccess, "{tier:?}");
        assert_eq!(one.memory.get(0, 128), [[1; 64], [0; 64]].concat());
        assert_eq!(other.memory.get(0, 64), [2; 64]);
        drop(regions);
        pair.sides.into_iter().for_each(Side::leave);
    }
}

#[test]
fn whoever_outlives_an_engine_sees_a_peer_that_departed_and_goes_on_with_a_third() {
    for tier in TIERS {
        let Pair { engines: [first, second], sides: [one, other] } = Pair::new(&on(tier));
        send(&one, &other, 100, 3);
        one.end.pair.post_receive(&ReceiveRequest { id: 5, pieces: &[one.piece(0, 64)] }).unwrap();
        drop(second);
        other.leave();
        assert_eq!(one.run(Operation::Send { immediate: None }, one.piece(0, 64)), Status::RetryExceeded);
        let flushed = one.end.completion();
        assert_eq!((flushed.id, flushed.status), (5, Status::Flushed));
        assert_eq!(one.end.pair.state(), QpState::Error);

        let third = EngineHandle::create(on(tier)).unwrap();
        let sides = [&first, &third].map(Side::on);
        sides[0].connect(&sides[1]);
        send(&sides[0], &sides[1], 20_000, 4);
        send(&sides[1], &sides[0], 200, 5);
        let write = Operation::Write { remote: sides[1].remote(0), immediate: None };
        assert_eq!(sides[0].run(write, sides[0].piece(0, 64)), Status::Success);
        sides.into_iter().for_each(Side::leave);
        one.leave();
    }
}

#[test]
fn what_one_engine_deregisters_the_other_reaches_no_more() {
    for tier in TIERS {
        let pair = Pair::new(&on(tier));
        let [one, other] = &pair.sides;
        if tier > Tier::Ring {
            one.meet(other);
        }
        let deregistered = AtomicBool::new(false);
        let begun = AtomicBool::new(false);
        let target = other.remote(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1u8.. {
                    one.memory.set(0, &vec![round; LENGTH / 2]);
                    let write = Operation::Write { remote: target, immediate: None };
                    let last = deregistered.load(Ordering::SeqCst);
                    let status = one.run(write, one.piece(0, LENGTH / 2));
                    begun.store(true, Ordering::SeqCst);
                    if status != Status::Success {
                        assert_eq!(status, Status::RemoteAccess);
                        break;
                    }
                    assert!(!last, "{tier:?}: it was written by a key that was dead");
                }
            });
            while !begun.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            other.region.deregister().unwrap();
            let then = other.memory.get(0, LENGTH / 2);
            deregistered.store(true, Ordering::SeqCst);
            while one.end.pair.state() != QpState::Error {
                std::thread::yield_now();
            }
            assert!(other.memory.get(0, LENGTH / 2) == then, "{tier:?}: it changed after that");
        });
        pair.sides.into_iter().for_each(Side::leave);
    }
}

#[test]
fn memory_that_two_engines_register_is_reached_through_either_until_its_own_region_ends() {
    let mapped = on(Tier::Mapped);
    let never = Config { adoption: AdoptionPolicy::Never, ..mapped.clone() };
    let others = [mapped.clone(), never, on(Tier::Kernel), on(Tier::Ring)];
    for (config, first) in others.into_iter().flat_map(|config| [(config.clone(), 0), (config, 1)]) {
        let engines = [mapped.clone(), config.clone()].map(|config| EngineHandle::create(config).unwrap());
        let memory = Arc::new(Memory::new());
        let sides = engines.each_ref().map(|engine| Side::with_memory(engine, Arc::clone(&memory)));
        // Each is used by an engine of its own: whoever shares it, its peers do not know.
        let peers = [(); 2].map(|()| EngineHandle::create(mapped.clone()).unwrap());
        let peers = peers.each_ref().map(Side::on);
        let writes = |which: usize, byte: u8| {
            peers[which].memory.set(0, &[byte; 6000]);
            let write = Operation::Write { remote: sides[which].remote(50), immediate: None };
            peers[which].run(write, peers[which].piece(0, 6000))
        };
        for which in [0, 1] {
            sides[which].connect(&peers[which]);
            send(&peers[which], &sides[which], 40, 9);
            assert_eq!(writes(which, 10 + which as u8), Status::Success);
            assert_eq!(memory.get(50, 6000), [10 + which as u8; 6000]);
        }
        let other_adopts = config.tier == Tier::Mapped && config.adoption != AdoptionPolicy::Never;
        for which in [0, 1].into_iter().filter(|which| memory.is_adopted() && (other_adopts || *which == 0)) {
            peers[which].meet(&sides[which]);
            let add = Operation::FetchAdd { remote: sides[which].remote(8), add: 1 };
            assert!(!peers[which].asks(add, peers[which].piece(0, 8)), "the pages are mapped for both");
        }
        sides[first].region.deregister().unwrap();
        assert_eq!(writes(1 - first, 20), Status::Success);
        assert_eq!(memory.get(50, 6000), [20; 6000], "the other's region lives");
        assert_eq!(writes(first, 30), Status::RemoteAccess);
        assert_eq!(memory.get(50, 6000), [20; 6000]);
        memory.set(50, &[40; 6000]);
        peers[1 - first].memory.set(0, &[0; 6000]);
        let read = Operation::Read { remote: sides[1 - first].remote(50) };
        assert_eq!(peers[1 - first].run(read, peers[1 - first].piece(0, 6000)), Status::Success);
        assert_eq!(peers[1 - first].memory.get(0, 6000), [40; 6000], "what the program wrote since");
        sides[1 - first].region.deregister().unwrap();
        assert!(!memory.is_adopted());
        assert_eq!(memory.get(50, 6000), [40; 6000]);
        sides.into_iter().for_each(Side::leave);
        peers.into_iter().for_each(Side::leave);
    }
}
