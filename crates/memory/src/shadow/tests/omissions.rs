//! Programs that forget a call.

use super::*;

/// What a program that forgets a call does, and what it believes to find afterwards.
struct Omission {
    name: &'static str,
    run: fn(&Through<'_>, &Memory),
    believed: fn(&mut [u8]),
}

const OMISSIONS: [Omission; 6] = [
    Omission {
        name: "a store, and no call before the peer's write",
        run: |region, memory| {
            memory.store(10..200, 1);
            region.peer_writes(20..190, 2);
        },
        believed: |bytes| {
            bytes[10..200].fill(1);
            bytes[20..190].fill(2);
        },
    },
    Omission {
        name: "... of a single byte",
        run: |region, memory| {
            memory.store(70..71, 1);
            region.peer_writes(70..71, 2);
        },
        believed: |bytes| bytes[70] = 2,
    },
    Omission {
        name: "a peer's write, and no call before the store",
        run: |region, memory| {
            region.peer_writes(20..190, 2);
            memory.store(100..104, 3);
        },
        believed: |bytes| {
            bytes[20..190].fill(2);
            bytes[100..104].fill(3);
        },
    },
    Omission {
        name: "... of the same bytes",
        run: |region, memory| {
            region.peer_writes(64..72, 2);
            memory.store(64..72, 3);
        },
        believed: |bytes| bytes[64..72].fill(3),
    },
    Omission {
        name: "... and another write, to other bytes of them",
        run: |region, memory| {
            region.peer_writes(20..60, 2);
            memory.store(30..40, 3);
            region.peer_writes(35..50, 4);
        },
        believed: |bytes| {
            bytes[20..60].fill(2);
            bytes[30..35].fill(3);
            bytes[35..50].fill(4);
        },
    },
    Omission {
        name: "a store between two calls, of which one has other bytes",
        run: |region, memory| {
            region.synchronize(0..ROOM);
            memory.store(130..150, 1);
            region.synchronize(0..130);
            region.peer_writes(128..152, 2);
        },
        believed: |bytes| bytes[128..152].fill(2),
    },
];

/// What the program and its peers see in the end.
fn outcome(omission: &Omission, seed: u64) -> (Vec<u8>, Vec<u8>) {
    let (shadows, memory) = (with_seed(seed), Memory::new());
    let region = Through::new(&shadows, &memory, 0..ROOM);
    (omission.run)(&region, &memory);
    region.synchronize(0..ROOM);
    (memory.all(), region.peer_reads(0..ROOM))
}

#[test]
fn every_store_that_meets_a_peers_write_without_the_call_shows_whatever_the_seed() {
    for omission in &OMISSIONS {
        let mut believed = vec![0; ROOM];
        (omission.believed)(&mut believed);
        for seed in 0..200 {
            let (program, peers) = outcome(omission, seed);
            assert_ne!(program, believed, "{} with seed {seed}", omission.name);
            assert_eq!(program, peers, "{} with seed {seed}", omission.name);
            assert_eq!(outcome(omission, seed).0, program, "a seed does the same again");
        }
    }
}

#[test]
fn which_lines_go_back_and_when_follows_from_the_seed() {
    let outcomes: std::collections::BTreeSet<_> =
        (0..200).map(|seed| outcome(&OMISSIONS[0], seed).0).collect();
    // Three lines, or parts of them, of which the first goes back always.
    assert_eq!(outcomes.len(), 4);
    let at_once: std::collections::BTreeSet<_> = (0..200)
        .map(|seed| {
            let (shadows, memory) = (with_seed(seed), Memory::new());
            let region = Through::new(&shadows, &memory, 0..ROOM);
            (OMISSIONS[1].run)(&region, &memory);
            region.peer_reads(70..71)
        })
        .collect();
    assert_eq!(at_once.len(), 2, "at once, or with the next call");
    let kinds: std::collections::BTreeSet<_> = (0..200).map(|seed| outcome(&OMISSIONS[2], seed).0).collect();
    assert_eq!(kinds.len(), 2, "the line goes back, or is dropped");
}

#[test]
fn only_lines_in_which_the_two_met_are_harmed_and_only_inside_the_call() {
    for seed in 0..50 {
        let (shadows, memory) = (with_seed(seed), Memory::new());
        let region = Through::new(&shadows, &memory, 0..ROOM);
        region.peer_writes(0..ROOM, 2);
        memory.store(70..72, 3);
        region.synchronize(69..75);
        // The positions of a line: START is 2 bytes before one.
        let seen = memory.all();
        assert!(seen[..69].iter().chain(&seen[75..]).all(|byte| *byte == 0));
        assert_eq!(region.peer_reads(0..69), [2; 69]);
        assert_eq!(region.peer_reads(75..ROOM), [2; ROOM - 75]);
        region.synchronize(0..ROOM);
        let seen = memory.all();
        assert!(seen[..69].iter().chain(&seen[75..]).all(|byte| *byte == 2));
    }
}

#[test]
fn publishing_leaves_what_peers_wrote_and_undoes_no_store() {
    for seed in 0..50 {
        let (shadows, memory) = (with_seed(seed), Memory::new());
        let region = Through::new(&shadows, &memory, 0..ROOM);
        region.peer_writes(40..60, 2);
        memory.store(0..40, 3);
        memory.store(60..100, 3);
        region.publish(0..ROOM);
        let mut peers = vec![0; ROOM];
        peers[0..100].fill(3);
        peers[40..60].fill(2);
        assert_eq!(region.peer_reads(0..ROOM), peers);
        // A store to what was not shown is what a cache cannot keep apart.
        memory.store(50..52, 4);
        region.publish(0..ROOM);
        let mut believed = peers.clone();
        believed[50..52].fill(4);
        assert_ne!(region.peer_reads(0..ROOM), believed);
    }
}
