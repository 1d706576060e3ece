//! What a cache does by chance, and what it does again if it begins with the same seed.

/// Numbers that follow from a seed (SplitMix64).
#[derive(Debug, Default)]
pub(super) struct Tosses(u64);

impl Tosses {
    pub(super) fn of(seed: u64) -> Self {
        Self(seed)
    }

    /// One thing or the other.
    pub(super) fn toss(&mut self) -> bool {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) & 1 == 1
    }
}
