//! One line of the ledger.

use crate::ledger::{Cookie, MemoryFile, SharedMemoryRange};

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// The process uses this cookie for this memory.
    Cookie(Cookie, SharedMemoryRange),
    /// The process keeps the shadow of a file's memory, in an anonymous file that it has under this number.
    Shadow(MemoryFile, u32),
}

/// A line: what one process says, in one network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) process: i32,
    pub(super) network: u64,
    pub(super) subject: Subject,
}

/// Bytes of a line. Nothing but zeros: nobody's.
pub(super) const LENGTH: usize = 128;
/// Its bytes.
pub(super) type Bytes = [u8; LENGTH];

const COOKIE: u32 = 1;
const SHADOW: u32 = 2;

impl MemoryFile {
    pub(crate) fn to_bytes(self) -> [u8; 24] {
        let mut bytes = [0; 24];
        bytes[..4].copy_from_slice(&self.device.0.to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.device.1.to_ne_bytes());
        bytes[8..16].copy_from_slice(&self.inode.to_ne_bytes());
        bytes[16..].copy_from_slice(&self.segments.to_ne_bytes());
        bytes
    }
}

impl Line {
    pub(super) fn to_bytes(self) -> Bytes {
        let mut bytes = [0; LENGTH];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(4, &self.process.to_ne_bytes());
        put(16, &self.network.to_ne_bytes());
        match self.subject {
            Subject::Cookie(cookie, SharedMemoryRange { file, offset, length }) => {
                put(0, &COOKIE.to_ne_bytes());
                put(24, &file.to_bytes());
                put(48, &offset.to_ne_bytes());
                put(56, &length.to_ne_bytes());
                put(64, &cookie);
            }
            Subject::Shadow(file, descriptor) => {
                put(0, &SHADOW.to_ne_bytes());
                put(8, &descriptor.to_ne_bytes());
                put(24, &file.to_bytes());
            }
        }
        bytes
    }

    /// `None`: it is nobody's, or makes no sense.
    pub(super) fn from_bytes(bytes: &Bytes) -> Option<Self> {
        let short = |at: usize| u32::from_ne_bytes(std::array::from_fn(|index| bytes[at + index]));
        let long = |at: usize| u64::from_ne_bytes(std::array::from_fn(|index| bytes[at + index]));
        let file = MemoryFile { device: (short(24), short(28)), inode: long(32), segments: long(40) };
        let subject = match short(0) {
            COOKIE => {
                let memory = SharedMemoryRange { file, offset: long(48), length: long(56) };
                Subject::Cookie(std::array::from_fn(|index| bytes[64 + index]), memory)
            }
            SHADOW => Subject::Shadow(file, short(8)),
            _ => return None,
        };
        Some(Self { process: short(4) as i32, network: long(16), subject })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let file = MemoryFile { device: (8, 3), inode: u64::MAX - 5, segments: 1 << 40 };
        let cookie = std::array::from_fn(|index| index as u8 ^ 0xa5);
        let memory = SharedMemoryRange { file, offset: 1 << 45, length: 12_345 };
        for subject in [Subject::Cookie(cookie, memory), Subject::Shadow(file, 77)] {
            let line = Line { process: 4_000_000, network: 0x1234_5678_9abc, subject };
            assert_eq!(Line::from_bytes(&line.to_bytes()), Some(line));
        }
        assert_eq!(Line::from_bytes(&[0; LENGTH]), None);
        assert_eq!(Line::from_bytes(&[0xff; LENGTH]), None);
    }
}
