//! What processes that have the domain of a file open say to each other: one has a queue pair of it, and the other the shared receive
//! queue that a message for that queue pair names. The other judges and carries out; the one asks, and answers its peer.

use nonic_memory::Key;
use nonic_message::{Malformed, Protocol, kinds, parts};
use nonic_protocol::{
    AtomicChange, Completion, CompletionOpcode, Extent, FlushRequest, Placement, QpNumber, RemoteRange,
    Selectivity, SrqNumber, Status,
};
use nonic_transport::FRAGMENT;

use super::pair_words::PairAttributes;

const PROTOCOL: Protocol = Protocol::new(*b"nonicxrc", "XRC domains").version(1);
/// Bytes of a message that go at once: a fragment, or a packet of the largest path MTU.
const BYTES_MAX: usize = FRAGMENT;
/// Bytes of the longest message.
pub(super) const LONGEST: usize = BYTES_MAX + 128;

/// What is asked; or told, without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// Whether the queue is there.
    Find { queue: u32 },
    /// Whether it has a receive.
    Has { queue: u32 },
    /// Its oldest receive.
    Take { queue: u32 },
    /// That is the next again: what it was taken for did not come. Told.
    GiveBack { receive: u64 },
    /// Places bytes in it, from `offset` on.
    Fill { receive: u64, offset: u64, bytes: Box<[u8]> },
    /// It is over.
    Complete { receive: u64, end: End },
    /// Places bytes of a write.
    Write { at: Place, total: u32, offset: u32, bytes: Box<[u8]> },
    /// Whether so many bytes may be read.
    MayRead { at: Place, length: u32 },
    /// These bytes.
    Read { at: Place, length: u32 },
    /// Whether this may be flushed.
    MayFlush { at: Place, length: u32, placement: u8, selectivity: u8 },
    /// Carries out an atomic.
    FetchAdd { at: Place, add: u64 },
    /// The same.
    CompareSwap { at: Place, compare: u64, swap: u64 },
    /// Opens a queue pair. What happens to it is told the process of this block of numbers.
    OpenPair { pair: u32, block: u32 },
    /// Closes it again. Told.
    ClosePair { pair: u32 },
    /// What was set of it.
    QueryPair { pair: u32 },
    /// Changes it. What came of that is asked for.
    ModifyPair { pair: u32, mask: u32, attributes: PairAttributes },
    /// Whether it was changed.
    IsModified,
    /// What happened to a queue pair that was opened there. Told.
    Happened { pair: u32, event: u32 },
}

/// Memory that a peer names, of the zone of a shared receive queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    queue: u32,
    key: u32,
    address: u64,
}

/// How a receive ended: what a completion says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    status: u32,
    /// Whether it was taken by the immediate data of a write.
    of_write: bool,
    length: u32,
    immediate: Option<u32>,
    solicited: bool,
    pair: u32,
    source: u32,
}

/// What is said to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// There is no such queue, or it is not allowed.
    No,
    /// It is so, or was done.
    Yes,
    /// A receive, under a number of this conversation's, and how long it is.
    Receive { receive: u64, length: u64 },
    /// Bytes.
    Bytes(Box<[u8]>),
    /// What a word held before.
    Word(u64),
    /// The bytes are no word that atomics can change.
    NoWord,
    /// What was set of a queue pair.
    Attributes(PairAttributes),
    /// Not now.
    Later,
}

parts!(Place { queue, key, address });
parts!(End { status, of_write, length, immediate, solicited, pair, source });
kinds!(Question {
    1 => Find { queue },
    2 => Has { queue },
    3 => Take { queue },
    4 => GiveBack { receive },
    5 => Fill { receive, offset, bytes at most BYTES_MAX },
    6 => Complete { receive, end },
    7 => Write { at, total, offset, bytes at most BYTES_MAX },
    8 => MayRead { at, length },
    9 => Read { at, length at most BYTES_MAX },
    10 => MayFlush { at, length, placement, selectivity },
    11 => FetchAdd { at, add },
    12 => CompareSwap { at, compare, swap },
    13 => OpenPair { pair, block },
    14 => ClosePair { pair },
    15 => QueryPair { pair },
    16 => ModifyPair { pair, mask, attributes },
    17 => IsModified,
    18 => Happened { pair, event },
});
kinds!(Answer {
    1 => No,
    2 => Yes,
    3 => Receive { receive, length },
    4 => Bytes(bytes at most BYTES_MAX),
    5 => Word(word),
    6 => NoWord,
    7 => Attributes(attributes),
    8 => Later,
});

impl Question {
    pub(super) fn emit(&self) -> Vec<u8> {
        PROTOCOL.emit(self)
    }

    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        PROTOCOL.parse(bytes)
    }

    /// A fragment of a write.
    pub(super) fn write(at: Place, extent: Extent, bytes: Box<[u8]>) -> Self {
        Self::Write { at, total: extent.total, offset: extent.offset, bytes }
    }

    pub(super) fn may_flush(queue: SrqNumber, flush: &FlushRequest) -> Self {
        Self::MayFlush {
            at: Place::of(queue, flush.remote),
            length: flush.length,
            placement: flush.placement.bits(),
            selectivity: flush.selectivity as u8,
        }
    }

    pub(super) fn change(at: Place, change: AtomicChange) -> Self {
        match change {
            AtomicChange::FetchAdd { add } => Self::FetchAdd { at, add },
            AtomicChange::CompareSwap { compare, swap } => Self::CompareSwap { at, compare, swap },
        }
    }
}

impl Answer {
    pub(super) fn emit(&self) -> Vec<u8> {
        PROTOCOL.emit(self)
    }

    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        PROTOCOL.parse(bytes)
    }

    pub(super) fn of(is_so: bool) -> Self {
        if is_so { Self::Yes } else { Self::No }
    }
}

impl Place {
    pub(super) fn of(queue: SrqNumber, remote: RemoteRange) -> Self {
        Self { queue: queue.0, key: remote.key.0, address: remote.address }
    }

    pub(super) fn queue(&self) -> SrqNumber {
        SrqNumber(self.queue)
    }

    pub(super) fn remote(&self) -> RemoteRange {
        RemoteRange { address: self.address, key: Key(self.key) }
    }
}

/// A flush, if its numbers mean one.
pub(super) fn flush_of(at: Place, length: u32, placement: u8, selectivity: u8) -> Option<FlushRequest> {
    let (placement, selectivity) = (Placement::from_bits(placement)?, Selectivity::from_number(selectivity)?);
    Some(FlushRequest { remote: at.remote(), length, placement, selectivity })
}

/// How a receive can end.
const ENDS: [Status; 8] = [
    Status::Success,
    Status::LocalLength,
    Status::LocalProtection,
    Status::Flushed,
    Status::LocalAccess,
    Status::RemoteInvalidRequest,
    Status::RemoteOperation,
    Status::General,
];

impl End {
    pub(super) fn of(completion: &Completion, solicited: bool) -> Self {
        Self {
            status: completion.status as u32,
            of_write: completion.opcode == CompletionOpcode::ReceiveWriteWithImmediate,
            length: completion.byte_length,
            immediate: completion.immediate,
            solicited,
            pair: completion.qp_number.0,
            source: completion.source_qp.0,
        }
    }

    /// Whether a program that asked for solicited events only is woken.
    pub(super) fn is_solicited(&self) -> bool {
        self.solicited
    }

    /// Writes it into a completion of the receive with this mark.
    pub(super) fn write_to(&self, completion: &mut Completion, id: u64) {
        let status = ENDS.into_iter().find(|status| *status as u32 == self.status);
        let opcode = if self.of_write {
            CompletionOpcode::ReceiveWriteWithImmediate
        } else {
            CompletionOpcode::Receive
        };
        completion.set_bare(id, opcode, status.unwrap_or(Status::General), QpNumber::masked(self.pair));
        completion.byte_length = self.length;
        completion.immediate = self.immediate;
        completion.source_qp = QpNumber::masked(self.source);
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use nonic_protocol::QpAttributes;

    fn bytes() -> impl Strategy<Value = Box<[u8]>> {
        vec(any::<u8>(), 0..64).prop_map(Vec::into_boxed_slice)
    }

    fn places() -> impl Strategy<Value = Place> {
        any::<(u32, u32, u64)>().prop_map(|(queue, key, address)| Place { queue, key, address })
    }

    fn ends() -> impl Strategy<Value = End> {
        let parts = any::<(u32, bool, u32, Option<u32>, bool, u32, u32)>();
        parts.prop_map(|(status, of_write, length, immediate, solicited, pair, source)| End {
            status,
            of_write,
            length,
            immediate,
            solicited,
            pair,
            source,
        })
    }

    fn questions() -> impl Strategy<Value = Question> {
        let number = any::<u32>;
        prop_oneof![
            number().prop_map(|queue| Question::Find { queue }),
            number().prop_map(|queue| Question::Has { queue }),
            number().prop_map(|queue| Question::Take { queue }),
            any::<u64>().prop_map(|receive| Question::GiveBack { receive }),
            (any::<[u64; 2]>(), bytes()).prop_map(|([receive, offset], bytes)| Question::Fill {
                receive,
                offset,
                bytes
            }),
            (any::<u64>(), ends()).prop_map(|(receive, end)| Question::Complete { receive, end }),
            (places(), number(), number(), bytes()).prop_map(|(at, total, offset, bytes)| Question::Write {
                at,
                total,
                offset,
                bytes
            }),
            (places(), number()).prop_map(|(at, length)| Question::MayRead { at, length }),
            (places(), 0..=BYTES_MAX as u32).prop_map(|(at, length)| Question::Read { at, length }),
            (places(), number(), any::<[u8; 2]>()).prop_map(|(at, length, [placement, selectivity])| {
                Question::MayFlush { at, length, placement, selectivity }
            }),
            (places(), any::<u64>()).prop_map(|(at, add)| Question::FetchAdd { at, add }),
            (places(), any::<[u64; 2]>()).prop_map(|(at, [compare, swap])| Question::CompareSwap {
                at,
                compare,
                swap
            }),
        ]
    }

    fn answers() -> impl Strategy<Value = Answer> {
        prop_oneof![
            Just(Answer::No),
            Just(Answer::Yes),
            Just(Answer::NoWord),
            Just(Answer::Later),
            Just(Answer::Attributes((&QpAttributes::default()).into())),
            any::<[u64; 2]>().prop_map(|[receive, length]| Answer::Receive { receive, length }),
            bytes().prop_map(Answer::Bytes),
            any::<u64>().prop_map(Answer::Word),
        ]
    }

    proptest! {
        #[test]
        fn what_is_said_is_understood(question in questions(), answer in answers()) {
            prop_assert_eq!(Question::parse(&question.emit()), Ok(question));
            prop_assert_eq!(Answer::parse(&answer.emit()), Ok(answer));
        }

        #[test]
        fn what_is_understood_of_any_bytes_is_what_these_say(bytes in vec(any::<u8>(), 0..80)) {
            let bytes = [&Question::Find { queue: 0 }.emit()[..12], &bytes].concat();
            if let Ok(question) = Question::parse(&bytes) {
                prop_assert_eq!(question.emit(), bytes);
            } else if let Ok(answer) = Answer::parse(&bytes) {
                prop_assert_eq!(answer.emit(), bytes);
            }
        }
    }

    #[test]
    fn the_longest_message_is_not_longer_than_is_said() {
        let at = Place { queue: 1, key: 2, address: 3 };
        let bytes: Box<[u8]> = vec![0; BYTES_MAX].into();
        let longest = Question::Write { at, total: 4, offset: 5, bytes: bytes.clone() }.emit().len();
        assert!(longest <= LONGEST, "{longest}");
        assert!(Answer::Bytes(bytes).emit().len() <= LONGEST);
    }

    #[test]
    fn a_completion_says_at_the_other_side_what_it_said_here() {
        for (status, opcode) in [
            (Status::Success, CompletionOpcode::Receive),
            (Status::Success, CompletionOpcode::ReceiveWriteWithImmediate),
            (Status::LocalLength, CompletionOpcode::Receive),
        ] {
            let mut here = Completion::bare(77, opcode, status, QpNumber(9));
            (here.byte_length, here.immediate, here.source_qp) = (5, Some(6), QpNumber(7));
            let mut there = Completion::default();
            End::of(&here, true).write_to(&mut there, 77);
            assert_eq!(there, here);
            assert!(End::of(&here, true).is_solicited() && !End::of(&here, false).is_solicited());
        }
    }

    #[test]
    fn an_end_that_no_receive_has_is_a_failure() {
        let end = End::of(&Completion::default(), false);
        let mut completion = Completion::default();
        End { status: Status::RetryExceeded as u32, ..end }.write_to(&mut completion, 1);
        assert_eq!(completion.status, Status::General);
        End { status: 99, ..end }.write_to(&mut completion, 1);
        assert_eq!(completion.status, Status::General);
    }
}
