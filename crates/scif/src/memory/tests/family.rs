//! Children, and processes that are killed.

use super::*;
use crate::Initiator;
use crate::memory::unmap;

#[test]
fn a_child_uses_its_parents_windows_and_opens_its_own() {
    let (pair, near, far) = (Pair::new(), Pages::filled(2, 3), Pages::new(2));
    let (local, remote) = (pair.open(&near), pair.open_there(&far));
    let pid = child(|| {
        // The child's memory is its own; the window is the parent's pages.
        near.store(0, 1);
        let mut word = 0u64;
        let at = &raw mut word as usize;
        pair.here.write_to(local + 8, 8, remote, SYNC).unwrap();
        pair.there.read_into(at, 8, local, SYNC).unwrap();
        assert_eq!(word, 3, "the parent has not stored anything");
        let other = 55u64;
        pair.there.write_out(&raw const other as usize, 8, local + 16, SYNC).unwrap();
        let pages = Pages::filled(1, 700);
        let own = pair.open(&pages);
        assert_eq!(own, FIRST + 2 * PAGE as i64);
        pair.here.write_to(own, 8, remote + 8, SYNC).unwrap();
        pair.close(own, PAGE).unwrap();
        pair.here.fence_signal(None, Some((remote + 16, 9)), Initiator::Own).unwrap();
        let address = pair.here.map(0, PAGE, BOTH, false, remote).unwrap();
        word_at(address + 24).store(10, Ordering::SeqCst);
        unmap(address, PAGE).is_ok()
    });
    assert_eq!(reap(pid), 0);
    assert_eq!([0, 8, 16, 24].map(|at| far.load(at)), [4, 700, 9, 10]);
    assert_eq!((near.load(0), near.load(16)), (3, 55));
    // Nothing of the parent's was given back.
    near.store(0, 4711);
    let mut word = 0u64;
    pair.there.read_into(&raw mut word as usize, 8, local, SYNC).unwrap();
    assert_eq!(word, 4711);
    assert_eq!(pair.open(&near), FIRST + 2 * PAGE as i64);
}

#[test]
fn parent_and_child_never_choose_the_same_offsets() {
    let pair = Pair::new();
    let pages = Pages::new(1);
    let own = pair.open(&pages);
    const EACH: i64 = 200;
    let (read_end, write_end) = nonic_sys::pipe().unwrap();
    let pid = child(|| {
        let mut good = true;
        for _ in 0..EACH {
            good &= pair.here.register(pair.fd(), pages.start(), PAGE, 0, BOTH, false).is_ok();
        }
        nonic_sys::write_byte(&write_end).unwrap();
        good
    });
    for _ in 0..EACH {
        pair.open(&pages);
    }
    nonic_sys::read_byte(&read_end).unwrap();
    assert_eq!(reap(pid), 0);
    // The child's windows stand until somebody closes them, but their memory is gone with it.
    let mut word = 7u64;
    let mut reached = 0;
    for index in 0..=2 * EACH {
        let offset = own + index * PAGE as i64;
        match pair.there.read_into(&raw mut word as usize, 8, offset, SYNC) {
            Ok(()) => reached += 1,
            Err(error) => assert_eq!(error, ScifError::NoWindow),
        }
    }
    assert_eq!(reached, EACH + 1);
    pair.close(own, (2 * EACH as usize + 1) * PAGE).unwrap();
    assert_eq!(pair.open(&pages), own);
}

#[test]
fn memory_mapped_from_a_process_that_was_killed_stays() {
    let pair = Pair::new();
    let (read_end, write_end) = nonic_sys::pipe().unwrap();
    let pid = child(|| {
        let pages = Pages::filled(2, 10);
        pair.open(&pages);
        nonic_sys::write_byte(&write_end).unwrap();
        loop {
            std::thread::park();
        }
    });
    nonic_sys::read_byte(&read_end).unwrap();
    let address = pair.there.map(0, 2 * PAGE, BOTH, false, FIRST).unwrap();
    // SAFETY: the child is the test's.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    reap(pid);
    assert_eq!(word_at(address + 8).load(Ordering::SeqCst), 11);
    word_at(address + 8).store(1, Ordering::SeqCst);
    let sink = Pages::new(1);
    let read = pair.there.read_into(sink.start(), 8, FIRST, SYNC);
    assert!(read.is_ok() || read == Err(ScifError::NoWindow));
    unmap(address, 2 * PAGE).unwrap();
}

#[test]
fn peers_killed_in_the_middle_of_anything_hold_nothing_back() {
    let pages = Pages::filled(64, 1);
    for round in 0..30u64 {
        let pair = Pair::new();
        pair.fixed(&pages, 0).unwrap();
        let (read_end, write_end) = nonic_sys::pipe().unwrap();
        let pid = child(|| {
            let own = Pages::new(64);
            let offset = pair.open_there(&own);
            nonic_sys::write_byte(&write_end).unwrap();
            loop {
                pair.there.read_from(offset, own.length, 0, PLAIN).unwrap();
                let address = pair.there.map(0, own.length, BOTH, false, 0).unwrap();
                pair.there.read_into(own.start(), own.length, 0, SYNC).unwrap();
                pair.there.fence_signal(Some((offset, 1)), None, Initiator::Own).unwrap();
                unmap(address, own.length).unwrap();
            }
        });
        nonic_sys::read_byte(&read_end).unwrap();
        for _ in 0..round * 37 {
            std::hint::spin_loop();
        }
        pages.store(8, round);
        // SAFETY: the child is the test's.
        unsafe { libc::kill(pid, libc::SIGKILL) };
        reap(pid);
        pair.gone.store(true, Ordering::Relaxed);
        let mark = pair.here.fence_mark(Initiator::Peer).unwrap();
        let waited = pair.here.fence_wait(mark);
        assert!(waited.is_ok() || waited == Err(ScifError::Reset));
        pair.close(0, pages.length).unwrap();
        assert_eq!(pair.fixed(&pages, 0), Ok(0), "the dead use nothing");
        pair.here.peer_closed();
        pair.here.close();
        assert_eq!(pages.load(8), round);
    }
}

#[test]
fn a_signal_ends_a_wait_for_a_stopped_peer() {
    extern "C" fn ignore(_: libc::c_int) {}
    // SAFETY: the handler does nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = ignore as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGUSR2, &raw const action, std::ptr::null_mut());
    }
    let pair = Pair::new();
    // A peer that has started something and never completes it.
    pair.there.own.started().store(1, Ordering::SeqCst);
    let mark = pair.here.fence_mark(Initiator::Peer).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // SAFETY: names this thread.
        let waiter = unsafe { libc::pthread_self() };
        let done = &done;
        scope.spawn(move || {
            while !done.load(Ordering::SeqCst) {
                // SAFETY: the thread waits for this one to end.
                unsafe { libc::pthread_kill(waiter, libc::SIGUSR2) };
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        assert_eq!(pair.here.fence_wait(mark), Err(ScifError::Interrupted));
        done.store(true, Ordering::SeqCst);
    });
    pair.gone.store(true, Ordering::Relaxed);
    assert_eq!(pair.here.fence_wait(mark), Err(ScifError::Reset));
}
