//! The reading end.

use std::sync::atomic::Ordering;

use nonic_memory::SharedSlice;
use nonic_protocol::Message;

use super::{Bell, RingMemory, Sleeper, cells_of, stamp};
use crate::codec::{Entry, FRAGMENT, HEADER_WORDS, ShortSend, parse, words_of};
use crate::layout::{CELLS, RING_HEAD, RING_PRODUCER_WAITS};

/// Cells the consumer frees before it tells the producer, if it does not pause earlier.
const REPORT_EVERY: u64 = CELLS / 8;

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
    /// A checked copy of what it says.
    pub message: Message,
    /// The bytes. The producer can still change them: copy once, then look.
    pub payload: SharedSlice<'a>,
}

/// A short send that was found; its payload stands until [`Consumer::advance`].
#[derive(Debug)]
pub struct IncomingShort<'a> {
    /// A checked copy of the header.
    pub send: ShortSend,
    /// The bytes, as for [`Incoming`].
    pub payload: SharedSlice<'a>,
}

/// The reading end; one thread at a time.
#[derive(Debug)]
pub struct Consumer {
    memory: RingMemory,
    bell: Bell,
    /// The producer may have been told that the bell is not needed, and does without its fence.
    polled: bool,
    /// Cells read since the beginning.
    head: u64,
    /// What the producer was told.
    reported: u64,
    /// How far the consumer was when the producer was last rung for; none: it never was.
    rung: Option<u64>,
    /// The producer is still to be rung for: that it waits was found where nobody could be told.
    owes_ring: bool,
    /// Cells of the message last found.
    current: u64,
}

impl Consumer {
    pub(crate) fn new(memory: RingMemory) -> Self {
        Self {
            bell: Bell::new(memory.clone()),
            polled: false,
            memory,
            head: 0,
            reported: 0,
            rung: None,
            owes_ring: false,
            current: 0,
        }
    }

    /// One that has read as many cells already.
    #[cfg(fuzzing)]
    pub(crate) fn at(memory: RingMemory, head: u64) -> Self {
        Self { head, reported: head, ..Self::new(memory) }
    }

    /// Whether a message waits.
    #[inline]
    pub fn has_message(&self) -> bool {
        self.memory.word(self.head, 0).load(Ordering::Acquire) as u16 == stamp(self.head)
    }

    /// Whether a message waits, or the producer waits for room.
    #[inline]
    pub fn has_work(&self) -> bool {
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
            let count = words_of(first).ok_or(corrupt)?;
            if cells_of(count, 0) > CELLS - self.head % CELLS {
                return Err(corrupt);
            }
            let mut words = [0; HEADER_WORDS];
            words[0] = first;
            for (i, word) in words.iter_mut().enumerate().take(count).skip(1) {
                *word = self.memory.word(self.head, i).load(Ordering::Relaxed);
            }
            let (entry, count, length) = parse(&words).ok_or(corrupt)?;
            if length as usize > FRAGMENT && entry != Entry::Padding {
                return Err(corrupt);
            }
            let cells = cells_of(count, length as usize);
            if cells > CELLS - self.head % CELLS {
                return Err(corrupt);
            }
            self.current = cells;
            let Entry::Message(message) = entry else {
                // Who looks for a message rings nobody; the next report says it.
                self.owes_ring |= self.advance();
                continue;
            };
            let payload = self.memory.payload(self.head, count, length as usize).ok_or(corrupt)?;
            return Ok(Some(Incoming { message, payload }));
        }
    }

    /// The next message, if there is one and it is a short send that makes sense; [`Consumer::peek`] sees to all others.
    #[inline(always)]
    pub fn peek_short(&mut self) -> Option<IncomingShort<'_>> {
        let first = self.memory.word(self.head, 0).load(Ordering::Acquire);
        if !ShortSend::begins(first, stamp(self.head)) {
            return None;
        }
        let length = (first >> 32) as usize;
        let cells = cells_of(ShortSend::WORDS, length);
        if length > FRAGMENT || cells > CELLS - self.head % CELLS {
            return None;
        }
        let word = |number| self.memory.word(self.head, number).load(Ordering::Relaxed);
        let send = ShortSend::from_words([first, word(1), word(2)])?;
        self.current = cells;
        let payload = self.memory.payload(self.head, ShortSend::WORDS, length)?;
        Some(IncomingShort { send, payload })
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
    /// next look, of which a consumer takes one before it sleeps (`Consumer::set_sleeping` is followed by a fence).
    #[inline]
    pub fn report(&mut self) -> bool {
        if self.reported != self.head {
            self.reported = self.head;
            self.memory.control(RING_HEAD).store(self.head, Ordering::Release);
        }
        let owed = std::mem::take(&mut self.owes_ring);
        let waits = self.memory.control(RING_PRODUCER_WAITS);
        if waits.load(Ordering::Relaxed) == 0 {
            return owed;
        }
        // Once for each place the consumer comes to: a producer that has been rung for knows it, and one that says all the
        // same that it waits must not have this process make a system call for each time that it does. What it says stands
        // until the next place: it may have filled the ring since.
        if self.rung == Some(self.head) || waits.swap(0, Ordering::SeqCst) == 0 {
            return owed;
        }
        self.rung = Some(self.head);
        true
    }

    /// Says that the consumer is about to sleep, and whom to wake then. It must look once more before it does.
    pub(crate) fn set_sleeping(&mut self, sleeper: Sleeper) {
        self.bell.set_sleeping(sleeper, std::mem::take(&mut self.polled));
    }

    /// Says that the ring is not looked at before it is called for. True if the caller has to pass a heavy fence that reaches the
    /// producer, else a full one, before it looks once more.
    pub(crate) fn set_resting(&mut self) -> bool {
        self.bell.set_resting();
        std::mem::take(&mut self.polled)
    }

    /// How far it has come, in cells.
    pub fn position(&self) -> u64 {
        self.head
    }

    /// Says that the consumer looks by itself: nobody needs to ring.
    pub(crate) fn set_awake(&self) {
        self.bell.set_awake();
    }

    /// Says that the consumer has looked by itself for a while and goes on doing so. Heavy fences of this process must
    /// reach the producer's.
    pub(crate) fn set_polled(&mut self) {
        self.polled = true;
        self.bell.set_polled();
    }
}
