//! Keys: how a local or remote party names a region.

use core::fmt;

/// A 32-bit key: 24 bits of index into the key table of the process that registered the memory, 8 bits of tag.
///
/// The tag changes each time an index is used again, so a stale key is refused. The keys of one region for local and
/// for remote use share the index and differ in the tag, so that mixing them up shows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Key(pub u32);

impl Key {
    /// The key of entry `index` under `tag`.
    pub const fn new(index: u32, tag: u8) -> Self {
        Self(index << 8 | tag as u32)
    }

    /// Which entry of the key table, 0 to 2^24 - 1.
    pub const fn index(self) -> u32 {
        self.0 >> 8
    }

    /// Which use of that entry.
    pub const fn tag(self) -> u8 {
        self.0 as u8
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({:#010x})", self.0)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}

/// Number of a zone (protection domain) within its process. Never 0, never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ZoneId(pub u32);

/// Stands in the zone of a window that serves one queue pair, with the pair's number of 24 bits. No zone has such a number.
const OF_ONE_PAIR: u32 = 1 << 31;

impl ZoneId {
    /// What stands in place of a zone where a window serves one queue pair only: its number.
    pub const fn of_one_pair(number: u32) -> Self {
        Self(OF_ONE_PAIR | number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_index_and_tag() {
        let key = Key::new(0x12_3456, 0x78);
        assert_eq!(key.0, 0x1234_5678);
        assert_eq!((key.index(), key.tag()), (0x12_3456, 0x78));
    }
}
