//! Links over which nothing comes rest: their rings are not looked at before they are called for (`calls.rs`).

use std::sync::atomic::{Ordering, fence};

use super::Link;
use crate::calls::CallNumber;

/// A link that begins to rest; it has to be looked at once more, after a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BeginsRest {
    /// After a heavy fence that reaches the peer's.
    AfterHeavyFence,
    /// After a full fence.
    AfterFence,
}

impl Link {
    /// The number by which it is called for.
    pub fn call_number(&self) -> Option<CallNumber> {
        self.call_number
    }

    /// Whether its ring is not looked at before it is called for.
    pub fn rests(&self) -> bool {
        self.attention.rests.load(Ordering::SeqCst)
    }

    /// Whether nothing has come since this was last asked, and nothing waits.
    pub fn is_quiet(&self) -> bool {
        let Some(ring) = self.try_receive() else { return false };
        let position = ring.position();
        self.attention.position.swap(position, Ordering::Relaxed) == position
            && !ring.has_work()
            && !self.has_stalled()
    }

    /// Has the peer call for the link from now on. `None`: it cannot rest, or somebody reads its ring.
    pub fn begin_rest(&self) -> Option<BeginsRest> {
        self.call_number?;
        let mut ring = self.try_receive()?;
        self.attention.rests.store(true, Ordering::SeqCst);
        let polled = ring.set_resting();
        if ring.report() {
            self.ring_bell_now();
        }
        Some(if polled { BeginsRest::AfterHeavyFence } else { BeginsRest::AfterFence })
    }

    /// The look after the fence.
    pub fn is_still_quiet(&self) -> bool {
        self.try_receive().is_some_and(|ring| !ring.has_work()) && !self.has_stalled()
    }

    /// The ring is looked at again.
    pub fn end_rest(&self) {
        self.attention.rests.store(false, Ordering::SeqCst);
        self.set_awake();
    }

    /// Calls for the link on this side, if it rests: it has something to send.
    pub(super) fn disturb(&self) {
        fence(Ordering::SeqCst);
        let Some(number) = self.call_number.filter(|_| self.rests()) else { return };
        if let Some(sleeper) = self.party.calls.call(number) {
            self.party.wake(sleeper);
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(number) = self.call_number {
            self.party.calls.release(number);
        }
    }
}
