//! Completion queues that tell of several completions together, and when they do at the latest.

use std::collections::BTreeMap;
use std::sync::{Mutex, Weak};
use std::time::Instant;

use super::{Engine, lock};
use crate::completion_queue::CompletionQueue;

/// The queues that wait, by time and turn.
#[derive(Debug, Default)]
pub(super) struct Tellings(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    queues: BTreeMap<(Instant, u64), Weak<CompletionQueue>>,
    turns: u64,
}

impl Engine {
    /// Has a queue asked at `when` whether it has something to tell of.
    pub(crate) fn schedule_telling(&self, when: Instant, queue: Weak<CompletionQueue>) {
        let mut waiting = lock(&self.tellings.0);
        waiting.turns += 1;
        let turn = waiting.turns;
        waiting.queues.insert((when, turn), queue);
        drop(waiting);
        self.party.doorbell.signal();
    }

    /// Asks those whose time has come; returns when the next one's comes.
    pub(crate) fn run_tellings(&self) -> Option<Instant> {
        loop {
            let (now, queue) = {
                let mut waiting = lock(&self.tellings.0);
                let first = waiting.queues.first_entry()?;
                let ((when, _), now) = (*first.key(), Instant::now());
                if when > now {
                    return Some(when);
                }
                (now, first.remove())
            };
            if let Some(queue) = queue.upgrade() {
                queue.telling_is_due(now);
            }
        }
    }
}
