//! The peer's windows in the own address space.

use super::*;
use crate::memory::unmap;

const PAGE_OFFSET: i64 = PAGE as i64;

#[test]
fn a_mapping_covers_windows_that_touch_and_refuses_a_gap_exactly() {
    alone(|| {
        let (pair, one, two) = (Pair::new(), Pages::filled(2, 1), Pages::filled(1, 1000));
        pair.fixed(&one, 0).unwrap();
        let taken = Pages::filled(3, 70);
        let before = taken.bytes();
        let map = |length, fixed| pair.there.map(taken.start(), length, BOTH, fixed, 0);
        assert_eq!(map(3 * PAGE, true), Err(ScifError::NoWindow));
        assert!(taken.bytes() == before, "a refused mapping replaces nothing");
        pair.fixed(&two, 2 * PAGE_OFFSET).unwrap();
        assert_eq!(map(3 * PAGE, true), Ok(taken.start()));
        assert_eq!((taken.load(0), taken.load(2 * PAGE)), (1, 1000));
        taken.store(2 * PAGE + 8, 5);
        assert_eq!(two.load(8), 5);
        let second = map(2 * PAGE, false).unwrap();
        assert_ne!(second, taken.start());
        assert_eq!(word_at(second + PAGE).load(Ordering::SeqCst), one.load(PAGE));
        unmap(second, 2 * PAGE).unwrap();
        unmap(taken.start(), 3 * PAGE).unwrap();
    });
}

#[test]
fn what_no_mapping_can_be_is_refused() {
    let (pair, pages) = (Pair::new(), Pages::new(2));
    let offset = pair.open(&pages);
    let map = |address, length, fixed, offset| pair.there.map(address, length, BOTH, fixed, offset);
    for refused in [
        map(0, 0, false, offset),
        map(0, PAGE + 1, false, offset),
        map(0, PAGE, false, offset + 1),
        map(pages.start() + 1, PAGE, true, offset),
    ] {
        assert!(matches!(refused, Err(ScifError::Invalid(_))), "{refused:?}");
    }
    assert_eq!(map(0, PAGE, false, -PAGE_OFFSET), Err(ScifError::NoWindow));
    assert_eq!(map(0, usize::MAX / PAGE * PAGE, false, offset), Err(ScifError::NoWindow));
    assert_eq!(map(0, PAGE, true, offset), Err(ScifError::NoMemory));
    assert!(matches!(unmap(pages.start() + 1, PAGE), Err(ScifError::Invalid(_))));
    assert!(matches!(unmap(pages.start(), 0), Err(ScifError::Invalid(_))));
}

#[test]
fn both_sides_map_the_other_over_their_own_registered_memory() {
    alone(|| {
        let (pair, near, far) = (Pair::new(), Pages::filled(2, 100), Pages::filled(2, 5000));
        let (local, remote) = (pair.open(&near), pair.open_there(&far));
        let (mine, theirs) = (near.bytes(), far.bytes());
        pair.here.map(near.start(), near.length, BOTH, true, remote).unwrap();
        pair.there.map(far.start(), far.length, BOTH, true, local).unwrap();
        assert!(near.bytes() == theirs && far.bytes() == mine);
        near.store(0, 1);
        far.store(0, 2);
        // Each window still is the pages it was opened on.
        let sink = Pages::new(2);
        pair.there.read_into(sink.start(), 8, local, SYNC).unwrap();
        assert_eq!(sink.load(0), 2);
        pair.here.read_into(sink.start(), 8, remote, SYNC).unwrap();
        assert_eq!(sink.load(0), 1);
        // What was mapped cannot be registered.
        assert_eq!(
            pair.here.register(pair.fd(), near.start(), PAGE, 0, BOTH, false),
            Err(ScifError::BadMemory { address: near.start() })
        );
        unmap(near.start(), near.length).unwrap();
        unmap(far.start(), far.length).unwrap();
        near.replace();
        assert!(pair.here.register(pair.fd(), near.start(), PAGE, 0, BOTH, false).is_ok());
    });
}

#[test]
fn a_mapped_window_keeps_its_pages_and_offsets_until_it_is_unmapped() {
    let (pair, pages) = (Pair::new(), Pages::filled(3, 10));
    pair.fixed(&pages, 0).unwrap();
    let address = pair.there.map(0, 3 * PAGE, BOTH, false, 0).unwrap();
    pair.close(0, 3 * PAGE).unwrap();
    // No new use, but the old one goes on, both ways.
    assert_eq!(pair.there.map(0, PAGE, BOTH, false, 0), Err(ScifError::NoWindow));
    assert_eq!(pair.there.read_into(address, 8, 0, SYNC), Err(ScifError::NoWindow));
    assert_eq!(pair.close(0, 3 * PAGE), Err(ScifError::NoWindow));
    pages.store(0, 77);
    assert_eq!(word_at(address).load(Ordering::SeqCst), 77);
    word_at(address + 8).store(78, Ordering::SeqCst);
    assert_eq!(pages.load(8), 78);
    assert_eq!(pair.fixed(&pages, PAGE_OFFSET), Err(ScifError::OffsetsTaken));
    // A part of it counts as much as all of it.
    unmap(address + PAGE, PAGE).unwrap();
    assert_eq!(pair.fixed(&pages, PAGE_OFFSET), Err(ScifError::OffsetsTaken));
    unmap(address, PAGE).unwrap();
    assert_eq!(pair.fixed(&pages, PAGE_OFFSET), Err(ScifError::OffsetsTaken));
    assert_eq!(word_at(address + 2 * PAGE).load(Ordering::SeqCst), pages.load(2 * PAGE));
    unmap(address + 2 * PAGE, PAGE).unwrap();
    assert_eq!(pair.fixed(&pages, PAGE_OFFSET), Ok(PAGE_OFFSET));
    assert_eq!((pages.load(0), pages.load(8)), (77, 78));
}

#[test]
fn a_mapping_that_the_program_replaced_without_telling_is_found_out() {
    for unmaps in [true, false] {
        let (pair, pages) = (Pair::new(), Pages::filled(2, 10));
        pair.fixed(&pages, 0).unwrap();
        let place = Pages::new(2);
        pair.there.map(place.start(), 2 * PAGE, BOTH, true, 0).unwrap();
        pair.close(0, 2 * PAGE).unwrap();
        assert_eq!(pair.fixed(&pages, 0), Err(ScifError::OffsetsTaken));
        if unmaps {
            place.unmap()
        } else {
            place.replace()
        }
        assert_eq!(pair.fixed(&pages, 0), Ok(0));
        assert!(unmaps || place.load(0) == 0);
    }
}

#[test]
fn a_mapping_outlives_both_endpoints() {
    let (pair, pages) = (Pair::new(), Pages::filled(2, 10));
    let offset = pair.open(&pages);
    let address = pair.there.map(0, 2 * PAGE, BOTH, false, offset).unwrap();
    pair.here.close();
    pair.there.close();
    drop(pair);
    word_at(address + PAGE).store(4, Ordering::SeqCst);
    assert_eq!(pages.load(PAGE), 4);
    pages.store(0, 3);
    assert_eq!(word_at(address).load(Ordering::SeqCst), 3);
    pages.unmap();
    assert_eq!(word_at(address).load(Ordering::SeqCst), 3);
    unmap(address, 2 * PAGE).unwrap();
}

/// Whether pages lie in a file that others can map.
fn is_adopted(pages: &Pages) -> bool {
    let area = nonic_sys::find_area(pages.start()).unwrap().unwrap();
    matches!(area.backing, nonic_sys::Backing::SharedFile { .. })
}

#[test]
fn memory_is_the_programs_alone_after_its_window_and_the_last_mapping_ended() {
    // In a child, which has one thread.
    let pid = child(|| {
        let (pair, pages, other) = (Pair::new(), Pages::filled(2, 10), Pages::new(1));
        let offset = pair.open(&pages);
        assert!(is_adopted(&pages));
        pair.close(offset, pages.length).unwrap();
        assert!(!is_adopted(&pages));
        pair.fixed(&pages, 0).unwrap();
        let address = pair.there.map(0, PAGE, BOTH, false, 0).unwrap();
        pair.close(0, pages.length).unwrap();
        assert!(is_adopted(&pages));
        word_at(address).store(3, Ordering::SeqCst);
        unmap(address, PAGE).unwrap();
        wait_until("nobody maps it any more", || pair.fixed(&other, 0).is_ok());
        // The next call of the program's gives back what another thread must not, if that one is not just at it.
        pair.close(0, PAGE).unwrap();
        wait_until("its pages are its own", || {
            pair.fixed(&other, 0).unwrap();
            pair.close(0, PAGE).unwrap();
            !is_adopted(&pages)
        });
        pages.load(0) == 3 && pages.load(PAGE) == 10 + PAGE as u64 / 8
    });
    assert_eq!(reap(pid), 0);
}

#[test]
fn memory_that_other_threads_may_unmap_meanwhile_is_not_touched_when_its_window_ends() {
    let (pair, pages) = (Pair::new(), Pages::filled(2, 10));
    for _ in 0..3 {
        let offset = pair.open(&pages);
        pair.close(offset, pages.length).unwrap();
        let before = nonic_sys::find_area(pages.start()).unwrap().unwrap();
        assert!(matches!(before.backing, nonic_sys::Backing::SharedFile { .. }));
        assert_eq!((pages.load(0), pages.load(PAGE)), (10, 10 + PAGE as u64 / 8));
    }
    // A child has its own, and the next window the same bytes.
    let pid = child(|| {
        pages.store(0, 99);
        pages.load(8) == 11
    });
    assert_eq!(reap(pid), 0);
    let (offset, sink) = (pair.open(&pages), Pages::new(2));
    pair.there.read_into(sink.start(), sink.length, offset, SYNC).unwrap();
    assert!(sink.bytes() == pages.bytes() && sink.load(0) == 10);
}

#[test]
fn a_mapping_is_not_in_children_nor_in_dumps() {
    let (pair, pages) = (Pair::new(), Pages::filled(1, 10));
    let offset = pair.open(&pages);
    let address = pair.there.map(0, PAGE, BOTH, false, offset).unwrap();
    let text = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let head = format!("{address:x}-");
    let mut lines = text.lines().skip_while(|line| !line.starts_with(&head));
    let flags = lines.find(|line| line.starts_with("VmFlags:")).unwrap();
    assert!(flags.contains(" dc") && flags.contains(" dd"), "{flags}");
    let pid = child(|| matches!(nonic_sys::find_area(address), Ok(None)));
    assert_eq!(reap(pid), 0);
    unmap(address, PAGE).unwrap();
}
