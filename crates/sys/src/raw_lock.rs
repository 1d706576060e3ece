//! A lock without data and without a guard, for what has reasons to keep its own: one word, asleep in the kernel
//! (`futex(2)`) when it is contended.

use std::sync::atomic::{AtomicU32, Ordering};

const FREE: u32 = 0;
const TAKEN: u32 = 1;
/// Taken, and somebody may be asleep.
const CONTENDED: u32 = 2;
/// Pauses of the processor before sleeping, some tens of microseconds: most locks are held for less than a system call takes.
const PAUSES: u32 = 1024;
/// The most of them between two looks. Who waits leaves the lock to who has it for a while: to pass it on at every turn, and all that it
/// protects, from processor to processor costs many times what most do under it.
const LONGEST_PAUSE: u32 = 512;

/// The lock.
#[derive(Debug)]
pub struct RawLock(AtomicU32);

impl Default for RawLock {
    fn default() -> Self {
        Self::new()
    }
}

impl RawLock {
    /// A lock nobody has.
    pub const fn new() -> Self {
        Self(AtomicU32::new(FREE))
    }

    pub(crate) fn try_lock(&self) -> bool {
        self.0.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Waits for the lock and takes it. A thread that has it already waits for ever.
    pub fn lock(&self) {
        let (mut waited, mut pause) = (0, 1);
        while waited < PAUSES {
            match self.0.load(Ordering::Relaxed) {
                FREE if self.try_lock() => return,
                CONTENDED => break,
                _ => {}
            }
            (0..pause).for_each(|_| crate::cpu_relax());
            waited += pause;
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
        while self.0.swap(CONTENDED, Ordering::Acquire) != FREE {
            self.sleep();
        }
    }

    /// Frees the lock. Only who took it calls this.
    pub fn unlock(&self) {
        if self.0.swap(FREE, Ordering::Release) == CONTENDED {
            // SAFETY: the word lives through the call; waking touches no memory.
            unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    self.0.as_ptr(),
                    libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                    1,
                )
            };
        }
    }

    fn sleep(&self) {
        // SAFETY: the word lives through the call; the kernel compares and waits, without a time limit. Every way it
        // returns is followed by another look.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.0.as_ptr(),
                libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                CONTENDED,
                std::ptr::null::<libc::timespec>(),
            )
        };
    }
}
