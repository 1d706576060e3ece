//! Packets that are lost because somebody wants to see what programs do then.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// All packets, in the unit of a rate.
const ALL: u64 = 1_000_000;

/// How many of the packets that an engine sends and takes are lost on purpose: none, until somebody says so.
#[derive(Debug)]
pub struct Losses {
    /// Packets in a million.
    rate: AtomicU32,
    /// Where chance stands.
    state: AtomicU64,
}

impl Default for Losses {
    fn default() -> Self {
        Self { rate: AtomicU32::new(0), state: AtomicU64::new(RandomState::new().hash_one(ALL)) }
    }
}

impl Losses {
    /// Has so many packets in a million lost from now on, 0 to 1,000,000, each by a toss of its own; what the number was before.
    pub fn set(&self, per_million: u32) -> u32 {
        self.rate.swap(per_million.min(ALL as u32), Ordering::Relaxed)
    }

    /// Whether the packet at hand is lost.
    #[inline]
    pub fn take_one(&self) -> bool {
        let rate = self.rate.load(Ordering::Relaxed);
        rate != 0 && self.toss() < u64::from(rate)
    }

    /// A number from 0 to 999,999 (SplitMix64: Steele, Lea, Flood, OOPSLA 2014).
    #[cold]
    fn toss(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut mixed = self.state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((mixed ^ (mixed >> 31)) >> 32) * ALL) >> 32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_lost_as_somebody_said_and_none_before() {
        let losses = Losses::default();
        let lost = || (0..100_000).filter(|_| losses.take_one()).count();
        assert_eq!(lost(), 0);
        assert_eq!(losses.set(1_000_000), 0);
        assert_eq!(lost(), 100_000);
        assert_eq!(losses.set(10_000), 1_000_000);
        // One in a hundred of 100,000, by more than six deviations.
        assert!((800..1200).contains(&lost()));
        losses.set(0);
        assert_eq!(lost(), 0);
    }
}
