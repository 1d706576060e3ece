//! Messages: what they say and whom they concern. Their bytes travel beside them.
//!
//! The fields are those of the headers of IBTA vol. 1, 9.2 and 9.3; the section of each operation stands at its kind. What a
//! carrier makes of them is its own: one whose packets are smaller than a message cuts it and puts it together again.

use core::mem::Discriminant;

use crate::flush::FlushRequest;
use crate::key::Key;
use crate::number::{Psn, QpNumber, QueueName, RemoteRange};
use crate::refusal::Refusal;

/// What every message begins with (the base transport header, 9.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BaseHeader {
    /// Queue pair it is for.
    pub destination: QpNumber,
    /// Queue pair it comes from.
    pub source: QpNumber,
    /// Its number.
    pub psn: Psn,
    /// The attempt and the queue: one word, so that a message stays one cache line and its header travels in registers.
    besides: u32,
}

impl BaseHeader {
    /// A header. `attempt` says which attempt at the number it is, so that answers to an earlier one are told apart.
    #[inline]
    pub const fn new(destination: QpNumber, source: QpNumber, psn: Psn, attempt: u8) -> Self {
        Self { destination, source, psn, besides: QueueName::NONE.beside(attempt) }
    }

    /// The same, for a shared receive queue of the destination's domain: every request on an extended reliable connection names
    /// one (annex A14, XRCETH), and nothing else does.
    #[inline]
    pub const fn for_queue(self, queue: QueueName) -> Self {
        Self { besides: queue.beside(self.attempt()), ..self }
    }

    /// Which attempt at the number it is.
    #[inline]
    pub const fn attempt(self) -> u8 {
        self.besides as u8
    }

    /// The shared receive queue it is for.
    #[inline]
    pub const fn queue(self) -> QueueName {
        QueueName::in_word(self.besides)
    }

    /// The header of an answer that goes back where this came from and says which attempt at which number it answers.
    #[inline]
    pub const fn answer(self) -> Self {
        Self::new(self.source, self.destination, self.psn, self.attempt())
    }
}

/// A message without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Between whom, and which.
    pub base: BaseHeader,
    /// What it says.
    pub body: Body,
}

// One cache line: it is read, judged and written for every message of a ring.
const _: () = assert!(size_of::<Message>() <= 64);

/// Who of a queue pair takes a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// The responder of a connected queue pair.
    Request(Request),
    /// The requester of a reliable one.
    Answer(Answer),
    /// The receive queue of a queue pair that has no connection.
    Datagram(Datagram),
}

impl Body {
    /// What it asks, if it asks anything.
    #[inline]
    pub fn request(&self) -> Option<&Request> {
        match self {
            Self::Request(request) => Some(request),
            Self::Answer(_) | Self::Datagram(_) => None,
        }
    }
}

/// Which part of a message's bytes a fragment brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Length of the whole message in bytes.
    pub total: u32,
    /// Offset of this fragment in it, in bytes.
    pub offset: u32,
}

impl Extent {
    /// All of a message of so many bytes.
    #[inline]
    pub fn whole(total: u32) -> Self {
        Self { total, offset: 0 }
    }

    /// Whether a fragment of so many bytes is the whole message.
    #[inline]
    pub fn is_whole(self, payload: u32) -> bool {
        self.offset == 0 && self.total == payload
    }

    /// Whether a fragment of so many bytes ends where the message does, or before.
    #[inline]
    pub fn holds(self, payload: u32) -> bool {
        u64::from(self.offset) + u64::from(payload) <= u64::from(self.total)
    }
}

/// What a requester asks of its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// A send, or a fragment of one.
    Send(SendFragment),
    /// A send whose bytes the receiver takes from the sender's memory.
    Pull(SendPull),
    /// A send, or a fragment of one, that takes a key of the receiver's out of use.
    SendInvalidate(InvalidateFragment),
    /// An RDMA Write whose bytes the target places, or a fragment of one.
    Write(WriteFragment),
    /// An RDMA Write with immediate data whose bytes are there already.
    WriteNotify(WriteNotify),
    /// An RDMA Read the target answers.
    Read(ReadRequest),
    /// An atomic the target executes.
    Atomic(AtomicRequest),
    /// A flush the target answers as a read of nothing (annex A19.4.1).
    Flush(FlushRequest),
}

impl Request {
    /// Length of the whole message in bytes; of a read or an atomic, of the answer.
    #[inline]
    pub fn total(&self) -> u32 {
        match self {
            Self::Send(SendFragment { extent, .. })
            | Self::SendInvalidate(InvalidateFragment { extent, .. })
            | Self::Write(WriteFragment { extent, .. }) => extent.total,
            Self::Pull(SendPull { total, .. })
            | Self::WriteNotify(WriteNotify { total, .. })
            | Self::Read(ReadRequest { total, .. }) => *total,
            Self::Atomic(_) => AtomicRequest::LENGTH,
            Self::Flush(_) => 0,
        }
    }

    /// Where in the message its fragment begins, in bytes.
    #[inline]
    pub fn offset(&self) -> u32 {
        match self {
            Self::Send(SendFragment { extent, .. })
            | Self::SendInvalidate(InvalidateFragment { extent, .. })
            | Self::Write(WriteFragment { extent, .. }) => extent.offset,
            Self::Pull(_) | Self::WriteNotify(_) | Self::Read(_) | Self::Atomic(_) | Self::Flush(_) => 0,
        }
    }

    /// Whether this is the first fragment of its message.
    #[inline]
    pub fn is_first(&self) -> bool {
        self.offset() == 0
    }

    /// Whether a fragment of so many bytes is the last of its message. What is not cut into fragments always is.
    #[inline]
    pub fn is_last(&self, payload: u32) -> bool {
        match self {
            Self::Send(SendFragment { extent, .. })
            | Self::SendInvalidate(InvalidateFragment { extent, .. })
            | Self::Write(WriteFragment { extent, .. }) => {
                u64::from(extent.offset) + u64::from(payload) >= u64::from(extent.total)
            }
            Self::Pull(_) | Self::WriteNotify(_) | Self::Read(_) | Self::Atomic(_) | Self::Flush(_) => true,
        }
    }

    /// Whether somebody is to be told if nobody takes this fragment of so many bytes. Not of every one: a message may have many.
    /// The first, so that no more of them come; and the last, for a message that nobody takes any more since it began.
    #[inline]
    pub fn is_declined_aloud(&self, payload: u32) -> bool {
        self.is_first() || self.is_last(payload)
    }

    /// What all fragments of one message have in common.
    #[inline]
    pub fn kind(&self) -> Discriminant<Self> {
        core::mem::discriminant(self)
    }

    /// What the message says besides: everything of the other direction up to this number is done.
    #[inline]
    pub fn acknowledges(&self) -> Option<Psn> {
        match self {
            Self::Send(SendFragment { acknowledges, .. }) | Self::Pull(SendPull { acknowledges, .. }) => {
                *acknowledges
            }
            _ => None,
        }
    }

    /// Whether its answer carries data, which then says that it is done.
    #[inline]
    pub fn is_answered_with_data(&self) -> bool {
        matches!(self, Self::Read(_) | Self::Atomic(_) | Self::Flush(_))
    }
}

/// A send, or a fragment of one (9.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendFragment {
    /// Which bytes come with it.
    pub extent: Extent,
    /// Immediate data.
    pub immediate: Option<u32>,
    /// Wake a receiver that waits for solicited events only.
    pub solicited: bool,
    /// Everything of the other direction up to this number is done. Not beside immediate data.
    pub acknowledges: Option<Psn>,
}

/// A send whose bytes stay where they are until the receiver takes them; with it comes the list of the sender's pieces. Only a
/// carrier within one host has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendPull {
    /// Length of the message in bytes.
    pub total: u32,
    /// Immediate data.
    pub immediate: Option<u32>,
    /// Wake a receiver that waits for solicited events only.
    pub solicited: bool,
    /// As for [`SendFragment`].
    pub acknowledges: Option<Psn>,
}

/// A send with invalidate, or a fragment of one (9.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidateFragment {
    /// Which bytes come with it.
    pub extent: Extent,
    /// The key that is taken out of use behind the last byte.
    pub key: Key,
    /// Wake a receiver that waits for solicited events only.
    pub solicited: bool,
}

/// An RDMA Write, or a fragment of one (9.4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteFragment {
    /// Which bytes come with it.
    pub extent: Extent,
    /// Where the whole message goes.
    pub remote: RemoteRange,
    /// Immediate data, which take a receive behind the last byte.
    pub immediate: Option<u32>,
    /// Wake a receiver that waits for solicited events only.
    pub solicited: bool,
}

/// The notice of an RDMA Write with immediate data whose bytes were placed by the sender itself. Only a carrier within one host
/// has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteNotify {
    /// Length of what was written, in bytes.
    pub total: u32,
    /// Immediate data.
    pub immediate: u32,
    /// Wake a receiver that waits for solicited events only.
    pub solicited: bool,
}

/// An RDMA Read (9.4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadRequest {
    /// What is read.
    pub remote: RemoteRange,
    /// How many bytes.
    pub total: u32,
}

/// An atomic on a word of eight bytes (9.4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicRequest {
    /// Where the word is.
    pub remote: RemoteRange,
    /// What becomes of it.
    pub change: AtomicChange,
}

impl AtomicRequest {
    /// Bytes of the word.
    pub const LENGTH: u32 = 8;
}

/// What an atomic does with a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicChange {
    /// If it holds one value it gets another.
    CompareSwap {
        /// The value it has to hold.
        compare: u64,
        /// The value it gets.
        swap: u64,
    },
    /// A value is added, without regard to overflow.
    FetchAdd {
        /// The value.
        add: u64,
    },
}

/// What a responder says to a requester.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Everything up to this number is done (9.7.5).
    Acknowledge,
    /// This number failed, or must be sent again (9.7.5).
    Refuse(Refusal),
    /// Bytes of a read (9.4.4).
    ReadResponse(Extent),
    /// An atomic is done; what the word held before (9.4.5).
    AtomicResponse {
        /// That value.
        old: u64,
    },
    /// What was declined, since the queue pair took nothing yet, is taken from now on. No packet says this: a card's peer waits for its
    /// timeout.
    Ready,
}

/// An unreliable datagram (9.8.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// The Q_Key, which has to be the receiver's.
    pub q_key: u32,
    /// Local identifier of the sender's port.
    pub source_lid: u16,
    /// Whether its bytes begin with a global routing header.
    pub global_header: bool,
    /// Immediate data.
    pub immediate: Option<u32>,
    /// Wake a receiver that waits for solicited events only.
    pub solicited: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fragment_ends_where_its_message_does_or_before() {
        let extent = Extent { total: 100, offset: 90 };
        assert!(extent.holds(10) && extent.holds(0) && !extent.holds(11));
        assert!(!Extent { total: u32::MAX, offset: u32::MAX }.holds(u32::MAX));
        assert!(!extent.is_whole(100) && Extent::whole(7).is_whole(7) && !Extent::whole(7).is_whole(6));
    }

    #[test]
    fn of_a_message_that_nobody_takes_the_first_and_the_last_fragment_are_declined() {
        let fragment = |offset| {
            let extent = Extent { total: 100, offset };
            Request::Send(SendFragment { extent, immediate: None, solicited: false, acknowledges: None })
        };
        assert!(fragment(0).is_declined_aloud(40) && !fragment(0).is_last(40));
        assert!(!fragment(40).is_declined_aloud(40) && !fragment(40).is_declined_aloud(59));
        assert!(fragment(40).is_declined_aloud(60));
        let read = Request::Read(ReadRequest { remote: RemoteRange { address: 0, key: Key(1) }, total: 100 });
        assert!(read.is_declined_aloud(0) && read.is_last(0));
    }

    #[test]
    fn an_answer_goes_back_and_says_what_it_answers() {
        let base = BaseHeader::new(QpNumber(2), QpNumber(3), Psn(9), 4);
        let answer = base.answer();
        assert_eq!((answer.destination, answer.source), (QpNumber(3), QpNumber(2)));
        assert_eq!((answer.psn, answer.attempt(), answer.answer()), (Psn(9), 4, base));
    }
}
