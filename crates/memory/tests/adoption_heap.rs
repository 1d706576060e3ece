//! A heap of which page after page is registered, in a process where nothing was adopted before: places that given back
//! memory left behind would send some pages to another layer, and the mappings would be more.

#![cfg(not(loom))]

mod common;

use std::sync::atomic::Ordering;

use common::{Anonymous, PAGE};
use nonic_memory::{Adopter, AdoptionPolicy, Purpose};

#[test]
fn many_pages_of_one_heap_registered_one_by_one_take_few_mappings() {
    const PAGES: usize = 10_000;
    let adopter = Adopter::new(AdoptionPolicy::Always);
    let memory = Anonymous::with_flags(PAGES, libc::MAP_NORESERVE);
    let mut adoptions = Vec::with_capacity(PAGES);
    for page in 0..PAGES {
        if page % 50 == 0 {
            memory.word(page, 0).store(page as u64, Ordering::Relaxed);
        }
        adoptions.push(adopter.adopt(memory.address() + page * PAGE, PAGE, Purpose::Remote));
        if page % 2_000 == 0 {
            assert!(common::mappings_of(&memory) < 300, "{} mappings", common::mappings_of(&memory));
        }
    }
    assert_eq!(adopter.stretches(), 1);
    assert!(common::mappings_of(&memory) < 300);
    for adoption in adoptions {
        assert!(adoption.pages.is_some());
        adopter.give_back(adoption, false);
    }
    assert!(common::mappings_of(&memory) < 300, "{} mappings", common::mappings_of(&memory));
    assert_eq!(memory.word(50, 0).load(Ordering::Relaxed), 50);
}
