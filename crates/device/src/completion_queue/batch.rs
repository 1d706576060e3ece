//! Reading a queue entry by entry (`ibv_start_poll`, `ibv_next_poll`, `ibv_end_poll`).
//!
//! The lock of the queue is held for the moment in which entries are taken, and not between the beginning of a batch and its end:
//! there the program may post, destroy queue pairs and fork, and completions are added. What keeps a second thread out meanwhile
//! is a word that says whose batch is open. It is written under the lock that an entry needs anyway, so that it costs a store.
//!
//! A reader takes several entries ahead, so that it takes the lock once for them, and gives back those it did not come to. Of
//! queue pairs that go meanwhile it is told: their entries are not to be read any more.

use std::sync::atomic::Ordering;
use std::time::Duration;

use nonic_protocol::{Completion, QpNumber};
use nonic_sys::{BiasedGuard, cpu_relax, nap, thread_mark, yield_now};

use super::{CompletionQueue, Entry, Inner, SendCredit, Stamp};
use crate::error::CqOverrun;

/// Marks no thread.
pub(super) const NOBODY: usize = 0;

/// What a look at the rings brings in for a program that takes all there is.
const WANTED: usize = 16;

/// Looks at another thread's open batch before the thread that waits sleeps between two.
const LOOKS: u32 = 4096;
const NAP: Duration = Duration::from_micros(50);

/// Error returned by [`CompletionQueue::begin_batch`] and [`CompletionQueue::take_ahead`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// The queue lost completions.
    #[error("{0}")]
    Overrun(#[from] CqOverrun),
    /// A batch is open already that this thread must not wait for.
    #[error("a batch has been begun already: end that one first")]
    Begun,
    /// There is no batch to go on with.
    #[error("no batch was begun")]
    NotBegun,
}

/// Who reads a queue in batches, and keeps what was taken ahead. It is used under the lock of the queue, by the thread whose batch is
/// open or about to be.
pub trait BatchReader {
    /// A batch is about to begin. Returns how many completions it takes at most; at least one.
    fn begin(&mut self, queue: &CompletionQueue) -> usize;
    /// Keeps what was taken, behind what it was given in the same call of the queue before.
    fn keep(&mut self, entries: &[Entry]);
    /// Keeps when these were added, in the same way; called on a queue that notes it, after all have been taken.
    fn keep_stamps(&mut self, stamps: &[Stamp]);
}

impl CompletionQueue {
    /// Begins a batch: hands the oldest completions to the reader, and drives the device if none waits. False if there is none; then
    /// no batch was begun.
    ///
    /// While another thread has a batch open, waits until it ends; refused if this one has, and on a queue whose program sees to it
    /// itself that none has. The reader is not used before that.
    #[inline]
    pub fn begin_batch(&self, reader: &mut impl BatchReader) -> Result<bool, BatchError> {
        let engine = &*self.engine;
        engine.note_poll();
        let mut begun = self.open_batch(reader)?;
        if !engine.is_usable() {
            return if engine.is_current() && !begun { Err(CqOverrun.into()) } else { Ok(begun) };
        }
        if begun {
            engine.progress_for_busy_poller();
        } else if engine.progress_for_poller(WANTED, Some(self)) {
            begun = self.open_batch(reader)?;
        }
        Ok(begun)
    }

    #[inline(always)]
    fn open_batch(&self, reader: &mut impl BatchReader) -> Result<bool, BatchError> {
        if self.waiting.load(Ordering::Acquire) == 0 {
            return Ok(false);
        }
        let mut inner = self.lock();
        // Nearly always nobody has: seen so, what the reader keeps is this thread's.
        if self.reader.load(Ordering::Acquire) != NOBODY {
            inner = self.wait_for_reader(inner)?;
        }
        let most = reader.begin(self);
        if self.hand_to(reader, &mut inner, most) == 0 {
            return if inner.overrun { Err(CqOverrun.into()) } else { Ok(false) };
        }
        self.reader.store(thread_mark(), Ordering::Relaxed);
        if !inner.gone.is_empty() {
            inner.gone.clear();
        }
        self.note_left(&inner);
        inner.dozing.note_taker();
        Ok(true)
    }

    /// Waits until nobody has a batch open, without the lock.
    #[cold]
    fn wait_for_reader<'a>(
        &'a self,
        mut inner: BiasedGuard<'a, Inner>,
    ) -> Result<BiasedGuard<'a, Inner>, BatchError> {
        let mut looks = 0;
        loop {
            let reader = self.reader.load(Ordering::Acquire);
            // In a child the batch may be one of a thread that stayed in the parent.
            if reader == NOBODY || !self.engine.is_current() {
                return Ok(inner);
            }
            if reader == thread_mark() || self.single_threaded {
                return Err(BatchError::Begun);
            }
            drop(inner);
            looks += 1;
            if looks > LOOKS {
                nap(NAP);
            } else if looks.is_multiple_of(64) {
                yield_now();
            } else {
                cpu_relax();
            }
            inner = self.lock();
        }
    }

    /// Goes on with a batch: hands the completions that are oldest now to the reader, `most` at most. Returns how many; with none the
    /// batch stays open.
    #[inline]
    pub fn take_ahead(&self, most: usize, reader: &mut impl BatchReader) -> Result<usize, BatchError> {
        if self.reader.load(Ordering::Relaxed) == NOBODY {
            return Err(BatchError::NotBegun);
        }
        if self.waiting.load(Ordering::Acquire) == 0 {
            return Ok(0);
        }
        let mut inner = self.lock();
        let count = self.hand_to(reader, &mut inner, most);
        if count == 0 && inner.overrun {
            return Err(CqOverrun.into());
        }
        self.note_left(&inner);
        Ok(count)
    }

    #[inline(always)]
    fn hand_to(&self, reader: &mut impl BatchReader, inner: &mut Inner, most: usize) -> usize {
        let count = self.take_oldest(&mut inner.entries, most, |some| reader.keep(some));
        if let Some(stamps) = &mut inner.stamps {
            stamps.pass(count, |some| reader.keep_stamps(some));
        }
        count
    }

    #[inline]
    fn note_left(&self, inner: &Inner) {
        let left = inner.entries.length() as u32 + u32::from(inner.overrun);
        self.number_if(left > 0);
        self.waiting.store(left, Ordering::Release);
    }

    /// How many queue pairs went whose completions an open batch may hold. When this has changed, [`CompletionQueue::is_gone`] says
    /// of which.
    #[inline]
    pub fn departures(&self) -> u32 {
        self.departures.load(Ordering::Acquire)
    }

    /// Whether the completions of a queue pair are not to be read any more that were taken ahead in the batch that is open.
    pub fn is_gone(&self, number: QpNumber) -> bool {
        self.lock().gone.contains(&number)
    }

    /// Notes for who reads that a queue pair goes.
    pub(super) fn tell_reader(&self, inner: &mut Inner, number: QpNumber) {
        if self.reader.load(Ordering::Relaxed) != NOBODY {
            inner.gone.push(number);
            self.departures.fetch_add(1, Ordering::Release);
        }
    }

    /// Gives back what was taken ahead and not read, the oldest first; it stands before all else again.
    pub fn give_back<'a>(&self, unread: impl DoubleEndedIterator<Item = (&'a Completion, Stamp)>) {
        let mut inner = self.lock();
        for (completion, stamp) in unread.rev() {
            if inner.gone.contains(&completion.qp_number) {
                continue;
            }
            // Its place was given back when it was taken, and who was asleep has been told of it.
            let entry = Entry { completion: *completion, credit: SendCredit::NONE, solicited: false };
            inner.entries.put_first(entry);
            if let Some(stamps) = &mut inner.stamps {
                stamps.put_first(stamp);
            }
        }
        self.note_left(&inner);
    }

    /// Ends a batch; without one, nothing happens.
    #[inline]
    pub fn end_batch(&self) {
        self.reader.store(NOBODY, Ordering::Release);
    }
}
