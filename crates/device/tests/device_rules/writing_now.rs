//! Bytes that are written to a peer's memory without a request.

use crate::common::pair::{LENGTH, Pair, Side, some_bytes};
use nonic_device::{Config, Counter, Key, RemoteRange, Tier};
use nonic_memory::{Crossing, SharedSlice};

fn write(from: &Side, remote: RemoteRange, bytes: &[u8]) -> bool {
    let mut bytes = bytes.to_vec();
    from.end.pair.write_now(remote, SharedSlice::of_private(&mut bytes), &mut Crossing::default())
}

#[test]
fn bytes_are_there_at_once_without_registration_completion_or_a_word_to_the_peer() {
    for tier in [Tier::Kernel, Tier::Mapped] {
        let pair = Pair::new(&Config { tier, ..Config::default() });
        let [from, to] = &pair.sides;
        from.meet(to);
        let (asked, writes) = (from.count(Counter::Asked), from.count(Counter::Writes));
        for (length, seed) in [(1, 1), (4095, 2), (4096, 3), (70_001, 4)] {
            let bytes = some_bytes(length, seed);
            assert!(write(from, to.remote(77), &bytes), "{tier:?}: {length} bytes");
            assert!(to.memory.get(77, length) == bytes, "{tier:?}: {length} bytes");
            assert_eq!(to.memory.get(77 + length, 1), [0], "{tier:?}: and no more");
            to.memory.set(77, &vec![0; length]);
        }
        assert_eq!(from.count(Counter::Asked), asked, "{tier:?}");
        assert_eq!(from.count(Counter::Writes), writes + 4, "{tier:?}");
        assert_eq!(from.end.pair.idle(), (true, true), "{tier:?}: nothing is outstanding");
    }
}

#[test]
fn what_the_peer_does_not_allow_or_cannot_be_done_from_here_is_not_done() {
    let pair = Pair::new(&Config { tier: Tier::Mapped, ..Config::default() });
    let [from, to] = &pair.sides;
    from.meet(to);
    let bytes = some_bytes(64, 9);
    let remote = to.remote(0);
    let refused = [
        RemoteRange { key: Key(remote.key.0 ^ 2), ..remote },
        RemoteRange { key: to.region.local_key(), ..remote },
        to.remote(LENGTH - 63),
        RemoteRange { address: u64::MAX - 8, ..remote },
    ];
    for remote in refused {
        assert!(!write(from, remote, &bytes), "{remote:?}");
    }
    assert!(write(from, remote, &bytes), "what is allowed goes on");
    to.memory.set(0, &[0; 64]);
    to.region.deregister().unwrap();
    assert!(!write(from, remote, &bytes), "a region that is gone");
    assert!(to.memory.get(0, LENGTH).iter().all(|byte| *byte == 0), "nothing has moved");

    let pair = Pair::new(&Config { tier: Tier::Mapped, ..Config::default() });
    let [from, to] = &pair.sides;
    from.meet(to);
    from.end.to_error();
    assert!(!write(from, to.remote(0), &bytes), "a queue pair in error");

    for config in [
        Config { tier: Tier::Ring, ..Config::default() },
        Config { tier: Tier::Mapped, express: false, ..Config::default() },
    ] {
        let pair = Pair::new(&config);
        let [from, to] = &pair.sides;
        assert!(!write(from, to.remote(0), &bytes));
        assert!(to.memory.get(0, LENGTH).iter().all(|byte| *byte == 0), "nothing has moved");
    }
}
