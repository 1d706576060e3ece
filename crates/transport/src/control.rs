//! What two processes tell each other over the socket of a link, beside the rings: who they are, and descriptors.

use std::io;

use bytes::{Buf, BufMut, TryGetError};
use nonic_sys::OwnedFd;
use nonic_trust::{Answer, Question};

use crate::calls::CallNumber;
use crate::layout::{BLOCKS_MAX, MAGIC, VERSION};

/// Bytes of the longest message.
pub(crate) const LONGEST: usize = 96 + BLOCKS_MAX * 4;

/// A number nobody else can know, made when a process opens its first device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProcessToken(pub [u64; 2]);

/// How one side introduces itself. The side that connects sends it with the descriptor of the link's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Introduction {
    /// Who it is.
    pub token: ProcessToken,
    /// What the other side is to read, to prove that it may. Nothing: it need not.
    pub question: Option<Question>,
    /// Blocks it owns.
    pub blocks: Vec<u32>,
}

/// What one side lets a peer see that has proved that it may, or is trusted by name. With it go the descriptors of its two
/// bells, of its calls if it gives a number, of its segment, its arenas, and its file of adopted pages, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Under which number it is called for this link; the calls follow the bells.
    pub call: Option<CallNumber>,
    /// Whether the segment follows them.
    pub keys: bool,
    /// Number of arenas that follow it.
    pub arenas: u32,
    /// Whether the file of adopted pages follows them.
    pub adopts: bool,
    /// Address of eight bytes that hold `probe_value`, for the other side to try to read.
    pub probe_address: u64,
    /// What stands there.
    pub probe_value: u64,
}

/// A message on the socket of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlMessage {
    /// From the side that connected.
    Hello(Introduction),
    /// From the side that accepted, with its answer to the question if it has one.
    Welcome(Introduction, Option<Answer>),
    /// The answer of the side that connected.
    Answer(Answer),
    /// From a side that trusts the other.
    Show(Shown),
    /// The sender can read and write the receiver's memory: all of it through the kernel, its adopted pages by mapping
    /// them.
    CanReach {
        /// Through the kernel.
        kernel: bool,
        /// By mapping.
        mapping: bool,
    },
    /// Asks for a file of the receiver's list.
    WantFile {
        /// Its number.
        file: u32,
    },
    /// The file, with its descriptor, or without one if it cannot be given.
    File {
        /// Its number.
        file: u32,
        /// Its length in bytes.
        length: u64,
    },
    /// The receiver no longer needs the file.
    DropFile {
        /// Its number.
        file: u32,
    },
    /// Look at the ring: the sender has no doorbell of the receiver yet.
    Look,
    /// The sender's process ends in order; the link ends with it.
    Goodbye,
}

/// The descriptors that came with [`Shown`], in their order.
#[derive(Debug)]
pub(crate) struct ShownDescriptors(std::vec::IntoIter<OwnedFd>);

impl ShownDescriptors {
    pub(crate) fn new(descriptors: Vec<OwnedFd>) -> Self {
        Self(descriptors.into_iter())
    }

    /// The next one, which must be there.
    pub(crate) fn take(&mut self) -> io::Result<OwnedFd> {
        let missing = || io::Error::new(io::ErrorKind::InvalidData, "memory shown without descriptors");
        self.0.next().ok_or_else(missing)
    }
}

/// A message that makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// It ends early.
    #[error("a control message that ends early: {left} bytes are left where {needed} have to follow")]
    Short {
        /// Bytes that should follow.
        needed: usize,
        /// Bytes that do.
        left: usize,
    },
    /// It goes on too long.
    #[error("a control message that goes on for {surplus} bytes behind its end")]
    Long {
        /// Bytes behind its end.
        surplus: usize,
    },
    /// Not ours.
    #[error("a control message that does not begin with nonic's mark")]
    Mark,
    /// Ours, of another version.
    #[error(
        "the other process uses version {theirs} of nonic's shared memory, this one {VERSION}: use one nonic for both"
    )]
    Version {
        /// Its version.
        theirs: u32,
    },
    /// No such kind.
    #[error("a control message of unknown kind {kind}")]
    Kind {
        /// Its kind.
        kind: u32,
    },
    /// A count beyond its limit.
    #[error("a control message that counts {count} of what there are {limit} at most")]
    Count {
        /// What it says.
        count: u32,
        /// The most.
        limit: u32,
    },
}

/// Arenas a process has at most: one for each device.
pub(crate) const ARENAS_MAX: u32 = 16;

impl From<TryGetError> for Malformed {
    fn from(error: TryGetError) -> Self {
        Self::Short { needed: error.requested, left: error.available }
    }
}

/// A number of things of which there are `limit` at most.
fn take_count(bytes: &mut &[u8], limit: u32) -> Result<u32, Malformed> {
    let count = bytes.try_get_u32_le()?;
    if count > limit { Err(Malformed::Count { count, limit }) } else { Ok(count) }
}

fn take_flag(bytes: &mut &[u8]) -> Result<bool, Malformed> {
    Ok(take_count(bytes, 1)? == 1)
}

impl Introduction {
    fn put(&self, bytes: &mut Vec<u8>) {
        bytes.put_u64_le(self.token.0[0]);
        bytes.put_u64_le(self.token.0[1]);
        bytes.put_u32_le(self.question.is_some().into());
        if let Some(question) = self.question {
            bytes.put_u64_le(question.address);
            bytes.put_u32_le(question.descriptor);
        }
        bytes.put_u32_le(self.blocks.len() as u32);
        for block in &self.blocks {
            bytes.put_u32_le(*block);
        }
    }

    fn take(bytes: &mut &[u8]) -> Result<Self, Malformed> {
        let token = ProcessToken([bytes.try_get_u64_le()?, bytes.try_get_u64_le()?]);
        let question = match take_flag(bytes)? {
            true => Some(Question { address: bytes.try_get_u64_le()?, descriptor: bytes.try_get_u32_le()? }),
            false => None,
        };
        let count = take_count(bytes, BLOCKS_MAX as u32)?;
        let blocks = (0..count).map(|_| bytes.try_get_u32_le()).collect::<Result<_, _>>()?;
        Ok(Self { token, question, blocks })
    }
}

impl Shown {
    fn put(&self, bytes: &mut Vec<u8>) {
        bytes.put_u32_le(self.call.is_some().into());
        if let Some(CallNumber(number)) = self.call {
            bytes.put_u32_le(number);
        }
        bytes.put_u32_le(self.keys.into());
        bytes.put_u32_le(self.arenas);
        bytes.put_u32_le(self.adopts.into());
        bytes.put_u64_le(self.probe_address);
        bytes.put_u64_le(self.probe_value);
    }

    fn take(bytes: &mut &[u8]) -> Result<Self, Malformed> {
        let call = match take_flag(bytes)? {
            true => Some(CallNumber(bytes.try_get_u32_le()?)),
            false => None,
        };
        let keys = take_flag(bytes)?;
        let arenas = take_count(bytes, ARENAS_MAX)?;
        let adopts = take_flag(bytes)?;
        let (probe_address, probe_value) = (bytes.try_get_u64_le()?, bytes.try_get_u64_le()?);
        Ok(Self { call, keys, arenas, adopts, probe_address, probe_value })
    }
}

fn take_answer(bytes: &mut &[u8]) -> Result<Answer, Malformed> {
    let mut answer = Answer([0; 16]);
    bytes.try_copy_to_slice(&mut answer.0)?;
    Ok(answer)
}

impl ControlMessage {
    /// As bytes.
    pub fn emit(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(LONGEST);
        bytes.put_u64_le(MAGIC);
        bytes.put_u32_le(VERSION);
        bytes.put_u32_le(self.kind());
        match self {
            Self::Hello(introduction) => introduction.put(&mut bytes),
            Self::Welcome(introduction, answer) => {
                introduction.put(&mut bytes);
                bytes.put_u32_le(answer.is_some().into());
                bytes.extend(answer.iter().flat_map(|answer| answer.0));
            }
            Self::Answer(answer) => bytes.extend(answer.0),
            Self::Show(shown) => shown.put(&mut bytes),
            Self::Look | Self::Goodbye => {}
            Self::CanReach { kernel, mapping } => {
                bytes.put_u32_le((*kernel).into());
                bytes.put_u32_le((*mapping).into());
            }
            Self::WantFile { file } | Self::DropFile { file } => bytes.put_u32_le(*file),
            Self::File { file, length } => {
                bytes.put_u32_le(*file);
                bytes.put_u64_le(*length);
            }
        }
        bytes
    }

    fn kind(&self) -> u32 {
        match self {
            Self::Hello(_) => 1,
            Self::Welcome(..) => 2,
            Self::CanReach { .. } => 3,
            Self::WantFile { .. } => 4,
            Self::File { .. } => 5,
            Self::DropFile { .. } => 6,
            Self::Look => 7,
            Self::Goodbye => 8,
            Self::Answer(_) => 9,
            Self::Show(_) => 10,
        }
    }

    /// From bytes a peer sent.
    pub fn parse(mut bytes: &[u8]) -> Result<Self, Malformed> {
        if bytes.try_get_u64_le()? != MAGIC {
            return Err(Malformed::Mark);
        }
        let theirs = bytes.try_get_u32_le()?;
        if theirs != VERSION {
            return Err(Malformed::Version { theirs });
        }
        let message = match bytes.try_get_u32_le()? {
            1 => Self::Hello(Introduction::take(&mut bytes)?),
            2 => {
                let introduction = Introduction::take(&mut bytes)?;
                let answer = if take_flag(&mut bytes)? { Some(take_answer(&mut bytes)?) } else { None };
                Self::Welcome(introduction, answer)
            }
            3 => Self::CanReach { kernel: take_flag(&mut bytes)?, mapping: take_flag(&mut bytes)? },
            4 => Self::WantFile { file: bytes.try_get_u32_le()? },
            5 => Self::File { file: bytes.try_get_u32_le()?, length: bytes.try_get_u64_le()? },
            6 => Self::DropFile { file: bytes.try_get_u32_le()? },
            7 => Self::Look,
            8 => Self::Goodbye,
            9 => Self::Answer(take_answer(&mut bytes)?),
            10 => Self::Show(Shown::take(&mut bytes)?),
            kind => return Err(Malformed::Kind { kind }),
        };
        if bytes.is_empty() { Ok(message) } else { Err(Malformed::Long { surplus: bytes.len() }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn introduction(blocks: Vec<u32>) -> Introduction {
        Introduction {
            token: ProcessToken([1, 2]),
            question: Some(Question { address: 3, descriptor: 4 }),
            blocks,
        }
    }

    #[test]
    fn every_message_survives_its_bytes() {
        for message in [
            ControlMessage::Hello(introduction(vec![1, 2, 3])),
            ControlMessage::Hello(Introduction { question: None, ..introduction(vec![]) }),
            ControlMessage::Welcome(introduction((0..BLOCKS_MAX as u32).collect()), Some(Answer([5; 16]))),
            ControlMessage::Welcome(introduction(vec![]), None),
            ControlMessage::Answer(Answer([6; 16])),
            ControlMessage::Show(Shown {
                call: None,
                keys: false,
                arenas: 0,
                adopts: false,
                probe_address: 1,
                probe_value: 2,
            }),
            ControlMessage::Show(Shown {
                call: Some(CallNumber(5)),
                keys: true,
                arenas: 1,
                adopts: true,
                probe_address: 3,
                probe_value: 4,
            }),
            ControlMessage::CanReach { kernel: false, mapping: true },
            ControlMessage::WantFile { file: 9 },
            ControlMessage::File { file: 9, length: 1 << 40 },
            ControlMessage::DropFile { file: 9 },
            ControlMessage::Look,
            ControlMessage::Goodbye,
        ] {
            let mut bytes = message.emit();
            assert!(bytes.len() <= LONGEST);
            assert_eq!(ControlMessage::parse(&bytes), Ok(message));
            for length in 0..bytes.len() {
                assert!(matches!(ControlMessage::parse(&bytes[..length]), Err(Malformed::Short { .. })));
            }
            bytes.extend([0; 3]);
            assert_eq!(ControlMessage::parse(&bytes), Err(Malformed::Long { surplus: 3 }));
        }
    }

    #[test]
    fn another_version_is_named() {
        let mut bytes = ControlMessage::Look.emit();
        bytes[8] = 99;
        assert_eq!(ControlMessage::parse(&bytes), Err(Malformed::Version { theirs: 99 }));
    }

    proptest! {
        #[test]
        fn rubbish_is_refused_without_harm(mut bytes in prop::collection::vec(any::<u8>(), 0..400), kind in 0u32..12) {
            let _ = ControlMessage::parse(&bytes);
            if bytes.len() >= 16 {
                bytes[..16].copy_from_slice(&ControlMessage::Look.emit());
                bytes[12..16].copy_from_slice(&kind.to_le_bytes());
                let _ = ControlMessage::parse(&bytes);
            }
        }
    }
}
