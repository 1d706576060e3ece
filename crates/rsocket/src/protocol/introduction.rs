//! What each side of a connection tells the other when it is made: 40 bytes of private data.

use super::{ByteOrder, Target};

/// The one version of the protocol.
const VERSION: u8 = 1;
/// Flags: the sender is big-endian, and knows mappings.
const BIG_ENDIAN: u8 = 1;
const KNOWS_MAPPINGS: u8 = 2;
/// Up to here the number of mappings is exact; above it is counted in steps of 256.
const EXACT_MAX: u32 = 128;
const STEP: u32 = 256;

/// What one side offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Introduction {
    /// In which order the sender reads entries.
    pub(crate) order: ByteOrder,
    /// Receives it has posted.
    pub(crate) credits: u16,
    /// Entries in its table of mappings; 0 if it knows none.
    pub(crate) mappings: u32,
    /// Its list of targets; the length is a number of entries.
    pub(crate) list: Target,
    /// The first target: half of its receive buffer.
    pub(crate) data: Target,
}

impl Introduction {
    pub(crate) const LENGTH: usize = 40;

    /// As private data.
    pub(crate) fn emit(&self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[0] = VERSION;
        bytes[1] = KNOWS_MAPPINGS | if self.order == ByteOrder::Big { BIG_ENDIAN } else { 0 };
        bytes[2..4].copy_from_slice(&self.credits.to_be_bytes());
        bytes[7] = steps(self.mappings);
        bytes[8..24].copy_from_slice(&self.list.emit(ByteOrder::Big));
        bytes[24..].copy_from_slice(&self.data.emit(ByteOrder::Big));
        bytes
    }

    /// What a peer's private data say, which may be longer; `None` if they are not those of a stream that can be talked to.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::LENGTH] = bytes.first_chunk()?;
        if bytes[0] != VERSION {
            return None;
        }
        let knows_mappings = bytes[1] & KNOWS_MAPPINGS != 0;
        let introduction = Self {
            order: if bytes[1] & BIG_ENDIAN != 0 { ByteOrder::Big } else { ByteOrder::Little },
            credits: u16::from_be_bytes([bytes[2], bytes[3]]),
            mappings: if knows_mappings { mappings(bytes[7]) } else { 0 },
            list: big_target(&bytes[8..24]),
            data: big_target(&bytes[24..]),
        };
        // Without an entry nothing could ever be announced.
        (introduction.list.length > 0).then_some(introduction)
    }
}

fn big_target(bytes: &[u8]) -> Target {
    let long = |at: usize| u64::from_be_bytes(std::array::from_fn(|place| bytes[at + place]));
    let rest = long(8);
    Target { address: long(0), key: (rest >> 32) as u32, length: rest as u32 }
}

fn steps(count: u32) -> u8 {
    if count <= EXACT_MAX { count as u8 } else { EXACT_MAX as u8 | (count / STEP).min(EXACT_MAX - 1) as u8 }
}

fn mappings(steps: u8) -> u32 {
    let steps = u32::from(steps);
    if steps <= EXACT_MAX { steps } else { (steps - EXACT_MAX) * STEP }
}

/// How many mappings a peer understands there to be if so many are meant.
pub(crate) fn exact_mappings(count: u32) -> u32 {
    mappings(steps(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn introduction() -> Introduction {
        Introduction {
            order: ByteOrder::Little,
            credits: 384,
            mappings: 1,
            list: Target { address: 0x1000, key: 7, length: 2 },
            data: Target { address: 0x2000, key: 8, length: 65536 },
        }
    }

    #[test]
    fn every_field_stands_where_it_should() {
        let bytes = introduction().emit();
        assert_eq!(bytes[..8], [1, 2, 1, 0x80, 0, 0, 0, 1]);
        assert_eq!(bytes[8..24], [0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 7, 0, 0, 0, 2]);
        assert_eq!(bytes[24..], [0, 0, 0, 0, 0, 0, 0x20, 0, 0, 0, 0, 8, 0, 1, 0, 0]);
        let mut padded = bytes.to_vec();
        padded.resize(56, 0);
        assert_eq!(Introduction::parse(&padded), Some(introduction()));
        let big = Introduction { order: ByteOrder::Big, ..introduction() };
        assert_eq!(Introduction::parse(&big.emit()), Some(big));
    }

    #[test]
    fn what_is_too_short_of_another_version_or_without_list_is_refused() {
        let bytes = introduction().emit();
        assert_eq!(Introduction::parse(&bytes[..39]), None);
        let mut other = bytes;
        other[0] = 2;
        assert_eq!(Introduction::parse(&other), None);
        let none = Introduction { list: Target::default(), ..introduction() };
        assert_eq!(Introduction::parse(&none.emit()), None);
    }

    #[test]
    fn many_mappings_are_counted_in_steps() {
        for (asked, told) in
            [(0, 0), (1, 1), (128, 128), (129, 128), (256, 256), (1000, 768), (1 << 20, 127 * 256)]
        {
            assert_eq!(exact_mappings(asked), told);
        }
        let mut bytes = introduction().emit();
        bytes[1] = 0;
        assert_eq!(Introduction::parse(&bytes).unwrap().mappings, 0);
    }
}
