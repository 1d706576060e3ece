//! Adoption in a process that has no other thread: nothing is protected, and what is given back is anonymous again.
//!
//! The test harness has threads, so each test runs in a child, which has one.

#![cfg(not(loom))]

mod common;

use std::sync::atomic::Ordering;

use common::{Anonymous, PAGE, file_bytes, mapped_as, mappings_of, shared_view, tells_holes_that_were_read};
use nonic_memory::{Adopter, AdoptionPolicy, Purpose};

/// Runs `test` in a child with one thread and small pages only: a huge page has no holes.
fn alone(test: impl FnOnce()) {
    common::alone(|| {
        // SAFETY: a setting of the child.
        unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) };
        test();
    });
}

/// Runs of pages with data between holes, of many lengths: they begin, end and go on across every piece of a switch.
fn holds_data(page: usize) -> bool {
    page % 701 > 40 && !page.is_multiple_of(97)
}

const PAGES: usize = 2000;

fn check(memory: &Anonymous, add: u64) {
    for page in 0..PAGES {
        let expected = if holds_data(page) { page as u64 + add } else { 0 };
        assert_eq!(memory.word(page, 1).load(Ordering::Relaxed), expected, "page {page}");
    }
}

#[test]
fn memory_comes_back_anonymous_with_its_bytes_and_its_holes() {
    alone(|| {
        let (adopter, memory) = (Adopter::new(AdoptionPolicy::Always), Anonymous::new(PAGES));
        (0..PAGES)
            .filter(|page| holds_data(*page))
            .for_each(|page| memory.word(page, 1).store(page as u64 + 1, Ordering::Relaxed));
        for round in 1..4 {
            let adoption = adopter.adopt(memory.address(), PAGES * PAGE, Purpose::Remote);
            let pages = adoption.pages.expect("nothing forbids it");
            assert_eq!((pages.start, pages.end), (memory.address(), memory.address() + PAGES * PAGE));
            let data = (0..PAGES).filter(|page| holds_data(*page)).count();
            // Some kernels do not tell holes that were read from pages that hold data.
            if round == 1 || tells_holes_that_were_read() {
                assert_eq!(file_bytes(&adopter), (data * PAGE) as u64, "holes were filled");
            }
            let peer = shared_view(&adopter, &pages);
            for page in (0..PAGES).filter(|page| holds_data(*page)) {
                let word = peer.word(page * PAGE + 8);
                assert_eq!(word.load(Ordering::Relaxed), page as u64 + round);
                word.store(page as u64 + round + 1, Ordering::Relaxed);
            }
            adopter.give_back(adoption, false);
            assert_eq!(file_bytes(&adopter), 0, "the file keeps pages");
            assert!(!mapped_as(memory.address()).contains("nonic-pages"), "{}", mapped_as(memory.address()));
            assert_eq!(mappings_of(&memory), 1);
            check(&memory, round + 1);
            if round == 3 {
                peer.word(50 * PAGE + 8).store(u64::MAX, Ordering::Relaxed);
                check(&memory, round + 1);
            }
        }
    });
}

#[test]
fn one_region_of_several_takes_only_its_own_pages_back() {
    alone(|| {
        let (adopter, memory) = (Adopter::new(AdoptionPolicy::Always), Anonymous::new(PAGES));
        (0..PAGES)
            .filter(|page| holds_data(*page))
            .for_each(|page| memory.word(page, 1).store(page as u64 + 1, Ordering::Relaxed));
        let at = |page: usize| memory.address() + page * PAGE;
        let inner = adopter.adopt(at(600), 300 * PAGE, Purpose::Remote);
        let outer = adopter.adopt(at(0), PAGES * PAGE, Purpose::Remote);
        adopter.give_back(outer, false);
        let kept = (600..900).filter(|page| holds_data(*page)).count();
        assert!(mapped_as(at(700)).contains("rw-s") && !mapped_as(at(900)).contains("nonic-pages"));
        // Looking at a hole through a shared mapping fills it, so the bytes are counted first.
        assert_eq!(file_bytes(&adopter), (kept * PAGE) as u64);
        check(&memory, 1);
        adopter.give_back(inner, false);
        assert_eq!(file_bytes(&adopter), 0);
        check(&memory, 1);
    });
}

#[test]
fn gigabytes_of_holes_keep_the_bytes_between_them() {
    alone(|| common::check_holes_of_gigabytes(&Adopter::new(AdoptionPolicy::Always)));
}
