//! A lock for the length of a call that may wait: whoever waits for the lock is interrupted by signals, as in the call itself.
//! Across processes that share an open file by `fork` it goes on as a record lock of that file (`fcntl(2)`), which the kernel
//! frees when its holder dies.

use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::record_lock::set_record;

const TAKEN: u32 = 1;
/// Somebody may be asleep.
const CONTENDED: u32 = 2;
/// The holder has the record lock too.
const RECORDED: u32 = 4;
/// A fork is about to give the record lock to the holder: the lock cannot be freed this moment.
const FORKING: u32 = 8;

/// The lock. It is not bound to a thread.
#[derive(Debug, Default)]
pub struct CallLock(AtomicU32);

/// A record of a file: `file` is any descriptor of it, `byte` tells it from other records.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// An open descriptor.
    pub file: RawFd,
    /// Which record.
    pub byte: i64,
}

impl CallLock {
    /// A free one.
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Takes it, within this process and, if `shared` with others, among all processes that have the file. `EINTR` if a
    /// signal came while another had it.
    #[inline]
    pub fn lock(&self, record: Record, shared: impl Fn() -> bool) -> io::Result<()> {
        if self.0.compare_exchange(0, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.wait()?;
        }
        if shared() {
            return self.take_record(record);
        }
        Ok(())
    }

    /// Takes it within this process if nobody has it.
    pub fn try_lock(&self) -> bool {
        self.0.compare_exchange(0, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn take_record(&self, record: Record) -> io::Result<()> {
        match set_record(record.file, record.byte, libc::F_SETLKW, libc::F_WRLCK) {
            Ok(()) => {
                self.0.fetch_or(RECORDED, Ordering::AcqRel);
                Ok(())
            }
            Err(error) => {
                self.unlock(record);
                Err(error)
            }
        }
    }

    #[cold]
    fn wait(&self) -> io::Result<()> {
        loop {
            let seen = self.0.load(Ordering::Relaxed);
            if seen & TAKEN == 0 {
                if self.0.compare_exchange(0, TAKEN | CONTENDED, Ordering::Acquire, Ordering::Relaxed).is_ok()
                {
                    return Ok(());
                }
                continue;
            }
            let marked = seen | CONTENDED;
            if self.0.compare_exchange(seen, marked, Ordering::Relaxed, Ordering::Relaxed).is_err() {
                continue;
            }
            // With a time limit, because without one the kernel goes on waiting after a handler with `SA_RESTART`.
            let limit = libc::timespec { tv_sec: 3600, tv_nsec: 0 };
            // SAFETY: the word and the limit live through the call; the kernel compares and waits.
            let failed = unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    self.0.as_ptr(),
                    libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                    marked,
                    &raw const limit,
                )
            };
            if failed != 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EINTR) {
                return Err(io::Error::from_raw_os_error(libc::EINTR));
            }
        }
    }

    /// Frees it. Only the holder calls this.
    #[inline]
    pub fn unlock(&self, record: Record) {
        if self.0.compare_exchange(TAKEN, 0, Ordering::Release, Ordering::Relaxed).is_err() {
            self.unlock_slowly(record);
        }
    }

    #[cold]
    fn unlock_slowly(&self, record: Record) {
        loop {
            let seen = self.0.load(Ordering::Acquire);
            if seen & FORKING != 0 {
                crate::yield_now();
                continue;
            }
            if seen & RECORDED != 0 {
                // First, while no other thread can have taken it as its own.
                let _ = set_record(record.file, record.byte, libc::F_SETLK, libc::F_UNLCK);
            }
            if self.0.compare_exchange(seen, 0, Ordering::Release, Ordering::Relaxed).is_ok() {
                if seen & CONTENDED != 0 {
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
                return;
            }
        }
    }

    /// Before a fork: a thread that is inside gets the record lock, so that the child finds it taken. From before this call on,
    /// `shared` of [`CallLock::lock`] must be true.
    pub fn prepare_fork(&self, record: Record) {
        let mut seen = self.0.load(Ordering::Acquire);
        while seen & TAKEN != 0 && seen & RECORDED == 0 {
            match self.0.compare_exchange(seen, seen | FORKING, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    if set_record(record.file, record.byte, libc::F_SETLK, libc::F_WRLCK).is_ok() {
                        self.0.fetch_or(RECORDED, Ordering::AcqRel);
                    }
                    self.0.fetch_and(!FORKING, Ordering::AcqRel);
                    return;
                }
                Err(now) => seen = now,
            }
        }
    }

    /// In a child: whoever was inside is a thread of the parent.
    pub fn become_child(&self) {
        self.0.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn one_holder_at_a_time_and_every_waiter_gets_its_turn() {
        let lock = CallLock::new();
        let inside = AtomicBool::new(false);
        let record = Record { file: -1, byte: 0 };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for turn in 0..2000 {
                        lock.lock(record, || false).unwrap();
                        assert!(!inside.swap(true, Ordering::Relaxed));
                        if turn % 64 == 0 {
                            std::thread::yield_now();
                        }
                        inside.store(false, Ordering::Relaxed);
                        lock.unlock(record);
                    }
                });
            }
        });
    }
}
