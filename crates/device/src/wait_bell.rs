//! Waiting for something that a program, its threads and its peers bring about, whatever it is.

use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use nonic_sys::{AsFd, AsRawFd, EventCount, POLL_IN, PollEntry};

use crate::context::Context;
use crate::engine::{Awaited, Drive, Engine};

/// Wakes threads that wait with [`Context::wait`]. Any number may wait with one bell.
#[derive(Debug)]
pub struct WaitBell {
    engine: Arc<Engine>,
    sleepers: EventCount,
    looks: bool,
}

impl WaitBell {
    /// For threads that have looked for what they wait for before they call: they sleep without looking for a while first.
    pub fn without_looking(self) -> Self {
        Self { looks: false, ..self }
    }

    /// Has those who wait look again. What they wait for was brought about before. May be called anywhere, under any lock:
    /// it wakes, and does nothing else. Without anybody asleep it costs a fence.
    pub fn ring(&self) {
        if self.sleepers.ring() {
            self.engine.party().waiter_bell.signal();
        }
    }
}

impl Context {
    /// A bell for threads that wait with this context.
    pub fn wait_bell(&self) -> WaitBell {
        WaitBell {
            engine: Arc::clone(self.engine_owner().engine()),
            sleepers: EventCount::default(),
            looks: true,
        }
    }

    /// Waits until `ready` says so (true), or until the time `until` (false). A signal ends the wait (`Interrupted`), unless
    /// there is no `until` and its handler has `SA_RESTART`, as with `read(2)`.
    ///
    /// `ready` is asked at first, after every ring of the bell, and whenever the device was driven; by the calling thread,
    /// which holds no lock of the engine then. Whoever changes its answer from another thread, or from an observer, rings
    /// the bell afterwards. Completions are noticed only on queues that are armed
    /// ([`crate::CompletionQueue::request_notification`]) with an observer that rings: `ready` arms them, then looks.
    ///
    /// The thread drives the device meanwhile, if no other does; else it sleeps until somebody rings.
    pub fn wait(
        &self,
        bell: &WaitBell,
        until: Option<Instant>,
        ready: &mut dyn FnMut() -> bool,
    ) -> io::Result<bool> {
        self.wait_then(bell, until, ready, &mut || ())
    }

    /// The same; `done` is called when a thread that drove the device ceases to, to withdraw what was armed
    /// ([`crate::CompletionQueue::withdraw_notification`]): while a queue is armed the agent has to drive.
    pub fn wait_then(
        &self,
        bell: &WaitBell,
        until: Option<Instant>,
        ready: &mut dyn FnMut() -> bool,
        done: &mut dyn FnMut(),
    ) -> io::Result<bool> {
        if ready() {
            return Ok(true);
        }
        if until.is_some_and(|until| Instant::now() >= until) {
            // Who never waits must see what has come all the same.
            if self.is_current() {
                self.engine().progress(usize::MAX);
            }
            return Ok(ready());
        }
        let waited = if self.is_current() {
            let mut rung = Rung { bell, ready: &mut *ready, done };
            self.engine().drive(&mut rung, until)
        } else {
            // The rings are the parent's.
            Drive::Left
        };
        match waited {
            Drive::Found(()) => Ok(true),
            Drive::TimedOut => Ok(ready()),
            Drive::Failed(error) => {
                if ready() {
                    Ok(true)
                } else {
                    Err(error)
                }
            }
            Drive::Left => {
                self.engine().call_agent();
                sleep(&bell.sleepers, until, ready)
            }
        }
    }
}

/// How a wait among descriptors ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Among {
    /// What was waited for has come, or a descriptor is ready: its entry says so.
    Ready,
    /// The time is over.
    TimedOut,
    /// Another thread drives the device, or the agent has to: the bell must reach the caller in some other way.
    Left,
}

impl Context {
    /// As [`Context::wait`], but descriptors end the wait, too. `entries` keeps what was found of each; an entry is added and
    /// taken away again. `ready` is not asked first, and `done` is called as [`Context::wait_then`] does.
    ///
    /// A signal ends the wait (`Interrupted`), as it does with `poll(2)`.
    pub fn wait_among(
        &self,
        bell: &WaitBell,
        entries: &mut Vec<PollEntry>,
        until: Option<Instant>,
        ready: &mut dyn FnMut() -> bool,
        done: &mut dyn FnMut(),
    ) -> io::Result<Among> {
        if !self.is_current() {
            return Ok(Among::Left);
        }
        let engine = self.engine();
        let shown = Cell::new(false);
        let mut either = || shown.get() || ready();
        let mut rung = Rung { bell, ready: &mut either, done };
        let driven = engine.drive_sleeping(&mut rung, until, &mut |until| {
            let own = &engine.party().waiter_bell;
            entries.push(PollEntry { number: own.as_fd().as_raw_fd(), events: POLL_IN, revents: 0 });
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let polled = nonic_sys::poll(entries, left);
            let is_rung = entries.pop().is_some_and(|entry| entry.revents != 0);
            if is_rung {
                own.take_if_ready();
            }
            let count = polled?;
            shown.set(count > usize::from(is_rung));
            Ok(count > 0)
        });
        match driven {
            Drive::Found(()) => Ok(Among::Ready),
            Drive::TimedOut => Ok(if ready() { Among::Ready } else { Among::TimedOut }),
            Drive::Left => {
                engine.call_agent();
                Ok(Among::Left)
            }
            Drive::Failed(error) => Err(error),
        }
    }
}

/// Sleeps while others drive the device.
fn sleep(sleepers: &EventCount, until: Option<Instant>, ready: &mut dyn FnMut() -> bool) -> io::Result<bool> {
    loop {
        let ticket = sleepers.prepare();
        if ready() {
            return Ok(true);
        }
        if until.is_some_and(|until| Instant::now() >= until) {
            return Ok(false);
        }
        if let Err(error) = sleepers.sleep(ticket, until) {
            return if ready() { Ok(true) } else { Err(error) };
        }
    }
}

/// What a thread that drives the device waits for, with a bell.
struct Rung<'a> {
    bell: &'a WaitBell,
    ready: &'a mut dyn FnMut() -> bool,
    done: &'a mut dyn FnMut(),
}

impl Rung<'_> {
    fn look(&mut self) -> Option<()> {
        (self.ready)().then_some(())
    }
}

impl Awaited for Rung<'_> {
    type Found = ();

    fn looks_first(&self) -> bool {
        self.bell.looks
    }

    fn begin(&mut self) {}

    fn look(&mut self) -> Option<()> {
        Rung::look(self)
    }

    fn fall_asleep(&mut self) -> Option<()> {
        self.bell.sleepers.prepare_elsewhere();
        Rung::look(self)
    }

    fn wake(&mut self) {
        self.bell.sleepers.wake_elsewhere();
    }

    fn end(&mut self, found: Option<()>) -> Option<()> {
        (self.done)();
        self.bell.sleepers.wake_elsewhere();
        found
    }
}
