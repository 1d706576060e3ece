//! How many objects use another, which therefore cannot go.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::Busy;

const GONE: u32 = u32::MAX;

/// A count of users that can be closed when it is zero, once and for good.
#[derive(Debug, Default)]
pub(crate) struct UseCount(AtomicU32);

impl UseCount {
    /// Counts one more; false if the object is gone.
    pub(crate) fn acquire(&self) -> bool {
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| (n != GONE).then(|| n + 1)).is_ok()
    }

    /// Counts one less.
    pub(crate) fn release(&self) {
        let _ =
            self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| (n != GONE && n > 0).then(|| n - 1));
    }

    /// Closes the object unless it is used.
    pub(crate) fn close(&self, what: &'static str) -> Result<(), Busy> {
        match self.0.compare_exchange(0, GONE, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) | Err(GONE) => Ok(()),
            Err(users) => Err(Busy { what, users }),
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.0.load(Ordering::Acquire) == GONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_goes_only_when_nobody_uses_it_and_then_for_good() {
        let count = UseCount::default();
        assert!(count.acquire() && count.acquire());
        assert_eq!(count.close("thing"), Err(Busy { what: "thing", users: 2 }));
        count.release();
        count.release();
        assert_eq!(count.close("thing"), Ok(()));
        assert!(!count.acquire() && count.is_closed());
    }
}
