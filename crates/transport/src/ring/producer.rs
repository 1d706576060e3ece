//! The writing end.

use std::sync::atomic::{Ordering, fence};

use nonic_memory::SharedSlice;

use super::{RingFull, RingMemory, Sleeper, WAITER, cells_of, stamp};
use crate::layout::{CELL, CELLS, RING_CONSUMER_SLEEPS, RING_HEAD, RING_PRODUCER_WAITS};
use crate::message::{FRAGMENT, HEADER_WORDS, Header, MessageKind};

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
