//! Waiting for the next event of a queue, in steps: between two of them the thread sleeps where its caller wants it to, and
//! may go for ever there, as a cancelled thread does.

use std::io;
use std::sync::Arc;

use nonic_sys::{AsFd, AsRawFd, Sleep};

use crate::async_event::AsyncEvent;
use crate::completion_channel::{ChannelEvent, CompletionChannel};
use crate::completion_queue::CompletionQueue;
use crate::context::Context;
use crate::engine::{Drive, Next, Turn};

/// What a step of a wait comes to.
#[derive(Debug)]
pub enum Step<T> {
    /// The event.
    Found(T),
    /// The thread sleeps so, then goes on. Nothing is held meanwhile that [`EventWait::abandon`] does not give back.
    Sleep(Sleep),
}

/// A thread's wait for an event.
pub trait EventWait: Sized {
    /// What it waits for.
    type Event;

    /// Goes on: at first, and after each sleep, with how that ended. An error ends the wait.
    fn go_on(&mut self, slept: io::Result<()>) -> io::Result<Step<Self::Event>>;

    /// Ends a wait that sleeps. `has_read` says whether a read ([`Sleep::Read`]) took something before.
    fn abandon(self, has_read: bool);

    /// Waits, sleeping in place.
    fn finish(mut self) -> io::Result<Self::Event> {
        let mut slept = Ok(());
        loop {
            slept = match self.go_on(slept)? {
                Step::Found(event) => return Ok(event),
                Step::Sleep(sleep) => sleep.here(),
            };
        }
    }
}

/// A wait for the next event of a completion channel ([`CompletionChannel::begin_wait`]).
#[derive(Debug)]
pub struct ChannelWait {
    channel: Arc<CompletionChannel>,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Begins,
    /// The thread drives the device.
    Drives(Turn),
    /// Another one does, or the agent: the descriptor tells.
    Reads,
}

impl CompletionChannel {
    /// Begins a wait for the oldest event, as [`CompletionChannel::next_event`] does.
    pub fn begin_wait(self: &Arc<Self>) -> ChannelWait {
        ChannelWait { channel: Arc::clone(self), stage: Stage::Begins }
    }
}

fn deliver(queue: &Arc<CompletionQueue>) {
    queue.account().delivered();
}

impl ChannelWait {
    fn begin(&mut self) -> io::Result<Step<Arc<CompletionQueue>>> {
        let channel = &*self.channel;
        let (read, blocks) = channel.events.read_as_set();
        if blocks && channel.may_be_driven_for() {
            let mut awaited = ChannelEvent { events: &channel.events, deliver };
            if let Some(turn) = channel.engine().begin_driving(&mut awaited) {
                self.stage = Stage::Drives(turn);
                return self.drive(Ok(()));
            }
        }
        self.stage = Stage::Reads;
        Ok(Step::Sleep(read))
    }

    fn drive(&mut self, slept: io::Result<()>) -> io::Result<Step<Arc<CompletionQueue>>> {
        let Stage::Drives(turn) = &mut self.stage else { unreachable!("asked of a thread that drives") };
        let engine = self.channel.engine();
        let bell = engine.party().waiter_bell.as_fd().as_raw_fd();
        let mut awaited = ChannelEvent { events: &self.channel.events, deliver };
        let outcome = match slept {
            // A peer that holds the bell too can make it non-blocking; then it costs a call more.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Ok(Step::Sleep(Sleep::Poll(bell)));
            }
            Err(error) => Drive::Failed(error),
            Ok(()) => match engine.drive_on(turn, &mut awaited, None) {
                Next::Sleep => return Ok(Step::Sleep(Sleep::Read(bell))),
                Next::Over(outcome) => outcome,
            },
        };
        let outcome = engine.end_driving(&mut awaited, outcome);
        self.stage = Stage::Reads;
        match outcome {
            Drive::Found(queue) => Ok(Step::Found(queue)),
            Drive::Failed(error) => Err(error),
            Drive::Left | Drive::TimedOut => Ok(Step::Sleep(self.channel.events.read())),
        }
    }
}

impl EventWait for ChannelWait {
    type Event = Arc<CompletionQueue>;

    fn go_on(&mut self, slept: io::Result<()>) -> io::Result<Step<Self::Event>> {
        match self.stage {
            Stage::Begins => self.begin(),
            Stage::Drives(_) => self.drive(slept),
            Stage::Reads => {
                slept?;
                let event = self.channel.events.after_read(deliver);
                Ok(event.map_or_else(
                    || Step::Sleep(self.channel.events.read()),
                    |(queue, ())| Step::Found(queue),
                ))
            }
        }
    }

    fn abandon(self, has_read: bool) {
        match self.stage {
            Stage::Begins => {}
            Stage::Drives(_) => {
                self.channel.events.end_wait();
                self.channel.engine().stop_driving();
            }
            Stage::Reads if has_read => self.channel.events.undo_read(),
            Stage::Reads => {}
        }
    }
}

/// A wait for the next asynchronous event of a context ([`Context::begin_async_wait`]).
#[derive(Debug)]
pub struct AsyncWait {
    context: Arc<Context>,
    has_begun: bool,
}

impl Context {
    /// Begins a wait for the oldest asynchronous event, as [`Context::next_async_event`] does.
    pub fn begin_async_wait(self: &Arc<Self>) -> AsyncWait {
        AsyncWait { context: Arc::clone(self), has_begun: false }
    }
}

impl EventWait for AsyncWait {
    type Event = AsyncEvent;

    fn go_on(&mut self, slept: io::Result<()>) -> io::Result<Step<Self::Event>> {
        slept?;
        if std::mem::replace(&mut self.has_begun, true)
            && let Some((event, ())) = self.context.events.after_read(|event| event.element.delivered())
        {
            return Ok(Step::Found(event));
        }
        Ok(Step::Sleep(self.context.events.read()))
    }

    fn abandon(self, has_read: bool) {
        if has_read {
            self.context.events.undo_read();
        }
    }
}
