//! Channels over which nothing comes rest: their rings are not looked at before they are called for (`calls.rs`).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

use super::Channel;

/// A link that begins to rest; it has to be looked at once more, after a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BeginsRest {
    /// After a heavy fence that reaches the peer's.
    AfterHeavyFence,
    /// After a full fence.
    AfterFence,
}

/// Whether a channel rests, or may soon.
#[derive(Debug, Default)]
pub(super) struct Rest {
    /// The ring is not looked at before it is called for.
    rests: AtomicBool,
    /// How far the ring had come when that was last looked at.
    position: AtomicU64,
}

impl Channel {
    /// Whether its ring is not looked at before it is called for.
    pub(crate) fn rests(&self) -> bool {
        self.rest.rests.load(Ordering::SeqCst)
    }

    /// Whether nothing has come since this was last asked, and nothing waits.
    pub(crate) fn is_quiet(&self) -> bool {
        let Some(ring) = self.try_receive() else { return false };
        let position = ring.position();
        self.rest.position.swap(position, Ordering::Relaxed) == position
            && !ring.has_work()
            && !self.has_stalled()
    }

    /// Has the peer call for the channel from now on. `None`: it cannot rest, or somebody reads its ring. `say_look` wakes a
    /// peer that waits for room and has shown no bell.
    pub(crate) fn begin_rest(&self, say_look: impl Fn()) -> Option<BeginsRest> {
        self.call_number?;
        let mut ring = self.try_receive()?;
        self.rest.rests.store(true, Ordering::SeqCst);
        let polled = ring.set_resting();
        if ring.report() {
            self.ring_bell_now(say_look);
        }
        Some(if polled { BeginsRest::AfterHeavyFence } else { BeginsRest::AfterFence })
    }

    /// The look after the fence.
    pub(crate) fn is_still_quiet(&self) -> bool {
        self.try_receive().is_some_and(|ring| !ring.has_work()) && !self.has_stalled()
    }

    /// The ring is looked at again.
    pub(crate) fn end_rest(&self) {
        self.rest.rests.store(false, Ordering::SeqCst);
        self.set_awake();
    }

    /// Calls for the channel on this side, if it rests: it has something to send.
    pub(super) fn disturb(&self) {
        fence(Ordering::SeqCst);
        let Some(number) = self.call_number.filter(|_| self.rests()) else { return };
        if let Some(sleeper) = self.party.calls.call(number) {
            self.party.wake(sleeper);
        }
    }
}
