//! The short ways of the ring against the general ones: the same ring, the same message, the same outcome.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use nonic_memory::SharedSlice;
use nonic_protocol::{BaseHeader, Body, Message, Psn, QpNumber, Request};
use nonic_sys::SharedMapping;
use proptest::prelude::*;

use super::{Consumer, Producer, RingCorrupt, RingFull, RingMemory, cells_of, stamp};
use crate::codec::{ACKNOWLEDGES, FRAGMENT, Kind, SOLICITED, ShortSend, WHOLE};
use crate::layout::{CELL, CELLS, Direction, LINK_LENGTH, RING_CELLS_LENGTH, RING_HEAD};

/// A ring with both its ends.
struct Ring {
    producer: Producer,
    consumer: Consumer,
    memory: RingMemory,
}

/// A message as the consumer finds it: what it says, and where its payload stands.
type Found = (Message, usize, usize);

impl Ring {
    fn new() -> Self {
        // As in a link, the mapping does not end where the ring does.
        let mapping = Arc::new(SharedMapping::anonymous(LINK_LENGTH).unwrap());
        let memory = RingMemory::new(mapping, Direction::FROM_ACTIVE);
        Self { producer: Producer::of_whole(memory.clone()), consumer: Consumer::new(memory.clone()), memory }
    }

    /// Every byte of it, with what its ends tell each other, and of what stands behind it.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; Direction::FROM_ACTIVE.cells + RING_CELLS_LENGTH + FRAGMENT];
        SharedSlice::of_mapping(self.memory.cells.mapping(), 0, bytes.len()).unwrap().read(&mut bytes);
        bytes
    }

    fn start(&self) -> usize {
        self.memory.cells.mapping().as_ptr() as usize
    }

    fn push(&mut self, send: ShortSend, bytes: &mut [u8]) -> Result<(), RingFull> {
        let payload = SharedSlice::of_private(bytes);
        self.producer.push(&send.to_message(payload.length() as u32), &[payload])
    }

    /// Looks the short way.
    fn peek_short(&mut self) -> Option<Found> {
        let start = self.start();
        let found = self.consumer.peek_short()?;
        let length = found.payload.length();
        Some((found.send.to_message(length as u32), found.payload.address() - start, length))
    }

    /// Looks the general way.
    fn peek(&mut self) -> Result<Option<Found>, RingCorrupt> {
        let start = self.start();
        let found = self.consumer.peek()?;
        Ok(found.map(|found| (found.message, found.payload.address() - start, found.payload.length())))
    }

    /// Takes everything out and says so, and has the producer know it.
    fn empty(&mut self) {
        while self.peek().unwrap().is_some() {
            self.consumer.advance();
        }
        self.consumer.report();
        assert!(self.producer.everything_was_read());
    }

    /// Where the next message will stand, in cells since the beginning, if the ring is empty.
    fn position(&self) -> u64 {
        self.memory.control(RING_HEAD).load(Ordering::Relaxed)
    }

    /// Passes messages until so many cells are left of a lap, of which so many before hold messages that nobody took.
    fn go_to(&mut self, lap: u64, left: u64, unread: u64) {
        const MOST: u64 = 256;
        let goal = (lap + 1) * CELLS - left;
        let mut at = 0;
        while at < goal {
            // Never over the end of the ring, where padding would come in between.
            let until = if at < goal - unread { goal - unread } else { goal };
            let cells = (until.min((at / CELLS + 1) * CELLS) - at).min(MOST);
            self.push(send(0, false, None), &mut vec![0xee; cells as usize * CELL - 24]).unwrap();
            at += cells;
            if at <= goal - unread {
                self.empty();
                assert_eq!(self.position(), at);
            }
        }
    }
}

fn send(psn: u32, solicited: bool, acknowledges: Option<u32>) -> ShortSend {
    let base = BaseHeader::new(QpNumber(2), QpNumber(3), Psn(psn), psn as u8);
    ShortSend { base, solicited, acknowledges: acknowledges.map(Psn) }
}

/// Lengths around everything that is decided by one: a cell, the end of the ring, a fragment.
fn lengths(left: u64) -> impl Strategy<Value = usize> {
    let end = (left as usize * CELL).saturating_sub(24);
    prop_oneof![
        0usize..100,
        (0usize..=2).prop_map(move |more| (end + more).saturating_sub(1)),
        FRAGMENT..=FRAGMENT + 1,
        0..FRAGMENT,
    ]
}

/// How many cells are left of the lap: often as many as the longest message takes, or fewer.
fn cells_left() -> impl Strategy<Value = u64> {
    prop_oneof![3 => 1u64..300, 1 => 1..=CELLS]
}

/// How many cells hold messages that nobody took: none, or nearly as many as there are.
fn unread_cells() -> impl Strategy<Value = u64> {
    prop_oneof![1 => Just(0), 1 => CELLS - 300..CELLS, 1 => 0..CELLS]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn what_is_pushed_the_short_way_stands_in_the_ring_as_if_pushed_the_other(
        lap in 1u64..3,
        unread in unread_cells(),
        (left, messages) in cells_left().prop_flat_map(|left| {
            let message = (lengths(left), any::<bool>(), prop::option::of(0u32..1 << 24), any::<bool>());
            (Just(left), prop::collection::vec(message, 1..8))
        })
    ) {
        let (mut short, mut general) = (Ring::new(), Ring::new());
        short.go_to(lap, left, unread);
        general.go_to(lap, left, unread);
        for (number, (length, solicited, acknowledges, empties)) in messages.into_iter().enumerate() {
            let send = send(number as u32, solicited, acknowledges);
            let mut bytes: Vec<u8> = (0..length).map(|byte| (byte ^ number ^ 0x5a) as u8).collect();
            let before = short.bytes();
            if short.producer.push_short(send, SharedSlice::of_private(&mut bytes)) {
                prop_assert!(length <= FRAGMENT);
                prop_assert_eq!(general.push(send, &mut bytes), Ok(()));
            } else {
                prop_assert!(short.bytes() == before, "something was done");
                if length <= FRAGMENT {
                    prop_assert_eq!(short.push(send, &mut bytes), general.push(send, &mut bytes));
                }
            }
            prop_assert!(short.bytes() == general.bytes(), "the rings differ");
            if empties {
                short.empty();
                general.empty();
            }
        }
    }

    #[test]
    fn the_short_way_in_is_there_whenever_nothing_has_to_be_asked_or_filled_up(
        (left, length) in cells_left().prop_flat_map(|left| (Just(left), lengths(left))),
        lap in 1u64..3,
        unread in unread_cells(),
        spare in prop::option::of(0u64..3),
    ) {
        let cells = cells_of(ShortSend::WORDS, length);
        // Often as many as leave room for this message and `spare` less one.
        let unread = spare.map_or(unread, |spare| (CELLS + spare).saturating_sub(cells + 2).min(CELLS - 1));
        let mut ring = Ring::new();
        ring.go_to(lap, left, unread);
        // The cell behind a message is unstamped with it, so it has to be free, too.
        let room = length <= FRAGMENT && cells <= left && unread + cells < CELLS;
        let pushed = ring.producer.push_short(send(1, false, None), SharedSlice::of_private(&mut vec![0; length]));
        prop_assert_eq!(pushed, room);
    }

    #[test]
    fn what_is_found_the_short_way_is_what_the_other_finds(
        lap in 1u64..3,
        (left, length) in cells_left().prop_flat_map(|left| (Just(left), prop_oneof![
            8 => lengths(left).prop_map(|length| length as u32),
            1 => any::<u32>(),
        ])),
        kind in prop_oneof![8 => Just(Kind::Send as u64), 1 => 0u64..16],
        flags in prop_oneof![
            prop::sample::select(&[0, SOLICITED, ACKNOWLEDGES, SOLICITED | ACKNOWLEDGES][..])
                .prop_map(|flags| WHOLE | flags),
            0u64..256,
        ],
        age in prop_oneof![8 => Just(0u16), 1 => any::<u16>()],
        ends in prop_oneof![8 => Just((2u32, 3u32)), 1 => any::<(u32, u32)>()],
        numbers: u64,
    ) {
        let (mut short, mut general) = (Ring::new(), Ring::new());
        for ring in [&mut short, &mut general] {
            ring.go_to(lap, left, 0);
            let position = ring.position();
            let mark = stamp(position).wrapping_add(age);
            let first = u64::from(mark) | kind << 16 | flags << 24 | u64::from(length) << 32;
            for (number, word) in [first, u64::from(ends.0) | u64::from(ends.1) << 32, numbers].into_iter().enumerate()
            {
                ring.memory.word(position, number).store(word, Ordering::Relaxed);
            }
        }
        let (found, also) = (short.peek_short(), general.peek());
        if found.is_some() {
            prop_assert_eq!(Ok(found), also);
        } else if let Ok(Some((message, at, length))) = also {
            // What it leaves to the other is no send that says all it has to in three words.
            let all = matches!(message.body, Body::Request(Request::Send(send)) if send.extent.total as usize == length);
            let alone = at % CELL == 24 && all;
            prop_assert!(!alone || flags & !(WHOLE | SOLICITED | ACKNOWLEDGES) != 0, "{message:?}");
        }
        // And where the next one stands.
        if found.is_some() {
            for ring in [&mut short, &mut general] {
                ring.consumer.advance();
                ring.consumer.report();
            }
            prop_assert_eq!(short.position(), general.position());
        }
    }
}
