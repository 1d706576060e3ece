//! Completion queues.

mod batch;
mod creation;
mod dozing;
mod notifying;
mod stamps;
mod taking;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use nonic_protocol::{Completion, QpNumber, Ring};
use nonic_sys::{BiasedGuard, BiasedMutex, Sleepers, UseCount};

pub use self::batch::{BatchError, BatchReader};
pub use self::creation::CompletionQueueOptions;
use self::creation::check_entries;
use self::dozing::Dozing;
pub use self::notifying::{CompletionObserver, Moderation};
use self::notifying::{Notification, ReportsTo};
use self::stamps::Stamps;
pub use self::stamps::{Stamp, raw_clock_ns};
use crate::async_event::AsyncElement;
use crate::completion_channel::CompletionChannel;
use crate::context::Context;
use crate::engine::Engine;
use crate::error::{Busy, CqOverrun, CreateError};
use crate::events::EventAccount;
use crate::zone::Zone;

/// What polling a send completion gives back to its queue: every slot before `next`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SendCredit {
    /// Place of the queue pair's count.
    pub(crate) account: u32,
    /// Requests posted up to and with this one.
    pub(crate) next: u64,
}

impl SendCredit {
    /// What a receive gives back.
    pub(crate) const NONE: Self = Self { account: u32::MAX, next: 0 };
}

/// A completion as it stands in its queue, with what polling it gives back.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The completion.
    pub completion: Completion,
    credit: SendCredit,
    /// It wakes a program that asked for such only.
    solicited: bool,
}

impl Default for Entry {
    fn default() -> Self {
        Self { completion: Completion::default(), credit: SendCredit::NONE, solicited: false }
    }
}

#[derive(Debug)]
struct Inner {
    entries: Ring<Entry>,
    capacity: u32,
    notification: Notification,
    overrun: bool,
    /// A full queue gives up its oldest entry.
    overwrites: bool,
    /// Queue pairs that went since the batch began that is open.
    gone: Vec<QpNumber>,
    /// When each entry was added, for a queue that says so.
    stamps: Option<Box<Stamps>>,
    dozing: Dozing,
}

/// A completion queue (`ibv_create_cq(3)`).
#[derive(Debug)]
pub struct CompletionQueue {
    this: Weak<Self>,
    context: Arc<Context>,
    /// That of the context, for those in a hurry.
    engine: Arc<Engine>,
    reports_to: ReportsTo,
    cookie: usize,
    /// Entries waiting, for a look without the lock.
    waiting: AtomicU32,
    /// Entries added since the beginning, and of those the ones that went with their queue pair.
    added: AtomicU64,
    forgotten: AtomicU64,
    /// Whether arrivals are numbered, and the number of the oldest one that waits.
    numbers: AtomicBool,
    oldest: AtomicU64,
    inner: BiasedMutex<Inner>,
    /// The thread that has a batch open, by its mark. It is taken under the lock, and given back without.
    reader: AtomicUsize,
    /// Queue pairs that went while a batch was open.
    departures: AtomicU32,
    /// The thread that last polled it in vain for a while, by its mark, and where such threads sleep.
    vain_poller: AtomicUsize,
    sleepers: Sleepers,
    /// Its program reads batches on one thread at a time.
    single_threaded: bool,
    /// What it belongs to, if that was said.
    zone: Option<Arc<Zone>>,
    pub(crate) users: UseCount,
    completion_events: EventAccount,
    async_events: EventAccount,
}

impl CompletionQueue {
    /// The face's mark.
    pub fn cookie(&self) -> usize {
        self.cookie
    }

    /// How many completions it holds.
    pub fn entries(&self) -> u32 {
        self.lock().capacity
    }

    /// Where it reports.
    pub fn channel(&self) -> Option<&Arc<CompletionChannel>> {
        match &self.reports_to {
            ReportsTo::Channel(channel) => Some(channel),
            ReportsTo::Nobody | ReportsTo::Observer(_) => None,
        }
    }

    /// Its device context.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    fn lock(&self) -> BiasedGuard<'_, Inner> {
        self.inner.lock()
    }

    /// Hands the oldest completions to `out`, `most` at most, and drives the device if none waits. Returns how many.
    ///
    /// A program that was given something is about to act on it, and what it then sends says what is owed besides: to look
    /// at the rings first would cost it the time, and a message of its own for every acknowledgement.
    ///
    /// After an overrun what was held is still delivered, then every call fails, as does every one after the device has failed.
    #[inline]
    pub fn poll(&self, out: impl FnMut(&Completion), most: usize) -> Result<usize, CqOverrun> {
        self.poll_as(out, most, true)
    }

    /// The same for a thread that sleeps soon if nothing comes: it lets no other have its CPU before.
    pub fn poll_before_sleep(&self, out: impl FnMut(&Completion), most: usize) -> Result<usize, CqOverrun> {
        self.poll_as(out, most, false)
    }

    #[inline]
    fn poll_as(&self, out: impl FnMut(&Completion), most: usize, yields: bool) -> Result<usize, CqOverrun> {
        let engine = &*self.engine;
        engine.note_poll();
        let (usable, found) = (engine.is_usable(), self.has_entries() || most == 0);
        if usable && !found && !engine.progress_for_poller(most, yields.then_some(self)) {
            return Ok(0);
        }
        let count = self.take(out, most)?;
        if !usable {
            // The rings are the parent's: a child has its copy of what was here at the fork, and no more.
            return if engine.is_current() { Err(CqOverrun) } else { Ok(count) };
        }
        if found {
            engine.progress_for_busy_poller();
        }
        Ok(count)
    }

    /// Called in one place: there it stands in line.
    #[inline(always)]
    fn take(&self, mut out: impl FnMut(&Completion), most: usize) -> Result<usize, CqOverrun> {
        if !self.has_entries() {
            return Ok(0);
        }
        let mut inner = self.lock();
        if inner.overrun && inner.entries.length() == 0 {
            return Err(CqOverrun);
        }
        let count = self.take_oldest(&mut inner.entries, most, |some| {
            some.iter().for_each(|entry| out(&entry.completion))
        });
        if let Some(stamps) = &mut inner.stamps {
            stamps.pass(count, |_| {});
        }
        // An overrun queue never looks empty: the next call must fail.
        let left = inner.entries.length() as u32 + u32::from(inner.overrun);
        self.number_if(left > 0 && count > 0);
        self.waiting.store(left, Ordering::Release);
        inner.dozing.note_taker();
        Ok(count)
    }

    /// Whether arrivals are numbered from now on, for [`CompletionQueue::oldest_arrival`].
    pub fn number_arrivals(&self, numbers: bool) {
        let _inner = self.lock();
        self.numbers.store(numbers, Ordering::Relaxed);
        self.number_if(true);
    }

    /// The number of the oldest completion that waits, if arrivals are numbered; of several that came in a row, all but the first
    /// count as having come when the one before was polled. Numbers are of all queues of a process, and of
    /// [`Context::number_arrival`]: they tell which queue a program has to hear of first.
    pub fn oldest_arrival(&self) -> u64 {
        self.oldest.load(Ordering::Acquire)
    }

    /// Gives what is oldest now a number, if there is anything, and numbers are asked for.
    #[inline]
    fn number_if(&self, is_there: bool) {
        if is_there && self.numbers.load(Ordering::Relaxed) {
            self.oldest.store(self.engine.number_arrival(), Ordering::Release);
        }
    }

    /// Whether completions wait.
    pub(crate) fn has_entries(&self) -> bool {
        self.waiting() > 0
    }

    /// How many completions wait this moment; after an overrun one more than that. Costs one load.
    #[inline]
    pub fn waiting(&self) -> u32 {
        self.waiting.load(Ordering::Acquire)
    }

    /// How many completions were added since the queue was made. With the number that was polled since, and
    /// [`CompletionQueue::forgotten`], this tells what came before and after something else.
    pub fn added(&self) -> u64 {
        self.added.load(Ordering::Acquire)
    }

    /// How many of the completions that wait are of a kind. `is_of_kind` gets each, and whether it was solicited; it is called
    /// under the lock of the queue.
    pub fn count(&self, is_of_kind: impl Fn(&Completion, bool) -> bool) -> u32 {
        let inner = self.lock();
        inner.entries.iter().filter(|entry| is_of_kind(&entry.completion, entry.solicited)).count() as u32
    }

    /// How many of the completions that wait give places of this account back.
    pub(crate) fn waiting_for(&self, account: u32) -> u64 {
        let inner = self.lock();
        inner.entries.iter().filter(|entry| entry.credit.account == account).count() as u64
    }

    /// Takes the oldest completion if `is_of_kind` says so of it, which is called under the lock of the queue. Drives nothing.
    pub fn take_if(&self, is_of_kind: impl FnOnce(&Completion) -> bool) -> Option<Completion> {
        let mut inner = self.lock();
        let entry = inner.entries.first().filter(|entry| is_of_kind(&entry.completion))?;
        let (completion, credit) = (entry.completion, entry.credit);
        self.give_credit(credit);
        inner.entries.pass_first();
        if let Some(stamps) = &mut inner.stamps {
            stamps.pass(1, |_| {});
        }
        let left = inner.entries.length() as u32 + u32::from(inner.overrun);
        self.number_if(left > 0);
        self.waiting.store(left, Ordering::Release);
        Some(completion)
    }

    /// How many of those added were removed unpolled: with their queue pair's reset or end, or overwritten.
    pub fn forgotten(&self) -> u64 {
        self.forgotten.load(Ordering::Acquire)
    }

    /// Adds a completion that `fill` writes. `solicited` wakes a program that asked for such only; a failure always does.
    #[inline]
    pub(crate) fn push(&self, credit: SendCredit, solicited: bool, fill: impl FnOnce(&mut Completion)) {
        let mut inner = self.lock();
        if inner.overrun || inner.entries.length() >= inner.capacity as usize {
            if !inner.overwrites {
                self.overrun(inner);
                return;
            }
            self.give_up_oldest(&mut inner);
        }
        self.number_if(inner.entries.length() == 0);
        let entry = inner.entries.add();
        fill(&mut entry.completion);
        (entry.credit, entry.solicited) = (credit, solicited);
        let failed = !entry.completion.status.is_success();
        if let Some(stamps) = &mut inner.stamps {
            stamps.add();
        }
        self.added.store(self.added.load(Ordering::Relaxed) + 1, Ordering::Release);
        self.waiting.store(inner.entries.length() as u32, Ordering::Release);
        let wakes = inner.dozing.any() && inner.entries.length() == 1 && inner.dozing.nobody_takes();
        if inner.notification.is_armed() {
            self.wake(inner, solicited || failed);
        } else {
            drop(inner);
        }
        if wakes {
            self.sleepers.wake_one();
        }
    }

    /// Makes room in a full queue that does not overrun. What the entry gives back is given back.
    #[cold]
    fn give_up_oldest(&self, inner: &mut Inner) {
        // More than one if a reader gave some back.
        while inner.entries.length() >= inner.capacity as usize {
            if let Some(entry) = inner.entries.first() {
                self.give_credit(entry.credit);
            }
            inner.entries.pass_first();
            if let Some(stamps) = &mut inner.stamps {
                stamps.pass(1, |_| {});
            }
            self.forgotten.store(self.forgotten.load(Ordering::Relaxed) + 1, Ordering::Release);
        }
        self.number_if(true);
    }

    pub(crate) fn account(&self) -> &EventAccount {
        &self.completion_events
    }

    pub(crate) fn async_account(&self) -> &EventAccount {
        &self.async_events
    }

    /// Acknowledges completion events.
    pub fn acknowledge_events(&self, count: u32) {
        self.completion_events.acknowledge(count);
    }

    /// Acknowledges an asynchronous event.
    pub fn acknowledge_async_event(&self) {
        self.async_events.acknowledge(1);
    }

    /// Changes its size; what it holds stays. Refused below that.
    pub fn resize(&self, entries: u32) -> Result<(), CreateError> {
        self.context.check_current()?;
        check_entries(entries)?;
        let mut inner = self.lock();
        let held = inner.entries.length() as u32;
        if entries < held {
            return Err(CreateError::StillHolds { entries: held });
        }
        inner.capacity = entries;
        Ok(())
    }

    /// Removes the completions of a queue pair that goes.
    pub(crate) fn forget(&self, number: QpNumber) {
        let mut inner = self.lock();
        self.tell_reader(&mut inner, number);
        let before = inner.entries.length();
        let stays = |entry: &Entry| entry.completion.qp_number != number;
        let Inner { entries, stamps, .. } = &mut *inner;
        if let Some(stamps) = stamps {
            stamps.retain(entries.iter().map(stays));
        }
        entries.retain(stays);
        let removed = (before - inner.entries.length()) as u64;
        self.forgotten.store(self.forgotten.load(Ordering::Relaxed) + removed, Ordering::Release);
        let left = inner.entries.length() as u32 + u32::from(inner.overrun);
        self.waiting.store(left, Ordering::Release);
    }

    /// Gives the queue back. Refused while queue pairs use it; blocks until every event got from it was acknowledged.
    pub fn destroy(&self) -> Result<(), Busy> {
        if self.users.is_closed() {
            return Ok(());
        }
        Busy::unless_closed(&self.users, "completion queue")?;
        self.withdraw_notification();
        if let Some(channel) = self.channel() {
            channel.forget(self);
        }
        self.context.forget_events(|element| {
            matches!(element, AsyncElement::CompletionQueue(queue) if std::ptr::eq(Arc::as_ptr(queue), self))
        });
        self.completion_events.wait_for_all();
        self.async_events.wait_for_all();
        if let Some(channel) = self.channel() {
            channel.users.release();
        }
        if let Some(zone) = &self.zone {
            zone.users.release();
        }
        Ok(())
    }
}
