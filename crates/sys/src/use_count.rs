//! How many objects use another, which therefore cannot go.

use std::sync::atomic::{AtomicU32, Ordering};

/// No more users are taken.
const CLOSED: u32 = 1 << 31;

/// A count of users that can be closed: when it is zero, or whatever it is when more than the object goes.
#[derive(Debug, Default)]
pub struct UseCount(AtomicU32);

/// Why a count was not closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CannotClose {
    /// There are so many users.
    Used(u32),
    /// It is closed already.
    Closed,
}

impl UseCount {
    /// Counts one more; false if it is closed.
    pub fn acquire(&self) -> bool {
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| (n & CLOSED == 0).then(|| n + 1)).is_ok()
    }

    /// Counts one less.
    pub fn release(&self) {
        let less = |n: u32| (n & !CLOSED > 0).then(|| n - 1);
        let released = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, less).is_ok();
        debug_assert!(released, "a use is released that was never counted");
    }

    /// Closes it unless there are users.
    pub fn close(&self) -> Result<(), CannotClose> {
        match self.0.compare_exchange(0, CLOSED, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(()),
            Err(users) if users & CLOSED == 0 => Err(CannotClose::Used(users)),
            Err(_) => Err(CannotClose::Closed),
        }
    }

    /// Closes it, whoever uses it. False if it was closed already.
    pub fn close_anyway(&self) -> bool {
        self.0.fetch_or(CLOSED, Ordering::AcqRel) & CLOSED == 0
    }

    /// Takes a close back.
    pub fn reopen(&self) {
        self.0.fetch_and(!CLOSED, Ordering::AcqRel);
    }

    /// Whether it is closed.
    pub fn is_closed(&self) -> bool {
        self.0.load(Ordering::Acquire) & CLOSED != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_closes_only_with_more_than_itself() {
        let count = UseCount::default();
        assert!(count.acquire() && count.acquire());
        assert_eq!(count.close(), Err(CannotClose::Used(2)));
        count.release();
        count.release();
        assert_eq!((count.close(), count.close()), (Ok(()), Err(CannotClose::Closed)));
        assert!(!count.acquire() && count.is_closed());
        count.reopen();
        assert!(count.acquire() && count.close_anyway() && !count.close_anyway() && !count.acquire());
        count.release();
        assert!(count.is_closed());
    }
}
