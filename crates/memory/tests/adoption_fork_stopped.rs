//! A child that is stopped before it has copied. The only test here: it needs a handler of `fork` in front of the adopter's.

#![cfg(not(loom))]

mod common;

use std::sync::atomic::Ordering;
use std::time::Duration;

use common::{Anonymous, PAGE, end_of, fork_child, mapped_as};
use nonic_memory::{Adopter, AdoptionPolicy, Purpose};

/// Stops a child before anything else happens in it.
extern "C" fn stop() {
    // SAFETY: the signal goes to the child that calls.
    unsafe { libc::raise(libc::SIGSTOP) };
}

#[test]
fn a_child_that_was_stopped_while_its_parent_went_on_misses_pages_and_sees_no_later_bytes() {
    const PAGES: usize = 300;
    // SAFETY: the handler only raises a signal.
    assert_eq!(unsafe { libc::pthread_atfork(None, None, Some(stop)) }, 0);
    let (adopter, memory) = (Adopter::new(AdoptionPolicy::Always), Anonymous::new(PAGES));
    (0..PAGES).for_each(|page| memory.word(page, 0).store(1, Ordering::Relaxed));
    let adoption = adopter.adopt(memory.address(), PAGES * PAGE, Purpose::Remote);
    assert!(adoption.pages.is_some(), "{:?}", adoption.reason);
    adopter.set_fork_patience(Duration::from_millis(50));
    let child = fork_child(|| {
        let shared = (0..PAGES).any(|page| !mapped_as(memory.address() + page * PAGE).contains("---p"));
        u8::from(shared)
    });
    (0..PAGES).for_each(|page| memory.word(page, 0).store(2, Ordering::Relaxed));
    // SAFETY: a child of this process.
    unsafe {
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &raw mut status, libc::WUNTRACED), child);
        assert!(libc::WIFSTOPPED(status), "{status:#x}");
        assert_eq!(libc::kill(child, libc::SIGCONT), 0);
    }
    assert_eq!(end_of(child), 0, "the child sees what is its parent's");
    adopter.give_back(adoption, false);
}
