//! Memory that is larger than the kernel promises, and a kernel that promises none (`RLIMIT_DATA` refuses private memory to an
//! ordinary user as `vm.overcommit_memory` 2 does to all): a child never shares its parent's pages for that, and what cannot be
//! given back is given back later.
//!
//! The limit is the process's, so each test runs in a child, which has one thread.

#![cfg(not(loom))]

mod common;

use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;

use common::{Anonymous, PAGE, mapped_as, shared_view};
use nonic_memory::{Adopter, Adoption, AdoptionPolicy, Purpose, Shield};

/// Runs `test` in a child with one thread; its failure is this test's.
fn apart(test: impl FnOnce()) {
    // SAFETY: the C library's and the adopter's locks are free in the child; it leaves by `_exit`.
    unsafe {
        let pid = libc::fork();
        assert!(pid >= 0);
        if pid == 0 {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            // Huge pages would take more memory than small machines have.
            libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0);
            libc::_exit(i32::from(std::panic::catch_unwind(AssertUnwindSafe(test)).is_err()));
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(pid, &raw mut status, 0), pid);
        assert_eq!(status, 0, "the child failed");
    }
}

/// Private memory is refused from now on, or not any more.
fn refuse_private_memory(refuse: bool) {
    // SAFETY: the limits are locals.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        assert_eq!(libc::getrlimit(libc::RLIMIT_DATA, &raw mut limit), 0);
        limit.rlim_cur = if refuse { 1 } else { limit.rlim_max };
        assert_eq!(libc::setrlimit(libc::RLIMIT_DATA, &raw const limit), 0);
    }
}

/// The first word of a page, if it is mapped: asked by a system call, which fails where a load would end the process.
fn read_word(memory: &Anonymous, page: usize) -> Option<u64> {
    let mut word = 0u64;
    // SAFETY: the word is a local; the other address is only asked for.
    let count = unsafe {
        let local = libc::iovec { iov_base: (&raw mut word).cast(), iov_len: 8 };
        let other = libc::iovec { iov_base: (memory.address() + page * PAGE) as *mut _, iov_len: 8 };
        libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const other, 1, 0)
    };
    (count == 8).then_some(word)
}

/// The pages that hold data: their numbers.
fn fill(memory: &Anonymous, pages: &[usize]) {
    pages.iter().for_each(|&page| memory.word(page, 0).store(page as u64 + 1, Ordering::Relaxed));
}

fn adopt(adopter: &Adopter, memory: &Anonymous, pages: usize) -> Adoption {
    let adoption = adopter.adopt(memory.address(), pages * PAGE, Purpose::Remote);
    let adopted = adoption.pages.map(|found| (found.end - found.start) / PAGE);
    assert_eq!(adopted, Some(pages), "{:?}", adoption.reason);
    adoption
}

/// 64 GiB.
const LARGE: usize = 16 << 20;
const SOME: [usize; 5] = [0, 1, 700_000, 700_300, LARGE - 1];

fn large() -> (Adopter, Anonymous, Adoption) {
    let memory = Anonymous::with_flags(LARGE, libc::MAP_NORESERVE);
    fill(&memory, &SOME);
    let adopter = Adopter::new(AdoptionPolicy::Always);
    let adoption = adopt(&adopter, &memory, LARGE);
    (adopter, memory, adoption)
}

#[test]
fn a_child_has_its_own_copy_of_memory_larger_than_the_kernel_promises() {
    for limit in [u64::MAX, 0] {
        apart(move || {
            let (adopter, memory, adoption) = large();
            adopter.set_fork_copy_limit(limit);
            apart(|| {
                for page in SOME {
                    assert_eq!(read_word(&memory, page), Some(page as u64 + 1));
                    assert!(!mapped_as(memory.address() + page * PAGE).contains("rw-s"));
                    memory.word(page, 0).store(77, Ordering::Relaxed);
                }
                memory.word(5, 0).store(77, Ordering::Relaxed);
            });
            let view = shared_view(&adopter, &adoption.pages.unwrap());
            for page in SOME {
                assert_eq!(view.word(page * PAGE).load(Ordering::Relaxed), page as u64 + 1);
            }
            assert_eq!(view.word(5 * PAGE).load(Ordering::Relaxed), 0);
        });
    }
}

#[test]
fn memory_larger_than_the_kernel_promises_is_private_again_when_its_region_ends() {
    for shield in [Shield::Best, Shield::UserMode] {
        apart(move || {
            let (adopter, memory, adoption) = large();
            adopter.set_shield(shield);
            let view = shared_view(&adopter, &adoption.pages.unwrap());
            adopter.give_back(adoption, false);
            for page in SOME {
                let kind = mapped_as(memory.address() + page * PAGE);
                assert!(kind.contains("rw-p"), "{shield:?}: {kind}");
                view.word(page * PAGE).store(99, Ordering::Relaxed);
                assert_eq!(read_word(&memory, page), Some(page as u64 + 1));
            }
            memory.word(5, 0).store(7, Ordering::Relaxed);
            assert_eq!(memory.word(5, 0).load(Ordering::Relaxed), 7);
        });
    }
}

const PAGES: usize = 600;

fn small() -> (Adopter, Anonymous, Adoption) {
    let memory = Anonymous::new(PAGES);
    fill(&memory, &Vec::from_iter(0..PAGES / 2));
    let adopter = Adopter::new(AdoptionPolicy::Always);
    let adoption = adopt(&adopter, &memory, PAGES);
    (adopter, memory, adoption)
}

#[test]
fn a_child_that_gets_no_memory_misses_its_parents_pages_and_never_shares_them() {
    for limit in [u64::MAX, 0] {
        apart(move || {
            let (adopter, memory, adoption) = small();
            adopter.set_fork_copy_limit(limit);
            refuse_private_memory(true);
            apart(|| {
                for page in 0..PAGES {
                    assert_eq!(read_word(&memory, page), None, "page {page}");
                    let kind = mapped_as(memory.address() + page * PAGE);
                    assert!(kind.contains("---p"), "something else could be mapped there: {kind}");
                }
            });
            assert_eq!(memory.word(3, 0).load(Ordering::Relaxed), 4);
            refuse_private_memory(false);
            adopter.give_back(adoption, false);
        });
    }
}

#[test]
fn a_child_at_the_limit_of_descriptors_has_its_own_copy() {
    apart(|| {
        let (_adopter, memory, _adoption) = small();
        let zeros = c"/dev/zero".as_ptr();
        // SAFETY: nothing is done with the descriptors.
        while unsafe { libc::open(zeros, libc::O_RDONLY) } >= 0 {}
        apart(|| {
            for page in 0..PAGES {
                let expected = if page < PAGES / 2 { page as u64 + 1 } else { 0 };
                assert_eq!(read_word(&memory, page), Some(expected), "page {page}");
                memory.word(page, 0).store(77, Ordering::Relaxed);
            }
        });
        assert!((0..PAGES / 2).all(|page| memory.word(page, 0).load(Ordering::Relaxed) == page as u64 + 1));
    });
}

#[test]
fn memory_that_cannot_be_given_back_is_kept_and_given_back_later() {
    for shield in [Shield::Best, Shield::UserMode] {
        apart(move || {
            let (adopter, memory, adoption) = small();
            adopter.set_shield(shield);
            let other = Anonymous::new(4);
            let later = adopt(&adopter, &other, 4);
            refuse_private_memory(true);
            adopter.give_back(adoption, false);
            for page in 0..PAGES / 2 {
                assert_eq!(memory.word(page, 0).swap(page as u64 + 100, Ordering::Relaxed), page as u64 + 1);
            }
            refuse_private_memory(false);
            adopter.give_back(later, false);
            // Looking at holes may fill them.
            assert_eq!((adopter.stretches(), common::file_bytes(&adopter)), (0, 0), "{shield:?}");
            for page in 0..PAGES {
                let kind = mapped_as(memory.address() + page * PAGE);
                assert!(kind.contains("rw-p"), "{shield:?}, page {page}: {kind}");
                let expected = if page < PAGES / 2 { page as u64 + 100 } else { 0 };
                assert_eq!(memory.word(page, 0).load(Ordering::Relaxed), expected);
            }
        });
    }
}
