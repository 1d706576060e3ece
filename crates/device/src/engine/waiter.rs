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
use nonic_transport::{Link, Sleeper};

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
    /// Whether it looks for a while before it sleeps. Who does not has looked before, and looks again soon when it goes.
    fn looks_first(&self) -> bool {
        true
    }
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

/// A thread's turn at driving: where it stands between two sleeps.
#[derive(Debug)]
pub(crate) struct Turn {
    look_until: Option<Instant>,
    looks: bool,
    slept: bool,
    turns: u32,
}

/// How a turn goes on.
pub(crate) enum Next<T> {
    /// It is over.
    Over(Drive<T>),
    /// The thread sleeps until the bell for waiters is rung, then takes its turn again.
    Sleep,
}

impl Engine {
    /// Whether a thread of the program waits and drives.
    pub(crate) fn has_waiter(&self) -> bool {
        self.waiter.present.load(Ordering::SeqCst)
    }

    /// Waits for what `awaited` is and drives the device meanwhile.
    pub(crate) fn drive<A: Awaited>(&self, awaited: &mut A, until: Option<Instant>) -> Drive<A::Found> {
        self.drive_sleeping(awaited, until, &mut |until| self.sleep(until))
    }

    /// The same with a sleep of the caller's, which ends when the bell for waiters is rung, or earlier; false at its time.
    pub(crate) fn drive_sleeping<A: Awaited>(
        &self,
        awaited: &mut A,
        until: Option<Instant>,
        sleep: &mut dyn FnMut(Option<Instant>) -> io::Result<bool>,
    ) -> Drive<A::Found> {
        let Some(mut turn) = self.begin_driving(awaited) else { return Drive::Left };
        loop {
            match self.drive_on(&mut turn, awaited, until) {
                Next::Over(outcome) => return self.end_driving(awaited, outcome),
                Next::Sleep => match sleep(until) {
                    Ok(true) => {}
                    Ok(false) => return self.end_driving(awaited, Drive::TimedOut),
                    Err(error) => return self.end_driving(awaited, Drive::Failed(error)),
                },
            }
        }
    }

    /// Makes this thread the one that drives while it waits; `None`: another one does. It then takes its turn
    /// ([`Engine::drive_on`]) until that is over, and ends it by [`Engine::end_driving`] or [`Engine::stop_driving`].
    pub(crate) fn begin_driving<A: Awaited>(&self, awaited: &mut A) -> Option<Turn> {
        if self.waiter.present.swap(true, Ordering::SeqCst) {
            return None;
        }
        awaited.begin();
        self.party.calls.set_awake(Sleeper::Agent);
        self.of_watched(Link::set_awake);
        let look_until = if awaited.looks_first() { self.waiter.begin() } else { None };
        Some(Turn { look_until, looks: look_until.is_some(), slept: false, turns: 0 })
    }

    /// Ends this thread's turn.
    pub(crate) fn end_driving<A: Awaited>(
        &self,
        awaited: &mut A,
        outcome: Drive<A::Found>,
    ) -> Drive<A::Found> {
        // Before the rings change hands: from now on every event shows elsewhere again. One that came with a signal goes before
        // it.
        let outcome = match outcome {
            Drive::Found(found) => awaited.end(Some(found)).map_or(Drive::Left, Drive::Found),
            other => awaited.end(None).map_or(other, Drive::Found),
        };
        self.leave(!awaited.looks_first());
        outcome
    }

    /// Ends the turn of a thread that waits no longer, whatever has come. The caller has said so where events show.
    pub(crate) fn stop_driving(&self) {
        self.leave(false);
    }

    /// Drives the device until something is found, or there is nothing to do but to sleep.
    pub(crate) fn drive_on<A: Awaited>(
        &self,
        turn: &mut Turn,
        awaited: &mut A,
        until: Option<Instant>,
    ) -> Next<A::Found> {
        if turn.slept {
            self.party.calls.set_awake(Sleeper::Waiter);
            awaited.wake();
        }
        let is_over = |now: Instant| until.is_some_and(|until| now >= until);
        loop {
            let progress = self.progress(usize::MAX);
            if let Some(found) = awaited.look() {
                if turn.looks {
                    self.waiter.hope.learn(!turn.slept);
                }
                return Next::Over(Drive::Found(found));
            }
            if progress.any_of(Progress::HELD) {
                // A message waits for something that only time or this program can bring: the agent's business.
                return Next::Over(Drive::Left);
            }
            if progress.any_of(Progress::WORKED) {
                // Peers that never rest must not keep a thread beyond its time.
                if until.is_some() && is_over(Instant::now()) {
                    return Next::Over(Drive::TimedOut);
                }
                continue;
            }
            if let Some(look_end) = turn.look_until {
                turn.turns += 1;
                if turn.turns.is_multiple_of(LOOKS_PER_YIELD) {
                    yield_now();
                    let now = Instant::now();
                    if is_over(now) {
                        return Next::Over(Drive::TimedOut);
                    }
                    if now >= look_end {
                        turn.look_until = None;
                    }
                } else {
                    cpu_relax();
                }
                continue;
            }
            if progress.any_of(Progress::TAKEN) {
                yield_now();
                if until.is_some() && is_over(Instant::now()) {
                    return Next::Over(Drive::TimedOut);
                }
                continue;
            }
            if let Some(found) = awaited.fall_asleep() {
                return Next::Over(Drive::Found(found));
            }
            if self.say_asleep(Sleeper::Waiter) {
                turn.slept = true;
                return Next::Sleep;
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
        let mut quiet = !self.party.calls.set_sleeping(sleeper);
        // Who drives right now does not see what is said: do not sleep.
        let said = self.of_watched(|link| quiet &= !link.set_sleeping(sleeper));
        // What comes by the wire wakes the agent, whoever else sleeps.
        self.arm_wire();
        quiet && said
    }

    /// Leaves the rings to whoever drives next, or to the agent. `polls`: the program is about to poll, and takes them without a word to
    /// its peers if the agent looks soon whether it does; peers that rang for each message meanwhile would wake it as often.
    fn leave(&self, polls: bool) {
        // The peer's requests are acknowledged before the program is gone for who knows how long.
        self.answer_all();
        if polls {
            self.of_watched(Link::set_awake);
            self.note_poll();
        }
        // Once: the place is another thread's as soon as this is said.
        self.waiter.present.store(false, Ordering::SeqCst);
        // The agent says that it looks soon, then looks for a waiter: if it saw this one, it is seen here that it does not.
        if polls && self.agent.looks_soon() && !self.anyone_sleeps() {
            return;
        }
        for _ in 0..LAST_LOOKS {
            // Who drives by now looks for itself, and leaves as this thread did.
            if self.has_waiter() || self.say_asleep(Sleeper::Agent) {
                return;
            }
            self.progress(usize::MAX);
            self.answer_all();
        }
        self.party.doorbell.signal();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::config::Config;
    use crate::engine::{Commons, EngineOwner};

    /// What has come already. Counts those who drive.
    struct There<'a> {
        drivers: &'a AtomicU32,
        looks_first: bool,
    }

    impl Awaited for There<'_> {
        type Found = u32;

        fn looks_first(&self) -> bool {
            self.looks_first
        }

        fn begin(&mut self) {
            self.drivers.fetch_add(1, Ordering::SeqCst);
        }

        fn look(&mut self) -> Option<u32> {
            Some(self.drivers.load(Ordering::SeqCst))
        }

        fn fall_asleep(&mut self) -> Option<u32> {
            self.look()
        }

        fn wake(&mut self) {}

        fn end(&mut self, found: Option<u32>) -> Option<u32> {
            let most = found.max(self.look());
            self.drivers.fetch_sub(1, Ordering::SeqCst);
            most
        }
    }

    #[test]
    fn who_leaves_takes_the_place_from_nobody_who_has_it_by_then() {
        let owner = EngineOwner::create(&Config::default(), &Commons::default()).unwrap();
        let (drivers, end) = (AtomicU32::new(0), Instant::now() + Duration::from_secs(1));
        std::thread::scope(|scope| {
            for number in 0..4 {
                let (engine, drivers) = (owner.engine(), &drivers);
                scope.spawn(move || {
                    while Instant::now() < end {
                        let mut there = There { drivers, looks_first: number == 0 };
                        if let Drive::Found(most) = engine.drive(&mut there, None) {
                            assert_eq!(most, 1, "one thread at a time drives");
                        }
                    }
                });
            }
        });
        assert!(!owner.has_waiter());
    }
}
