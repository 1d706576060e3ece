//! Ordinary memory moved into the file and back, under the eyes of the program.

#![cfg(not(loom))]

mod common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::{Anonymous, PAGE, mapped_as, shared_view};
use nonic_memory::{Adopter, AdoptionPolicy, PlainReason, Purpose, Shield};

fn adopter(shield: Shield) -> Adopter {
    let adopter = Adopter::new(AdoptionPolicy::Always);
    adopter.set_shield(shield);
    adopter
}

/// The protections that this machine offers this user.
fn shields() -> Vec<Shield> {
    [Shield::Best, Shield::Everything, Shield::UserMode]
        .into_iter()
        .filter(|&shield| {
            let memory = Anonymous::new(1);
            let adopter = adopter(shield);
            let adoption = adopter.adopt(memory.address(), PAGE, Purpose::Remote);
            if adoption.pages.is_none() {
                println!("SKIPPED: {shield:?}: {:?}", adoption.reason);
            }
            let works = adoption.pages.is_some();
            adopter.give_back(adoption, false);
            works
        })
        .collect()
}

#[test]
fn a_peer_sees_what_the_program_writes_and_the_other_way_round() {
    for shield in shields() {
        let (adopter, memory) = (adopter(shield), Anonymous::new(8));
        memory.word(0, 0).store(11, Ordering::Relaxed);
        memory.word(5, 3).store(12, Ordering::Relaxed);
        let adoption = adopter.adopt(memory.address() + 100, 7 * PAGE, Purpose::Remote);
        let pages = adoption.pages.unwrap();
        assert_eq!(adoption.reason, PlainReason::None);
        assert_eq!((pages.start, pages.end), (memory.address() + PAGE, memory.address() + 7 * PAGE));
        let peer = shared_view(&adopter, &pages);
        assert_eq!(peer.word(4 * PAGE + 24).load(Ordering::Relaxed), 12);
        memory.word(5, 3).store(13, Ordering::Relaxed);
        assert_eq!(peer.word(4 * PAGE + 24).load(Ordering::Relaxed), 13);
        peer.word(0).store(14, Ordering::Relaxed);
        assert_eq!(memory.word(1, 0).load(Ordering::Relaxed), 14);
        adopter.give_back(adoption, false);
        assert_eq!(memory.word(0, 0).load(Ordering::Relaxed), 11);
        assert_eq!(memory.word(1, 0).load(Ordering::Relaxed), 14);
        assert_eq!(memory.word(5, 3).load(Ordering::Relaxed), 13);
        peer.word(0).store(99, Ordering::Relaxed);
        assert_eq!(memory.word(1, 0).load(Ordering::Relaxed), 14, "{shield:?}: still shared");
    }
}

#[test]
fn gigabytes_of_holes_keep_the_bytes_between_them() {
    for shield in shields() {
        common::check_holes_of_gigabytes(&adopter(shield));
    }
}

#[test]
fn given_back_memory_forgets_like_any_other() {
    for shield in shields() {
        let (adopter, memory) = (adopter(shield), Anonymous::new(64));
        for round in 1..20 {
            for page in 0..64 {
                assert_eq!(memory.word(page, 1).load(Ordering::Relaxed), 0, "{shield:?} {round} {page}");
            }
            for page in (0..64).step_by(3) {
                memory.word(page, 1).store(round, Ordering::Relaxed);
            }
            let adoption = adopter.adopt(memory.address(), 64 * PAGE, Purpose::Remote);
            assert!(adoption.pages.is_some());
            memory.word(1, 1).store(round, Ordering::Relaxed);
            adopter.give_back(adoption, false);
            assert_eq!(memory.word(1, 1).load(Ordering::Relaxed), round);
            assert_eq!(memory.word(2, 1).load(Ordering::Relaxed), 0);
            assert_eq!(memory.word(3, 1).load(Ordering::Relaxed), round);
            memory.forget(0, 64);
        }
    }
}

#[test]
fn the_pages_stay_until_the_last_region_on_them_ends() {
    for shield in shields() {
        let (adopter, memory) = (adopter(shield), Anonymous::new(30));
        memory.word(12, 0).store(5, Ordering::Relaxed);
        let at = |page: usize| memory.address() + page * PAGE;
        let first = adopter.adopt(at(10), 10 * PAGE, Purpose::Remote);
        let second = adopter.adopt(at(5), 10 * PAGE, Purpose::Remote);
        let third = adopter.adopt(at(12), PAGE, Purpose::Remote);
        assert_eq!(adopter.stretches(), 1);
        for adoption in [&first, &second, &third] {
            let layer = first.pages.unwrap().layer;
            assert_eq!((adoption.pages.unwrap().layer, adoption.reason), (layer, PlainReason::None));
        }
        adopter.give_back(first, false);
        assert!(mapped_as(at(12)).contains("nonic-pages") && mapped_as(at(14)).contains("rw-s"));
        assert!(!mapped_as(at(15)).contains("rw-s"));
        adopter.give_back(second, false);
        assert!(mapped_as(at(12)).contains("rw-s"));
        assert!(!mapped_as(at(11)).contains("rw-s") && !mapped_as(at(13)).contains("rw-s"));
        adopter.give_back(third, false);
        assert!(!mapped_as(at(12)).contains("rw-s"));
        assert_eq!(memory.word(12, 0).load(Ordering::Relaxed), 5);
        assert_eq!(adopter.stretches(), 0);
    }
}

/// Memory at chosen addresses that is adopted, given back while another thread runs, and unmapped leaves its places in the
/// file behind. New memory there must not be divided by them.
#[test]
fn places_of_memory_that_is_gone_do_not_divide_what_is_mapped_there_later() {
    for shield in shields() {
        let adopter = adopter(shield);
        let memory = Anonymous::new(30);
        let at = |page: usize| memory.address() + page * PAGE;
        // Given back, page 7 stays a private mapping of the file, in the layer that comes first.
        adopter.give_back(adopter.adopt(at(7), PAGE, Purpose::Remote), false);
        memory.map_anew();
        let first = adopter.adopt(at(10), 10 * PAGE, Purpose::Remote);
        let second = adopter.adopt(at(5), 10 * PAGE, Purpose::Remote);
        assert_eq!(second.reason, PlainReason::None);
        assert_eq!(second.pages.unwrap().layer, first.pages.unwrap().layer);
        assert_eq!(second.pages.unwrap().start, at(5));
        adopter.give_back(first, false);
        adopter.give_back(second, false);
    }
}

/// Two threads count in every page, one reads into it by system calls, while it is adopted and given back.
#[test]
fn no_write_is_lost_while_pages_go_back_and_forth() {
    const PAGES: usize = 96;
    for shield in shields() {
        let (adopter, memory) = (adopter(shield), Anonymous::new(PAGES));
        let stop = AtomicBool::new(false);
        let (failed, calls) = (AtomicU64::new(0), AtomicU64::new(0));
        let mut counted = [0u64; 2];
        std::thread::scope(|scope| {
            let writers = [0, 1].map(|id| {
                let (memory, stop) = (&memory, &stop);
                scope.spawn(move || {
                    let mut count = 0;
                    while !stop.load(Ordering::Relaxed) {
                        // Plain loads and stores, as programs do: a write lost would show in the sum.
                        let word = memory.word((count as usize * 79) % PAGES, id);
                        word.store(word.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                        count += 1;
                    }
                    count
                })
            });
            let reader = scope.spawn(|| {
                let mut page = 0;
                while !stop.load(Ordering::Relaxed) {
                    page = (page + 31) % PAGES;
                    failed.fetch_add(u64::from(!memory.read_into(page, 2048, 2000)), Ordering::Relaxed);
                    calls.fetch_add(1, Ordering::Relaxed);
                }
            });
            for _ in 0..200 {
                let adoption = adopter.adopt(memory.address(), PAGES * PAGE, Purpose::Remote);
                assert!(adoption.pages.is_some(), "{shield:?}: {:?}", adoption.reason);
                adopter.give_back(adoption, false);
            }
            stop.store(true, Ordering::Relaxed);
            counted = writers.map(|writer| writer.join().unwrap());
            reader.join().unwrap();
        });
        let sums = [0, 1]
            .map(|id| (0..PAGES).map(|page| memory.word(page, id).load(Ordering::Relaxed)).sum::<u64>());
        assert_eq!(sums, counted, "{shield:?}");
        println!("{shield:?}: {failed:?} of {calls:?} system calls met EFAULT");
        if shield == Shield::Everything {
            assert_eq!(failed.load(Ordering::Relaxed), 0);
        }
    }
}

/// Two threads write to each page once, from both ends, while memory that nobody has touched is adopted: a page that appears
/// between the copy and the switch must not be lost.
#[test]
fn no_first_touch_is_lost_while_untouched_pages_are_adopted() {
    const PAGES: usize = 512;
    for shield in shields() {
        let adopter = adopter(shield);
        let (mut round, mut beside) = (0, 0);
        let deadline = Instant::now() + Duration::from_secs(60);
        // On a busy machine the threads may not run beside an adoption for long.
        while round < 50 || beside == 0 {
            round += 1;
            assert!(Instant::now() < deadline, "{shield:?}: no thread runs beside an adoption");
            let memory = Anonymous::new(PAGES);
            let (barrier, touched) = (std::sync::Barrier::new(3), AtomicU64::new(0));
            std::thread::scope(|scope| {
                for id in 0..2 {
                    let (memory, barrier, touched) = (&memory, &barrier, &touched);
                    scope.spawn(move || {
                        barrier.wait();
                        for step in 0..PAGES {
                            let page = if id == 0 { step } else { PAGES - 1 - step };
                            memory.word(page, id).store(round, Ordering::Relaxed);
                            touched.fetch_add(1, Ordering::Relaxed);
                        }
                    });
                }
                barrier.wait();
                let before = touched.load(Ordering::Relaxed);
                let adoption = adopter.adopt(memory.address(), PAGES * PAGE, Purpose::Remote);
                assert!(adoption.pages.is_some(), "{shield:?}: {:?}", adoption.reason);
                beside += touched.load(Ordering::Relaxed) - before;
                adopter.give_back(adoption, false);
            });
            for page in 0..PAGES {
                for id in 0..2 {
                    assert_eq!(
                        memory.word(page, id).load(Ordering::Relaxed),
                        round,
                        "{shield:?} page {page}"
                    );
                }
            }
        }
        println!("{shield:?}: {beside} pages touched for the first time during adoptions");
    }
}

#[test]
fn memory_mapped_anew_under_a_live_region_goes_to_another_layer() {
    for shield in shields() {
        let (adopter, memory) = (adopter(shield), Anonymous::new(4));
        memory.word(0, 0).store(1, Ordering::Relaxed);
        let old = adopter.adopt(memory.address(), 4 * PAGE, Purpose::Remote);
        let peer = shared_view(&adopter, &old.pages.unwrap());
        memory.map_anew();
        assert_eq!(memory.word(0, 0).load(Ordering::Relaxed), 0);
        memory.word(0, 0).store(2, Ordering::Relaxed);
        let new = adopter.adopt(memory.address(), 4 * PAGE, Purpose::Remote);
        assert_ne!(new.pages.unwrap().layer, old.pages.unwrap().layer);
        assert_eq!(peer.word(0).load(Ordering::Relaxed), 1);
        assert_eq!(shared_view(&adopter, &new.pages.unwrap()).word(0).load(Ordering::Relaxed), 2);
        adopter.give_back(old, false);
        assert_eq!(memory.word(0, 0).load(Ordering::Relaxed), 2);
        adopter.give_back(new, false);
        assert_eq!(memory.word(0, 0).load(Ordering::Relaxed), 2);
        assert!(!mapped_as(memory.address()).contains("rw-s"));
    }
}

#[test]
fn bytes_survive_where_the_program_moved_them() {
    for shield in shields() {
        let (adopter, mut memory) = (adopter(shield), Anonymous::new(4));
        memory.word(3, 7).store(21, Ordering::Relaxed);
        let adoption = adopter.adopt(memory.address(), 4 * PAGE, Purpose::Remote);
        let peer = shared_view(&adopter, &adoption.pages.unwrap());
        let before = memory.address();
        memory.move_and_grow(8);
        assert_ne!(memory.address(), before);
        memory.word(6, 0).store(22, Ordering::Relaxed);
        adopter.give_back(adoption, false);
        assert_eq!(memory.word(3, 7).load(Ordering::Relaxed), 21);
        assert_eq!(memory.word(6, 0).load(Ordering::Relaxed), 22);
        assert!(!mapped_as(memory.address()).contains("rw-s"));
        peer.word(3 * PAGE + 56).store(99, Ordering::Relaxed);
        assert_eq!(memory.word(3, 7).load(Ordering::Relaxed), 21);
    }
}

#[test]
fn each_part_keeps_the_rights_the_program_gave_it() {
    for shield in shields() {
        let (adopter, memory) = (adopter(shield), Anonymous::new(12));
        let at = |page: usize| memory.address() + page * PAGE;
        memory.word(2, 0).store(1, Ordering::Relaxed);
        memory.word(7, 0).store(2, Ordering::Relaxed);
        memory.protect(0, 4, libc::PROT_READ);
        let adoption = adopter.adopt(at(0), 12 * PAGE, Purpose::Remote);
        assert_eq!((adoption.pages.unwrap().start, adoption.pages.unwrap().end), (at(0), at(12)));
        assert!(mapped_as(at(2)).contains("r--s") && mapped_as(at(5)).contains("rw-s"));
        memory.protect(6, 2, libc::PROT_NONE);
        adopter.give_back(adoption, false);
        assert!(mapped_as(at(2)).contains("r--p"), "{}", mapped_as(at(2)));
        assert!(mapped_as(at(5)).contains("rw-p") && mapped_as(at(8)).contains("rw-p"));
        assert!(mapped_as(at(7)).contains("---p"), "{}", mapped_as(at(7)));
        memory.protect(6, 2, libc::PROT_READ | libc::PROT_WRITE);
        assert_eq!(memory.word(2, 0).load(Ordering::Relaxed), 1);
        assert_eq!(memory.word(7, 0).load(Ordering::Relaxed), 2);
    }
}
