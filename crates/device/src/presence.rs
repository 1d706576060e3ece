//! From when to when a thread of the library counts as one: it stands for no other thread before it is there and after it has gone.

use std::fmt;
use std::sync::{Arc, Mutex};

use crate::engine::lock;

/// Whether a thread is counted. It says so itself, and so does whoever started it: it is there before it runs.
pub(crate) struct Presence {
    stage: Mutex<Stage>,
    /// Counts one more, or one less.
    count: Box<dyn Fn(isize) + Send + Sync>,
}

#[derive(Debug, PartialEq, Eq)]
enum Stage {
    Starting,
    Counted,
    Ended,
}

impl Presence {
    /// Of a thread that is about to be started.
    pub(crate) fn new(count: impl Fn(isize) + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { stage: Mutex::new(Stage::Starting), count: Box::new(count) })
    }

    /// It is there: by the thread, or by whoever started it, which may be later than its end.
    pub(crate) fn begin(&self) {
        let mut stage = lock(&self.stage);
        if *stage == Stage::Starting {
            *stage = Stage::Counted;
            (self.count)(1);
        }
    }

    /// It is about to end: by the thread.
    pub(crate) fn end(&self) {
        let mut stage = lock(&self.stage);
        if std::mem::replace(&mut *stage, Stage::Ended) == Stage::Counted {
            (self.count)(-1);
        }
    }
}

impl fmt::Debug for Presence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Presence").field("stage", &self.stage).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicIsize, Ordering};

    use super::*;

    #[test]
    fn a_thread_counts_once_whoever_says_first_that_it_is_there() {
        let counted = Arc::new(AtomicIsize::new(0));
        let count = Arc::clone(&counted);
        let presence = Presence::new(move |more| {
            count.fetch_add(more, Ordering::SeqCst);
        });
        presence.begin();
        presence.begin();
        assert_eq!(counted.load(Ordering::SeqCst), 1);
        presence.end();
        presence.begin();
        assert_eq!(counted.load(Ordering::SeqCst), 0);
    }
}
