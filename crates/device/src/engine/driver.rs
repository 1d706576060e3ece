//! Who reads the rings, and what that thread keeps from one time to the next.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use nonic_protocol::QpNumber;
use nonic_sys::{BiasedMutex, Yielder};

use super::giving_way::POLLS_PER_YIELD;
use super::resting::{Resting, Watched};
use super::stream::Stream;
use crate::config::RestPolicy;
use crate::queue_pair::QueuePair;

/// Queue pairs that are found again without asking the table.
const RECENT: usize = 64;

/// Who drives an engine, and what those who might tell each other. All but the lock are hints or counts that nobody waits for.
#[derive(Debug)]
pub(super) struct Driving {
    /// Held by the one thread that reads rings.
    pub(super) driver: BiasedMutex<Driver>,
    pub(super) empty_polls: AtomicU32,
    /// Of these, after which there is a yield; read in each.
    pub(super) polls_per_yield: AtomicU32,
    pub(super) busy_polls: AtomicU32,
    /// Messages handled. Counted under the driver's lock.
    pub(super) handled: AtomicU32,
    /// Polls that are to pass without a look at the rings.
    pub(super) pause: AtomicU32,
    /// The program sent something since the rings were last looked at.
    pub(super) sent: AtomicBool,
    /// A program polled since the agent last looked.
    pub(super) recent_poll: AtomicBool,
    /// The number of the thread that did; 0: none yet.
    pub(super) poller: AtomicI32,
    /// Completion queues whose program wants an event.
    pub(super) armed: AtomicUsize,
    /// Arrivals whose order was asked for.
    pub(super) arrivals: AtomicU64,
    /// For who polls in vain.
    pub(super) yielder: Yielder,
}

impl Driving {
    /// Nobody does yet.
    pub(super) fn new(policy: RestPolicy) -> Self {
        Self {
            driver: BiasedMutex::new(Driver::new(policy)),
            empty_polls: AtomicU32::new(0),
            polls_per_yield: AtomicU32::new(POLLS_PER_YIELD),
            busy_polls: AtomicU32::new(0),
            handled: AtomicU32::new(0),
            pause: AtomicU32::new(0),
            sent: AtomicBool::new(false),
            recent_poll: AtomicBool::new(false),
            poller: AtomicI32::new(0),
            armed: AtomicUsize::new(0),
            arrivals: AtomicU64::new(1),
            yielder: Yielder::default(),
        }
    }

    /// Polls of all threads and messages handled, about: who is preempted while it counts a poll sets the count back.
    pub(super) fn polls(&self) -> u32 {
        let counts = [&self.empty_polls, &self.busy_polls, &self.handled];
        counts.into_iter().fold(0, |sum, count| sum.wrapping_add(count.load(Ordering::Relaxed)))
    }
}

/// Belongs to the driver's lock.
#[derive(Debug)]
pub(crate) struct Driver {
    /// The links that are looked at; none while somebody does.
    pub(super) watched: Option<Box<Watched>>,
    /// Those that rest.
    pub(super) resting: Resting,
    /// As they were at this version; 0: at none.
    pub(super) links_version: u64,
    pub(super) stream: Stream,
    /// Queue pairs that had messages, each in the place of its number.
    recent: [Option<Arc<QueuePair>>; RECENT],
    /// The number of the queue pair that had the last message, if it may owe its peer an acknowledgement. That is not sent
    /// at once: a reply of the program says it as well, and otherwise the next look at the rings does it, or the end of
    /// the process.
    owes: Option<QpNumber>,
}

impl Driver {
    fn new(policy: RestPolicy) -> Self {
        Self {
            watched: Some(Box::default()),
            resting: Resting::new(policy),
            links_version: 0,
            stream: Stream::default(),
            recent: [const { None }; RECENT],
            owes: None,
        }
    }

    fn place(number: QpNumber) -> usize {
        number.0 as usize % RECENT
    }

    /// The queue pair of a number: one seen lately, or what `find` finds. Numbers of other processes come by the wire, too; they
    /// put nobody out of its place, and who is put out of it says first what it owes.
    #[inline]
    pub(super) fn pair(
        &mut self,
        number: QpNumber,
        find: impl FnOnce() -> Option<Arc<QueuePair>>,
    ) -> Option<&QueuePair> {
        let place = Self::place(number);
        let is_here = |pair: &Arc<QueuePair>| pair.number() == number && !pair.is_destroyed();
        if !self.recent[place].as_ref().is_some_and(is_here) {
            let found = find()?;
            if self.owes.is_some_and(|owing| owing != number && Self::place(owing) == place) {
                self.answer();
            }
            self.recent[place] = Some(found);
        }
        self.recent[place].as_deref()
    }

    /// Notes that the queue pair of a number may owe something, and settles with another that did before.
    #[inline]
    pub(super) fn note_debt(&mut self, number: QpNumber) {
        if self.owes != Some(number) {
            self.answer();
            self.owes = Some(number);
        }
    }

    /// Sends what is still owed.
    #[inline(always)]
    pub(super) fn answer(&mut self) {
        if let Some(number) = self.owes.take()
            && let Some(pair) = &self.recent[Self::place(number)]
        {
            pair.answer_now();
        }
    }

    /// Sends what is owed if it is more than an acknowledgement.
    #[inline]
    pub(super) fn answer_what_presses(&mut self) {
        if let Some(number) = self.owes {
            let pair = &self.recent[Self::place(number)];
            if !pair.as_ref().is_some_and(|pair| pair.answer_if_pressing()) {
                self.owes = None;
            }
        }
    }

    /// Lets go of a queue pair that is destroyed: to keep it is to keep its context, and with it the engine.
    pub(super) fn forget(&mut self, number: QpNumber) {
        self.recent[Self::place(number)].take_if(|pair| pair.number() == number);
        self.owes.take_if(|owing| *owing == number);
    }
}
