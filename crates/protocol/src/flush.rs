//! FLUSH (IBTA vol. 1, annex A19.4.1): a requester wants to know that what it wrote before is where it is to be.

use crate::access::Access;
use crate::number::RemoteRange;

/// Where what was written is to be (FETH, placement type). More than one at once can be wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement(u8);

impl Placement {
    /// Whatever reads the memory sees it.
    pub const GLOBAL: Self = Self(1);
    /// It survives a loss of power.
    pub const PERSISTENT: Self = Self(1 << 1);

    /// From its bits; `None` if one has no meaning, or nothing is wanted.
    pub const fn from_bits(bits: u8) -> Option<Self> {
        if bits != 0 && bits & !0b11 == 0 { Some(Self(bits)) } else { None }
    }

    /// Its bits, as in the header.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The rights that a peer needs for it, on the queue pair and on the memory.
    pub fn access(self) -> Access {
        let mut access = Access::default();
        if self.0 & Self::GLOBAL.0 != 0 {
            access |= Access::FLUSH_GLOBAL;
        }
        if self.0 & Self::PERSISTENT.0 != 0 {
            access |= Access::FLUSH_PERSISTENT;
        }
        access
    }
}

/// How much it concerns (FETH, selectivity level).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Selectivity {
    /// The bytes that are named.
    Range = 0,
    /// All of the region: its address and its length are not looked at.
    Region = 1,
}

impl Selectivity {
    /// From its number.
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Range),
            1 => Some(Self::Region),
            _ => None,
        }
    }
}

/// What is to be flushed, and how far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushRequest {
    /// The first byte.
    pub remote: RemoteRange,
    /// How many bytes.
    pub length: u32,
    /// Where they are to be.
    pub placement: Placement,
    /// Whether all of the region is meant.
    pub selectivity: Selectivity,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_placement_needs_its_own_right() {
        let both = Placement::from_bits(3).unwrap();
        assert_eq!(both.access(), Access::FLUSH_GLOBAL | Access::FLUSH_PERSISTENT);
        assert_eq!(Placement::GLOBAL.access(), Access::FLUSH_GLOBAL);
        assert_eq!(Placement::PERSISTENT.access(), Access::FLUSH_PERSISTENT);
    }

    #[test]
    fn what_means_nothing_is_no_placement_and_no_selectivity() {
        assert!([0, 4, 7, 8, 0xff].iter().all(|bits| Placement::from_bits(*bits).is_none()));
        assert!((2..=u8::MAX).all(|number| Selectivity::from_number(number).is_none()));
        for selectivity in [Selectivity::Range, Selectivity::Region] {
            assert_eq!(Selectivity::from_number(selectivity as u8), Some(selectivity));
        }
    }
}
