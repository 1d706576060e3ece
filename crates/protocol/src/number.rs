//! What is counted and named in 24 bits, and where remote memory is.

use crate::key::Key;

/// Number of a queue pair, 24 bits; 0 and 1 are never given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct QpNumber(pub u32);

impl QpNumber {
    /// The 24 bits a header carries.
    pub const MASK: u32 = 0xff_ffff;

    /// The number in the low 24 bits of `raw`.
    pub const fn masked(raw: u32) -> Self {
        Self(raw & Self::MASK)
    }
}

/// Number of a shared receive queue of an XRC domain, 24 bits; 0 and [`SrqNumber::NOBODY`] are never given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SrqNumber(pub u32);

impl SrqNumber {
    /// The last number, which no queue has.
    pub const NOBODY: Self = Self(QpNumber::MASK);

    /// The number in the low 24 bits of `raw`.
    pub const fn masked(raw: u32) -> Self {
        Self(raw & QpNumber::MASK)
    }
}

/// The shared receive queue that a message is for, or none, in 24 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueName(u32);

impl QueueName {
    /// No shared receive queue.
    pub const NONE: Self = Self(0);

    /// That of the number. A program may name any, 0 too: nobody has that one either.
    #[inline]
    pub const fn of(number: SrqNumber) -> Self {
        match number.0 & QpNumber::MASK {
            0 => Self(SrqNumber::NOBODY.0),
            number => Self(number),
        }
    }

    /// Its number.
    #[inline]
    pub const fn number(self) -> Option<SrqNumber> {
        match self.0 {
            0 => None,
            number => Some(SrqNumber(number)),
        }
    }

    /// Itself and eight bits more in one word.
    #[inline]
    pub(crate) const fn beside(self, more: u8) -> u32 {
        self.0 << 8 | more as u32
    }

    /// What stands in such a word.
    #[inline]
    pub(crate) const fn in_word(word: u32) -> Self {
        Self(word >> 8)
    }
}

/// Memory of a peer: an address in the space of the region `key` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteRange {
    /// First byte.
    pub address: u64,
    /// The region's remote key.
    pub key: Key,
}

/// A packet sequence number, 24 bits. On one host a packet is a whole message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Psn(pub u32);

impl Psn {
    /// The number after this one.
    #[inline]
    pub fn next(self) -> Self {
        Self(self.0.wrapping_add(1) & QpNumber::MASK)
    }

    /// The number before this one.
    #[inline]
    pub fn before(self) -> Self {
        Self(self.0.wrapping_sub(1) & QpNumber::MASK)
    }

    /// The number `count` after this one.
    #[inline]
    pub fn plus(self, count: u32) -> Self {
        Self(self.0.wrapping_add(count) & QpNumber::MASK)
    }

    /// How many numbers there are from `other` up to this one, which is not before it.
    #[inline]
    pub fn distance_from(self, other: Self) -> u32 {
        self.0.wrapping_sub(other.0) & QpNumber::MASK
    }

    /// How far this number is ahead of `other`: negative if behind (IBTA vol. 1, 9.7.2: half the space each way).
    #[inline]
    pub fn ahead_of(self, other: Self) -> i32 {
        (self.0.wrapping_sub(other.0) << 8) as i32 >> 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_named_by_its_number_and_nobody_by_0() {
        assert_eq!(QueueName::NONE.number(), None);
        for number in [1, 77, 0xff_fffe] {
            assert_eq!(QueueName::of(SrqNumber(number)).number(), Some(SrqNumber(number)));
        }
        assert_eq!(QueueName::of(SrqNumber(0)).number(), Some(SrqNumber::NOBODY));
    }

    #[test]
    fn numbers_wrap_at_24_bits() {
        assert_eq!(Psn(0xff_ffff).next(), Psn(0));
        assert_eq!(Psn(0).before(), Psn(0xff_ffff));
        assert_eq!(Psn(1).ahead_of(Psn(0xff_ffff)), 2);
        assert_eq!(Psn(0xff_ffff).ahead_of(Psn(1)), -2);
        assert_eq!(Psn(5).ahead_of(Psn(5)), 0);
        assert_eq!(Psn(0xff_fffe).plus(5), Psn(3));
        assert_eq!(Psn(3).distance_from(Psn(0xff_fffe)), 5);
        assert_eq!(Psn(2).distance_from(Psn(3)), 0xff_ffff);
    }
}
