//! A program that reads a completion queue entry by entry, between `ibv_start_poll` and `ibv_end_poll`: the completion it stands
//! at, and those that were taken with it and come next.

use nonic_device::{BatchError, Completion, CompletionQueue, Stamp};

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
    /// How many it takes next: as many as it came to the last time.
    next: usize,
    /// Queue pairs that had gone when these were taken.
    departures: u32,
    completions: [Completion; AHEAD],
    /// When they were added, if the queue notes that.
    stamps: [Stamp; AHEAD],
}

impl Reader {
    pub(crate) fn new() -> Self {
        Self {
            at: 0,
            count: 0,
            before: 0,
            next: AHEAD,
            departures: 0,
            completions: [Completion::default(); AHEAD],
            stamps: [Stamp::default(); AHEAD],
        }
    }

    /// The completion it stands at, or stood at last.
    #[inline(always)]
    pub(crate) fn current(&self) -> &Completion {
        &self.completions[self.at % AHEAD]
    }

    /// When that was added; zeros if the queue does not note it.
    pub(crate) fn stamp(&self) -> Stamp {
        self.stamps[self.at % AHEAD]
    }

    #[inline(always)]
    fn put(&mut self, place: usize, completion: &Completion, stamp: Option<Stamp>) {
        copy(&mut self.completions[place % AHEAD], completion);
        if let Some(stamp) = stamp {
            self.stamps[place % AHEAD] = stamp;
        }
    }

    /// Stands at the first completion of a batch that begins.
    #[inline(always)]
    pub(crate) fn begin(&mut self, completion: &Completion, stamp: Option<Stamp>) {
        self.put(0, completion, stamp);
        (self.at, self.count, self.before) = (0, 1, 0);
    }

    /// Goes to the next, if that was taken already and nothing has happened to it since.
    #[inline(always)]
    pub(crate) fn advance(&mut self, queue: &CompletionQueue) -> bool {
        if self.at + 1 < self.count && queue.departures() == self.departures {
            self.at += 1;
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
        // Asked before: of one that goes meanwhile is heard once too often, not once too little.
        let departures = queue.departures();
        let (most, mut count) = (self.next, 0);
        queue.take_ahead(most, |completion, stamp| {
            self.put(count, completion, stamp);
            count += 1;
        })?;
        if count == 0 {
            return Ok(false);
        }
        self.before += self.at + 1;
        (self.at, self.count, self.departures) = (0, count, departures);
        self.next = (most * 2).min(AHEAD);
        Ok(true)
    }

    /// Forgets what it stands at; false if some were taken that it did not come to, and were not given back.
    #[inline(always)]
    pub(crate) fn end(&mut self) -> bool {
        let all_read = self.at + 1 >= self.count;
        if all_read {
            self.count = 0;
        }
        all_read
    }

    /// Gives back what it did not come to.
    pub(crate) fn give_back(&mut self, queue: &CompletionQueue) {
        let unread = self.at + 1..self.count;
        // The first of a batch is taken alone.
        self.next = (self.before + self.at).clamp(1, AHEAD);
        queue.give_back(unread.map(|place| (&self.completions[place], self.stamps[place])));
        self.count = 0;
    }
}

/// Field by field: what was written in small pieces just now is slow to read in a large one.
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
