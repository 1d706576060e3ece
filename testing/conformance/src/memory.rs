//! Registered memory of a side, and the bytes that stand in it.

use nonic_device::{Access, Key, RemoteRange, ScatterGather};

/// Every right.
pub(crate) const EVERYTHING: Access = match Access::from_bits(0b1111) {
    Some(access) => access,
    None => Access::LOCAL_READ,
};

/// The same, and that to flush.
pub(crate) const FLUSHABLE: Access = match Access::from_bits(EVERYTHING.bits() | Access::FLUSH_GLOBAL.bits())
{
    Some(access) => access,
    None => EVERYTHING,
};

/// A byte that no pattern of [`pattern`] begins with; untouched memory is full of it.
pub(crate) const UNTOUCHED: u8 = 0xA5;
/// Untouched bytes before and after memory that need not begin with a page.
pub(crate) const GUARD: u64 = 64;

/// Bytes of a message: each depends on its place and the seed.
pub(crate) fn pattern(seed: u64, length: u64) -> Vec<u8> {
    (0..length)
        .map(|i| (i.wrapping_mul(31) ^ (i >> 8).wrapping_mul(7) ^ seed.wrapping_mul(101)) as u8)
        .collect()
}

/// A registered buffer between guards.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    pub(crate) buffer: u32,
    /// Where in the buffer it begins.
    pub(crate) offset: u64,
    pub(crate) length: u64,
    /// Length of the region: `length`, or the whole pages around it.
    pub(crate) registered: u64,
    /// Untouched bytes before and after the region.
    pub(crate) guard: u64,
    pub(crate) region: u32,
    /// Its first byte as requests name it.
    pub(crate) base: u64,
    pub(crate) local_key: Key,
    pub(crate) remote_key: Key,
}

impl Memory {
    pub(crate) fn piece(&self, offset: u64, length: u64) -> ScatterGather {
        ScatterGather { address: self.base + offset, length: length as u32, key: self.local_key }
    }

    pub(crate) fn all(&self) -> ScatterGather {
        self.piece(0, self.length)
    }

    pub(crate) fn remote(&self, offset: u64) -> RemoteRange {
        RemoteRange { address: self.base.wrapping_add(offset), key: self.remote_key }
    }
}
