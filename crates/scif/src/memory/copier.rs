//! The thread that carries out what nobody waits for: what a card's DMA engine does. It also gives back the memory of windows
//! whose last user has left. There is one in a process, once it is needed.
//!
//! It touches no memory of the program but by mappings of files, and its own only while no pages are moved ([`OwnThread`]).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, TryLockError};
use std::time::{Duration, Instant};

use nonic_device::OwnThread;
use nonic_sys::{
    AsFd, EventFd, EventKind, PerProcess, at_exit, nap, spawn_without_signals, timer_slack_ns, wait_readable,
};

use super::copying::Transfer;
use super::fences::{Store, is_over};
use super::slots::{Slot, leave};
use super::{RegisteredMemory, lock};
use crate::ScifError;

/// Bytes copied before whoever moves pages gets a turn.
const TURN: usize = 1 << 20;
/// How often it is looked whether the peer has completed what a signal waits for.
const SIGNAL_TICK: Duration = Duration::from_micros(20);
/// How often it is looked whether ended windows are in use: first, and at most.
const DYING_FIRST: Duration = Duration::from_millis(1);
const DYING_LAST: Duration = Duration::from_millis(200);
/// How long an exit waits for copies under way.
const EXIT_PATIENCE: Duration = Duration::from_secs(10);
/// The queue is locked for moments only.
const LOCKED_PATIENCE: Duration = Duration::from_millis(300);

/// Something to carry out.
#[derive(Debug)]
pub(super) enum Work {
    /// A copy.
    Copy(Transfer),
    /// Stores, after all copies before them.
    Signal(Vec<Store>),
    /// Stores, after what the peer had started.
    SignalAfterPeer {
        /// How much that was.
        target: u64,
        /// In this order.
        stores: Vec<Store>,
    },
}

impl Work {
    /// Has everything mapped: the copier must not wait for who moves pages, and waits for the copier.
    pub(super) fn prepare(&self) -> Result<(), ScifError> {
        match self {
            Self::Copy(transfer) => transfer.prepare(),
            Self::Signal(stores) | Self::SignalAfterPeer { stores, .. } => {
                stores.iter().try_for_each(Store::prepare)
            }
        }
    }
}

/// Work for an endpoint, with the slot that keeps its windows alive.
pub(super) struct Job {
    pub(super) memory: Arc<RegisteredMemory>,
    pub(super) work: Work,
    pub(super) slot: Option<Slot>,
}

impl Job {
    /// Undone.
    pub(super) fn into_parts(self) -> (Work, Slot) {
        (self.work, self.slot.expect("a job that was not begun has its slot"))
    }

    fn counts(&self) -> bool {
        !matches!(self.work, Work::SignalAfterPeer { .. })
    }

    /// Done. What is left is to be dropped by who may give memory back.
    fn finish(mut self) -> Arc<RegisteredMemory> {
        if let Some(slot) = self.slot.take() {
            leave(&self.memory.own, slot);
        }
        self.memory.process().parked.fetch_sub(1, Ordering::Relaxed);
        if self.counts() {
            self.memory.own.completed().fetch_add(1, Ordering::AcqRel);
        }
        self.memory
    }
}

struct Copier {
    queue: Mutex<VecDeque<Job>>,
    /// Signals that wait for peers.
    waiting: Mutex<Vec<Job>>,
    /// Endpoints with ended windows in use.
    dying: Mutex<Vec<Arc<RegisteredMemory>>>,
    /// Endpoints of jobs that are done.
    spent: Mutex<Vec<Arc<RegisteredMemory>>>,
    bell: EventFd,
    asleep: AtomicBool,
    /// A job is out of the queue.
    busy: AtomicBool,
}

/// `None` inside: the kernel gives no thread.
static COPIER: PerProcess<Option<Copier>> = PerProcess::new();
static STARTING: PerProcess<Mutex<bool>> = PerProcess::new();

fn copier() -> Option<&'static Copier> {
    if let Some(copier) = COPIER.get() {
        return copier.as_ref();
    }
    let mut started = lock(STARTING.get_or_make(Mutex::default));
    let copier = COPIER.get_or_make(|| {
        Some(Copier {
            queue: Mutex::default(),
            waiting: Mutex::default(),
            dying: Mutex::default(),
            spent: Mutex::default(),
            bell: EventFd::new(EventKind::All, true).ok()?,
            asleep: AtomicBool::new(false),
            busy: AtomicBool::new(false),
        })
    });
    if !*started && let Some(copier) = copier {
        let thread = OwnThread::count();
        let starter = thread.starter();
        spawn_without_signals("nonic-scif-dma", move || copier.run(&thread)).ok()?;
        starter.has_started();
        at_exit(complete);
        *started = true;
    }
    copier.as_ref().filter(|_| *started)
}

/// Leaves a job to the copier; it comes back if there is none.
pub(super) fn push(job: Job) -> Result<(), Job> {
    let Some(copier) = copier() else { return Err(job) };
    if job.counts() {
        let mut queue = lock(&copier.queue);
        job.memory.started().fetch_add(1, Ordering::AcqRel);
        queue.push_back(job);
    } else {
        lock(&copier.waiting).push(job);
    }
    copier.wake();
    Ok(())
}

/// Runs when the process exits: a copy that was started arrives, as if its endpoint had been closed. Not for ever: whoever exits
/// wants to. Nor for long if the queue's lock is never free: it is this thread's own, which was interrupted by the signal handler
/// that exits.
extern "C" fn complete() {
    let Some(copier) = COPIER.get().and_then(Option::as_ref) else { return };
    let began = Instant::now();
    let mut locked_since = began;
    while began.elapsed() < EXIT_PATIENCE {
        match copier.queue.try_lock() {
            // The copier marks itself busy before it takes a job out.
            Ok(queue) if queue.is_empty() && !copier.busy.load(Ordering::SeqCst) => return,
            Err(TryLockError::WouldBlock) if locked_since.elapsed() > LOCKED_PATIENCE => return,
            Err(TryLockError::WouldBlock) => {}
            _ => locked_since = Instant::now(),
        }
        nap(SIGNAL_TICK);
    }
}

/// Has the ended windows of an endpoint looked after until nobody uses them.
pub(super) fn look_after(memory: Arc<RegisteredMemory>) {
    if let Some(copier) = copier() {
        lock(&copier.dying).push(memory);
        copier.wake();
    }
}

/// Carries out what is not left to the copier after all.
pub(super) fn carry_out(work: Work) -> Result<(), ScifError> {
    match work {
        Work::Copy(transfer) => transfer.run(),
        Work::Signal(stores) | Work::SignalAfterPeer { stores, .. } => {
            stores.into_iter().try_for_each(Store::run)
        }
    }
}

/// What the copier does next.
enum Next {
    Go,
    LookAtDying,
    Sleep(Option<Duration>),
}

impl Copier {
    fn wake(&self) {
        // Between what was just put there and the look at the flag; its other half stands in `decide`.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) {
            self.bell.signal();
        }
    }

    fn run(&self, thread: &OwnThread) {
        timer_slack_ns(1);
        let mut patience = DYING_FIRST;
        let mut looked = Instant::now();
        loop {
            match thread.work(|| self.decide(looked.elapsed(), patience)) {
                Next::Go => {}
                Next::LookAtDying => {
                    let changed = thread.as_ordinary(|| self.look_at_dying());
                    patience = if changed { DYING_FIRST } else { (patience * 2).min(DYING_LAST) };
                    looked = Instant::now();
                }
                Next::Sleep(time) => {
                    if wait_readable(self.bell.as_fd(), time) {
                        let _ = self.bell.take();
                        patience = DYING_FIRST;
                    }
                }
            }
        }
    }

    /// Takes a turn at what there is to do, or says how long there is nothing.
    fn decide(&self, since_look: Duration, patience: Duration) -> Next {
        self.asleep.store(false, Ordering::Relaxed);
        if self.turn() {
            return Next::Go;
        }
        let signals = self.look_at_signals();
        let dying = !lock(&self.dying).is_empty();
        if dying && since_look >= patience || !lock(&self.spent).is_empty() {
            return Next::LookAtDying;
        }
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if !lock(&self.queue).is_empty() {
            return Next::Go;
        }
        Next::Sleep(match (signals, dying) {
            (true, _) => Some(SIGNAL_TICK),
            (false, true) => Some(patience.saturating_sub(since_look)),
            (false, false) => None,
        })
    }

    /// Some bytes of the first job. Whether there was one.
    fn turn(&self) -> bool {
        self.busy.store(true, Ordering::SeqCst);
        let worked = self.take_turn();
        self.busy.store(false, Ordering::SeqCst);
        worked
    }

    fn take_turn(&self) -> bool {
        let Some(mut job) = lock(&self.queue).pop_front() else { return false };
        let result = match &mut job.work {
            Work::Copy(transfer) => transfer.step(TURN),
            Work::Signal(stores) | Work::SignalAfterPeer { stores, .. } => {
                stores.drain(..).try_for_each(Store::run).map(|()| false)
            }
        };
        match result {
            Ok(true) => lock(&self.queue).push_front(job),
            Ok(false) => lock(&self.spent).push(job.finish()),
            Err(error) => {
                tracing::warn!(%error, "an asynchronous copy failed");
                lock(&self.spent).push(job.finish());
            }
        }
        true
    }

    /// Whether signals are left that wait for peers.
    fn look_at_signals(&self) -> bool {
        let mut waiting = lock(&self.waiting);
        let is_due = |job: &mut Job| match &job.work {
            Work::SignalAfterPeer { target, .. } => {
                is_over(&job.memory.peer, *target, false) || job.memory.is_over()
            }
            _ => true,
        };
        let due: Vec<_> = waiting.extract_if(.., is_due).collect();
        let left = !waiting.is_empty();
        drop(waiting);
        for mut job in due {
            if let Work::SignalAfterPeer { stores, .. } = &mut job.work
                && let Err(error) = stores.drain(..).try_for_each(Store::run)
            {
                tracing::warn!(%error, "a signal could not be stored");
            }
            lock(&self.spent).push(job.finish());
        }
        left
    }

    /// Whether some ended windows are in use no more. Runs where memory may be given back.
    fn look_at_dying(&self) -> bool {
        let spent = std::mem::take(&mut *lock(&self.spent));
        drop(spent);
        let memories = std::mem::take(&mut *lock(&self.dying));
        let before = memories.len();
        let left: Vec<_> = memories.into_iter().filter(|memory| memory.look_after_dying()).collect();
        let changed = left.len() < before;
        lock(&self.dying).extend(left);
        changed
    }
}
