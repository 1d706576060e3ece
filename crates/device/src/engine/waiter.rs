//! A program that waits for a completion event drives the device itself: whoever brings the message wakes the thread
//! that wants it, and no other.
//!
//! One waiting thread at a time does so, the *waiter*. It looks for a moment, then says on every ring that it sleeps,
//! looks once more, and reads a bell of its own. Others that wait meanwhile sleep on the descriptors of their channels,
//! as they do when the agent drives. When the waiter leaves, the rings are the agent's. The agent keeps everything that
//! is not a message all the time: connections, timers, peers that end.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use nonic_sys::{
    AsFd, AsRawFd, Hope, LOOK, POLL_IN, PollEntry, cpu_relax, usable_cpus, wait_readable, yield_now,
};
use nonic_transport::Sleeper;

use super::{Engine, Progress};

/// Looks between two at the clock, each of which also lets other threads of this CPU run.
const LOOKS_PER_YIELD: u32 = 32;
/// Times a leaving waiter handles what came while it left before it calls the agent.
const LAST_LOOKS: u32 = 3;

/// What is known of the waiting thread.
#[derive(Debug, Default)]
pub(crate) struct Waiter {
    present: AtomicBool,
    hope: Hope,
    /// Whether looking can help: on one CPU whoever is waited for runs only when the waiter does not.
    alone: AtomicBool,
}

impl Waiter {
    /// Until when the next wait looks.
    fn begin(&self) -> Option<Instant> {
        let retry = self.hope.begin();
        if retry {
            self.alone.store(usable_cpus() < 2, Ordering::Relaxed);
        }
        let look = !self.alone.load(Ordering::Relaxed) && (retry || self.hope.is_left());
        look.then(|| Instant::now() + LOOK)
    }
}

/// What a thread waits for that drives the device meanwhile.
pub(crate) trait Awaited {
    /// What it finds.
    type Found;
    /// The thread begins to wait.
    fn begin(&mut self);
    /// Looks for it.
    fn look(&mut self) -> Option<Self::Found>;
    /// Says that the thread is about to sleep and must be woken, then looks once more.
    fn fall_asleep(&mut self) -> Option<Self::Found>;
    /// The thread looks by itself again.
    fn wake(&mut self);
    /// The thread goes, with what it found, or with what came last.
    fn end(&mut self, found: Option<Self::Found>) -> Option<Self::Found>;
}

/// How a thread's wait ended.
#[derive(Debug)]
pub(crate) enum Drive<T> {
    /// With what it waited for.
    Found(T),
    /// Without it, at its time.
    TimedOut,
    /// Another thread drives the device, or the agent should: the wait goes on without.
    Left,
    /// With a signal.
    Failed(io::Error),
}

impl Engine {
    /// Whether a thread of the program waits and drives.
    pub(crate) fn has_waiter(&self) -> bool {
        self.waiter.present.load(Ordering::SeqCst)
    }

    /// Waits for what `awaited` is and drives the device meanwhile.
    pub(crate) fn drive<A: Awaited>(&self, awaited: &mut A, until: Option<Instant>) -> Drive<A::Found> {
        if self.waiter.present.swap(true, Ordering::SeqCst) {
            return Drive::Left;
        }
        // Before the rings change hands: from now on every event shows elsewhere again. One that came with a signal goes before
        // it.
        let outcome = match self.drive_until(awaited, until) {
            Drive::Found(found) => awaited.end(Some(found)).map_or(Drive::Left, Drive::Found),
            other => awaited.end(None).map_or(other, Drive::Found),
        };
        self.leave();
        outcome
    }

    fn drive_until<A: Awaited>(&self, awaited: &mut A, until: Option<Instant>) -> Drive<A::Found> {
        awaited.begin();
        for link in self.links().iter() {
            link.set_awake();
        }
        let is_over = |now: Instant| until.is_some_and(|until| now >= until);
        let mut look_until = self.waiter.begin();
        let looks = look_until.is_some();
        let mut slept = false;
        let mut turns = 0u32;
        loop {
            let progress = self.progress(usize::MAX);
            if let Some(found) = awaited.look() {
                if looks {
                    self.waiter.hope.learn(!slept);
                }
                return Drive::Found(found);
            }
            if progress.any_of(Progress::HELD) {
                // A message waits for something that only time or this program can bring: the agent's business.
                return Drive::Left;
            }
            if progress.any_of(Progress::WORKED) {
                // Peers that never rest must not keep a thread beyond its time.
                if until.is_some() && is_over(Instant::now()) {
                    return Drive::TimedOut;
                }
                continue;
            }
            if let Some(look_end) = look_until {
                turns += 1;
                if turns.is_multiple_of(LOOKS_PER_YIELD) {
                    yield_now();
                    let now = Instant::now();
                    if is_over(now) {
                        return Drive::TimedOut;
                    }
                    if now >= look_end {
                        look_until = None;
                    }
                } else {
                    cpu_relax();
                }
                continue;
            }
            if progress.any_of(Progress::TAKEN) {
                yield_now();
                if until.is_some() && is_over(Instant::now()) {
                    return Drive::TimedOut;
                }
                continue;
            }
            if let Some(found) = awaited.fall_asleep() {
                return Drive::Found(found);
            }
            if self.say_asleep(Sleeper::Waiter) {
                slept = true;
                match self.sleep(until) {
                    Ok(true) => {}
                    Ok(false) => return Drive::TimedOut,
                    Err(error) => return Drive::Failed(error),
                }
            }
            awaited.wake();
        }
    }

    /// Sleeps until the bell is rung; false if it was not before `until`.
    fn sleep(&self, until: Option<Instant>) -> io::Result<bool> {
        let bell = &self.party.waiter_bell;
        if let Some(until) = until {
            let mut entry = [PollEntry { number: bell.as_fd().as_raw_fd(), events: POLL_IN, revents: 0 }];
            if nonic_sys::poll(&mut entry, Some(until.saturating_duration_since(Instant::now())))? == 0 {
                return Ok(false);
            }
        }
        match bell.take() {
            // A peer that holds the bell too can make it non-blocking; then it costs a call more.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let left = until.map(|until| until.saturating_duration_since(Instant::now()));
                Ok(wait_readable(bell.as_fd(), left))
            }
            other => other.map(|_| true),
        }
    }

    /// Says on every ring that the bell must be rung, and whose; false if a message came meanwhile.
    pub(crate) fn say_asleep(&self, sleeper: Sleeper) -> bool {
        let mut quiet = true;
        for link in self.links().iter() {
            quiet &= !link.set_sleeping(sleeper);
        }
        quiet
    }

    /// Leaves the rings to the agent.
    fn leave(&self) {
        // The peer's requests are acknowledged before the program is gone for who knows how long.
        self.answer_all();
        self.waiter.present.store(false, Ordering::SeqCst);
        for _ in 0..LAST_LOOKS {
            if self.say_asleep(Sleeper::Agent) {
                return;
            }
            self.progress(usize::MAX);
            self.answer_all();
        }
        self.party.doorbell.signal();
    }
}
