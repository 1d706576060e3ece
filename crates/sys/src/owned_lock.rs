//! A lock that knows which thread has it: for what a signal handler, or a handler around `fork`, may ask for again on the
//! very thread that has it.
//!
//! Taking it is one step, which names the owner as well, so there is no moment at which it is taken by nobody. A thread that
//! has it already is told so and waits for nothing. `errno` stays what it was.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use rustix::thread::futex;

use crate::thread::thread_mark;

const FREE: usize = 0;
/// Looks at a taken lock before sleeping: most are held for less than a system call takes.
const SPINS: u32 = 100;

/// The lock.
#[derive(Debug)]
pub struct OwnedLock {
    /// The mark of the thread that has it.
    owner: AtomicUsize,
    /// Threads that sleep, or are about to.
    waiting: AtomicU32,
    /// Grows whenever somebody who waits is to look again: the word they sleep on.
    freed: AtomicU32,
}

impl Default for OwnedLock {
    fn default() -> Self {
        Self::new()
    }
}

impl OwnedLock {
    /// A lock nobody has.
    pub const fn new() -> Self {
        Self { owner: AtomicUsize::new(FREE), waiting: AtomicU32::new(0), freed: AtomicU32::new(0) }
    }

    /// Waits for the lock and takes it. False: this thread has it already, and nothing changed.
    #[inline]
    #[must_use]
    pub fn lock(&self) -> bool {
        let mark = thread_mark();
        self.try_lock(mark) || self.lock_slowly(mark)
    }

    #[inline]
    fn try_lock(&self, mark: usize) -> bool {
        self.owner.compare_exchange(FREE, mark, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn lock_slowly(&self, mark: usize) -> bool {
        if self.owner.load(Ordering::Relaxed) == mark {
            return false;
        }
        for _ in 0..SPINS {
            crate::cpu_relax();
            if self.owner.load(Ordering::Relaxed) == FREE && self.try_lock(mark) {
                return true;
            }
        }
        // It is said before the last look, and whoever frees the lock looks for it afterwards: one of the two sees the other.
        self.waiting.fetch_add(1, Ordering::SeqCst);
        loop {
            let freed = self.freed.load(Ordering::SeqCst);
            if self.try_lock(mark) {
                break;
            }
            // However it ends, another look follows.
            let _ = futex::wait(&self.freed, futex::Flags::PRIVATE, freed, None);
        }
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        true
    }

    /// Frees the lock. Only who took it calls this.
    #[inline]
    pub fn unlock(&self) {
        self.owner.store(FREE, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) != 0 {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        self.freed.fetch_add(1, Ordering::SeqCst);
        let _ = futex::wake(&self.freed, futex::Flags::PRIVATE, 1);
    }

    /// Frees the lock in the child of a fork, whose only thread has it: those who waited are not in the child.
    pub fn unlock_in_child(&self) {
        self.waiting.store(0, Ordering::Relaxed);
        self.owner.store(FREE, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn a_thread_that_has_it_is_told_so_and_keeps_it() {
        let lock = OwnedLock::new();
        assert!(lock.lock());
        assert!(!lock.lock(), "it waits for nobody");
        let other = std::thread::scope(|scope| {
            scope.spawn(|| lock.try_lock(thread_mark())).join().expect("it does not panic")
        });
        assert!(!other, "the second question gave nothing away");
        lock.unlock();
        assert!(lock.lock());
    }

    #[test]
    fn one_thread_at_a_time_has_it_and_nobody_sleeps_through_its_turn() {
        const TURNS: u64 = 50_000;
        let (lock, count) = (OwnedLock::new(), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..TURNS {
                        assert!(lock.lock());
                        // Two steps, so that a second owner in between would be seen.
                        let before = count.load(Ordering::Relaxed);
                        count.store(before + 1, Ordering::Relaxed);
                        lock.unlock();
                    }
                });
            }
        });
        assert_eq!(count.into_inner(), 4 * TURNS);
        assert_eq!(lock.waiting.into_inner(), 0);
    }
}
