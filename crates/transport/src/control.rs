//! What two processes tell each other over the socket of a link, beside the rings: who they are, and descriptors.

use nonic_message::{Malformed, Protocol, kinds, parts};
use nonic_trust::{Answer, Question};

use crate::calls::CallNumber;
use crate::layout::{BLOCKS_MAX, MAGIC, VERSION};

const PROTOCOL: Protocol = Protocol::new(MAGIC.to_le_bytes(), "shared memory").version(VERSION);
/// Bytes of the longest message.
pub(crate) const LONGEST: usize = 96 + BLOCKS_MAX * 4;
/// Arenas a process has at most: one for each device.
pub(crate) const ARENAS_MAX: u32 = 16;

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

parts!(ProcessToken(words));
parts!(CallNumber(number));
parts!(Introduction { token, question, blocks at most BLOCKS_MAX });
parts!(Shown { call, keys, arenas at most ARENAS_MAX as usize, adopts, probe_address, probe_value });
kinds!(ControlMessage {
    1 => Hello(introduction),
    2 => Welcome(introduction, answer),
    3 => CanReach { kernel, mapping },
    4 => WantFile { file },
    5 => File { file, length },
    6 => DropFile { file },
    7 => Look,
    8 => Goodbye,
    9 => Answer(answer),
    10 => Show(shown),
});

impl ControlMessage {
    /// As bytes.
    pub fn emit(&self) -> Vec<u8> {
        PROTOCOL.emit(self)
    }

    /// From bytes a peer sent.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        PROTOCOL.parse(bytes)
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
    fn the_bytes_of_a_message_are_these() {
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
        let head = |kind| [&MAGIC.to_le_bytes()[..], &words(&[VERSION, kind])].concat();
        let told = words(&[1, 0, 2, 0, 1, 3, 0, 4, 2, 8, 9]);
        let hello = ControlMessage::Hello(introduction(vec![8, 9]));
        assert_eq!(hello.emit(), [head(1), told.clone()].concat());
        let welcome = ControlMessage::Welcome(introduction(vec![8, 9]), Some(Answer([5; 16])));
        assert_eq!(welcome.emit(), [head(2), told, words(&[1]), vec![5; 16]].concat());
        let shown = Shown {
            call: Some(CallNumber(5)),
            keys: true,
            arenas: 2,
            adopts: false,
            probe_address: 3,
            probe_value: 4,
        };
        let told = words(&[1, 5, 1, 2, 0, 3, 0, 4, 0]);
        assert_eq!(ControlMessage::Show(shown).emit(), [head(10), told].concat());
        let file = ControlMessage::File { file: 9, length: 1 << 40 };
        assert_eq!(file.emit(), [head(5), words(&[9, 0, 1 << 8])].concat());
    }

    #[test]
    fn another_version_is_named() {
        let mut bytes = ControlMessage::Look.emit();
        bytes[8] = 99;
        let named = Malformed::Version { of: "shared memory", theirs: 99, ours: VERSION };
        assert_eq!(ControlMessage::parse(&bytes), Err(named));
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
