//! Memory that is adopted for windows only: what is wiped in children, what holds code, and where regions stay plain.

#![cfg(not(loom))]

mod common;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use common::{Anonymous, PAGE, end_of, fork_child, mapped_as, shared_view};
use nonic_memory::{Adopter, AdoptionPolicy, PlainReason, Purpose};

/// Forks; whether `child` says so in the child.
fn in_child(child: impl FnOnce() -> bool) -> bool {
    end_of(fork_child(|| u8::from(!child()))) == 0
}

fn advise(memory: &Anonymous, (from, to): (usize, usize), advice: libc::c_int) {
    let start = (memory.address() + from * PAGE) as *mut libc::c_void;
    // SAFETY: own memory; the advice is about children and dumps.
    assert_eq!(unsafe { libc::madvise(start, (to - from) * PAGE, advice) }, 0);
}

/// What the kernel keeps of the area that holds a page.
fn flags(memory: &Anonymous, page: usize) -> String {
    let line = mapped_as(memory.address() + page * PAGE);
    let text = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut of_area = text.lines().skip_while(|other| *other != line);
    of_area.find(|line| line.starts_with("VmFlags:")).unwrap_or_default().to_owned()
}

fn holds(memory: &Anonymous, pages: std::ops::Range<usize>, value: impl Fn(usize) -> u64) -> bool {
    pages.into_iter().all(|page| memory.word(page, 3).load(Ordering::Relaxed) == value(page))
}

/// Memory of ten pages of which 2 to 8 are wiped in children, each page holding its number and one.
fn wiped() -> Anonymous {
    let memory = Anonymous::new(10);
    advise(&memory, (2, 8), libc::MADV_WIPEONFORK);
    (0..10).for_each(|page| memory.word(page, 3).store(page as u64 + 1, Ordering::Relaxed));
    memory
}

/// A child finds zeros where they belong, and its own child does.
fn children_see(memory: &Anonymous, wiped: std::ops::Range<usize>) -> bool {
    in_child(|| {
        let expected = |page: usize| if wiped.contains(&page) { 0 } else { page as u64 + 1 };
        let good = holds(memory, 0..10, expected);
        (0..10).for_each(|page| memory.word(page, 3).store(page as u64 + 1, Ordering::Relaxed));
        good && flags(memory, wiped.start).contains(" wf") && in_child(|| holds(memory, 0..10, expected))
    })
}

#[test]
fn what_is_wiped_in_children_is_wiped_while_a_window_is_on_it_and_after() {
    for limit in [u64::MAX, 0] {
        let (adopter, memory) = (Adopter::new(AdoptionPolicy::Auto), wiped());
        adopter.set_fork_copy_limit(limit);
        assert!(children_see(&memory, 2..8), "without a window");
        let adoption = adopter.adopt(memory.address(), 10 * PAGE, Purpose::Window);
        let pages = adoption.pages.expect("nothing forbids it");
        let all = (memory.address(), memory.address() + 10 * PAGE);
        assert_eq!((pages.start, pages.end), all, "{:?}", adoption.reason);
        let peer = shared_view(&adopter, &pages);
        assert!(children_see(&memory, 2..8), "with a window");
        assert!(holds(&memory, 0..10, |page| page as u64 + 1), "the parent has its own bytes");
        assert_eq!(peer.word(3 * PAGE + 24).load(Ordering::Relaxed), 4);
        adopter.give_back(adoption, false);
        assert!(children_see(&memory, 2..8), "after the window");
    }
}

#[test]
fn what_is_wiped_in_children_is_anonymous_again_when_the_program_has_one_thread() {
    let sees = in_child(|| {
        let (adopter, memory) = (Adopter::new(AdoptionPolicy::Auto), wiped());
        let before = flags(&memory, 3);
        let adoption = adopter.adopt(memory.address(), 10 * PAGE, Purpose::Window);
        let (adopted, shared) = (adoption.pages.is_some(), flags(&memory, 3) != before);
        adopter.give_back(adoption, false);
        adopted && shared && flags(&memory, 3) == before && children_see(&memory, 2..8)
    });
    assert!(sees);
}

#[test]
fn the_end_of_a_window_on_a_part_ends_what_was_said_of_that_part_only() {
    let sees = in_child(|| {
        let (adopter, memory) = (Adopter::new(AdoptionPolicy::Auto), wiped());
        let adopt = |from: usize, to: usize| {
            adopter.adopt(memory.address() + from * PAGE, (to - from) * PAGE, Purpose::Window)
        };
        let (whole, part) = (adopt(2, 8), adopt(2, 5));
        let adopted = whole.pages.is_some() && part.pages.is_some();
        adopter.give_back(whole, false);
        let still = children_see(&memory, 2..8);
        // What has no window any more is the kernel's to wipe, or not.
        advise(&memory, (5, 8), libc::MADV_KEEPONFORK);
        let again = adopt(5, 8);
        let good = adopted && still && again.pages.is_some() && children_see(&memory, 2..5);
        adopter.give_back(again, false);
        adopter.give_back(part, false);
        good && children_see(&memory, 2..5)
    });
    assert!(sees);
}

#[test]
fn what_is_in_no_dump_is_in_no_dump_of_a_child_either() {
    let (adopter, memory) = (Adopter::new(AdoptionPolicy::Auto), Anonymous::new(4));
    advise(&memory, (0, 4), libc::MADV_DONTDUMP);
    (0..4).for_each(|page| memory.word(page, 3).store(page as u64 + 1, Ordering::Relaxed));
    let adoption = adopter.adopt(memory.address(), 4 * PAGE, Purpose::Window);
    assert!(adoption.pages.is_some());
    assert!(flags(&memory, 0).contains(" dd"));
    assert!(in_child(|| flags(&memory, 0).contains(" dd") && holds(&memory, 0..4, |page| page as u64 + 1)));
    adopter.give_back(adoption, false);
}

/// Machine code that returns a number.
#[cfg(target_arch = "x86_64")]
fn write_code(memory: &Anonymous, number: u32) {
    // mov eax, number; ret
    memory.word(0, 0).store(0xb8 | u64::from(number) << 8 | 0xc3 << 40, Ordering::SeqCst);
}

#[cfg(target_arch = "x86_64")]
fn run_code(memory: &Anonymous) -> u32 {
    // SAFETY: `write_code` has put a function there.
    let code: extern "C" fn() -> u32 = unsafe { std::mem::transmute(memory.address()) };
    code()
}

#[cfg(target_arch = "x86_64")]
#[test]
fn memory_with_code_is_adopted_for_a_window_and_runs_all_the_time() {
    for threads in [true, false] {
        let run = || {
            let (adopter, memory) = (Adopter::new(AdoptionPolicy::Auto), Anonymous::new(3));
            memory.protect(0, 3, libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC);
            write_code(&memory, 41);
            let adoption = adopter.adopt(memory.address(), 3 * PAGE, Purpose::Remote);
            let plain = (adoption.pages, adoption.reason) == (None, PlainReason::NotOrdinary);
            adopter.give_back(adoption, false);
            let adoption = adopter.adopt(memory.address(), 3 * PAGE, Purpose::Window);
            let Some(pages) = adoption.pages else { return false };
            let peer = shared_view(&adopter, &pages);
            let before = run_code(&memory);
            write_code(&memory, 42);
            let now = run_code(&memory);
            // A peer's code is code.
            peer.word(8).store(7, Ordering::SeqCst);
            let child = in_child(|| run_code(&memory) == 42 && mapped_as(memory.address()).contains("rwxp"));
            adopter.give_back(adoption, false);
            let rights = mapped_as(memory.address());
            plain
                && (before, now, run_code(&memory)) == (41, 42, 42)
                && child
                && rights.contains(if threads { "rwxs" } else { "rwxp" })
                && memory.word(0, 1).load(Ordering::SeqCst) == 7
        };
        assert!(if threads { run() } else { in_child(run) }, "threads: {threads}");
    }
}

#[test]
fn an_adopter_for_windows_leaves_regions_plain() {
    let (adopter, memory) = (Adopter::for_windows(Arc::default(), AdoptionPolicy::Always), Anonymous::new(4));
    let region = adopter.adopt(memory.address(), 2 * PAGE, Purpose::Remote);
    assert_eq!((region.pages, region.reason), (None, PlainReason::Disabled));
    let window = adopter.adopt(memory.address() + 2 * PAGE, 2 * PAGE, Purpose::Window);
    assert!(window.pages.is_some());
    // Peers reach these through the kernel: nobody may move them under their hands.
    let on_region = adopter.adopt(memory.address(), 2 * PAGE, Purpose::Window);
    assert_eq!((on_region.pages, on_region.reason), (None, PlainReason::OtherRegion));
    for adoption in [on_region, window, region] {
        adopter.give_back(adoption, false);
    }
    let never = Adopter::for_windows(Arc::default(), AdoptionPolicy::Never);
    let window = never.adopt(memory.address(), 2 * PAGE, Purpose::Window);
    assert_eq!((window.pages, window.reason), (None, PlainReason::Disabled));
    // What is known of these pages would be taken for known of others that come to lie there.
    never.give_back(window, false);
}
