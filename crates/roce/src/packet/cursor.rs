//! Headers one after the other.

use crate::malformed::Malformed;

/// What is left to read.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    /// The next bytes, which are of this header.
    pub(super) fn take<const N: usize>(&mut self, header: &'static str) -> Result<[u8; N], Malformed> {
        let (taken, rest) =
            self.0.split_first_chunk().ok_or(Malformed::Short { header, needed: N, length: self.0.len() })?;
        self.0 = rest;
        Ok(*taken)
    }
}

/// What is written.
pub(super) struct Writer<'a> {
    pub(super) bytes: &'a mut [u8],
    pub(super) length: usize,
}

impl Writer<'_> {
    /// Puts bytes behind those that are there.
    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.length..][..bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }
}
