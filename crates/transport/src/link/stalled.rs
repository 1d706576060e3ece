//! Queue pairs that wait for room in a link's ring.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use nonic_queue::QpNumber;

use super::Link;

impl Link {
    /// Remembers a queue pair that waits for room in the ring.
    pub fn add_stalled(&self, number: QpNumber) {
        let mut stalled = self.stalled.lock().unwrap_or_else(PoisonError::into_inner);
        if !stalled.contains(&number) {
            stalled.push(number);
        }
        self.has_stalled.store(true, Ordering::Release);
        drop(stalled);
        self.disturb();
    }

    /// The queue pairs that wait for room, if there is room now.
    #[inline]
    pub fn take_stalled(&self) -> Vec<QpNumber> {
        if !self.has_stalled.load(Ordering::Acquire) || !self.has_room() {
            return Vec::new();
        }
        let mut stalled = self.stalled.lock().unwrap_or_else(PoisonError::into_inner);
        self.has_stalled.store(false, Ordering::Release);
        std::mem::take(&mut *stalled)
    }

    /// Whether queue pairs wait for room.
    #[inline]
    pub fn has_stalled(&self) -> bool {
        self.has_stalled.load(Ordering::Acquire)
    }
}
