//! Pages that a driver holds, as AF_XDP does with its umem: no count of the kernel's tells of them.
//!
//! An ordinary user may make such a socket in a network of its own, which a process with one thread can have: each test runs in a
//! child.

#![cfg(not(loom))]

mod common;

use std::sync::atomic::Ordering;

use common::{Anonymous, PAGE, end_of, fork_child, mapped_as, shared_view};
use nonic_memory::{Adopter, AdoptionPolicy, PlainReason, Purpose};

/// What a child ends with where it cannot make such sockets.
const SKIPPED: u8 = 2;

/// Runs `test` in a child with one thread and a network of its own; its failure is this test's.
fn in_own_network(test: impl FnOnce()) {
    let child = fork_child(|| {
        // SAFETY: the child has one thread, as the call demands.
        let apart = unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET) } == 0;
        if !apart || Holder::open().is_none() {
            return SKIPPED;
        }
        test();
        0
    });
    let status = end_of(child);
    if libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == i32::from(SKIPPED) {
        println!(
            "SKIPPED: pages that a driver holds: no AF_XDP socket, or no network of one's own, is to be had"
        );
        return;
    }
    assert_eq!(status, 0, "the child failed");
}

/// An AF_XDP socket.
struct Holder(libc::c_int);

impl Holder {
    fn open() -> Option<Self> {
        // SAFETY: the call takes numbers.
        let socket = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        (socket >= 0).then_some(Self(socket))
    }

    /// Has it hold these pages.
    fn hold(memory: &Anonymous, pages: usize) -> Self {
        let holder = Self::open().unwrap();
        // SAFETY: a structure of numbers.
        let mut umem: libc::xdp_umem_reg = unsafe { std::mem::zeroed() };
        (umem.addr, umem.len, umem.chunk_size) =
            (memory.address() as u64, (pages * PAGE) as u64, PAGE as u32);
        let length = size_of_val(&umem) as libc::socklen_t;
        // SAFETY: the structure lives through the call.
        let held = unsafe {
            libc::setsockopt(holder.0, libc::SOL_XDP, libc::XDP_UMEM_REG, (&raw const umem).cast(), length)
        };
        assert_eq!(held, 0, "{}", std::io::Error::last_os_error());
        holder
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // SAFETY: it is this value's.
        unsafe { libc::close(self.0) };
    }
}

const PAGES: usize = 8;

fn filled() -> Anonymous {
    let memory = Anonymous::new(PAGES);
    (0..PAGES).for_each(|page| memory.word(page, 0).store(page as u64 + 1, Ordering::Relaxed));
    memory
}

#[test]
fn pages_that_a_driver_may_hold_are_not_adopted() {
    in_own_network(|| {
        let (adopter, memory, other) = (Adopter::new(AdoptionPolicy::Always), filled(), filled());
        let holder = Holder::hold(&memory, PAGES);
        // What the driver holds cannot be told from what it does not.
        for memory in [&memory, &other] {
            let adoption = adopter.adopt(memory.address(), PAGES * PAGE, Purpose::Remote);
            assert_eq!((adoption.pages, adoption.reason), (None, PlainReason::DriverPins));
            assert!(mapped_as(memory.address()).contains("rw-p"));
            adopter.give_back(adoption, false);
        }
        let untouched = Anonymous::new(PAGES);
        let adoption = adopter.adopt(untouched.address(), PAGES * PAGE, Purpose::Remote);
        assert!(adoption.pages.is_some(), "{:?}", adoption.reason);
        drop(holder);
        adopter.give_back(adoption, false);
        let adoption = adopter.adopt(memory.address(), PAGES * PAGE, Purpose::Remote);
        assert_eq!(adoption.reason, PlainReason::None);
        assert!((0..PAGES).all(|page| memory.word(page, 0).load(Ordering::Relaxed) == page as u64 + 1));
        adopter.give_back(adoption, false);
    });
}

#[test]
fn pages_that_a_driver_has_taken_hold_of_since_stay_until_it_lets_go() {
    in_own_network(|| {
        let (adopter, memory) = (Adopter::new(AdoptionPolicy::Always), filled());
        let adoption = adopter.adopt(memory.address(), PAGES * PAGE, Purpose::Remote);
        let view = shared_view(&adopter, &adoption.pages.unwrap());
        let holder = Holder::hold(&memory, PAGES);
        adopter.give_back(adoption, false);
        // The same pages as before: what stands in one is seen in the other.
        assert!(mapped_as(memory.address()).contains("rw-s"));
        view.word(PAGE).store(50, Ordering::Relaxed);
        assert_eq!(memory.word(1, 0).load(Ordering::Relaxed), 50);
        drop(holder);
        let next = Anonymous::new(1);
        let adoption = adopter.adopt(next.address(), PAGE, Purpose::Remote);
        let kind = mapped_as(memory.address());
        assert!(kind.contains("rw-p"), "{kind}");
        view.word(PAGE).store(60, Ordering::Relaxed);
        assert_eq!(memory.word(1, 0).load(Ordering::Relaxed), 50);
        adopter.give_back(adoption, false);
    });
}
