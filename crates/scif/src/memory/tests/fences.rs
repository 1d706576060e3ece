//! Fences, and what is carried out later.

use super::*;
use crate::Initiator;

const MANY: usize = 256;

#[test]
fn an_asynchronous_copy_is_complete_when_its_mark_is_reached() {
    let (pair, near, far) = (Pair::new(), Pages::filled(MANY, 1), Pages::new(MANY));
    let (local, remote) = (pair.open(&near), pair.open_there(&far));
    for round in 0..50u64 {
        near.store(near.length - 8, round + 5_000_000);
        pair.here.write_to(local, near.length, remote, PLAIN).unwrap();
        let mark = pair.here.fence_mark(Initiator::Own).unwrap();
        pair.here.fence_wait(mark).unwrap();
        assert!(far.bytes() == near.bytes());
        // It may be waited for again, and by the other side as the peer's.
        pair.here.fence_wait(mark).unwrap();
        pair.here.write_to(local, near.length, remote, PLAIN).unwrap();
        let mark = pair.there.fence_mark(Initiator::Peer).unwrap();
        assert!(mark < 0);
        pair.there.fence_wait(mark).unwrap();
        assert!(far.bytes() == near.bytes());
    }
    assert!(matches!(pair.here.fence_wait(1_000_000), Err(ScifError::Invalid(_))));
    assert!(matches!(pair.here.fence_wait(-5), Err(ScifError::Invalid(_))));
}

#[test]
fn settling_waits_for_everything_started() {
    let (pair, near, far) = (Pair::new(), Pages::filled(MANY, 1), Pages::new(MANY));
    let (local, remote) = (pair.open(&near), pair.open_there(&far));
    for round in 0..50u64 {
        near.store(near.length - 8, round);
        pair.here.write_to(local, near.length, remote, PLAIN).unwrap();
        pair.here.settle();
        assert_eq!(far.load(near.length - 8), round);
    }
}

#[test]
fn a_signal_with_nothing_under_way_is_a_store_of_eight_bytes() {
    let (pair, near, far) = (Pair::new(), Pages::new(2), Pages::new(2));
    let (local, remote) = (pair.open(&near), pair.open_there(&far));
    for initiator in [Initiator::Own, Initiator::Peer] {
        for at in [0usize, 4, 12, PAGE - 4, 2 * PAGE - 8] {
            let value = 0x1122_3344_5566_7788 + at as u64;
            let (here, there) = ((local + at as i64, value), (remote + at as i64, !value));
            pair.here.fence_signal(Some(here), Some(there), initiator).unwrap();
            let stored = |pages: &Pages| u64::from_ne_bytes(pages.bytes()[at..at + 8].try_into().unwrap());
            assert_eq!((stored(&near), stored(&far)), (value, !value));
        }
    }
    let before = (near.bytes(), far.bytes());
    let end = local + 2 * PAGE as i64;
    let refuse = |place, error: fn(&ScifError) -> bool| {
        for (local, remote) in [(Some(place), None), (None, Some(place)), (Some((local, 9)), Some(place))] {
            let refused = pair.here.fence_signal(local, remote, Initiator::Own).unwrap_err();
            assert!(error(&refused), "{refused:?}");
        }
    };
    refuse((local + 2, 1), |error| matches!(error, ScifError::Invalid(_)));
    refuse((end - 4, 1), |error| *error == ScifError::NoWindow);
    refuse((-8, 1), |error| *error == ScifError::NoWindow);
    assert!((near.bytes(), far.bytes()) == before);
    // Two windows that touch are not one.
    pair.open_there(&far);
    let across = pair.here.fence_signal(None, Some((end - 4, 1)), Initiator::Own);
    assert_eq!(across, Err(ScifError::NoWindow));
    let readable = pair.there.register(pair.sockets.1.as_fd(), far.start(), PAGE, 0, Protection::READ, true);
    let refused = pair.here.fence_signal(None, Some((readable.unwrap(), 1)), Initiator::Own);
    assert_eq!(refused, Err(ScifError::Protected));
    assert!((near.bytes(), far.bytes()) == before);
}

#[test]
fn a_signal_is_seen_after_the_copies_before_it_and_after_its_local_half() {
    let (pair, near, far) = (Pair::new(), Pages::new(MANY + 1), Pages::new(MANY + 1));
    let (local, remote) = (pair.open(&near), pair.open_there(&far));
    let (length, flag) = (MANY * PAGE, (MANY * PAGE) as i64);
    for round in 1..200u64 {
        let initiator = if round % 2 == 0 { Initiator::Own } else { Initiator::Peer };
        let (starter, from) = match initiator {
            Initiator::Own => (&pair.here, &near),
            Initiator::Peer => (&pair.there, &far),
        };
        let (mine, theirs) = if round % 2 == 0 { (local, remote) } else { (remote, local) };
        from.store(length - 8, round);
        from.store(0, round);
        starter.write_to(mine, length, theirs, PLAIN).unwrap();
        pair.here.fence_signal(Some((local + flag, round)), Some((remote + flag, round)), initiator).unwrap();
        wait_until("the signal arrives", || far.load(length) == round);
        assert_eq!(near.load(length), round, "the local half comes first");
        let sink = if round % 2 == 0 { &far } else { &near };
        assert_eq!((sink.load(0), sink.load(length - 8)), (round, round));
    }
}

#[test]
fn windows_stay_until_the_copies_and_signals_on_them_are_done() {
    for _ in 0..20 {
        let (pair, near, far) = (Pair::new(), Pages::filled(MANY, 3), Pages::new(MANY + 1));
        let (local, remote) = (pair.fixed(&near, 0).unwrap(), pair.open_there(&far));
        for _ in 0..4 {
            pair.here.write_to(local, near.length, remote, PLAIN).unwrap();
        }
        let flag = remote + near.length as i64;
        pair.here.fence_signal(Some((local, 99)), Some((flag, 42)), Initiator::Own).unwrap();
        pair.close(local, near.length).unwrap();
        assert_eq!(pair.here.write_to(local, 8, remote, SYNC), Err(ScifError::NoWindow));
        wait_until("the signal is stored", || far.load(near.length) == 42);
        assert_eq!(near.load(0), 99, "in the window that was closed meanwhile");
        assert!(far.bytes()[8..near.length] == near.bytes()[8..]);
        wait_until("the offsets are free again", || pair.fixed(&near, 0).is_ok());
    }
}

#[test]
fn closing_completes_what_was_started() {
    for _ in 0..20 {
        let (pair, near, far) = (Pair::new(), Pages::filled(MANY, 3), Pages::new(MANY));
        let (local, remote) = (pair.open(&near), pair.open_there(&far));
        pair.here.write_to(local, near.length, remote, PLAIN).unwrap();
        pair.here.close();
        assert!(far.bytes() == near.bytes());
        assert!(!pair.here.has_windows());
        pair.here.close();
        assert_eq!(pair.there.read_into(far.start(), 8, local, SYNC), Err(ScifError::NoWindow));
    }
}
