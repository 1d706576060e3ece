//! The bytes of a message, as they are written and as they are read.

use crate::Malformed;

/// The bytes of a message that is being written.
#[derive(Debug, Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes))
    }

    /// Adds bytes as they are.
    pub fn put(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// What is not yet read of the bytes of a message.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The next `count` bytes, which must be there.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let short = Malformed::Short { needed: count, left: self.0.len() };
        let (taken, rest) = self.0.split_at_checked(count).ok_or(short)?;
        self.0 = rest;
        Ok(taken)
    }

    /// The next `N` bytes, which must be there.
    pub fn take_array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let short = Malformed::Short { needed: N, left: self.0.len() };
        let (taken, rest) = self.0.split_first_chunk().ok_or(short)?;
        self.0 = rest;
        Ok(*taken)
    }

    /// Nothing may be left.
    pub(crate) fn end(self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed::Long { surplus: self.0.len() }) }
    }
}
