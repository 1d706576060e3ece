//! Options as the interface of sockets has them: numbers of levels and names, and values as bytes.

use crate::{Error, Result};

/// The level of what only these sockets have.
pub const SOL_RDMA: i32 = 0x10000;
/// Requests in the send queue.
pub const RDMA_SEND_QUEUE: i32 = 0;
/// Receives.
pub const RDMA_RECEIVE_QUEUE: i32 = 1;
/// Bytes of a message that go inline.
pub const RDMA_INLINE: i32 = 2;
/// Mappings that the peer may make.
pub const RDMA_MAPPINGS: i32 = 3;

/// The value of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    bytes: [u8; 8],
    length: usize,
}

impl Value {
    /// A number.
    pub fn number(number: i32) -> Self {
        Self::pair_of_length([number, 0], 4)
    }

    /// What the kernel says.
    pub(crate) fn of_bytes(bytes: [u8; 8], length: usize) -> Self {
        Self { bytes, length: length.min(8) }
    }

    /// Two, as `struct linger` has them.
    pub(crate) fn pair(pair: [i32; 2]) -> Self {
        Self::pair_of_length(pair, 8)
    }

    fn pair_of_length([first, second]: [i32; 2], length: usize) -> Self {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&first.to_ne_bytes());
        bytes[4..].copy_from_slice(&second.to_ne_bytes());
        Self { bytes, length }
    }

    /// As it stands in memory.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// The number that bytes of a program's are; `EINVAL` if they are too few.
    pub(crate) fn number_of(bytes: &[u8]) -> Result<i32> {
        bytes.first_chunk().copied().map(i32::from_ne_bytes).ok_or(Error::new(libc::EINVAL))
    }

    pub(crate) fn pair_of(bytes: &[u8]) -> Result<[i32; 2]> {
        let second = bytes.get(4..).ok_or(Error::new(libc::EINVAL))?;
        Ok([Self::number_of(bytes)?, Self::number_of(second)?])
    }
}
