//! What is not adopted, and what stays as it was when something forbids it.

#![cfg(not(loom))]

mod common;

use std::sync::atomic::Ordering;

use common::{Anonymous, PAGE, mapped_as, shared_view};
use nonic_memory::{Adopter, AdoptionPolicy, PlainReason, Purpose, Shield};

fn adopter() -> Adopter {
    Adopter::new(AdoptionPolicy::Always)
}

#[track_caller]
fn refused(adopter: &Adopter, address: usize, length: usize, reason: PlainReason) {
    // Without its bounds: a mapping grows and shrinks with what other tests map beside it.
    let kind = || mapped_as(address).split_once(' ').map(|(_, kind)| kind.to_owned());
    let before = kind();
    let adoption = adopter.adopt(address, length, Purpose::Remote);
    assert_eq!((adoption.pages, adoption.reason), (None, reason));
    assert_eq!(kind(), before);
    adopter.give_back(adoption, false);
    assert_eq!(kind(), before);
}

#[test]
fn stacks_and_parts_of_pages_stay() {
    let adopter = adopter();
    let on_stack = [0u8; 5 * PAGE];
    refused(&adopter, on_stack.as_ptr() as usize, 5 * PAGE, PlainReason::Stack);
    let memory = Anonymous::new(2);
    refused(&adopter, memory.address() + 1, 2 * PAGE - 2, PlainReason::NoWholePage);
    refused(&adopter, usize::MAX - PAGE, PAGE, PlainReason::NotOrdinary);
}

#[test]
fn the_main_threads_stack_is_known_by_name() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps.lines().find(|line| line.ends_with("[stack]")).unwrap();
    let end = line.split(' ').next().unwrap().split_once('-').unwrap().1;
    let end = usize::from_str_radix(end, 16).unwrap();
    refused(&adopter(), end - 2 * PAGE, 2 * PAGE, PlainReason::Stack);
}

#[test]
fn private_mappings_of_files_and_unreadable_or_executable_memory_stay() {
    let adopter = adopter();
    let program = common::map_private_file(2);
    refused(&adopter, program.address(), 2 * PAGE, PlainReason::NotOrdinary);
    let memory = Anonymous::new(3);
    memory.protect(0, 3, libc::PROT_NONE);
    refused(&adopter, memory.address(), 3 * PAGE, PlainReason::NotOrdinary);
    memory.protect(0, 3, libc::PROT_READ | libc::PROT_EXEC);
    refused(&adopter, memory.address(), 3 * PAGE, PlainReason::NotOrdinary);
}

#[test]
fn huge_pages_stay() {
    let Some(memory) = Anonymous::try_with_flags(512, libc::MAP_HUGETLB | libc::MAP_NORESERVE) else {
        println!("SKIPPED: huge pages: this machine has none to give");
        return;
    };
    refused(&adopter(), memory.address(), 512 * PAGE, PlainReason::NotOrdinary);
}

#[test]
fn a_guard_page_divides_a_range_and_the_longer_part_is_adopted() {
    let (adopter, memory) = (adopter(), Anonymous::new(10));
    memory.word(2, 0).store(1, Ordering::Relaxed);
    memory.protect(3, 1, libc::PROT_NONE);
    let adoption = adopter.adopt(memory.address(), 10 * PAGE, Purpose::Remote);
    let pages = adoption.pages.unwrap();
    assert_eq!((pages.start, pages.end), (memory.address() + 4 * PAGE, memory.address() + 10 * PAGE));
    assert_eq!(adoption.reason, PlainReason::NotOrdinary);
    assert!(mapped_as(memory.address()).contains("rw-p"));
    // Peers reach the first three pages through the kernel: nobody may move them under their hands.
    refused(&adopter, memory.address(), 3 * PAGE, PlainReason::OtherRegion);
    adopter.give_back(adoption, false);
    let adoption = adopter.adopt(memory.address(), 3 * PAGE, Purpose::Remote);
    assert!(adoption.pages.is_some());
    adopter.give_back(adoption, false);
}

#[test]
fn without_protection_a_program_of_several_threads_stays_plain() {
    let (adopter, memory) = (adopter(), Anonymous::new(4));
    adopter.set_shield(Shield::None);
    refused(&adopter, memory.address(), 4 * PAGE, PlainReason::NoProtection);
}

#[test]
fn small_local_regions_and_a_policy_of_never_stay_plain() {
    let memory = Anonymous::new(4);
    let auto = Adopter::new(AdoptionPolicy::Auto);
    let adoption = auto.adopt(memory.address(), PAGE, Purpose::Local);
    assert_eq!((adoption.pages, adoption.reason), (None, PlainReason::LocalOnly));
    let adoption = auto.adopt(memory.address(), 2 * PAGE, Purpose::Local);
    assert_eq!(adoption.reason, PlainReason::None);
    auto.give_back(adoption, false);
    let never = Adopter::new(AdoptionPolicy::Never);
    refused(&never, memory.address(), 4 * PAGE, PlainReason::Disabled);
    assert!(never.file().is_none());
}

#[test]
fn registrations_that_live_too_short_to_gain_are_left_plain() {
    let (auto, memory) = (Adopter::new(AdoptionPolicy::Auto), Anonymous::new(64));
    for page in 0..64 {
        memory.word(page, 0).store(1, Ordering::Relaxed);
    }
    let register = || auto.adopt(memory.address(), 64 * PAGE, Purpose::Remote);
    let mut rounds = 0;
    loop {
        let adoption = register();
        let plain = adoption.reason == PlainReason::ShortLived;
        assert_eq!(adoption.pages.is_none(), plain);
        auto.give_back(adoption, false);
        if plain {
            break;
        }
        rounds += 1;
        // A round that the machine stretched over 1.48 ms counts as long.
        assert!(rounds < 10_000);
    }
    assert!(rounds >= 8);
    let long = register();
    std::thread::sleep(std::time::Duration::from_micros(200 + 64 * 20));
    auto.give_back(long, false);
    let adoption = register();
    assert!(adoption.pages.is_some());
    auto.give_back(adoption, false);
}

/// A page that cannot be read (a file cut short under its mapping would be one) makes a copy fail in the middle.
#[test]
fn a_step_that_fails_leaves_everything_as_it_was() {
    let (adopter, memory) = (adopter(), Anonymous::new(300));
    for page in 0..300 {
        memory.word(page, 0).store(page as u64, Ordering::Relaxed);
    }
    if !memory.install_guard(250) {
        println!("SKIPPED: a copy that fails: this kernel has no guard pages (Linux 6.13)");
        return;
    }
    let adoption = adopter.adopt(memory.address(), 300 * PAGE, Purpose::Remote);
    assert_eq!((adoption.pages, adoption.reason), (None, PlainReason::Failed));
    assert_eq!(adopter.stretches(), 0);
    for page in (0..300).filter(|&page| page != 250) {
        assert_eq!(memory.word(page, 0).load(Ordering::Relaxed), page as u64);
        memory.word(page, 0).store(1, Ordering::Relaxed);
    }
    assert!(!mapped_as(memory.address()).contains("rw-s"));
    assert!(!memory.read_into(250, 0, 8), "the guard still stands");
    adopter.give_back(adoption, false);
    memory.forget(0, 250);
    assert_eq!(memory.word(7, 0).load(Ordering::Relaxed), 0);
}

#[test]
fn a_place_where_a_stopped_peer_may_write_is_not_used_before_it_is_gone() {
    let (adopter, memory) = (adopter(), Anonymous::new(4));
    memory.word(0, 0).store(1, Ordering::Relaxed);
    let adoption = adopter.adopt(memory.address(), 4 * PAGE, Purpose::Remote);
    let pages = adoption.pages.unwrap();
    let peer = shared_view(&adopter, &pages);
    adopter.give_back(adoption, true);
    peer.word(0).store(66, Ordering::Relaxed);
    peer.word(PAGE).store(66, Ordering::Relaxed);
    assert_eq!(memory.word(0, 0).load(Ordering::Relaxed), 1);
    assert_eq!(memory.word(1, 0).load(Ordering::Relaxed), 0);
    let next = adopter.adopt(memory.address(), 4 * PAGE, Purpose::Remote);
    assert_ne!(next.pages.unwrap().layer, pages.layer);
    peer.word(0).store(67, Ordering::Relaxed);
    assert_eq!(memory.word(0, 0).load(Ordering::Relaxed), 1);
    adopter.give_back(next, false);
    memory.map_anew();
    adopter.peers_are_gone();
    let last = adopter.adopt(memory.address(), 4 * PAGE, Purpose::Remote);
    assert_eq!(last.reason, PlainReason::None);
    assert_eq!(memory.word(0, 0).load(Ordering::Relaxed), 0);
    adopter.give_back(last, false);
}

#[test]
fn scattered_pages_are_adopted_only_as_far_as_mappings_allow() {
    const PAGES: usize = 20_000;
    let (adopter, memory) = (adopter(), Anonymous::with_flags(PAGES, libc::MAP_NORESERVE));
    let adoptions: Vec<_> = (0..PAGES)
        .step_by(2)
        .map(|page| adopter.adopt(memory.address() + page * PAGE, PAGE, Purpose::Local))
        .collect();
    let adopted = adoptions.iter().filter(|adoption| adoption.pages.is_some()).count();
    // What other tests left behind in the adopter's state counts too.
    assert!((8000..=8192).contains(&adopted), "{adopted}");
    assert_eq!(adoptions[9_000].reason, PlainReason::TooManyMappings);
    assert!(common::mappings_of(&memory) < 2 * 8192 + 300);
    for adoption in adoptions {
        adopter.give_back(adoption, false);
    }
}
