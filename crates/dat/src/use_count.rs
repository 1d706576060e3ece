//! How many objects use another, which therefore cannot be freed.

use std::sync::atomic::{AtomicU32, Ordering};

/// No more users are taken.
const CLOSED: u32 = 1 << 31;

/// A count of users. It can be closed while it is zero, or whatever it is when the adapter closes.
#[derive(Debug, Default)]
pub(crate) struct UseCount(AtomicU32);

impl UseCount {
    /// Counts one more; false if it is closed.
    pub(crate) fn acquire(&self) -> bool {
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| (n & CLOSED == 0).then(|| n + 1)).is_ok()
    }

    /// Counts one less.
    pub(crate) fn release(&self) {
        let before = self.0.fetch_sub(1, Ordering::AcqRel);
        debug_assert!(before & !CLOSED > 0, "a use is released that was never counted");
    }

    /// Closes it unless there are users. False if there are, or if it is closed already.
    pub(crate) fn close(&self) -> bool {
        self.0.compare_exchange(0, CLOSED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Closes it, whoever uses it. False if it was closed already.
    pub(crate) fn close_anyway(&self) -> bool {
        self.0.fetch_or(CLOSED, Ordering::AcqRel) & CLOSED == 0
    }

    /// Takes a close back.
    pub(crate) fn reopen(&self) {
        self.0.fetch_and(!CLOSED, Ordering::AcqRel);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.0.load(Ordering::Acquire) & CLOSED != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_closes_only_with_its_adapter() {
        let count = UseCount::default();
        assert!(count.acquire() && count.acquire());
        assert!(!count.close());
        count.release();
        count.release();
        assert!(count.close() && !count.acquire() && !count.close() && count.is_closed());
        count.reopen();
        assert!(count.acquire() && count.close_anyway() && !count.close_anyway() && !count.acquire());
        count.release();
        assert!(count.is_closed());
    }
}
