//! What is written into rings.

use crate::chance::Chance;
use crate::wire::first_word;

/// What is written into rings.
#[derive(Clone, Copy, Debug)]
pub(super) enum Filling {
    Rubbish,
    ForNobody,
    ForVictim,
}

impl Filling {
    /// A word of a cell.
    pub(super) fn word(self, word: usize, lap: u64, victim: u32, chance: &mut Chance) -> u64 {
        let any = chance.number();
        match (self, word) {
            // A plausible first word: some kind, some flags, a payload that may be too long.
            (Self::Rubbish, 0) if any & 1 == 0 => {
                first_word(lap, any >> 8 & 15, any >> 16 & 63, any >> 32 & 0x3fff)
            }
            (Self::Rubbish, _) => any,
            // Messages of one cell: whole sends, acknowledgements and refusals without payload.
            (_, 0) => first_word(lap, [2, 9, 10][any as usize % 3], 4, 0),
            (Self::ForNobody, 1) => u64::from(victim ^ 0xfff) | (any & 0xff_ffff) << 32,
            (_, 1) => u64::from(victim) | (any & 0xff_ffff) << 32,
            _ => any & 0xff_ffff,
        }
    }
}
