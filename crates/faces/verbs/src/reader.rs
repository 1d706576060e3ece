//! A program that reads a completion queue entry by entry, between `ibv_start_poll` and `ibv_end_poll`: the completion it stands
//! at, and those that were taken with it and come next.

use nonic_device::{BatchError, BatchReader, Completion, CompletionEntry, CompletionQueue, Stamp};

/// Completions taken at a time at most.
const AHEAD: usize = 16;

/// Where a reader is. Used by the thread whose batch is open.
#[derive(Debug)]
pub(crate) struct Reader {
    /// The one it stands at, and how many were taken.
    at: usize,
    count: usize,
    /// Completions of this batch that were read before these.
    before: usize,
    /// How many were read of the batch before: as many are taken of the next one, so that few are given back.
    last: usize,
    /// Queue pairs that had gone when these were taken.
    departures: u32,
    entries: [CompletionEntry; AHEAD],
    /// When each was added, if the queue notes that; how many of these were taken is told when all are.
    stamps: [Stamp; AHEAD],
    stamped: usize,
}

impl Reader {
    pub(crate) fn new() -> Self {
        Self {
            at: 0,
            count: 0,
            before: 0,
            last: 1,
            departures: 0,
            entries: [CompletionEntry::default(); AHEAD],
            stamps: [Stamp::default(); AHEAD],
            stamped: 0,
        }
    }

    /// The completion it stands at, or stood at last.
    #[inline(always)]
    pub(crate) fn current(&self) -> &Completion {
        &self.entries[self.at % AHEAD].completion
    }

    /// When that was added; zeros if the queue does not note it.
    pub(crate) fn stamp(&self) -> Stamp {
        self.stamps[self.at % AHEAD]
    }

    /// Goes to the next, if that was taken already and nothing has happened to it since.
    #[inline(always)]
    pub(crate) fn advance(&mut self, queue: &CompletionQueue) -> bool {
        let next = self.at + 1;
        if next < self.count && queue.departures() == self.departures {
            self.at = next;
            return true;
        }
        false
    }

    /// Goes to the next when [`Reader::advance`] does not; false if there is none, and it stays where it is.
    pub(crate) fn take(&mut self, queue: &CompletionQueue) -> Result<bool, BatchError> {
        while self.at + 1 < self.count {
            // A queue pair went. Its completions are not to be read any more.
            self.at += 1;
            if !queue.is_gone(self.current().qp_number) {
                return Ok(true);
            }
        }
        // If this batch is longer than the last one was, as many again as were read.
        let (departures, read) = (queue.departures(), self.before + self.count);
        let most = if read < self.last { self.last - read } else { read }.clamp(1, AHEAD);
        let (at, count) = (self.at, self.count);
        (self.at, self.count, self.stamped) = (0, 0, 0);
        match queue.take_ahead(most, self) {
            Ok(1..) => {
                (self.before, self.departures) = (read, departures);
                Ok(true)
            }
            nothing => {
                (self.at, self.count) = (at, count);
                nothing.map(|_| false)
            }
        }
    }

    /// Forgets what it stands at; false if some were taken that it did not come to, and were not given back.
    #[inline(always)]
    pub(crate) fn end(&mut self) -> bool {
        let all_read = self.at + 1 >= self.count;
        if all_read {
            self.last = self.before + self.count;
            self.count = 0;
        }
        all_read
    }

    /// Gives back what it did not come to.
    pub(crate) fn give_back(&mut self, queue: &CompletionQueue) {
        let unread = self.at + 1..self.count;
        self.last = self.before + unread.start;
        queue.give_back(unread.map(|place| (&self.entries[place].completion, self.stamps[place])));
        self.count = 0;
    }
}

impl BatchReader for Reader {
    #[inline(always)]
    fn begin(&mut self, queue: &CompletionQueue) -> usize {
        // Asked before any is taken: of one that goes meanwhile is heard once too often, not once too little.
        self.departures = queue.departures();
        (self.at, self.count, self.stamped, self.before) = (0, 0, 0, 0);
        self.last.clamp(1, AHEAD)
    }

    #[inline(always)]
    fn keep(&mut self, entries: &[CompletionEntry]) {
        let places = &mut self.entries[self.count..];
        match entries {
            [entry] => copy(&mut places[0].completion, &entry.completion),
            _ => places[..entries.len()].copy_from_slice(entries),
        }
        self.count += entries.len();
    }

    fn keep_stamps(&mut self, stamps: &[Stamp]) {
        self.stamps[self.stamped..][..stamps.len()].copy_from_slice(stamps);
        self.stamped += stamps.len();
    }
}

/// Field by field: what was written in small pieces just now is slow to read in a large one. Several were not all written just now.
#[inline(always)]
fn copy(to: &mut Completion, from: &Completion) {
    to.id = from.id;
    to.status = from.status;
    to.opcode = from.opcode;
    to.vendor_error = from.vendor_error;
    to.byte_length = from.byte_length;
    to.immediate = from.immediate;
    to.qp_number = from.qp_number;
    to.source_qp = from.source_qp;
    to.has_global_header = from.has_global_header;
    to.source_lid = from.source_lid;
    to.service_level = from.service_level;
}
