//! Whether the reading end sleeps, as the writing end sees it.

use std::sync::atomic::{Ordering, fence};

use nonic_sys::{AtomicU64, FenceReach, heavy_fence_for_grants, light_fence};

use super::RingMemory;
use crate::layout::RING_CONSUMER_SLEEPS;

/// Who sleeps on the consuming side and reads the ring once woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sleeper {
    /// The agent, on the doorbell.
    Agent,
    /// A thread of the program that waits for a completion event, on a bell of its own.
    Waiter,
}

impl Sleeper {
    pub(crate) fn to_word(self) -> u64 {
        match self {
            Self::Agent => AGENT,
            Self::Waiter => WAITER,
        }
    }

    /// Any number that stands for nobody else is taken for the agent's.
    pub(crate) fn from_word(word: u64) -> Option<Self> {
        match word {
            0 => None,
            WAITER => Some(Self::Waiter),
            _ => Some(Self::Agent),
        }
    }
}

/// What a producer has to do that has published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// To wake this one.
    Wake(Sleeper),
    /// To call for the ring: it rests.
    Call,
}

/// What stands in shared memory for a consumer that looks by itself, and fences both sides when it ceases to.
const POLLED: u64 = 3;
/// What stands there for those who sleep.
const AGENT: u64 = 1;
const WAITER: u64 = 2;
/// What stands there while the ring rests: nobody looks at it before it is called for.
const RESTS: u64 = 4;

/// The flag by which a consumer says whether it sleeps.
///
/// A producer publishes and then looks at the flag; a consumer sets the flag and then looks at the ring. Between the two
/// steps of each stands a fence, so that one of them sees the other. A producer's costs it the time its message takes to
/// the consumer's cache. So a consumer that has looked by itself for a while says so ([`Bell::set_polled`]): a producer
/// that sees this spares its fence, and the consumer pays for both when it falls asleep.
#[derive(Clone, Debug)]
pub(crate) struct Bell {
    memory: RingMemory,
}

impl Bell {
    pub(crate) fn new(memory: RingMemory) -> Self {
        Self { memory }
    }

    #[inline(always)]
    fn flag(&self) -> &AtomicU64 {
        self.memory.control(RING_CONSUMER_SLEEPS)
    }

    /// What the producer must do, after it has published; asking takes the duty.
    #[inline]
    pub(crate) fn wanted(&self) -> Option<Wanted> {
        light_fence(|| true);
        if self.flag().load(Ordering::Relaxed) == POLLED {
            return None;
        }
        self.wanted_now()
    }

    fn wanted_now(&self) -> Option<Wanted> {
        fence(Ordering::SeqCst);
        if self.flag().load(Ordering::Relaxed) == 0 {
            return None;
        }
        match self.flag().swap(0, Ordering::SeqCst) {
            POLLED => None,
            RESTS => Some(Wanted::Call),
            word => Sleeper::from_word(word).map(Wanted::Wake),
        }
    }

    /// The consumer is about to sleep. `was_polled` is what [`Bell::set_polled`] left behind.
    pub(super) fn set_sleeping(&self, sleeper: Sleeper, was_polled: bool) {
        self.flag().store(sleeper.to_word(), Ordering::SeqCst);
        if was_polled {
            heavy_fence_for_grants(FenceReach::Machine);
        } else {
            fence(Ordering::SeqCst);
        }
    }

    /// The consumer ceases to look at this ring until it is called for. It passes a heavy fence, if [`Bell::set_polled`] left
    /// anything behind, else a full one, and then looks once more.
    pub(super) fn set_resting(&self) {
        self.flag().store(RESTS, Ordering::SeqCst);
    }

    /// The consumer looks by itself and need not be woken, for the time being.
    pub(super) fn set_awake(&self) {
        if !matches!(self.flag().load(Ordering::Relaxed), 0 | POLLED) {
            self.flag().store(0, Ordering::Relaxed);
        }
    }

    /// The consumer has looked by itself for a while. Only if heavy fences of this process reach the producer's. Changes
    /// nothing as long as somebody sleeps: who is not woken then would not look when the consumer ceases to.
    pub(super) fn set_polled(&self) {
        if self.flag().load(Ordering::Relaxed) == 0 {
            let _ = self.flag().compare_exchange(0, POLLED, Ordering::SeqCst, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Direction, LINK_LENGTH};
    use nonic_sys::SharedMapping;
    use std::sync::Arc;

    fn bell() -> Bell {
        let mapping = Arc::new(SharedMapping::anonymous(LINK_LENGTH).unwrap());
        Bell::new(RingMemory::new(mapping, Direction::FROM_ACTIVE))
    }

    #[test]
    fn who_sleeps_is_woken_once() {
        let bell = bell();
        assert_eq!(bell.wanted(), None);
        for sleeper in [Sleeper::Agent, Sleeper::Waiter] {
            bell.set_sleeping(sleeper, false);
            assert_eq!(bell.wanted(), Some(Wanted::Wake(sleeper)));
            assert_eq!(bell.wanted(), None);
        }
    }

    #[test]
    fn a_consumer_that_looks_takes_no_sleeper_its_call() {
        let bell = bell();
        bell.set_sleeping(Sleeper::Agent, false);
        bell.set_polled();
        assert_eq!(bell.wanted(), Some(Wanted::Wake(Sleeper::Agent)));
        bell.set_polled();
        assert_eq!(bell.wanted(), None);
        bell.set_awake();
        bell.set_sleeping(Sleeper::Waiter, true);
        assert_eq!(bell.wanted(), Some(Wanted::Wake(Sleeper::Waiter)));
    }

    #[test]
    fn a_ring_that_rests_is_called_for_once() {
        let bell = bell();
        bell.set_resting();
        bell.set_polled();
        assert_eq!(bell.wanted(), Some(Wanted::Call));
        assert_eq!(bell.wanted(), None);
        bell.set_resting();
        bell.set_awake();
        assert_eq!(bell.wanted(), None);
        bell.set_resting();
        bell.set_sleeping(Sleeper::Agent, false);
        assert_eq!(bell.wanted(), Some(Wanted::Wake(Sleeper::Agent)));
    }
}
