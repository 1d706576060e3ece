//! A ring of messages from one process to another, in memory both have mapped.
//!
//! The ring is an array of cells of half a cache line. A message is one or more neighbouring cells; its first word carries
//! a stamp that says which lap of the ring it belongs to, and is stored last, so that the consumer finds a message by
//! looking at the very line that holds it. A cell in which an earlier lap left payload is unstamped before the message in
//! front of it is published: bytes of a payload can then not be taken for a message. (The producer remembers which cells
//! those are; a stream of short messages touches each line once for two of them.) A producer that dies while it writes has
//! published nothing; whatever a hostile producer publishes is copied, checked and refused as a whole.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use nonic_memory::SharedSlice;
use nonic_sys::SharedMapping;

use crate::layout::{CELL, CELLS, RING_CELLS, RING_CONSUMER_SLEEPS, RING_HEAD, RING_PRODUCER_WAITS};
use crate::message::{FRAGMENT, HEADER_WORDS, Header, MessageKind};

/// Cells the consumer frees before it tells the producer, if it does not pause earlier.
const REPORT_EVERY: u64 = CELLS / 8;

/// Where one direction of a link lies.
#[derive(Clone, Debug)]
pub(crate) struct RingMemory {
    mapping: Arc<SharedMapping>,
    offset: usize,
}

impl RingMemory {
    pub(crate) fn new(mapping: Arc<SharedMapping>, offset: usize) -> Self {
        Self { mapping, offset }
    }

    #[inline]
    fn control(&self, field: usize) -> &std::sync::atomic::AtomicU64 {
        self.mapping.word(self.offset + field)
    }

    #[inline]
    fn cell_offset(&self, position: u64) -> usize {
        self.offset + RING_CELLS + (position % CELLS) as usize * CELL
    }

    #[inline]
    fn word(&self, position: u64, word: usize) -> &std::sync::atomic::AtomicU64 {
        self.mapping.word(self.cell_offset(position) + word * 8)
    }
}

/// The lap's mark; never 0, which is what fresh and unstamped cells hold.
#[inline]
fn stamp(position: u64) -> u16 {
    (position / CELLS % 0xffff) as u16 + 1
}

#[inline]
fn cells_of(header_words: usize, payload: usize) -> u64 {
    (header_words * 8 + payload).div_ceil(CELL) as u64
}

/// Who sleeps on the consuming side and reads the ring once woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sleeper {
    /// The agent, on the doorbell.
    Agent,
    /// A thread of the program that waits for a completion event, on a bell of its own.
    Waiter,
}

/// What stands for them in shared memory; any other number is taken for the agent's.
const AGENT: u64 = 1;
const WAITER: u64 = 2;

/// The ring has no room now. The consumer rings the producer's doorbell when it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingFull;

/// The writing end; one thread at a time.
#[derive(Debug)]
pub struct Producer {
    memory: RingMemory,
    /// Cells written since the beginning.
    tail: u64,
    /// How far the consumer was when last asked.
    head: u64,
    /// A bit for each cell whose first word is payload.
    payload_cells: Box<[u64; CELLS as usize / 64]>,
}

impl Producer {
    pub(crate) fn new(memory: RingMemory) -> Self {
        Self { memory, tail: 0, head: 0, payload_cells: Box::new([0; CELLS as usize / 64]) }
    }

    /// Makes sure that the cell at `position` is not taken for a message before it is one.
    #[inline]
    fn unstamp(&mut self, position: u64) {
        let (word, bit) = Self::payload_bit(position);
        if self.payload_cells[word] & bit != 0 {
            self.payload_cells[word] &= !bit;
            self.memory.word(position, 0).store(0, Ordering::Relaxed);
        }
    }

    #[inline]
    fn payload_bit(position: u64) -> (usize, u64) {
        ((position % CELLS / 64) as usize, 1 << (position % 64))
    }

    /// Makes sure that `cells` and the one behind them are free.
    #[inline]
    fn reserve(&mut self, cells: u64) -> Result<(), RingFull> {
        if self.has_room(cells) {
            return Ok(());
        }
        self.refresh_head();
        if self.has_room(cells) {
            return Ok(());
        }
        self.memory.control(RING_PRODUCER_WAITS).store(1, Ordering::SeqCst);
        // The consumer may have freed cells before it could see the flag.
        self.refresh_head();
        if self.has_room(cells) { Ok(()) } else { Err(RingFull) }
    }

    #[inline]
    fn has_room(&self, cells: u64) -> bool {
        self.tail - self.head + cells < CELLS
    }

    fn refresh_head(&mut self) {
        let head = self.memory.control(RING_HEAD).load(Ordering::SeqCst);
        // A head that runs backwards or past the tail is the consumer's fault; the ring then looks full.
        if head >= self.head && head <= self.tail {
            self.head = head;
        }
    }

    /// Whether the consumer has read every message and said so. If not, it rings the producer's doorbell when it has
    /// read more.
    pub(crate) fn everything_was_read(&mut self) -> bool {
        self.refresh_head();
        if self.head != self.tail {
            self.memory.control(RING_PRODUCER_WAITS).store(1, Ordering::SeqCst);
            self.refresh_head();
        }
        self.head == self.tail
    }

    /// Publishes one message, or nothing.
    ///
    /// # Panics
    /// If the payload is longer than [`FRAGMENT`].
    #[inline]
    pub fn push(&mut self, header: &Header, payload: &[SharedSlice<'_>]) -> Result<(), RingFull> {
        let length: usize = payload.iter().map(SharedSlice::length).sum();
        assert!(length <= FRAGMENT, "{length} bytes in one message");
        let cells = cells_of(header.words(length as u32), length);
        let left = CELLS - self.tail % CELLS;
        if cells > left {
            self.reserve(left + cells)?;
            let padding = Header::new(MessageKind::Padding, header.destination, header.source, header.psn, 0);
            self.publish(&padding, &[], left, (left as usize * CELL - 24) as u32);
        }
        self.reserve(cells)?;
        self.publish(header, payload, cells, length as u32);
        Ok(())
    }

    #[inline]
    fn publish(&mut self, header: &Header, payload: &[SharedSlice<'_>], cells: u64, length: u32) {
        self.unstamp(self.tail + cells);
        for position in self.tail + 1..self.tail + cells {
            let (word, bit) = Self::payload_bit(position);
            self.payload_cells[word] |= bit;
        }
        let first = header.emit(stamp(self.tail), length, |at, word| {
            self.memory.word(self.tail, at).store(word, Ordering::Relaxed);
        });
        let mut at = self.memory.cell_offset(self.tail) + header.words(length) * 8;
        for piece in payload {
            if let Some(place) = SharedSlice::of_mapping(&self.memory.mapping, at, piece.length()) {
                place.copy_from(*piece);
            }
            at += piece.length();
        }
        self.memory.word(self.tail, 0).store(first, Ordering::Release);
        self.tail += cells;
    }

    /// Whom to wake if the consumer sleeps; asking takes the duty to ring.
    pub(crate) fn consumer_wants_bell(&self) -> Option<Sleeper> {
        let sleeps = self.memory.control(RING_CONSUMER_SLEEPS);
        // Orders the message before the look at the flag, as the consumer orders the flag before its last look at the
        // ring: one of the two sees the other.
        fence(Ordering::SeqCst);
        if sleeps.load(Ordering::Relaxed) == 0 {
            return None;
        }
        match sleeps.swap(0, Ordering::SeqCst) {
            0 => None,
            WAITER => Some(Sleeper::Waiter),
            _ => Some(Sleeper::Agent),
        }
    }

    /// Whether a message of the largest size would fit.
    pub fn has_room_for_fragment(&mut self) -> bool {
        self.reserve(2 * cells_of(HEADER_WORDS, FRAGMENT)).is_ok()
    }
}

/// What the producer published makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message that makes no sense stands in the ring at cell {position}: first word {word:#018x}")]
pub struct RingCorrupt {
    /// Where.
    pub position: u64,
    /// Its first word.
    pub word: u64,
}

/// A message that was found; its payload stands until [`Consumer::advance`].
#[derive(Debug)]
pub struct Incoming<'a> {
    /// A checked copy of the header.
    pub header: Header,
    /// The bytes. The producer can still change them: copy once, then look.
    pub payload: SharedSlice<'a>,
}

/// The reading end; one thread at a time.
#[derive(Debug)]
pub struct Consumer {
    memory: RingMemory,
    /// Cells read since the beginning.
    head: u64,
    /// What the producer was told.
    reported: u64,
    /// Cells of the message last found.
    current: u64,
}

impl Consumer {
    pub(crate) fn new(memory: RingMemory) -> Self {
        Self { memory, head: 0, reported: 0, current: 0 }
    }

    /// Whether a message waits.
    #[inline]
    pub fn has_message(&self) -> bool {
        self.memory.word(self.head, 0).load(Ordering::Acquire) as u16 == stamp(self.head)
    }

    /// Whether a message waits, or the producer waits for room.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        self.has_message() || self.memory.control(RING_PRODUCER_WAITS).load(Ordering::Relaxed) != 0
    }

    /// The next message, if there is one. The same one again until [`Consumer::advance`].
    #[inline]
    pub fn peek(&mut self) -> Result<Option<Incoming<'_>>, RingCorrupt> {
        loop {
            let first = self.memory.word(self.head, 0).load(Ordering::Acquire);
            if first as u16 != stamp(self.head) {
                return Ok(None);
            }
            let corrupt = RingCorrupt { position: self.head, word: first };
            // No word more than the header has: what stands behind it may be in a line that is being written.
            let count = Header::words_of(first).ok_or(corrupt)?;
            if cells_of(count, 0) > CELLS - self.head % CELLS {
                return Err(corrupt);
            }
            let mut words = [0; HEADER_WORDS];
            words[0] = first;
            for (i, word) in words.iter_mut().enumerate().take(count).skip(1) {
                *word = self.memory.word(self.head, i).load(Ordering::Relaxed);
            }
            let (header, count, length) = Header::parse(&words).ok_or(corrupt)?;
            let padding = header.kind == MessageKind::Padding;
            if length as usize > FRAGMENT && !padding {
                return Err(corrupt);
            }
            let cells = cells_of(count, length as usize);
            if cells > CELLS - self.head % CELLS {
                return Err(corrupt);
            }
            self.current = cells;
            if padding {
                self.advance();
                continue;
            }
            let at = self.memory.cell_offset(self.head) + count * 8;
            let payload =
                SharedSlice::of_mapping(&self.memory.mapping, at, length as usize).ok_or(corrupt)?;
            return Ok(Some(Incoming { header, payload }));
        }
    }

    /// Frees the message last found. True if the producer waits for room and must be rung for.
    #[inline]
    pub fn advance(&mut self) -> bool {
        self.head += self.current;
        self.current = 0;
        self.head - self.reported >= REPORT_EVERY && self.report()
    }

    /// Tells the producer how far the consumer is. True if the producer waits for room and must be rung for.
    ///
    /// No fence stands between telling and looking: a producer that begins to wait at this very moment is found at the
    /// next look, of which a consumer takes one before it sleeps ([`Consumer::set_sleeping`] is followed by a fence).
    #[inline]
    pub fn report(&mut self) -> bool {
        if self.reported != self.head {
            self.reported = self.head;
            self.memory.control(RING_HEAD).store(self.head, Ordering::Release);
        }
        let waits = self.memory.control(RING_PRODUCER_WAITS);
        waits.load(Ordering::Relaxed) != 0 && waits.swap(0, Ordering::SeqCst) != 0
    }

    /// Says that the consumer is about to sleep, and whom to wake then. It must look once more before it does.
    pub(crate) fn set_sleeping(&self, sleeper: Sleeper) {
        let word = match sleeper {
            Sleeper::Agent => AGENT,
            Sleeper::Waiter => WAITER,
        };
        self.memory.control(RING_CONSUMER_SLEEPS).store(word, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Says that the consumer looks by itself: nobody needs to ring.
    pub(crate) fn set_awake(&self) {
        let sleeps = self.memory.control(RING_CONSUMER_SLEEPS);
        if sleeps.load(Ordering::Relaxed) != 0 {
            sleeps.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::DIRECTION_LENGTH;
    use crate::message::Psn;
    use nonic_queue::QpNumber;
    use proptest::prelude::*;

    fn ring() -> (Producer, Consumer, RingMemory) {
        let mapping = Arc::new(SharedMapping::anonymous(DIRECTION_LENGTH).unwrap());
        let memory = RingMemory::new(mapping, 0);
        (Producer::new(memory.clone()), Consumer::new(memory.clone()), memory)
    }

    fn header(psn: u32, total: usize) -> Header {
        let mut header = Header::new(MessageKind::Send, QpNumber(2), QpNumber(3), Psn(psn), 0);
        header.total = total as u32;
        header
    }

    fn push(producer: &mut Producer, psn: u32, bytes: &mut [u8]) -> Result<(), RingFull> {
        // SAFETY: the slice lives through the call.
        #[allow(unsafe_code)]
        let payload = unsafe { SharedSlice::from_raw(bytes.as_mut_ptr(), bytes.len()) };
        producer.push(&header(psn, bytes.len()), &[payload])
    }

    fn pop(consumer: &mut Consumer) -> Option<(u32, Vec<u8>)> {
        let incoming = consumer.peek().unwrap()?;
        let mut bytes = vec![0; incoming.payload.length()];
        incoming.payload.read(&mut bytes);
        let psn = incoming.header.psn.0;
        consumer.advance();
        Some((psn, bytes))
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
            let word = lap | (MessageKind::Send as u64) << 16 | 4 << 24;
            let mut bytes: Vec<u8> = word.to_le_bytes().repeat(1000);
            for psn in 0..40 {
                push(&mut producer, psn, &mut bytes).unwrap();
                assert_eq!(pop(&mut consumer).map(|seen| seen.0), Some(psn));
                assert_eq!(pop(&mut consumer), None);
                consumer.report();
            }
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
