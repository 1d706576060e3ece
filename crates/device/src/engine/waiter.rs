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

use nonic_sys::{AsFd, Hope, LOOK, cpu_relax, usable_cpus, wait_readable, yield_now};
use nonic_transport::Sleeper;

use super::{Engine, Progress};
use crate::events::EventQueue;

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

impl Engine {
    /// Whether a thread of the program waits and drives.
    pub(crate) fn has_waiter(&self) -> bool {
        self.waiter.present.load(Ordering::SeqCst)
    }

    /// Waits for an event of `events` and drives the device meanwhile. `None`: another thread does that, or the agent
    /// should; then the descriptor of the queue tells. A signal ends the wait as it ends `read(2)`.
    pub(crate) fn wait_for<T, R>(
        &self,
        events: &EventQueue<T>,
        deliver: impl Fn(&T) -> R,
    ) -> Option<io::Result<(T, R)>> {
        if self.waiter.present.swap(true, Ordering::SeqCst) {
            return None;
        }
        let outcome = self.drive_until(events, &deliver);
        // Before the rings change hands: from now on every event shows on the descriptor again. One that came with a signal
        // goes before it.
        let outcome = match outcome {
            Some(Ok(found)) => {
                events.end_wait();
                Some(Ok(found))
            }
            other => events.end_wait_with(&deliver).map(Ok).or(other),
        };
        self.leave();
        outcome
    }

    fn drive_until<T, R>(
        &self,
        events: &EventQueue<T>,
        deliver: &impl Fn(&T) -> R,
    ) -> Option<io::Result<(T, R)>> {
        events.begin_wait();
        for link in self.links().iter() {
            link.set_awake();
        }
        let mut look_until = self.waiter.begin();
        let looks = look_until.is_some();
        let mut slept = false;
        let mut turns = 0u32;
        loop {
            let progress = self.progress(usize::MAX);
            if let Some(found) = events.try_next(deliver) {
                if looks {
                    self.waiter.hope.learn(!slept);
                }
                return Some(Ok(found));
            }
            if progress.any_of(Progress::HELD) {
                // A message waits for something that only time or this program can bring: the agent's business.
                return None;
            }
            if progress.any_of(Progress::WORKED) {
                continue;
            }
            if let Some(until) = look_until {
                turns += 1;
                if turns.is_multiple_of(LOOKS_PER_YIELD) {
                    yield_now();
                    if Instant::now() >= until {
                        look_until = None;
                    }
                } else {
                    cpu_relax();
                }
                continue;
            }
            if progress.any_of(Progress::TAKEN) {
                yield_now();
                continue;
            }
            if let Some(found) = events.fall_asleep(deliver) {
                return Some(Ok(found));
            }
            if self.say_asleep(Sleeper::Waiter) {
                slept = true;
                let woken = self.sleep();
                if let Err(error) = woken {
                    return Some(Err(error));
                }
            }
            events.wake();
        }
    }

    fn sleep(&self) -> io::Result<()> {
        let bell = &self.party.waiter_bell;
        match bell.take() {
            // A peer that holds the bell too can make it non-blocking; then it costs a call more.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                wait_readable(bell.as_fd(), None);
                Ok(())
            }
            other => other.map(|_| ()),
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
