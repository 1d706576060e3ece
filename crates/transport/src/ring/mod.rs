//! A ring of messages from one process to another, in memory both have mapped.
//!
//! The ring is an array of cells of half a cache line. A message is one or more neighbouring cells; its first word carries
//! a stamp that says which lap of the ring it belongs to, and is stored last, so that the consumer finds a message by
//! looking at the very line that holds it. A cell in which an earlier lap left payload is unstamped before the message in
//! front of it is published: bytes of a payload can then not be taken for a message. (The producer remembers which cells
//! those are; a stream of short messages touches each line once for two of them.) A producer that dies while it writes has
//! published nothing; whatever a hostile producer publishes is copied, checked and refused as a whole.
//!
//! A lap need not go as far as the ring: as long as the consumer keeps up, the producer fills what is left and begins anew after a few
//! cells. They stay in the caches, and no page of the others is ever touched.

mod bell;
mod consumer;
mod producer;
#[cfg(test)]
mod twins;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use nonic_memory::SharedSlice;
use nonic_sys::{SharedMapping, SharedWords};

pub use self::bell::Sleeper;
pub(crate) use self::bell::{Bell, Wanted};
pub use self::consumer::{Consumer, Incoming, IncomingShort, RingCorrupt};
pub use self::producer::Producer;
use crate::layout::{CELL, CELLS, Direction, RING_CONTROL_LENGTH};

/// Where one direction of a link lies.
#[derive(Clone, Debug)]
pub(crate) struct RingMemory {
    control: SharedWords,
    cells: SharedWords,
    /// First byte of the cells in the mapping.
    offset: usize,
}

/// Words of a cell.
const CELL_WORDS: usize = CELL / 8;

impl RingMemory {
    pub(crate) fn new(mapping: Arc<SharedMapping>, at: Direction) -> Self {
        let cells = SharedWords::new(Arc::clone(&mapping), at.cells, CELLS as usize * CELL_WORDS);
        Self {
            control: SharedWords::new(mapping, at.control, RING_CONTROL_LENGTH / 8),
            cells,
            offset: at.cells,
        }
    }

    #[inline(always)]
    fn control(&self, field: usize) -> &AtomicU64 {
        self.control.at(field / 8)
    }

    #[inline(always)]
    fn word(&self, position: u64, word: usize) -> &AtomicU64 {
        self.cells.at(position as usize * CELL_WORDS + word)
    }

    /// `length` bytes behind the first `words` words of the cell at `position`, if the ring does not end before.
    #[inline(always)]
    fn payload(&self, position: u64, words: usize, length: usize) -> Option<SharedSlice<'_>> {
        let at = self.offset + (position % CELLS) as usize * CELL + words * 8;
        SharedSlice::of_mapping(self.cells.mapping(), at, length)
    }
}

/// The lap's mark; never 0, which is what fresh and unstamped cells hold.
#[inline(always)]
fn stamp(position: u64) -> u16 {
    (position / CELLS % 0xffff) as u16 + 1
}

#[inline(always)]
fn cells_of(header_words: usize, payload: usize) -> u64 {
    (header_words * 8 + payload).div_ceil(CELL) as u64
}

/// The ring has no room now. The consumer rings the producer's doorbell when it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingFull;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{FRAGMENT, Kind, ShortSend};
    use crate::layout::{LINK_LENGTH, RING_HEAD, RING_PRODUCER_WAITS};
    use nonic_protocol::{BaseHeader, Message, Psn, QpNumber};
    use proptest::prelude::*;
    use std::sync::atomic::Ordering;

    fn ring() -> (Producer, Consumer, RingMemory) {
        let mapping = Arc::new(SharedMapping::anonymous(LINK_LENGTH).unwrap());
        let memory = RingMemory::new(mapping, Direction::FROM_ACTIVE);
        (Producer::new(memory.clone()), Consumer::new(memory.clone()), memory)
    }

    fn message(psn: u32, total: usize) -> Message {
        short_send(psn).to_message(total as u32)
    }

    proptest! {
        #[test]
        fn short_sends_go_either_way_in_and_either_way_out(steps in prop::collection::vec((0usize..200, any::<bool>(), any::<bool>()), 1..900)) {
            let (mut producer, mut consumer, _) = ring();
            for (i, (length, short_in, short_out)) in steps.into_iter().enumerate() {
                let mut bytes: Vec<u8> = (0..length).map(|b| (b ^ i) as u8).collect();
                let send = short_send(i as u32);
                // At the end of the ring the short way leaves the padding to the other.
                if !(short_in && producer.push_short(send, SharedSlice::of_private(&mut bytes))) {
                    push(&mut producer, i as u32, &mut bytes).unwrap();
                }
                let seen = if short_out && let Some(incoming) = consumer.peek_short() {
                    prop_assert_eq!(incoming.send, send);
                    let mut bytes = vec![0; incoming.payload.length()];
                    incoming.payload.read(&mut bytes);
                    consumer.advance();
                    Some((i as u32, bytes))
                } else {
                    pop(&mut consumer)
                };
                prop_assert_eq!(seen, Some((i as u32, bytes)));
                prop_assert!(consumer.peek_short().is_none());
                consumer.report();
            }
        }
    }

    fn short_send(psn: u32) -> ShortSend {
        let base = BaseHeader::new(QpNumber(2), QpNumber(3), Psn(psn), 0);
        ShortSend { base, solicited: false, acknowledges: None }
    }

    fn push(producer: &mut Producer, psn: u32, bytes: &mut [u8]) -> Result<(), RingFull> {
        // SAFETY: the slice lives through the call.
        #[allow(unsafe_code)]
        let payload = unsafe { SharedSlice::from_raw(bytes.as_mut_ptr(), bytes.len()) };
        producer.push(&message(psn, bytes.len()), &[payload])
    }

    fn pop(consumer: &mut Consumer) -> Option<(u32, Vec<u8>)> {
        let incoming = consumer.peek().unwrap()?;
        let mut bytes = vec![0; incoming.payload.length()];
        incoming.payload.read(&mut bytes);
        let psn = incoming.message.base.psn.0;
        consumer.advance();
        Some((psn, bytes))
    }

    /// Reads every message; whether the producer is to be rung for.
    fn read_all(consumer: &mut Consumer) -> bool {
        let mut rings = false;
        while consumer.peek().unwrap().is_some() {
            rings |= consumer.advance();
        }
        rings | consumer.report()
    }

    proptest! {
        #[test]
        fn messages_arrive_whole_and_in_order(
            lengths in prop::collection::vec(prop_oneof![0usize..200, 0usize..=FRAGMENT], 1..300),
            greed in 1usize..40
        ) {
            let (mut producer, mut consumer, _) = ring();
            let mut expected = std::collections::VecDeque::new();
            for (i, length) in lengths.into_iter().enumerate() {
                let mut bytes: Vec<u8> = (0..length).map(|b| (b ^ i) as u8).collect();
                while push(&mut producer, i as u32, &mut bytes).is_err() {
                    for _ in 0..greed {
                        let Some(seen) = pop(&mut consumer) else { break };
                        prop_assert_eq!(Some(seen), expected.pop_front());
                    }
                    consumer.report();
                }
                expected.push_back((i as u32, bytes));
            }
            while let Some(seen) = pop(&mut consumer) {
                prop_assert_eq!(Some(seen), expected.pop_front());
            }
            prop_assert!(expected.is_empty());
        }

        #[test]
        fn rubbish_in_the_ring_is_refused_or_harmless(words in prop::collection::vec(any::<u64>(), 1..64), kind in 0u64..14) {
            let (_, mut consumer, memory) = ring();
            for (i, word) in words.iter().enumerate() {
                memory.word(i as u64 / 8, i % 8).store(*word, Ordering::Relaxed);
            }
            let first = words[0] & !0xff_ffff | kind << 16 | 1;
            memory.word(0, 0).store(first, Ordering::Relaxed);
            for _ in 0..8 {
                match consumer.peek() {
                    Ok(Some(incoming)) => prop_assert!(incoming.payload.length() <= FRAGMENT),
                    _ => break,
                }
                consumer.advance();
            }
        }
    }

    #[test]
    fn bytes_of_an_earlier_lap_are_never_taken_for_a_message() {
        let (mut producer, mut consumer, _) = ring();
        // Payload that looks like a stamped first word in every cell, for every lap that follows.
        for lap in 1..20u64 {
            let word = lap | (Kind::Send as u64) << 16 | 4 << 24;
            let mut bytes: Vec<u8> = word.to_le_bytes().repeat(1000);
            for psn in 0..40 {
                push(&mut producer, psn, &mut bytes).unwrap();
                assert_eq!(pop(&mut consumer).map(|seen| seen.0), Some(psn));
                assert_eq!(pop(&mut consumer), None);
                consumer.report();
            }
        }
    }

    /// Has messages of a cell written and read at once, with a pause in each lap if `slowly`; how many were ever used.
    fn cells_used(slowly: bool) -> usize {
        let (mut producer, mut consumer, memory) = ring();
        for psn in 0..20_000 {
            if slowly && psn % 500 == 0 {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            push(&mut producer, psn, &mut [1; 8]).unwrap();
            assert!(!read_all(&mut consumer));
        }
        (0..CELLS).filter(|cell| memory.word(*cell, 0).load(Ordering::Relaxed) != 0).count()
    }

    #[test]
    fn a_consumer_that_keeps_up_has_few_cells_used_and_a_few_more_by_a_stream() {
        assert_eq!(cells_used(true), 512 + 1);
        assert!(cells_used(false) < CELLS as usize / 2 + 2);
    }

    #[test]
    fn a_producer_that_found_no_room_once_uses_the_whole_ring() {
        let (mut producer, mut consumer, _) = ring();
        for psn in 0..512 {
            push(&mut producer, psn, &mut [1; 8]).unwrap();
            assert!(!read_all(&mut consumer));
        }
        let mut fill =
            || (0..).take_while(|psn| push(&mut producer, *psn, &mut [1; 8]).is_ok()).count() as u64;
        // While the end of the lap stands unread there is room for messages before it only.
        assert_eq!(fill(), 512 - 1);
        assert!(read_all(&mut consumer), "the producer waits");
        assert_eq!(fill(), CELLS - 1);
    }

    #[test]
    fn what_laps_passed_over_is_not_taken_for_a_message_when_a_stamp_comes_again() {
        let (mut producer, mut consumer, _) = ring();
        let mut pass = |bytes: &mut [u8]| {
            push(&mut producer, 0, bytes).unwrap();
            assert!(pop(&mut consumer).is_some());
            consumer.report();
            assert!(!consumer.has_message(), "{}", consumer.position());
            consumer.position()
        };
        // The first lap stamps nearly all cells in use; later ones end in the middle, until one has its stamp.
        assert_eq!((0..500).map(|_| pass(&mut [1; 8])).last(), Some(500));
        // Two messages are a lap, which must not be quick: the next would have more cells.
        let slow = || {
            let began = std::time::Instant::now();
            while began.elapsed() < std::time::Duration::from_micros(11) {}
        };
        while pass(&mut [1; 6000]) < 0xffff * CELLS {
            slow();
        }
        for _ in 0..300 {
            pass(&mut [1; 8]);
        }
    }

    #[test]
    fn a_full_ring_takes_nothing_and_the_consumer_is_told_to_ring() {
        let (mut producer, mut consumer, _) = ring();
        let mut count = 0;
        while push(&mut producer, count, &mut [1; 8]).is_ok() {
            count += 1;
        }
        assert_eq!(u64::from(count), CELLS - 1);
        assert!(push(&mut producer, 0, &mut [1; 8]).is_err());
        assert!(pop(&mut consumer).is_some());
        assert!(consumer.report(), "the producer waits");
        assert!(push(&mut producer, count, &mut [1; 8]).is_ok());
    }

    #[test]
    fn a_producer_that_waits_is_rung_for_though_the_place_it_waits_for_is_padding() {
        // How many cells stand unread before the padding decides whether it is the padding that brings the consumer to a report.
        for before in [CELLS / 8 - 1, CELLS / 8 - 200, CELLS / 8 - 300] {
            let (_, mut consumer, memory) = ring();
            let mut producer = Producer::of_whole(memory);
            for psn in 0..(CELLS - before - 100) as u32 {
                push(&mut producer, psn, &mut [1; 8]).unwrap();
                assert!(pop(&mut consumer).is_some());
                assert!(!consumer.report());
            }
            for psn in 0..before as u32 {
                push(&mut producer, psn, &mut [1; 8]).unwrap();
            }
            // A hundred cells are left before the ring starts again: the first of these does not fit there.
            while push(&mut producer, 0, &mut [1; FRAGMENT]).is_ok() {}
            assert!(read_all(&mut consumer), "with {before} cells before the padding nobody was told");
        }
    }

    #[test]
    fn a_producer_that_goes_on_saying_that_it_waits_is_rung_for_once_until_there_is_more_room() {
        let (mut producer, mut consumer, memory) = ring();
        push(&mut producer, 0, &mut [1; 8]).unwrap();
        let mut rung = 0;
        for _ in 0..100 {
            memory.control(RING_PRODUCER_WAITS).store(1, Ordering::SeqCst);
            assert!(consumer.has_work());
            rung += u32::from(consumer.report());
        }
        assert_eq!(rung, 1);
        assert!(pop(&mut consumer).is_some());
        memory.control(RING_PRODUCER_WAITS).store(1, Ordering::SeqCst);
        assert!(consumer.report());
    }

    #[test]
    fn a_producer_that_fills_the_ring_before_the_consumer_has_gone_on_is_rung_for_when_it_has() {
        let (mut producer, mut consumer, memory) = ring();
        // It waits and has room, since the consumer goes on at the same moment; it is rung for at this place.
        memory.control(RING_PRODUCER_WAITS).store(1, Ordering::SeqCst);
        assert!(consumer.report());
        // It fills the ring before the consumer looks once more, as who falls asleep does.
        while push(&mut producer, 0, &mut [1; FRAGMENT]).is_ok() {}
        assert!(!consumer.report(), "there is no more room than before");
        assert!(read_all(&mut consumer), "now there is, and the producer waits for it");
    }

    #[test]
    fn a_consumer_stands_still_that_has_something_to_read_and_reads_nothing_between_two_looks() {
        let (mut producer, mut consumer, _) = ring();
        assert!(!producer.consumer_stands_still(), "there is nothing to read");
        for psn in 0..3 {
            push(&mut producer, psn, &mut [1; 8]).unwrap();
        }
        assert!(producer.consumer_stands_still());
        for is_last in [false, false, true] {
            assert!(pop(&mut consumer).is_some());
            consumer.report();
            assert!(!producer.consumer_stands_still(), "it has read something");
            assert_ne!(producer.consumer_stands_still(), is_last);
        }
    }

    #[test]
    fn a_consumer_that_lies_about_its_head_only_stops_the_producer() {
        let (mut producer, _, memory) = ring();
        while push(&mut producer, 0, &mut [1; 8]).is_ok() {}
        memory.control(RING_HEAD).store(u64::MAX, Ordering::SeqCst);
        assert!(push(&mut producer, 0, &mut [1; 8]).is_err());
        memory.control(RING_HEAD).store(CELLS * 2, Ordering::SeqCst);
        assert!(push(&mut producer, 0, &mut [1; 8]).is_err());
    }

    #[test]
    fn two_threads_pass_a_million_messages_without_loss() {
        let (mut producer, mut consumer, _) = ring();
        let sender = std::thread::spawn(move || {
            for i in 0..1_000_000u32 {
                let mut bytes = i.to_le_bytes();
                while push(&mut producer, i & QpNumber::MASK, &mut bytes).is_err() {
                    std::thread::yield_now();
                }
            }
        });
        for i in 0..1_000_000u32 {
            let seen = loop {
                if let Some(seen) = pop(&mut consumer) {
                    break seen;
                }
                consumer.report();
                std::thread::yield_now();
            };
            assert_eq!(seen, (i & QpNumber::MASK, i.to_le_bytes().to_vec()));
        }
        sender.join().unwrap();
    }
}
