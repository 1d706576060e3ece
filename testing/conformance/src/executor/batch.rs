//! Completions read in batches, as `ibv_start_poll` and its relatives do.

use nonic_device::{BatchReader, Completion, CompletionEntry, CompletionQueue, Stamp};

use super::{Executor, said};
use crate::command::{Answer, Reply};

/// Takes so many at a time, and keeps them.
struct Reader {
    ahead: usize,
    taken: Vec<Completion>,
}

impl BatchReader for Reader {
    fn begin(&mut self, _: &CompletionQueue) -> usize {
        self.ahead
    }

    fn keep(&mut self, entries: &[CompletionEntry]) {
        self.taken.extend(entries.iter().map(|entry| entry.completion));
    }

    fn keep_stamps(&mut self, _: &[Stamp]) {}
}

impl Executor {
    pub(super) fn read_batch(&self, queue: u32, ahead: u32, reads: u32) -> Reply {
        let queue = self.queues.at(queue);
        let (ahead, reads) = (ahead as usize, reads as usize);
        let mut reader = Reader { ahead, taken: Vec::new() };
        if !queue.begin_batch(&mut reader).map_err(said)? {
            return Ok(Answer::Completions { completions: Vec::new() });
        }
        while reader.taken.len() < reads && queue.take_ahead(ahead, &mut reader).map_err(said)? > 0 {}
        let unread = reader.taken.split_off(reads.min(reader.taken.len()));
        queue.give_back(unread.iter().map(|completion| (completion, Stamp::default())));
        queue.end_batch();
        Ok(Answer::Completions { completions: reader.taken })
    }
}
