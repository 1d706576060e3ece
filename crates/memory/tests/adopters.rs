//! Several adopters of one memory: each page is moved once, and comes back when nobody needs it any more.

#![cfg(not(loom))]

mod common;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use common::{Anonymous, PAGE, mapped_as, shared_view};
use nonic_memory::{AdoptedMemory, Adopter, AdoptionPolicy, PlainReason, Purpose};

fn two() -> [Adopter; 2] {
    let memory = Arc::new(AdoptedMemory::new());
    [(); 2].map(|()| Adopter::of(Arc::clone(&memory), AdoptionPolicy::Always))
}

/// Memory at addresses that no other test of this process gets when it has ended: places of what was there are looked at when the next
/// adopts, which may be between two looks of a test.
fn lasting(pages: usize) -> &'static Anonymous {
    Box::leak(Box::new(Anonymous::new(pages)))
}

#[test]
fn pages_that_two_adopt_are_private_again_when_both_have_given_them_back() {
    for first in [0, 1] {
        let (adopters, memory) = (two(), lasting(4));
        memory.word(1, 0).store(1, Ordering::Relaxed);
        let mut adoptions =
            adopters.each_ref().map(|one| Some(one.adopt(memory.address(), 4 * PAGE, Purpose::Remote)));
        let pages = adoptions.each_ref().map(|adoption| adoption.as_ref().unwrap().pages.unwrap());
        assert_eq!(pages[0], pages[1]);
        let peer = shared_view(&adopters[1], &pages[1]);
        adopters[first].give_back(adoptions[first].take().unwrap(), false);
        peer.word(PAGE).store(2, Ordering::Relaxed);
        assert_eq!(memory.word(1, 0).load(Ordering::Relaxed), 2, "the other's peers still reach it");
        adopters[1 - first].give_back(adoptions[1 - first].take().unwrap(), false);
        peer.word(PAGE).store(3, Ordering::Relaxed);
        assert_eq!(memory.word(1, 0).load(Ordering::Relaxed), 2);
        assert!(!mapped_as(memory.address()).contains("rw-s"));
    }
}

#[test]
fn pages_that_another_reaches_through_the_kernel_stay_where_they_are() {
    let memory = lasting(4);
    let shared = Arc::new(AdoptedMemory::new());
    let [adopter, never] = [AdoptionPolicy::Always, AdoptionPolicy::Never]
        .map(|policy| Adopter::of(Arc::clone(&shared), policy));
    let plain = never.adopt(memory.address(), 4 * PAGE, Purpose::Remote);
    let adoption = adopter.adopt(memory.address(), 4 * PAGE, Purpose::Remote);
    assert_eq!((adoption.pages, adoption.reason), (None, PlainReason::OtherRegion));
    adopter.give_back(adoption, false);
    never.give_back(plain, false);
    let adoption = adopter.adopt(memory.address(), 4 * PAGE, Purpose::Remote);
    assert_eq!(adoption.reason, PlainReason::None);
    adopter.give_back(adoption, false);
}

#[test]
fn a_place_where_a_stopped_peer_of_one_may_write_is_not_used_again_for_the_other() {
    let ([one, other], memory) = (two(), lasting(4));
    memory.word(0, 0).store(1, Ordering::Relaxed);
    let adoptions = [&one, &other].map(|adopter| adopter.adopt(memory.address(), 4 * PAGE, Purpose::Remote));
    let pages = adoptions[0].pages.unwrap();
    let peer = shared_view(&one, &pages);
    let [of_one, of_other] = adoptions;
    one.give_back(of_one, true);
    // The one's peer is inside still, though the other knows of none.
    other.give_back(of_other, false);
    other.peers_are_gone();
    peer.word(0).store(66, Ordering::Relaxed);
    assert_eq!(memory.word(0, 0).load(Ordering::Relaxed), 1);
    let next = other.adopt(memory.address(), 4 * PAGE, Purpose::Remote);
    assert_ne!(next.pages.unwrap().layer, pages.layer);
    other.give_back(next, false);
    one.peers_are_gone();
    memory.map_anew();
    let last = other.adopt(memory.address(), 4 * PAGE, Purpose::Remote);
    assert_eq!(last.pages.unwrap().layer, pages.layer);
    other.give_back(last, false);
}
