//! Remote reads and writes.

use super::*;
use crate::options::Protection;

const ORDERED: RmaFlags = RmaFlags { use_cpu: false, sync: true, ordered: true };
const USE_CPU: RmaFlags = RmaFlags { use_cpu: true, sync: true, ordered: false };

#[test]
fn bytes_go_both_ways_at_any_alignment_and_nothing_beside_them_changes() {
    let (pair, near, far) = (Pair::new(), Pages::new(40), Pages::new(40));
    let (local, remote) = (pair.open(&near), pair.open_there(&far));
    for (turn, (from, to, length)) in [
        (0, 0, 8),
        (1, 3, 1),
        (5, 64, 63),
        (63, 1, 130),
        (100, 4095, 4098),
        (9, 7, 70_001),
        (0, 0, 40 * PAGE),
    ]
    .into_iter()
    .enumerate()
    {
        for flags in [PLAIN, SYNC, ORDERED, USE_CPU] {
            for index in 0..near.length / 8 {
                near.store(index * 8, (index * 3 + turn) as u64);
                far.store(index * 8, !(index as u64));
            }
            let (mine, mut theirs) = (near.bytes(), far.bytes());
            pair.here.write_to(local + from as i64, length, remote + to as i64, flags).unwrap();
            theirs[to..to + length].copy_from_slice(&mine[from..from + length]);
            assert!(far.bytes() == theirs && near.bytes() == mine, "writing {from} {to} {length} {flags:?}");
            let mut expected = near.bytes();
            pair.here.read_from(local + to as i64, length, remote + from as i64, flags).unwrap();
            expected[to..to + length].copy_from_slice(&theirs[from..from + length]);
            assert!(
                near.bytes() == expected && far.bytes() == theirs,
                "reading {from} {to} {length} {flags:?}"
            );
            let mut plain = vec![7u8; length + 2];
            pair.here.read_into(plain[1..].as_mut_ptr() as usize, length, remote + to as i64, flags).unwrap();
            assert!(plain[1..=length] == theirs[to..to + length] && plain[0] == 7 && plain[length + 1] == 7);
            pair.here.write_out(plain.as_ptr() as usize, length, remote + from as i64, flags).unwrap();
            theirs[from..from + length].copy_from_slice(&plain[..length]);
            assert!(far.bytes() == theirs, "writing plain bytes {from} {length} {flags:?}");
        }
    }
}

#[test]
fn a_range_crosses_windows_that_touch_on_both_sides_and_no_gap() {
    let pair = Pair::new();
    let (near, far): (Vec<_>, Vec<_>) =
        (0..4).map(|add| (Pages::filled(1, add * 1000), Pages::new(2))).unzip();
    for (index, (near, far)) in near.iter().zip(&far).enumerate() {
        pair.fixed(near, (index * PAGE) as i64).unwrap();
        let offset = (index * 2 * PAGE) as i64;
        pair.there.register(pair.sockets.1.as_fd(), far.start(), far.length, offset, BOTH, true).unwrap();
    }
    let mine: Vec<u8> = near.iter().flat_map(Pages::bytes).collect();
    pair.here.write_to(8, 4 * PAGE - 16, PAGE as i64 + 3, SYNC).unwrap();
    let theirs: Vec<u8> = far.iter().flat_map(Pages::bytes).collect();
    assert!(theirs[PAGE + 3..][..4 * PAGE - 16] == mine[8..][..4 * PAGE - 16]);
    // One byte too many, on either side, and a hole.
    let before: Vec<_> = far.iter().map(Pages::bytes).collect();
    for (local, length, remote) in [
        (0, 4 * PAGE + 1, 0),
        (0, PAGE, 7 * PAGE as i64 + 1),
        (4 * PAGE as i64, 1, 0),
        (0, 1, 8 * PAGE as i64),
        (-1, 1, 0),
        (0, 1, -8),
    ] {
        assert_eq!(pair.here.write_to(local, length, remote, SYNC), Err(ScifError::NoWindow));
        assert_eq!(pair.here.read_from(local, length, remote, SYNC), Err(ScifError::NoWindow));
    }
    pair.there.unregister(pair.sockets.1.as_fd(), 2 * PAGE as i64, 2 * PAGE).unwrap();
    assert_eq!(pair.here.write_to(0, 4 * PAGE, 0, SYNC), Err(ScifError::NoWindow));
    assert!(far.iter().map(Pages::bytes).eq(before));
    assert!(near.iter().flat_map(Pages::bytes).eq(mine));
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_looked_up() {
    let pair = Pair::new();
    for (local, length, remote) in [(0, 0, 0), (i64::MAX, 1, 0), (0, 1, i64::MAX), (0, usize::MAX, 0)] {
        let refused = |result: Result<(), ScifError>| match result {
            Err(ScifError::Invalid(_)) => assert_eq!(length, 0),
            other => assert!(length > 0 && other == Err(ScifError::NoWindow), "{other:?}"),
        };
        if local == 0 {
            refused(pair.here.read_into(0, length, remote, SYNC));
            refused(pair.here.write_out(0, length, remote, SYNC));
        }
        refused(pair.here.read_from(local, length, remote, SYNC));
        refused(pair.here.write_to(local, length, remote, SYNC));
    }
}

#[test]
fn rights_of_windows_are_kept_on_both_sides() {
    let (pair, near, far, plain) = (Pair::new(), Pages::filled(1, 1), Pages::filled(1, 9000), Pages::new(1));
    let side = |there: bool, protection, page: usize| {
        let (memory, socket, pages) = match there {
            false => (&pair.here, pair.fd(), &near),
            true => (&pair.there, pair.sockets.1.as_fd(), &far),
        };
        memory.register(socket, pages.start(), PAGE, (page * PAGE) as i64, protection, true).unwrap()
    };
    let rights = [Protection::NONE, Protection::READ, Protection::WRITE, BOTH];
    let mine = [0, 2, 4, 6].map(|page| side(false, rights[page / 2], page));
    let theirs = [0, 2, 4, 6].map(|page| side(true, rights[page / 2], page));
    let (near_before, far_before) = (near.bytes(), far.bytes());
    for (local, local_rights) in mine.into_iter().zip(rights) {
        for (remote, remote_rights) in theirs.into_iter().zip(rights) {
            let reads = pair.here.read_from(local, 8, remote, SYNC);
            let writes = pair.here.write_to(local, 8, remote, SYNC);
            let judged = |allowed| if allowed { Ok(()) } else { Err(ScifError::Protected) };
            assert_eq!(reads, judged(local_rights.write && remote_rights.read));
            assert_eq!(writes, judged(local_rights.read && remote_rights.write));
            if reads.is_ok() || writes.is_ok() {
                near.store(0, 1);
                far.store(0, 9000);
            }
            assert!(near.bytes() == near_before && far.bytes() == far_before);
            assert_eq!(pair.here.read_into(plain.start(), 8, remote, SYNC), judged(remote_rights.read));
            assert_eq!(pair.here.map(0, PAGE, BOTH, false, remote).is_ok(), remote_rights == BOTH);
        }
    }
    // A byte in no window is worse than a right that is missing.
    assert_eq!(pair.here.write_to(mine[0], 8, theirs[3] + PAGE as i64, SYNC), Err(ScifError::NoWindow));
}

#[test]
fn memory_of_the_program_that_is_not_there_is_refused_and_nothing_moves() {
    let (pair, far, near) = (Pair::new(), Pages::filled(2, 5), Pages::filled(1, 60));
    let remote = pair.open_there(&far);
    let before = far.bytes();
    let beyond = near.start() + PAGE;
    for (address, length, bad) in [(0, 8, 0), (near.start(), PAGE + 1, beyond), (beyond - 8, 9, beyond)] {
        let refused = Err(ScifError::BadMemory { address: bad });
        assert_eq!(pair.here.write_out(address, length, remote, SYNC), refused);
        assert_eq!(pair.here.read_into(address, length, remote, SYNC), refused);
    }
    near.protect(libc::PROT_READ);
    let refused = Err(ScifError::BadMemory { address: near.start() });
    assert_eq!(pair.here.read_into(near.start(), 8, remote, SYNC), refused);
    assert_eq!((near.load(0), far.bytes() == before), (60, true));
    pair.here.write_out(near.start(), 8, remote, SYNC).unwrap();
    assert_eq!(far.load(0), 60);
}

#[test]
fn whoever_sees_the_last_line_of_an_ordered_write_sees_all_before_it() {
    let (pair, near, far) = (Pair::new(), Pages::new(64), Pages::new(65));
    let (local, remote) = (pair.open(&near), pair.open_there(&far));
    let length = 64 * PAGE - 24;
    let rounds = 300u64;
    let seen = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=rounds {
                for index in 0..length / 8 {
                    near.word(index * 8).store(round, Ordering::Relaxed);
                }
                pair.here.write_to(local, length, remote + 8, RmaFlags { sync: false, ..ORDERED }).unwrap();
                let mark = pair.here.fence_mark(crate::Initiator::Own).unwrap();
                pair.here.fence_wait(mark).unwrap();
                wait_until("the reader looks", || seen.load(Ordering::SeqCst) == round);
            }
        });
        // The first word of the last line of the source: of all lines it alone is looked at.
        let line = (length - 1) / 64 * 64;
        for round in 1..=rounds {
            wait_until("the last line arrives", || far.load(8 + line) == round);
            for at in (0..line).step_by(8) {
                assert_eq!(far.load(8 + at), round, "word at {at} of round {round}");
            }
            seen.store(round, Ordering::SeqCst);
        }
    });
}

#[test]
fn windows_come_and_go_while_others_copy_and_nobody_gets_another_windows_bytes() {
    let (pair, sink) = (Pair::new(), Pages::new(2));
    let page = PAGE as i64;
    let stop = AtomicBool::new(false);
    let mut looked = (0u32, 0u32);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Each time other memory, full of the number that it has.
            for turn in 1..400u64 {
                let pages = Pages::new(2);
                for index in 0..pages.length / 8 {
                    pages.word(index * 8).store(turn, Ordering::Relaxed);
                }
                wait_until("the offsets are free", || pair.fixed(&pages, page).is_ok());
                std::thread::yield_now();
                pair.close(page, 2 * PAGE).unwrap();
                // The memory is the program's again.
                for index in 0..pages.length / 8 {
                    assert_eq!(pages.load(index * 8), turn);
                }
            }
            stop.store(true, Ordering::SeqCst);
        });
        while !stop.load(Ordering::SeqCst) {
            match pair.there.read_into(sink.start(), sink.length, page, SYNC) {
                Ok(()) => {
                    let first = sink.load(0);
                    assert!(first > 0 && (0..sink.length).step_by(8).all(|at| sink.load(at) == first));
                    looked.0 += 1;
                }
                Err(error) => {
                    assert_eq!(error, ScifError::NoWindow);
                    looked.1 += 1;
                }
            }
        }
    });
    assert!(looked.0 > 0, "{looked:?}");
}

#[test]
fn a_table_full_of_nonsense_is_no_window_and_no_crash() {
    let mut seed = 88_172_645_463_325_252_u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let (pair, sink) = (Pair::new(), Pages::new(4));
    let own = Pages::new(1);
    let good = pair.open_there(&own);
    for round in 0..400 {
        // The peer writes anything into its area.
        for _ in 0..300 {
            let line = random() as usize % 16;
            let value = match random() % 4 {
                0 => random(),
                1 => random() % 64 * PAGE as u64,
                2 => random() % 4,
                _ => (u64::from(std::process::id()) << 32) + random() % 1024,
            };
            let table = [
                super::super::area::Table::Records,
                super::super::area::Table::Slots,
                super::super::area::Table::Mappings,
            ];
            pair.there
                .own
                .word(table[random() as usize % 3], line, random() as usize % 8)
                .store(value, Ordering::Relaxed);
        }
        pair.there.own.version().store(if round % 2 == 0 { random() } else { round }, Ordering::Relaxed);
        for _ in 0..20 {
            let offset = (random() % 64 * 512) as i64;
            // The answer is one of these; what matters is that there is one.
            let _ = pair.here.read_into(sink.start(), 16, offset, SYNC);
            let _ = pair.here.read_into(sink.start(), 16, good, SYNC);
            if let Ok(address) =
                pair.here.map(0, PAGE, Protection::READ, false, offset / PAGE as i64 * PAGE as i64)
            {
                crate::memory::unmap(address, PAGE).unwrap();
            }
        }
        let offset = pair.open(&own);
        pair.close(offset, PAGE).unwrap();
    }
}
