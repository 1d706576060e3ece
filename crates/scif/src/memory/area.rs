//! What one side of a connection writes into the segment for the other: its table of windows, what it is doing to the other
//! side's, and what it has mapped.
//!
//! Nothing here is trusted by the other side: whatever is read is copied once, checked, then used. An area is written by the
//! processes of one side only: the one that connected, and its children.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use nonic_sys::{AtomicU64, SharedMapping};

/// Bytes of a line: nothing that two parties write at the same time shares one.
const LINE: usize = 64;

/// Grows with every change of the table.
const VERSION: usize = 0;
/// Records of the table that were ever in use.
const RECORDS_USED: usize = LINE;
/// Asynchronous operations this side has started, and completed.
const STARTED: usize = 2 * LINE;
const COMPLETED: usize = 3 * LINE;
/// The process that carries them out.
const QUEUE_OWNER: usize = 4 * LINE;
/// Slots and mappings that were ever in use.
const SLOTS_USED: usize = 5 * LINE;
const MAPPINGS_USED: usize = 6 * LINE;
/// The records changed last, by version.
const LOG: usize = 8 * LINE;

/// Changes that the log remembers.
pub(super) const LOG_LENGTH: u64 = 64;
/// Operations of one side at the same time.
pub(super) const SLOTS: usize = 128;
/// Mappings of one side at the same time.
pub(super) const MAPPINGS: usize = 4096;
/// Records of the table: parts of windows, of which most have one.
pub(super) const RECORDS: usize = 1 << 16;

const SLOTS_AT: usize = 4096;
const MAPPINGS_AT: usize = SLOTS_AT + SLOTS * LINE;
const RECORDS_AT: usize = MAPPINGS_AT + MAPPINGS * LINE;

/// Bytes of one side's area in the segment: a multiple of the page size, virtual until touched. Zeros are an empty area.
pub(crate) const AREA_LENGTH: usize = RECORDS_AT + RECORDS * LINE;

const _: () = assert!(LOG + LOG_LENGTH as usize * 8 <= SLOTS_AT && AREA_LENGTH.is_multiple_of(4096));

/// Lines of eight words, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    /// Operations under way ([`super::slots`]).
    Slots,
    /// What is mapped of the other side's windows ([`super::mapped`]).
    Mappings,
    /// The parts of the own windows ([`super::record`]).
    Records,
}

impl Table {
    fn at(self) -> (usize, usize) {
        match self {
            Self::Slots => (SLOTS_AT, SLOTS),
            Self::Mappings => (MAPPINGS_AT, MAPPINGS),
            Self::Records => (RECORDS_AT, RECORDS),
        }
    }

    fn used(self) -> usize {
        match self {
            Self::Slots => SLOTS_USED,
            Self::Mappings => MAPPINGS_USED,
            Self::Records => RECORDS_USED,
        }
    }
}

/// One side's area.
#[derive(Clone, Debug)]
pub(super) struct Area {
    segment: Arc<SharedMapping>,
    start: usize,
}

impl Area {
    /// The area at `start` of the segment.
    ///
    /// # Panics
    /// If it is not inside: the layout of the segment is this crate's own.
    pub(super) fn new(segment: Arc<SharedMapping>, start: usize) -> Self {
        assert!(start.is_multiple_of(LINE) && start + AREA_LENGTH <= segment.length(), "the area is outside");
        Self { segment, start }
    }

    /// Whether it is the same area.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.start == other.start && Arc::ptr_eq(&self.segment, &other.segment)
    }

    #[inline]
    pub(super) fn version(&self) -> &AtomicU64 {
        self.segment.word(self.start + VERSION)
    }

    #[inline]
    pub(super) fn started(&self) -> &AtomicU64 {
        self.segment.word(self.start + STARTED)
    }

    #[inline]
    pub(super) fn completed(&self) -> &AtomicU64 {
        self.segment.word(self.start + COMPLETED)
    }

    pub(super) fn queue_owner(&self) -> &AtomicU64 {
        self.segment.word(self.start + QUEUE_OWNER)
    }

    /// Where the log says which record the change that made this version was about.
    pub(super) fn changed(&self, version: u64) -> &AtomicU64 {
        self.segment.word(self.start + LOG + (version % LOG_LENGTH) as usize * 8)
    }

    /// A word of a line.
    ///
    /// # Panics
    /// If there is no such line: numbers of lines come from loops and own lists, never from the other side unchecked.
    #[inline]
    pub(super) fn word(&self, table: Table, line: usize, word: usize) -> &AtomicU64 {
        let (at, lines) = table.at();
        assert!(line < lines && word < 8, "line {line} of {table:?}");
        self.segment.word(self.start + at + line * LINE + word * 8)
    }

    /// Lines of a table that were ever in use: what is behind them is empty.
    pub(super) fn used(&self, table: Table) -> usize {
        (self.segment.word(self.start + table.used()).load(Ordering::Acquire) as usize).min(table.at().1)
    }

    /// Line `line` will be in use.
    #[inline]
    pub(super) fn use_line(&self, table: Table, line: usize) {
        let used = self.segment.word(self.start + table.used());
        if used.load(Ordering::Relaxed) <= line as u64 {
            used.fetch_max(line as u64 + 1, Ordering::SeqCst);
        }
    }

    /// Writes a line of which the first word is the stamp: never 0, and another one than the last time. Whoever reads the line
    /// meanwhile finds nothing.
    pub(super) fn write_line(&self, table: Table, line: usize, words: [u64; 8]) {
        self.word(table, line, 0).store(0, Ordering::Relaxed);
        fence(Ordering::Release);
        for (index, word) in words.iter().enumerate().skip(1) {
            self.word(table, line, index).store(*word, Ordering::Relaxed);
        }
        self.word(table, line, 0).store(words[0], Ordering::Release);
    }

    /// A line as it was at one moment; `None` if it is empty or being written.
    pub(super) fn read_line(&self, table: Table, line: usize) -> Option<[u64; 8]> {
        let stamp = self.word(table, line, 0).load(Ordering::Acquire);
        if stamp == 0 {
            return None;
        }
        let mut words = [stamp; 8];
        for (index, word) in words.iter_mut().enumerate().skip(1) {
            *word = self.word(table, line, index).load(Ordering::Relaxed);
        }
        fence(Ordering::Acquire);
        (self.word(table, line, 0).load(Ordering::Relaxed) == stamp).then_some(words)
    }
}
