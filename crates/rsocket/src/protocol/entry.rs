//! Entries that one side writes into memory of the other.

/// In which order the bytes of an entry's numbers stand: that of the machine that reads them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    /// That of this machine.
    pub(crate) const OWN: Self = if cfg!(target_endian = "big") { Self::Big } else { Self::Little };

    fn word(self, value: u32) -> [u8; 4] {
        match self {
            Self::Little => value.to_le_bytes(),
            Self::Big => value.to_be_bytes(),
        }
    }

    fn long(self, value: u64) -> [u8; 8] {
        match self {
            Self::Little => value.to_le_bytes(),
            Self::Big => value.to_be_bytes(),
        }
    }
}

/// Memory of a peer to which the bytes of the stream go: an entry of the list of targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Target {
    pub(crate) address: u64,
    pub(crate) key: u32,
    /// In bytes; 0: there is none.
    pub(crate) length: u32,
}

impl Target {
    pub(crate) const LENGTH: usize = 16;

    /// As the peer reads it.
    pub(crate) fn emit(&self, order: ByteOrder) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[..8].copy_from_slice(&order.long(self.address));
        bytes[8..12].copy_from_slice(&order.word(self.key));
        bytes[12..].copy_from_slice(&order.word(self.length));
        bytes
    }

    /// One that a peer wrote here, in two halves of eight bytes each.
    pub(crate) fn parse(address: [u8; 8], rest: [u8; 8]) -> Self {
        let [a, b, c, d, e, f, g, h] = rest;
        Self {
            address: u64::from_ne_bytes(address),
            key: u32::from_ne_bytes([a, b, c, d]),
            length: u32::from_ne_bytes([e, f, g, h]),
        }
    }
}

/// Memory of a peer that it mapped for direct writing: an entry of the table of mappings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Mapping {
    /// What the program calls its first byte.
    pub(crate) offset: u64,
    pub(crate) target: Target,
}

impl Mapping {
    pub(crate) const LENGTH: usize = 24;

    /// Where the entry of an index stands, counted from the beginning of a list of so many targets.
    pub(crate) const fn place(targets: u32, index: u32) -> u64 {
        targets as u64 * Target::LENGTH as u64 + index as u64 * Self::LENGTH as u64
    }

    /// As the peer reads it.
    pub(crate) fn emit(&self, order: ByteOrder) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[..8].copy_from_slice(&order.long(self.offset));
        bytes[8..].copy_from_slice(&self.target.emit(order));
        bytes
    }

    /// One that a peer wrote here.
    pub(crate) fn parse(bytes: &[u8; Self::LENGTH]) -> Self {
        let eight = |at: usize| std::array::from_fn(|place| bytes[at + place]);
        Self { offset: u64::from_ne_bytes(eight(0)), target: Target::parse(eight(8), eight(16)) }
    }

    /// What of `length` bytes from `offset` lies in it, from its beginning on.
    pub(crate) fn part(&self, offset: u64, length: usize) -> Option<Target> {
        let inside = offset.checked_sub(self.offset).filter(|inside| *inside < self.target.length.into())?;
        let left = u64::from(self.target.length) - inside;
        Some(Target {
            address: self.target.address.checked_add(inside)?,
            key: self.target.key,
            length: left.min(length as u64) as u32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: Target = Target { address: 0x1122_3344_5566_7788, key: 0x99aa_bbcc, length: 0xddee_ff00 };

    #[test]
    fn an_entry_is_written_in_the_order_of_who_reads_it() {
        let big = TARGET.emit(ByteOrder::Big);
        assert_eq!(big[..8], 0x1122_3344_5566_7788u64.to_be_bytes());
        assert_eq!(big[8..12], 0x99aa_bbccu32.to_be_bytes());
        assert_eq!(big[12..], 0xddee_ff00u32.to_be_bytes());
        let little = TARGET.emit(ByteOrder::Little);
        assert_eq!(little[..8], 0x1122_3344_5566_7788u64.to_le_bytes());
        assert_eq!(little[12..], 0xddee_ff00u32.to_le_bytes());
        let own = Mapping { offset: 7, target: TARGET };
        assert_eq!(Mapping::parse(&own.emit(ByteOrder::OWN)), own);
    }

    #[test]
    fn a_mapping_has_the_bytes_from_its_offset_to_its_end() {
        let target = Target { address: 1000, key: 3, length: 10 };
        let mapping = Mapping { offset: 100, target };
        assert_eq!(mapping.part(99, 1), None);
        assert_eq!(mapping.part(100, 50), Some(target));
        assert_eq!(mapping.part(109, 50), Some(Target { address: 1009, key: 3, length: 1 }));
        assert_eq!(mapping.part(110, 1), None);
        let wraps = Mapping { offset: 0, target: Target { address: u64::MAX, key: 3, length: 10 } };
        assert_eq!(wraps.part(1, 1), None);
    }
}
