//! What two processes tell each other over the socket of a link, beside the rings: who they are, and descriptors.

use crate::layout::{BLOCKS_MAX, MAGIC, VERSION};

/// Bytes of the longest message.
pub(crate) const LONGEST: usize = 72 + BLOCKS_MAX * 4;

/// A number nobody else can know, made when a process opens its first device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProcessToken(pub [u64; 2]);

/// How one side introduces itself. The side that connects sends it with the descriptors of the link's memory and its
/// doorbell; the side that accepts answers with its doorbell. A side that trusts the other adds its segment, its
/// arenas, and its file of adopted pages, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Introduction {
    /// Who it is.
    pub token: ProcessToken,
    /// Whether segment and arenas follow the other descriptors.
    pub trusts: bool,
    /// Number of arenas.
    pub arenas: u32,
    /// Whether the file of adopted pages follows them.
    pub adopts: bool,
    /// Address of eight bytes that hold `probe_value`, for the other side to try to read.
    pub probe_address: u64,
    /// What stands there.
    pub probe_value: u64,
    /// Blocks it owns.
    pub blocks: Vec<u32>,
}

/// A message on the socket of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlMessage {
    /// From the side that connected.
    Hello(Introduction),
    /// From the side that accepted.
    Welcome(Introduction),
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

/// A message that makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// It ends early, or goes on too long.
    #[error("a control message of {length} bytes, which is no length it can have")]
    Length {
        /// Its length.
        length: usize,
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

struct Writer(Vec<u8>);

impl Writer {
    fn start(kind: u32) -> Self {
        let mut writer = Self(Vec::with_capacity(LONGEST));
        writer.u64(MAGIC).u32(VERSION).u32(kind);
        writer
    }

    fn u32(&mut self, value: u32) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn u64(&mut self, value: u64) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    whole: usize,
}

impl<'a> Reader<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, rest) =
            self.bytes.split_first_chunk::<N>().ok_or(Malformed::Length { length: self.whole })?;
        self.bytes = rest;
        Ok(*head)
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.take()?))
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.take()?))
    }

    fn count(&mut self, limit: u32) -> Result<u32, Malformed> {
        let count = self.u32()?;
        if count > limit { Err(Malformed::Count { count, limit }) } else { Ok(count) }
    }
}

impl Introduction {
    fn emit(&self, writer: &mut Writer) {
        writer.u64(self.token.0[0]).u64(self.token.0[1]).u32(u32::from(self.trusts)).u32(self.arenas);
        writer.u32(u32::from(self.adopts));
        writer.u64(self.probe_address).u64(self.probe_value).u32(self.blocks.len() as u32);
        for block in &self.blocks {
            writer.u32(*block);
        }
    }

    fn parse(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let token = ProcessToken([reader.u64()?, reader.u64()?]);
        let trusts = reader.count(1)? == 1;
        let arenas = reader.count(ARENAS_MAX)?;
        let adopts = reader.count(1)? == 1;
        let (probe_address, probe_value) = (reader.u64()?, reader.u64()?);
        let count = reader.count(BLOCKS_MAX as u32)?;
        let blocks = (0..count).map(|_| reader.u32()).collect::<Result<_, _>>()?;
        Ok(Self { token, trusts, arenas, adopts, probe_address, probe_value, blocks })
    }
}

impl ControlMessage {
    /// As bytes.
    pub fn emit(&self) -> Vec<u8> {
        let mut writer = Writer::start(match self {
            Self::Hello(_) => 1,
            Self::Welcome(_) => 2,
            Self::CanReach { .. } => 3,
            Self::WantFile { .. } => 4,
            Self::File { .. } => 5,
            Self::DropFile { .. } => 6,
            Self::Look => 7,
            Self::Goodbye => 8,
        });
        match self {
            Self::Hello(introduction) | Self::Welcome(introduction) => introduction.emit(&mut writer),
            Self::Look | Self::Goodbye => {}
            Self::CanReach { kernel, mapping } => {
                writer.u32(u32::from(*kernel)).u32(u32::from(*mapping));
            }
            Self::WantFile { file } | Self::DropFile { file } => {
                writer.u32(*file);
            }
            Self::File { file, length } => {
                writer.u32(*file).u64(*length);
            }
        }
        writer.0
    }

    /// From bytes a peer sent.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader { bytes, whole: bytes.len() };
        if reader.u64()? != MAGIC {
            return Err(Malformed::Mark);
        }
        let theirs = reader.u32()?;
        if theirs != VERSION {
            return Err(Malformed::Version { theirs });
        }
        let message = match reader.u32()? {
            1 => Self::Hello(Introduction::parse(&mut reader)?),
            2 => Self::Welcome(Introduction::parse(&mut reader)?),
            3 => Self::CanReach { kernel: reader.count(1)? == 1, mapping: reader.count(1)? == 1 },
            4 => Self::WantFile { file: reader.u32()? },
            5 => Self::File { file: reader.u32()?, length: reader.u64()? },
            6 => Self::DropFile { file: reader.u32()? },
            7 => Self::Look,
            8 => Self::Goodbye,
            kind => return Err(Malformed::Kind { kind }),
        };
        if reader.bytes.is_empty() { Ok(message) } else { Err(Malformed::Length { length: bytes.len() }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn introduction(blocks: Vec<u32>) -> Introduction {
        Introduction {
            token: ProcessToken([1, 2]),
            trusts: true,
            arenas: 1,
            adopts: true,
            probe_address: 3,
            probe_value: 4,
            blocks,
        }
    }

    #[test]
    fn every_message_survives_its_bytes() {
        for message in [
            ControlMessage::Hello(introduction(vec![1, 2, 3])),
            ControlMessage::Welcome(introduction((0..BLOCKS_MAX as u32).collect())),
            ControlMessage::CanReach { kernel: false, mapping: true },
            ControlMessage::WantFile { file: 9 },
            ControlMessage::File { file: 9, length: 1 << 40 },
            ControlMessage::DropFile { file: 9 },
            ControlMessage::Look,
            ControlMessage::Goodbye,
        ] {
            let bytes = message.emit();
            assert!(bytes.len() <= LONGEST);
            assert_eq!(ControlMessage::parse(&bytes), Ok(message));
            for length in 0..bytes.len() {
                assert!(matches!(ControlMessage::parse(&bytes[..length]), Err(Malformed::Length { .. })));
            }
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
        fn rubbish_is_refused_without_harm(mut bytes in prop::collection::vec(any::<u8>(), 0..400), kind in 0u32..10) {
            let _ = ControlMessage::parse(&bytes);
            if bytes.len() >= 16 {
                bytes[..16].copy_from_slice(&ControlMessage::Look.emit());
                bytes[12..16].copy_from_slice(&kind.to_le_bytes());
                let _ = ControlMessage::parse(&bytes);
            }
        }
    }
}
