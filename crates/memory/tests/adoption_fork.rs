//! What a child sees of memory that its parent had registered.

#![cfg(not(loom))]

mod common;

use std::sync::atomic::Ordering;

use common::{Anonymous, PAGE, end_of, fork_child, mapped_as, shared_view};
use nonic_memory::{Adopter, AdoptionPolicy, Purpose};

/// Forks; the child runs `child` and ends with what it returns. Waits for it and returns that.
fn in_child(child: impl FnOnce() -> u8, parent: impl FnOnce()) -> i32 {
    let pid = fork_child(child);
    parent();
    let status = end_of(pid);
    assert!(libc::WIFEXITED(status), "the child died: {status:#x}");
    libc::WEXITSTATUS(status)
}

/// Words that two processes use to wait for each other.
struct Turns(nonic_sys::SharedMapping);

impl Turns {
    fn new() -> Self {
        Self(nonic_sys::SharedMapping::anonymous(PAGE).unwrap())
    }

    fn say(&self, turn: u64) {
        self.0.word(0).store(turn, Ordering::Release);
    }

    fn wait_for(&self, turn: u64) {
        while self.0.word(0).load(Ordering::Acquire) < turn {
            std::thread::yield_now();
        }
    }
}

fn adopted(pages: usize) -> (Adopter, Anonymous, nonic_memory::Adoption) {
    let (adopter, memory) = (Adopter::new(AdoptionPolicy::Always), Anonymous::new(pages));
    for page in 0..pages {
        memory.word(page, 0).store(page as u64 + 1, Ordering::Relaxed);
    }
    let adoption = adopter.adopt(memory.address(), pages * PAGE, Purpose::Remote);
    assert!(adoption.pages.is_some(), "{:?}", adoption.reason);
    (adopter, memory, adoption)
}

#[test]
fn parent_and_child_write_apart_from_the_moment_of_the_fork() {
    const PAGES: usize = 200;
    let (adopter, memory, adoption) = adopted(PAGES);
    let peer = shared_view(&adopter, &adoption.pages.unwrap());
    let turns = Turns::new();
    let code = in_child(
        || {
            turns.wait_for(1);
            for page in 0..PAGES {
                if memory.word(page, 0).load(Ordering::Relaxed) != page as u64 + 1 {
                    return 1;
                }
                memory.word(page, 0).store(7_000, Ordering::Relaxed);
            }
            turns.say(2);
            0
        },
        || {
            for page in 0..PAGES {
                memory.word(page, 0).store(9_000 + page as u64, Ordering::Relaxed);
            }
            turns.say(1);
            turns.wait_for(2);
            for page in 0..PAGES {
                assert_eq!(memory.word(page, 0).load(Ordering::Relaxed), 9_000 + page as u64);
                assert_eq!(peer.word(page * PAGE).load(Ordering::Relaxed), 9_000 + page as u64);
            }
        },
    );
    assert_eq!(code, 0);
    adopter.give_back(adoption, false);
}

#[test]
fn a_child_keeps_what_the_parent_gives_back_or_unmaps() {
    for limit in [u64::MAX, 0] {
        let (adopter, memory, adoption) = adopted(50);
        adopter.set_fork_copy_limit(limit);
        let (turns, layer) = (Turns::new(), adoption.pages.unwrap().layer);
        let address = memory.address();
        let code = in_child(
            || {
                turns.wait_for(1);
                for page in 0..50 {
                    if memory.word(page, 0).load(Ordering::Relaxed) != page as u64 + 1 {
                        return 1;
                    }
                }
                0
            },
            || {
                adopter.give_back(adoption, false);
                memory.map_anew();
                // The place in the file is still the child's: whatever comes to this address goes elsewhere.
                memory.word(0, 0).store(77, Ordering::Relaxed);
                let next = adopter.adopt(address, 50 * PAGE, Purpose::Remote);
                assert!(limit > 0 || next.pages.unwrap().layer != layer);
                turns.say(1);
                adopter.give_back(next, false);
            },
        );
        assert_eq!(code, 0, "limit {limit}");
        // The child is gone: its place is free again, and empty.
        memory.map_anew();
        memory.word(1, 0).store(5, Ordering::Relaxed);
        let again = adopter.adopt(address, 50 * PAGE, Purpose::Remote);
        let view = shared_view(&adopter, &again.pages.unwrap());
        assert_eq!(view.word(0).load(Ordering::Relaxed), 0);
        assert_eq!(view.word(PAGE).load(Ordering::Relaxed), 5);
        adopter.give_back(again, false);
    }
}

#[test]
fn memory_that_was_adopted_once_never_shows_a_child_foreign_bytes() {
    let (adopter, memory, adoption) = adopted(20);
    memory.forget(10, 5);
    adopter.give_back(adoption, false);
    memory.forget(0, 5);
    let turns = Turns::new();
    let code = in_child(
        || {
            turns.wait_for(1);
            for page in 0..20 {
                let expected = if page < 5 { 0 } else { page as u64 + 1 };
                let seen = memory.word(page, 0).load(Ordering::Relaxed);
                if seen != expected && !(10..15).contains(&page) {
                    return 1 + page as u8;
                }
            }
            0
        },
        || {
            for page in 0..20 {
                memory.word(page, 0).store(99, Ordering::Relaxed);
            }
            let next = adopter.adopt(memory.address(), 20 * PAGE, Purpose::Remote);
            assert!(next.pages.is_some());
            for page in 0..20 {
                memory.word(page, 0).store(100, Ordering::Relaxed);
            }
            turns.say(1);
            turns.wait_for(1);
            adopter.give_back(next, false);
        },
    );
    assert_eq!(code, 0);
}

#[test]
fn after_fork_init_a_child_has_no_registered_memory() {
    let (adopter, memory, adoption) = adopted(3);
    adopter.fork_init();
    let late = Anonymous::new(2);
    late.word(0, 0).store(1, Ordering::Relaxed);
    let second = adopter.adopt(late.address(), 2 * PAGE, Purpose::Remote);
    let is_mapped = |address: usize| {
        let mut resident = 0u8;
        // SAFETY: the call writes one byte for one page.
        unsafe { libc::mincore(address as *mut libc::c_void, PAGE, &raw mut resident) == 0 }
    };
    let code =
        in_child(|| u8::from(is_mapped(memory.address())) + 2 * u8::from(is_mapped(late.address())), || ());
    assert_eq!(code, 0);
    adopter.give_back(adoption, false);
    adopter.give_back(second, false);
    assert_eq!(memory.word(2, 0).load(Ordering::Relaxed), 3);
    let code = in_child(|| u8::from(is_mapped(memory.address())), || ());
    assert_eq!(code, 1, "given back memory is in children again");
}

#[test]
fn a_child_can_adopt_for_itself_and_its_parent_does_not_notice() {
    let (adopter, memory, adoption) = adopted(10);
    let pages = adoption.pages.unwrap();
    // The child runs more than a child of many threads should; with glibc it may.
    let code = in_child(
        || {
            let own = adopter.adopt(memory.address(), 10 * PAGE, Purpose::Remote);
            let Some(_) = own.pages else { return 1 };
            if memory.word(3, 0).load(Ordering::Relaxed) != 4 || adopter.stretches() != 1 {
                return 2;
            }
            memory.word(3, 0).store(50, Ordering::Relaxed);
            adopter.give_back(own, false);
            u8::from(memory.word(3, 0).load(Ordering::Relaxed) != 50) * 3
        },
        || (),
    );
    assert_eq!(code, 0);
    assert_eq!(shared_view(&adopter, &pages).word(3 * PAGE).load(Ordering::Relaxed), 4);
    assert!(mapped_as(memory.address()).contains("rw-s"));
    adopter.give_back(adoption, false);
}

#[test]
fn a_fork_of_a_process_with_many_mappings_takes_no_longer_than_copying_them_does() {
    const MAPPINGS: usize = 20_000;
    let (adopter, memory, adoption) = adopted(50);
    let many = Anonymous::with_flags(MAPPINGS, libc::MAP_NORESERVE);
    (0..MAPPINGS).step_by(2).for_each(|page| many.protect(page, 1, libc::PROT_READ));
    let begun = std::time::Instant::now();
    let code = in_child(
        || {
            let is_own = |page| memory.word(page, 0).swap(7, Ordering::Relaxed) == page as u64 + 1;
            u8::from(!(0..50).all(is_own))
        },
        || (),
    );
    assert_eq!(code, 0);
    // Walking them once takes milliseconds, on an emulated processor seconds; once for each would take minutes.
    assert!(begun.elapsed() < std::time::Duration::from_secs(30), "{:?}", begun.elapsed());
    assert!((0..50).all(|page| memory.word(page, 0).load(Ordering::Relaxed) == page as u64 + 1));
    adopter.give_back(adoption, false);
}
