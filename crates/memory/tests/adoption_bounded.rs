//! Memory that is registered and unmapped over and over, in a process where no other test maps and unmaps beside it: the
//! kernel shows neighbouring areas as one, and one that changes while it is looked at is left plain.

#![cfg(not(loom))]

mod common;

use std::sync::atomic::Ordering;

use common::{Anonymous, PAGE};
use nonic_memory::{Adopter, AdoptionPolicy, PlainReason, Purpose};

#[test]
fn memory_registered_and_unmapped_over_and_over_stays_bounded() {
    let adopter = Adopter::new(AdoptionPolicy::Always);
    let mut most = 0;
    for round in 0..2_000 {
        let memory = Anonymous::new(64);
        memory.word(round % 64, 0).store(1, Ordering::Relaxed);
        let adoption = adopter.adopt(memory.address(), 64 * PAGE, Purpose::Remote);
        assert_eq!(adoption.reason, PlainReason::None);
        // Reading what was never written must not pile up either.
        let unwritten = (round + 1) % 64;
        if round % 2 == 0 {
            drop(memory);
            adopter.give_back(adoption, false);
        } else {
            adopter.give_back(adoption, false);
            assert_eq!(memory.word(unwritten, 0).load(Ordering::Relaxed), 0);
        }
        most = most.max(common::file_bytes(&adopter));
    }
    assert!(most <= 64 * PAGE as u64, "{most} bytes in the file");
}
