//! Addresses and ranges that cannot be mixed up or wrap around.

use std::fmt;

/// An address as a work request or a peer names it: within a region's own space (virtual or zero based), in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RegionAddress(pub u64);

impl fmt::Debug for RegionAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// `length` bytes from `start`; what a request asks for, not yet known to be inside anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    /// First byte.
    pub start: RegionAddress,
    /// Length in bytes.
    pub length: u64,
}

impl AddressRange {
    /// `length` bytes from `start`.
    pub const fn new(start: u64, length: u64) -> Self {
        Self { start: RegionAddress(start), length }
    }

    /// Offset of this range within the `outer_length` bytes from `base`, or `None` if any byte lies outside or the
    /// address wraps around.
    pub const fn offset_within(self, base: RegionAddress, outer_length: u64) -> Option<u64> {
        let Some(offset) = self.start.0.checked_sub(base.0) else { return None };
        let Some(end) = offset.checked_add(self.length) else { return None };
        if end <= outer_length { Some(offset) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: RegionAddress = RegionAddress(0x1000);

    #[test]
    fn a_range_at_the_very_end_is_inside() {
        assert_eq!(AddressRange::new(0x1ff0, 0x10).offset_within(BASE, 0x1000), Some(0xff0));
        assert_eq!(AddressRange::new(0x2000, 0).offset_within(BASE, 0x1000), Some(0x1000));
    }

    #[test]
    fn one_byte_too_far_before_or_around_is_outside() {
        assert_eq!(AddressRange::new(0x1ff1, 0x10).offset_within(BASE, 0x1000), None);
        assert_eq!(AddressRange::new(0xfff, 1).offset_within(BASE, 0x1000), None);
        assert_eq!(AddressRange::new(0x1800, u64::MAX).offset_within(BASE, 0x1000), None);
        assert_eq!(AddressRange::new(u64::MAX, 2).offset_within(BASE, 0x1000), None);
    }
}
