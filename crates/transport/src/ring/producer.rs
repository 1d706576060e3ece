//! The writing end.

use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use nonic_memory::SharedSlice;
use nonic_protocol::Message;

use super::{RingFull, RingMemory, cells_of, stamp};
use crate::codec::{FRAGMENT, HEADER_WORDS, ShortSend, emit, padding, words_for};
use crate::layout::{CELL, CELLS, RING_HEAD, RING_PRODUCER_WAITS};

/// Cells of a ring that are in use at first. As long as its consumer keeps up they are enough, and stay in the caches of both.
const EXTENT: u64 = 512;
/// After a lap that took less than this the next has twice the cells: each costs a look at how far the consumer is.
const QUICK: Duration = Duration::from_micros(20);

/// The writing end; one thread at a time.
#[derive(Debug)]
pub struct Producer {
    memory: RingMemory,
    /// Cells written since the beginning.
    tail: u64,
    /// How far the consumer was when last asked.
    head: u64,
    /// How far it was when it was last asked whether it stands still.
    asked_head: u64,
    /// Cells in use, from the first on. Of those behind them one was written at most: the next, for the end of a lap.
    extent: u64,
    /// When the last lap ended before the ring did.
    turned: Instant,
    /// A bit for each cell whose first word is payload.
    payload_cells: Box<[u64; CELLS as usize / 64]>,
}

impl Producer {
    pub(crate) fn new(memory: RingMemory) -> Self {
        let payload_cells = Box::new([0; CELLS as usize / 64]);
        Self {
            memory,
            tail: 0,
            head: 0,
            asked_head: 0,
            extent: EXTENT,
            turned: Instant::now(),
            payload_cells,
        }
    }

    /// One that uses the whole ring from the beginning.
    #[cfg(test)]
    pub(super) fn of_whole(memory: RingMemory) -> Self {
        Self { extent: CELLS, ..Self::new(memory) }
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

    /// The first words of so many cells from `position` on are payload; all are of one lap.
    #[inline]
    fn note_payload(&mut self, position: u64, cells: u64) {
        let (mut at, mut left) = (position % CELLS, cells);
        while left > 0 {
            let count = left.min(64 - at % 64);
            self.payload_cells[(at / 64) as usize] |= u64::MAX >> (64 - count) << (at % 64);
            (at, left) = (at + count, left - count);
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
        self.say_waits();
        if self.has_room(cells) {
            return Ok(());
        }
        // From now on it is used as far as it goes.
        self.extent = CELLS;
        Err(RingFull)
    }

    /// Has the consumer ring when it has gone on, and looks how far it is: it may have gone on before it could see the flag. It stands
    /// also if that is far enough: for a larger message it may not be, and that one may be waiting already.
    fn say_waits(&mut self) {
        self.memory.control(RING_PRODUCER_WAITS).store(1, Ordering::SeqCst);
        self.refresh_head();
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

    /// Whether messages stand here of which the consumer has read none since this was last asked, or not said so.
    pub(crate) fn consumer_stands_still(&mut self) -> bool {
        let head = self.memory.control(RING_HEAD).load(Ordering::Relaxed);
        head == std::mem::replace(&mut self.asked_head, head) && head != self.tail
    }

    /// Whether the consumer has read every message and said so. If not, it rings the producer's doorbell when it has
    /// read more.
    pub(crate) fn everything_was_read(&mut self) -> bool {
        self.refresh_head();
        if self.head != self.tail {
            self.say_waits();
        }
        self.head == self.tail
    }

    /// Whether the consumer still has to ring for this side, which said that it waits. Behind a full fence: whatever this thread
    /// wrote before is seen by whoever is rung for later.
    pub(crate) fn awaits_ring(&self) -> bool {
        fence(Ordering::SeqCst);
        self.memory.control(RING_PRODUCER_WAITS).load(Ordering::SeqCst) != 0
    }

    /// Publishes one message, or nothing.
    ///
    /// # Panics
    /// If the payload is longer than [`FRAGMENT`].
    #[inline]
    pub fn push(&mut self, message: &Message, payload: &[SharedSlice<'_>]) -> Result<(), RingFull> {
        let length: usize = payload.iter().map(SharedSlice::length).sum();
        assert!(length <= FRAGMENT, "{length} bytes in one message");
        let cells = cells_of(words_for(message, length as u32), length);
        if self.tail % CELLS + cells > self.extent {
            self.make_place(cells)?;
        }
        self.reserve(cells)?;
        self.publish(message, payload, cells, length as u32);
        Ok(())
    }

    /// Publishes a short send. False: nothing was done, the way of [`Producer::push`] is longer.
    #[inline(always)]
    pub(crate) fn push_short(&mut self, send: ShortSend, payload: SharedSlice<'_>) -> bool {
        let length = payload.length();
        let cells = cells_of(ShortSend::WORDS, length);
        if length > FRAGMENT || self.tail % CELLS + cells > self.extent || !self.has_room(cells) {
            return false;
        }
        let Some(place) = self.memory.payload(self.tail, ShortSend::WORDS, length) else { return false };
        place.copy_from(payload);
        let words = send.to_words(stamp(self.tail), length as u32);
        self.memory.word(self.tail, 1).store(words[1], Ordering::Relaxed);
        self.memory.word(self.tail, 2).store(words[2], Ordering::Relaxed);
        self.settle(cells, cells - 1, words[0]);
        true
    }

    /// Shows a message of so many cells to the consumer, when all of it but its first word stands there. Of the cells behind its first
    /// `payload` must be unstamped before the next lap has messages in front of them.
    #[inline(always)]
    fn settle(&mut self, cells: u64, payload: u64, first: u64) {
        self.note_payload(self.tail + 1, payload);
        self.unstamp(self.tail + cells);
        self.memory.word(self.tail, 0).store(first, Ordering::Release);
        self.tail += cells;
    }

    #[inline]
    fn publish(&mut self, message: &Message, payload: &[SharedSlice<'_>], cells: u64, length: u32) {
        let first = emit(message, stamp(self.tail), length, |at, word| {
            self.memory.word(self.tail, at).store(word, Ordering::Relaxed);
        });
        if let Some(place) = self.memory.payload(self.tail, words_for(message, length), length as usize) {
            let mut at = 0;
            for piece in payload {
                place.part(at, piece.length()).copy_from(*piece);
                at += piece.length();
            }
        }
        self.settle(cells, cells - 1, first);
    }

    /// Makes a place for a message that does not fit into what is left of the cells in use: begins a lap, or takes more cells into
    /// use if the consumer is far behind. Until it has read what stands there, a lap that begins has no more room than that.
    fn make_place(&mut self, cells: u64) -> Result<(), RingFull> {
        let at = self.tail % CELLS;
        let left = CELLS - at;
        while at + cells > self.extent {
            if self.extent == CELLS {
                self.reserve(left + cells)?;
                self.end_lap(left);
                break;
            }
            self.refresh_head();
            if self.tail - self.head <= at / 2 && self.has_room(left + cells) {
                self.end_lap(left);
                let before = std::mem::replace(&mut self.turned, Instant::now());
                if self.turned.duration_since(before) < QUICK {
                    self.extent *= 2;
                }
                break;
            }
            self.extent *= 2;
        }
        Ok(())
    }

    /// Fills the cells that are left before the ring starts again.
    fn end_lap(&mut self, left: u64) {
        const WORDS: usize = 3;
        for number in 1..WORDS {
            self.memory.word(self.tail, number).store(0, Ordering::Relaxed);
        }
        // Cells that are passed over keep the stamps of laps before, and stamps come again: what is left there must not be taken for a
        // message of the lap that has the same.
        let (next, written) = (self.tail % CELLS + 1, (self.extent + 1).min(CELLS));
        let length = left as usize * CELL - WORDS * 8;
        self.settle(left, written - next, padding(stamp(self.tail), length as u32));
    }

    /// Whether a message of the largest size would fit.
    pub fn has_room_for_fragment(&mut self) -> bool {
        self.reserve(2 * cells_of(HEADER_WORDS, FRAGMENT)).is_ok()
    }
}
