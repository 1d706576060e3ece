//! The messages queue pairs exchange through a ring, and their headers.

use nonic_memory::Key;
use nonic_queue::QpNumber;

use crate::psn::Psn;

/// Payload bytes of one ring message at most; longer messages travel as fragments.
pub const FRAGMENT: usize = 8192;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum MessageKind {
    /// Fills the rest of the ring before it starts again.
    Padding = 1,
    /// A send, or a fragment of one.
    Send = 2,
    /// A send whose bytes the receiver takes from the sender's memory.
    SendPull = 3,
    /// An RDMA Write whose bytes the target places, or a fragment of one.
    Write = 4,
    /// An RDMA Write with immediate whose bytes are there already.
    WriteNotify = 5,
    /// An RDMA Read the target answers.
    Read = 6,
    /// An atomic the target executes.
    Atomic = 7,
    /// An unreliable datagram.
    Datagram = 8,
    /// Everything up to this number is done.
    Acknowledge = 9,
    /// This number failed, or must be sent again.
    Refuse = 10,
    /// Bytes of a read.
    ReadResponse = 11,
    /// The old value of an atomic.
    AtomicResponse = 12,
    /// A send, or a fragment of one, that takes a key of the receiver's out of use.
    SendInvalidate = 13,
}

impl MessageKind {
    #[inline]
    fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Padding,
            2 => Self::Send,
            3 => Self::SendPull,
            4 => Self::Write,
            5 => Self::WriteNotify,
            6 => Self::Read,
            7 => Self::Atomic,
            8 => Self::Datagram,
            9 => Self::Acknowledge,
            10 => Self::Refuse,
            11 => Self::ReadResponse,
            12 => Self::AtomicResponse,
            13 => Self::SendInvalidate,
            _ => return None,
        })
    }

    /// Words that follow the three every header has.
    const fn extension_words(self, whole: bool) -> usize {
        match self {
            Self::Padding | Self::Acknowledge | Self::Refuse => 0,
            Self::Send => !whole as usize,
            Self::SendPull
            | Self::SendInvalidate
            | Self::WriteNotify
            | Self::Datagram
            | Self::ReadResponse
            | Self::AtomicResponse => 1,
            Self::Read => 2,
            Self::Write => 3,
            Self::Atomic => 4,
        }
    }
}

/// The header of a message. What a kind does not use is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What it is.
    pub kind: MessageKind,
    /// Queue pair it is for.
    pub destination: QpNumber,
    /// Queue pair it comes from.
    pub source: QpNumber,
    /// Its number.
    pub psn: Psn,
    /// Which attempt at that number, so that answers to an earlier attempt are told apart.
    pub attempt: u8,
    /// Wake a receiver that waits for solicited events only.
    pub solicited: bool,
    /// Immediate data, the number of a refusal, or the key that a send takes out of use.
    pub immediate: Option<u32>,
    /// Length of the whole message in bytes.
    pub total: u32,
    /// Offset of this fragment in the message, in bytes.
    pub offset: u32,
    /// Remote memory: address.
    pub address: u64,
    /// Remote memory: key. A datagram's Q_Key.
    pub key: Key,
    /// Compare value, value to add, or old value. A datagram's source LID.
    pub operand: u64,
    /// Swap value; `None` makes an atomic a fetch and add.
    pub swap: Option<u64>,
    /// Whether a datagram begins with a global routing header.
    pub global_header: bool,
    /// A send that also says: everything of the other direction up to this number is done. Not beside immediate data.
    pub acknowledges: Option<Psn>,
}

pub(crate) const SOLICITED: u64 = 1;
const IMMEDIATE: u64 = 1 << 1;
pub(crate) const WHOLE: u64 = 1 << 2;
const SWAP: u64 = 1 << 3;
const GLOBAL: u64 = 1 << 4;
pub(crate) const ACKNOWLEDGES: u64 = 1 << 5;
const FLAGS: u64 = 0b11_1111;

/// Words of a header at most.
pub(crate) const HEADER_WORDS: usize = 7;

impl Header {
    /// A header that says no more than kind, ends and number.
    #[inline]
    pub fn new(kind: MessageKind, destination: QpNumber, source: QpNumber, psn: Psn, attempt: u8) -> Self {
        Self {
            kind,
            destination,
            source,
            psn,
            attempt,
            solicited: false,
            immediate: None,
            total: 0,
            offset: 0,
            address: 0,
            key: Key(0),
            operand: 0,
            swap: None,
            global_header: false,
            acknowledges: None,
        }
    }

    /// Words of the header, for a payload of so many bytes.
    #[inline]
    pub(crate) fn words(&self, payload: u32) -> usize {
        3 + self.kind.extension_words(self.is_whole(payload))
    }

    #[inline]
    fn is_whole(&self, payload: u32) -> bool {
        self.offset == 0 && self.total == payload
    }

    /// Gives the words of the header but the first to `store`, each once, and returns the first, which is to be stored when
    /// everything else is. `stamp` says which lap of the ring it belongs to.
    #[inline]
    pub(crate) fn emit(&self, stamp: u16, payload: u32, mut store: impl FnMut(usize, u64)) -> u64 {
        let whole = self.is_whole(payload);
        let flag = |on: bool, bit: u64| if on { bit } else { 0 };
        let flags = flag(self.solicited, SOLICITED)
            | flag(self.immediate.is_some(), IMMEDIATE)
            | flag(whole, WHOLE)
            | flag(self.swap.is_some(), SWAP)
            | flag(self.global_header, GLOBAL)
            | flag(self.acknowledges.is_some(), ACKNOWLEDGES);
        let second = self.immediate.or(self.acknowledges.map(|psn| psn.0)).unwrap_or_default();
        store(1, u64::from(self.destination.0) | u64::from(self.source.0) << 32);
        store(2, u64::from(self.psn.0) | u64::from(self.attempt) << 24 | u64::from(second) << 32);
        let extent = u64::from(self.total) | u64::from(self.offset) << 32;
        let key = u64::from(self.key.0);
        match self.kind {
            MessageKind::Padding | MessageKind::Acknowledge | MessageKind::Refuse => {}
            // The payload's length says it.
            MessageKind::Send if whole => {}
            MessageKind::Send
            | MessageKind::SendPull
            | MessageKind::SendInvalidate
            | MessageKind::WriteNotify
            | MessageKind::ReadResponse => store(3, extent),
            MessageKind::Datagram => store(3, key | u64::from(self.operand as u16) << 32),
            MessageKind::AtomicResponse => store(3, self.operand),
            MessageKind::Read => {
                store(3, self.address);
                store(4, key | u64::from(self.total) << 32);
            }
            MessageKind::Write => {
                store(3, self.address);
                store(4, key);
                store(5, extent);
            }
            MessageKind::Atomic => {
                store(3, self.address);
                store(4, key);
                store(5, self.operand);
                store(6, self.swap.unwrap_or_default());
            }
        }
        u64::from(stamp) | (self.kind as u64) << 16 | flags << 24 | u64::from(payload) << 32
    }

    /// Words of the header that begins with `first`; `None` if there is no such kind.
    #[inline]
    pub(crate) fn words_of(first: u64) -> Option<usize> {
        let whole = first >> 24 & WHOLE != 0;
        Some(3 + MessageKind::from_number((first >> 16) as u8)?.extension_words(whole))
    }

    /// Reads a header from words that were copied out of the ring; `None` if they make no sense. Also returns the
    /// header's length in words and the payload's in bytes.
    #[inline]
    pub(crate) fn parse(words: &[u64; HEADER_WORDS]) -> Option<(Self, usize, u32)> {
        let kind = MessageKind::from_number((words[0] >> 16) as u8)?;
        let flags = words[0] >> 24 & 0xff;
        if flags & !FLAGS != 0 {
            return None;
        }
        let payload = (words[0] >> 32) as u32;
        let whole = flags & WHOLE != 0;
        let (low, high) = (|word: u64| word as u32, |word: u64| (word >> 32) as u32);
        let (destination, source) = (low(words[1]), high(words[1]));
        if destination > QpNumber::MASK || source > QpNumber::MASK {
            return None;
        }
        let mut header = Self::new(
            kind,
            QpNumber(destination),
            QpNumber(source),
            Psn(low(words[2]) & QpNumber::MASK),
            (words[2] >> 24) as u8,
        );
        header.solicited = flags & SOLICITED != 0;
        header.immediate = (flags & IMMEDIATE != 0).then_some(high(words[2]));
        header.global_header = flags & GLOBAL != 0;
        if flags & ACKNOWLEDGES != 0 {
            let says = matches!(kind, MessageKind::Send | MessageKind::SendPull);
            if !says || header.immediate.is_some() {
                return None;
            }
            header.acknowledges = Some(Psn(high(words[2]) & QpNumber::MASK));
        }
        let mut extent = |word: u64| (header.total, header.offset) = (low(word), high(word));
        match kind {
            MessageKind::Padding | MessageKind::Acknowledge | MessageKind::Refuse => {}
            MessageKind::Send if whole => extent(u64::from(payload)),
            MessageKind::Send
            | MessageKind::SendPull
            | MessageKind::SendInvalidate
            | MessageKind::WriteNotify
            | MessageKind::ReadResponse => {
                extent(words[3]);
            }
            MessageKind::Datagram => {
                header.key = Key(low(words[3]));
                header.operand = u64::from(high(words[3]) as u16);
                header.total = payload;
            }
            MessageKind::AtomicResponse => header.operand = words[3],
            MessageKind::Read => {
                (header.address, header.key, header.total) = (words[3], Key(low(words[4])), high(words[4]));
            }
            MessageKind::Write => {
                (header.address, header.key) = (words[3], Key(low(words[4])));
                (header.total, header.offset) = (low(words[5]), high(words[5]));
            }
            MessageKind::Atomic => {
                (header.address, header.key, header.operand) = (words[3], Key(low(words[4])), words[5]);
                header.swap = (flags & SWAP != 0).then_some(words[6]);
                header.total = 8;
            }
        }
        let fragmented = matches!(
            kind,
            MessageKind::Send | MessageKind::SendInvalidate | MessageKind::Write | MessageKind::ReadResponse
        );
        if fragmented && u64::from(header.offset) + u64::from(payload) > u64::from(header.total) {
            return None;
        }
        Some((header, 3 + kind.extension_words(whole), payload))
    }

    /// Whether this is the first fragment of its message.
    pub fn is_first(&self) -> bool {
        self.offset == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_fragment_beyond_its_message_makes_no_sense() {
        let mut header = Header::new(MessageKind::Send, QpNumber(2), QpNumber(3), Psn(0), 0);
        (header.total, header.offset) = (100, 90);
        assert!(Header::parse(&emitted(&header, 10)).is_some());
        assert!(Header::parse(&emitted(&header, 11)).is_none());
    }

    fn emitted(header: &Header, payload: u32) -> [u64; HEADER_WORDS] {
        let mut words = [0; HEADER_WORDS];
        words[0] = header.emit(1, payload, |at, word| words[at] = word);
        words
    }

    proptest! {
        #[test]
        fn rubbish_is_parsed_without_harm(words in prop::array::uniform7(any::<u64>())) {
            if let Some((_, count, _)) = Header::parse(&words) {
                prop_assert!((3..=HEADER_WORDS).contains(&count));
            }
        }

        #[test]
        fn what_is_emitted_is_parsed(
            kind in 2u8..=13, psn in 0u32..1 << 24, attempt: u8, immediate: Option<u32>, solicited: bool,
            operand: u64, swap: Option<u64>, key: u32, address: u64, payload in 0u32..8192, other in 0u32..1 << 24
        ) {
            let kind = MessageKind::from_number(kind).unwrap();
            let mut header = Header::new(kind, QpNumber(77), QpNumber(0xff_ffff), Psn(psn), attempt);
            header.immediate = immediate;
            header.solicited = solicited;
            let says = matches!(kind, MessageKind::Send | MessageKind::SendPull);
            if says && immediate.is_none() && solicited {
                header.acknowledges = Some(Psn(other));
            }
            match kind {
                MessageKind::Send | MessageKind::SendInvalidate | MessageKind::ReadResponse => {
                    (header.total, header.offset) = (payload + 9, 7);
                }
                MessageKind::SendPull | MessageKind::WriteNotify => header.total = 1 << 30,
                MessageKind::Write => {
                    (header.total, header.offset, header.address, header.key) = (payload + 1, 1, address, Key(key));
                }
                MessageKind::Read => (header.total, header.address, header.key) = (payload, address, Key(key)),
                MessageKind::Atomic => {
                    (header.total, header.address, header.key) = (8, address, Key(key));
                    (header.operand, header.swap) = (operand, swap);
                }
                MessageKind::Datagram => {
                    (header.total, header.key, header.global_header) = (payload, Key(key), solicited);
                    header.operand = operand & 0xffff;
                }
                MessageKind::AtomicResponse => header.operand = operand,
                MessageKind::Padding | MessageKind::Acknowledge | MessageKind::Refuse => {}
            }
            let mut words = [0; HEADER_WORDS];
            words[0] = header.emit(9, payload, |at, word| words[at] = word);
            let count = header.words(payload);
            prop_assert_eq!(Header::parse(&words), Some((header, count, payload)));
        }
    }
}
