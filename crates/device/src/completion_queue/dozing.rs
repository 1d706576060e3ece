//! Sleeping in a poll, where too many threads poll a queue in vain.
//!
//! A program that polls means not to sleep. But where more threads poll a queue between them than there are processors, each in vain
//! takes a turn from the peer that they all wait for. So a thread of such a crowd sleeps; it is woken by what it polls for, if
//! none of the others takes that.

use std::sync::atomic::Ordering;
use std::time::Duration;

use nonic_sys::thread_mark;

use super::CompletionQueue;
use super::batch::NOBODY;

/// Belongs to the queue's lock.
#[derive(Debug, Default)]
pub(super) struct Dozing {
    /// Threads that sleep until something is added.
    threads: u32,
    /// The thread that last took something while others slept, by its mark, unless it sleeps by now.
    taker: usize,
}

impl Dozing {
    #[inline]
    pub(super) fn any(&self) -> bool {
        self.threads > 0
    }

    #[inline]
    pub(super) fn nobody_takes(&self) -> bool {
        self.taker == NOBODY
    }

    /// This thread takes what comes.
    #[inline]
    pub(super) fn note_taker(&mut self) {
        if self.any() {
            self.taker = thread_mark();
        }
    }

    fn begin(&mut self) {
        self.threads += 1;
        if self.taker == thread_mark() {
            self.taker = NOBODY;
        }
    }

    fn end(&mut self) {
        self.threads -= 1;
    }
}

impl CompletionQueue {
    /// Whether another thread than the caller was the last to call this. Each does that polls in vain for a while.
    pub(crate) fn is_polled_by_several(&self) -> bool {
        let last = self.vain_poller.swap(thread_mark(), Ordering::Relaxed);
        last != NOBODY && last != thread_mark()
    }

    /// Sleeps until a completion is added, for so long at most. Of those who do one is woken when the queue is not empty any more.
    pub(crate) fn doze(&self, time: Duration) {
        let mut inner = self.lock();
        if inner.overrun || inner.entries.length() > 0 {
            return;
        }
        inner.dozing.begin();
        let place = self.sleepers.place();
        drop(inner);
        self.sleepers.sleep(place, time);
        self.lock().dozing.end();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use super::*;
    use crate::completion_queue::SendCredit;
    use crate::devices;

    const LONG: Duration = Duration::from_secs(600);

    fn queue() -> Arc<CompletionQueue> {
        devices()[0].open().unwrap().create_completion_queue(16, 0, None, 0).unwrap()
    }

    fn add(queue: &CompletionQueue) {
        queue.push(SendCredit::NONE, false, |_| {});
    }

    /// Waits until so many threads sleep there, or are about to.
    fn wait_for_dozers(queue: &CompletionQueue, count: u32) {
        let began = Instant::now();
        while queue.lock().dozing.threads != count {
            assert!(began.elapsed() < Duration::from_secs(60), "{count} threads do not sleep");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_sleep_ends_when_something_comes_and_does_not_begin_while_something_waits() {
        let (queue, began) = (queue(), Instant::now());
        std::thread::scope(|scope| {
            scope.spawn(|| queue.doze(LONG));
            wait_for_dozers(&queue, 1);
            add(&queue);
        });
        queue.doze(LONG);
        assert!(began.elapsed() < LONG);
        assert_eq!(queue.poll(|_| {}, 16), Ok(1));
    }

    #[test]
    fn a_sleep_ends_with_its_time() {
        let (queue, began) = (queue(), Instant::now());
        queue.doze(Duration::from_millis(2));
        assert!(began.elapsed() < LONG);
        assert!(!queue.lock().dozing.any());
    }

    #[test]
    fn nobody_is_woken_while_another_takes_what_comes_until_that_one_sleeps_too() {
        let (queue, began) = (queue(), Instant::now());
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| queue.doze(LONG));
            wait_for_dozers(&queue, 1);
            // The first finds the queue empty and wakes; once it has, this thread is known to take what comes.
            queue.lock().dozing.note_taker();
            add(&queue);
            assert_eq!(queue.poll(|_| {}, 16), Ok(1));
            add(&queue);
            assert_eq!(queue.poll(|_| {}, 16), Ok(1));
            assert_eq!(queue.lock().dozing.threads, 1);
            assert!(!sleeper.is_finished());
            queue.doze(Duration::from_micros(1));
            assert!(queue.lock().dozing.nobody_takes());
            add(&queue);
        });
        assert!(began.elapsed() < LONG);
    }
}
