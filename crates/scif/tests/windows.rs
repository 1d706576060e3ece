//! Windows between two processes, by the calls that programs make.

mod common;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::*;
use nonic_scif::{Endpoint, Initiator, Protection, RmaFlags, ScifError, unmap};

const PAGE: usize = 4096;
const BOTH: Protection = Protection::READ_WRITE;
const LATER: RmaFlags = RmaFlags { use_cpu: false, sync: false, ordered: false };
const SYNC: RmaFlags = RmaFlags { use_cpu: false, sync: true, ordered: false };

/// Private memory of the program.
struct Pages {
    start: usize,
    length: usize,
}

impl Pages {
    fn new(pages: usize) -> Self {
        let (length, rights) = (pages * PAGE, libc::PROT_READ | libc::PROT_WRITE);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping where the kernel chooses.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length, rights, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        Self { start: start as usize, length }
    }

    fn filled(pages: usize, add: u64) -> Self {
        let this = Self::new(pages);
        for at in (0..this.length).step_by(8) {
            word(this.start + at).store(at as u64 + add, Ordering::Relaxed);
        }
        this
    }

    /// Whether every word is its place and what was added.
    fn holds(&self, add: u64) -> bool {
        (0..self.length).step_by(8).all(|at| word(self.start + at).load(Ordering::Relaxed) == at as u64 + add)
    }

    fn open(&self, endpoint: &Endpoint) -> i64 {
        endpoint.register(self.start, self.length, 0, BOTH, false).unwrap()
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the pages are the test's.
        unsafe { libc::munmap(self.start as *mut _, self.length) };
    }
}

fn word(address: usize) -> &'static AtomicU64 {
    // SAFETY: the test has it mapped, aligned.
    unsafe { AtomicU64::from_ptr(address as *mut u64) }
}

fn wait_until(what: &str, mut happened: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !happened() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::yield_now();
    }
}

/// A message each way.
fn barrier(endpoint: &Endpoint) {
    send(endpoint, b"here", true).unwrap();
    receive(endpoint, &mut [0; 4], true).unwrap();
}

const FIRST: i64 = 1 << 62;

#[test]
fn a_window_is_used_by_another_process_while_its_owner_does_something_else() {
    const NAME: &str = "a_window_is_used_by_another_process_while_its_owner_does_something_else";
    if role().is_some() {
        let endpoint = connected();
        let pages = Pages::filled(64, 1000);
        assert_eq!(pages.open(&endpoint), FIRST);
        barrier(&endpoint);
        // Busy with itself, until a store of the other process says that it is done.
        wait_until("the flag", || word(pages.start).load(Ordering::Acquire) == 4711);
        assert_eq!(word(pages.start + 63 * PAGE).load(Ordering::Relaxed), 12);
        // The addresses are given up; the pages stay in the window.
        drop(pages);
        barrier(&endpoint);
        barrier(&endpoint);
        return;
    }
    let (endpoint, other) = accepted_from(NAME, "owner");
    let pages = Pages::new(64);
    assert_eq!(pages.open(&endpoint), FIRST);
    barrier(&endpoint);
    endpoint.read_from(FIRST, pages.length, FIRST, SYNC).unwrap();
    assert!(pages.holds(1000));
    let last = 12u64;
    endpoint.write_out(&raw const last as usize, 8, FIRST + 63 * PAGE as i64, SYNC).unwrap();
    let mapped = endpoint.map(0, 64 * PAGE, BOTH, false, FIRST).unwrap();
    word(mapped).store(4711, Ordering::Release);
    barrier(&endpoint);
    assert_eq!(word(mapped + 63 * PAGE).load(Ordering::Relaxed), 12);
    endpoint.read_from(FIRST, pages.length, FIRST, SYNC).unwrap();
    assert_eq!(word(pages.start).load(Ordering::Relaxed), 4711);
    barrier(&endpoint);
    other.finish();
    // The process is gone; what was mapped of it stays, and everything else says so.
    assert_eq!(word(mapped + 8).load(Ordering::Relaxed), 1008);
    word(mapped + 8).store(1, Ordering::Relaxed);
    assert_eq!(endpoint.read_from(FIRST, 8, FIRST, SYNC), Err(ScifError::Reset));
    assert_eq!(endpoint.map(0, PAGE, BOTH, false, FIRST), Err(ScifError::Reset));
    assert_eq!(endpoint.fence_mark(Initiator::Peer), Err(ScifError::Reset));
    unmap(mapped, 64 * PAGE).unwrap();
    assert_eq!(endpoint.unregister(FIRST, pages.length), Err(ScifError::Reset));
}

#[test]
fn a_message_overtakes_no_copy() {
    const NAME: &str = "a_message_overtakes_no_copy";
    const ROUNDS: u64 = 60;
    if role().is_some() {
        let endpoint = connected();
        let pages = Pages::new(512);
        let offset = pages.open(&endpoint);
        for round in 0..ROUNDS {
            barrier(&endpoint);
            assert!(pages.holds(round), "round {round}");
            barrier(&endpoint);
        }
        endpoint.unregister(offset, pages.length).unwrap();
        assert!(pages.holds(ROUNDS - 1));
        return;
    }
    let (endpoint, other) = accepted_from(NAME, "reader");
    let pages = Pages::new(512);
    let offset = pages.open(&endpoint);
    for round in 0..ROUNDS {
        for at in (0..pages.length).step_by(8) {
            word(pages.start + at).store(at as u64 + round, Ordering::Relaxed);
        }
        wait_until("the window", || endpoint.write_to(offset, pages.length, FIRST, LATER).is_ok());
        barrier(&endpoint);
        barrier(&endpoint);
    }
    other.finish();
}

#[test]
fn a_copy_that_was_started_arrives_although_its_process_exits() {
    const NAME: &str = "a_copy_that_was_started_arrives_although_its_process_exits";
    if role().is_some() {
        let endpoint = connected();
        let pages = Pages::filled(8192, 5);
        let offset = pages.open(&endpoint);
        barrier(&endpoint);
        endpoint.write_to(offset, pages.length, FIRST, LATER).unwrap();
        // SAFETY: leaves as a program does that has no more to do, with everything open.
        unsafe { libc::exit(0) };
    }
    let (endpoint, other) = accepted_from(NAME, "writer");
    let pages = Pages::new(8192);
    pages.open(&endpoint);
    barrier(&endpoint);
    other.finish();
    assert!(pages.holds(5));
}

#[test]
fn processes_killed_in_the_middle_of_copies_and_mappings_leave_the_owner_in_order() {
    const NAME: &str = "processes_killed_in_the_middle_of_copies_and_mappings_leave_the_owner_in_order";
    if role().is_some() {
        let endpoint = connected();
        let pages = Pages::filled(512, 1);
        let offset = pages.open(&endpoint);
        barrier(&endpoint);
        say("begins");
        loop {
            endpoint.write_to(offset, pages.length, FIRST, LATER).unwrap();
            let mapped = endpoint.map(0, pages.length, BOTH, false, FIRST).unwrap();
            endpoint.read_into(mapped, pages.length, FIRST, SYNC).unwrap();
            endpoint.fence_signal(Some((offset, 1)), Some((FIRST, 1)), Initiator::Own).unwrap();
            endpoint.unregister(offset, pages.length).unwrap();
            wait_until("the offsets", || {
                endpoint
                    .register(pages.start, pages.length, 0, BOTH, false)
                    .is_ok_and(|again| again == offset)
                    || endpoint.unregister(FIRST, 1 << 40).is_err()
            });
            unmap(mapped, pages.length).unwrap();
        }
    }
    let pages = Pages::new(512);
    for round in 0..12u64 {
        let (endpoint, mut other) = accepted_from(NAME, "victim");
        assert_eq!(endpoint.register(pages.start, pages.length, 0, BOTH, false), Ok(FIRST));
        barrier(&endpoint);
        other.hear();
        std::thread::sleep(Duration::from_micros(round * 700));
        other.kill();
        assert_eq!(endpoint.unregister(FIRST, pages.length), Err(ScifError::Reset));
        // Closing ends the windows, whatever the dead were doing with them.
        drop(endpoint);
        word(pages.start).store(round, Ordering::Relaxed);
        assert_eq!(word(pages.start).load(Ordering::Relaxed), round);
    }
}

#[test]
fn a_stopped_process_holds_only_what_it_uses() {
    const NAME: &str = "a_stopped_process_holds_only_what_it_uses";
    if role().is_some() {
        let endpoint = connected();
        barrier(&endpoint);
        let mapped = endpoint.map(0, PAGE, BOTH, false, 0).unwrap();
        say("mapped");
        told();
        assert_eq!(word(mapped).load(Ordering::Relaxed), 7);
        unmap(mapped, PAGE).unwrap();
        barrier(&endpoint);
        barrier(&endpoint);
        return;
    }
    let (endpoint, mut other) = accepted_from(NAME, "stopped");
    let pages = Pages::new(4);
    for page in 0..4 {
        let (start, at) = (pages.start + page * PAGE, (page * PAGE) as i64);
        assert_eq!(endpoint.register(start, PAGE, at, BOTH, true), Ok(at));
    }
    barrier(&endpoint);
    other.hear();
    let pid = other.id() as i32;
    // SAFETY: the process is the test's.
    unsafe { libc::kill(pid, libc::SIGSTOP) };
    endpoint.unregister(0, 4 * PAGE).unwrap();
    let again = |page: usize| endpoint.register(pages.start, PAGE, (page * PAGE) as i64, BOTH, true);
    assert_eq!(again(0), Err(ScifError::OffsetsTaken));
    assert_eq!([1, 2, 3].map(again), [1, 2, 3].map(|page| Ok((page * PAGE) as i64)));
    word(pages.start).store(7, Ordering::Relaxed);
    // SAFETY: as above.
    unsafe { libc::kill(pid, libc::SIGCONT) };
    other.order("go on");
    barrier(&endpoint);
    assert_eq!(again(0), Ok(0), "unmapped before its next message");
    barrier(&endpoint);
    other.finish();
}

#[test]
fn the_limit_of_locked_memory_counts_where_that_is_asked_for() {
    const NAME: &str = "the_limit_of_locked_memory_counts_where_that_is_asked_for";
    if role().is_none() {
        SecondProcess::start(NAME, "limited", &[("NONIC_SCIF_MEMLOCK", "1")]).finish();
        return;
    }
    let limit = libc::rlimit { rlim_cur: 8 * PAGE as u64, rlim_max: 8 * PAGE as u64 };
    // SAFETY: the limit, user and capabilities of this process only.
    unsafe {
        assert_eq!(libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const limit), 0);
        if libc::geteuid() == 0 {
            assert_eq!(libc::setresuid(65534, 65534, 65534), 0);
            // What changed users is not dumpable, and hides its files from the peer.
            libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0);
        }
    }
    let (here, there) = pair();
    let pages = Pages::filled(9, 1);
    let open = |length| here.register(pages.start, length, 0, BOTH, false);
    assert_eq!(open(6 * PAGE), Ok(FIRST));
    assert!(matches!(open(3 * PAGE), Err(ScifError::TryAgain(_))));
    assert_eq!(there.read_into(pages.start, 8, FIRST + 6 * PAGE as i64, SYNC), Err(ScifError::NoWindow));
    assert!(pages.holds(1));
    assert_eq!(open(2 * PAGE), Ok(FIRST + 6 * PAGE as i64));
    here.unregister(FIRST, 6 * PAGE).unwrap();
    assert_eq!(open(3 * PAGE), Ok(FIRST));
}
