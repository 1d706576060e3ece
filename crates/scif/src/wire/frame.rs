//! Frames: a header of 32 bytes, and up to 64 KiB behind it. Numbers are little-endian.
//!
//! | bytes | |
//! |---|---|
//! | 0 | kind |
//! | 1 | flags |
//! | 2-3 | port, or where the source of a copy ends in its line |
//! | 4-7 | bytes behind the header |
//! | 8-15 | number of a request, or position in a stream |
//! | 16-23 | offset in a registered address space |
//! | 24-31 | length, value, mark, or an error |

use crate::ScifError;

/// The version of all this, which the first frame says.
pub(crate) const VERSION: u64 = 1;
/// Bytes of a header.
pub(crate) const HEADER: usize = 32;
/// Bytes behind a header at most.
pub(crate) const PAYLOAD_MOST: usize = 64 << 10;

/// Bytes that one read asks for at most.
pub(crate) const READ_MOST: usize = 1 << 20;

/// What a frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// The first frame, of whoever connects: its port, the node asked for (offset), [`VERSION`] (value), and the word of its fabric.
    Hello = 1,
    /// The connection was accepted.
    Welcome = 2,
    /// It was not, and why (value).
    Refusal = 3,
    /// Bytes of the stream, from a position on.
    Bytes = 4,
    /// The program has taken the bytes up to a position.
    Taken = 5,
    /// The program has closed its endpoint; the last frame.
    Close = 6,
    /// What became of a request (value), and the mark that was asked for (offset).
    Done = 7,
    /// Bytes for windows from an offset on, of a write of so many (value): [`FIRST`] to [`LAST`], in order.
    Write = 8,
    /// Bytes that a read asked for, in order.
    Piece = 9,
    /// Bytes of windows are wanted (value), the first of a copy of so many (in 8 bytes behind the header).
    Read = 10,
    /// Is a range (of so many bytes, value) in windows, which may be written to if [`WRITES`] says so?
    Check = 11,
    /// 8 bytes (value) for one window.
    Store = 12,
    /// How many copies has the other program begun?
    Mark = 13,
    /// To be answered when those up to a mark (value) are complete.
    Wait = 14,
    /// Whoever says it is there; with [`ASKS`] whoever hears it is to say so, too.
    Alive = 15,
}

/// Flags: of a write the first and the last piece, and that the last line of each comes last; of a check, that it is about writing; of
/// who is there, that it asks.
pub(crate) const FIRST: u8 = 1;
pub(crate) const LAST: u8 = 2;
pub(crate) const ORDERED: u8 = 4;
pub(crate) const WRITES: u8 = 8;
pub(crate) const ASKS: u8 = 16;

impl Kind {
    const ALL: [Self; 15] = [
        Self::Hello,
        Self::Welcome,
        Self::Refusal,
        Self::Bytes,
        Self::Taken,
        Self::Close,
        Self::Done,
        Self::Write,
        Self::Piece,
        Self::Read,
        Self::Check,
        Self::Store,
        Self::Mark,
        Self::Wait,
        Self::Alive,
    ];
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) flags: u8,
    pub(crate) small: u16,
    pub(crate) length: u32,
    pub(crate) number: u64,
    pub(crate) offset: i64,
    pub(crate) value: u64,
}

impl Header {
    /// One that says nothing but its kind.
    pub(crate) fn new(kind: Kind) -> Self {
        Self { kind, flags: 0, small: 0, length: 0, number: 0, offset: 0, value: 0 }
    }

    /// From bytes of another host; `None` if they are no header.
    pub(crate) fn parse(bytes: &[u8; HEADER]) -> Option<Self> {
        let [kind, flags, rest @ ..] = bytes;
        let kind = *Kind::ALL.iter().find(|known| **known as u8 == *kind)?;
        let length = u32::from_le_bytes(*rest[2..].first_chunk()?);
        (length as usize <= PAYLOAD_MOST).then_some(Self {
            kind,
            flags: *flags,
            small: u16::from_le_bytes(*rest.first_chunk()?),
            length,
            number: u64::from_le_bytes(*rest[6..].first_chunk()?),
            offset: i64::from_le_bytes(*rest[14..].first_chunk()?),
            value: u64::from_le_bytes(*rest[22..].first_chunk()?),
        })
    }

    pub(crate) fn emit(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        (bytes[0], bytes[1]) = (self.kind as u8, self.flags);
        bytes[2..4].copy_from_slice(&self.small.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.length.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.number.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.offset.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.value.to_le_bytes());
        bytes
    }

    /// A frame with these bytes behind the header, [`PAYLOAD_MOST`] at most.
    pub(crate) fn with(mut self, payload: &[u8]) -> Frame {
        self.length = payload.len() as u32;
        let mut bytes = Vec::with_capacity(HEADER + payload.len());
        bytes.extend_from_slice(&self.emit());
        bytes.extend_from_slice(payload);
        Frame(bytes)
    }

    /// A frame of the header alone.
    pub(crate) fn alone(self) -> Frame {
        self.with(&[])
    }
}

/// The bytes of a frame on its way.
#[derive(Debug)]
pub(crate) struct Frame(pub(crate) Vec<u8>);

/// What became of a request, as the other host is told: 0 is success.
pub(crate) fn code_of(outcome: Result<(), ScifError>) -> u64 {
    match outcome {
        Ok(()) => 0,
        Err(ScifError::NoWindow) => 1,
        Err(ScifError::Protected) => 2,
        Err(ScifError::BadMemory { .. }) => 3,
        Err(ScifError::NoMemory) => 4,
        Err(ScifError::Reset | ScifError::NotConnected) => 5,
        Err(ScifError::Refused) => 6,
        Err(ScifError::NoNode) => 7,
        Err(ScifError::Invalid(_)) => 8,
        Err(_) => 9,
    }
}

/// The same, as the other host has told it.
pub(crate) fn error_of(code: u64) -> Result<(), ScifError> {
    Err(match code {
        0 => return Ok(()),
        1 => ScifError::NoWindow,
        2 => ScifError::Protected,
        3 => ScifError::BadMemory { address: 0 },
        4 => ScifError::NoMemory,
        6 => ScifError::Refused,
        7 => ScifError::NoNode,
        8 => ScifError::Invalid("the other host refuses an argument"),
        _ => ScifError::Reset,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_some_header_that_says_them_or_none(bytes: [u8; HEADER]) {
            if let Some(header) = Header::parse(&bytes) {
                prop_assert_eq!(header.emit(), bytes);
                prop_assert!(header.length as usize <= PAYLOAD_MOST);
            }
        }
    }

    #[test]
    fn the_bytes_of_a_header_are_these() {
        let header = Header {
            flags: 2,
            small: 0x802,
            number: 3,
            offset: -4,
            value: 5 << 32,
            ..Header::new(Kind::Bytes)
        };
        let Frame(bytes) = header.with(b"abc");
        let told = b"\x04\x02\x02\x08\x03\0\0\0\x03\0\0\0\0\0\0\0\xfc\xff\xff\xff\xff\xff\xff\xff\0\0\0\0\x05\0\0\0abc";
        assert_eq!(bytes, told);
        let parsed = Header::parse(bytes.first_chunk().unwrap()).unwrap();
        assert_eq!(parsed, Header { length: 3, ..header });
    }

    #[test]
    fn kinds_that_are_none_and_frames_that_are_too_long_are_refused() {
        let mut bytes = Header::new(Kind::Close).emit();
        assert!(Header::parse(&bytes).is_some());
        bytes[4..8].copy_from_slice(&(PAYLOAD_MOST as u32 + 1).to_le_bytes());
        assert_eq!(Header::parse(&bytes), None);
        for kind in [0, 200] {
            let mut bytes = Header::new(Kind::Close).emit();
            bytes[0] = kind;
            assert_eq!(Header::parse(&bytes), None);
        }
    }

    #[test]
    fn what_became_of_a_request_is_told_and_understood() {
        for outcome in [Ok(()), Err(ScifError::NoWindow), Err(ScifError::Protected), Err(ScifError::NoNode)] {
            assert_eq!(error_of(code_of(outcome)), outcome);
        }
        assert_eq!(error_of(u64::MAX), Err(ScifError::Reset));
    }
}
