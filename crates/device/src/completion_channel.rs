//! Completion channels: where completion queues tell a sleeping program that something came.

use std::io;
use std::sync::Arc;

use nonic_sys::{BorrowedFd, UseCount};

use crate::completion_queue::CompletionQueue;
use crate::context::Context;
use crate::engine::{Awaited, Engine};
use crate::error::{Busy, CreateError};
use crate::event_wait::EventWait;
use crate::events::EventQueue;

/// A completion channel (`ibv_create_comp_channel(3)`).
#[derive(Debug)]
pub struct CompletionChannel {
    context: Arc<Context>,
    pub(crate) events: EventQueue<Arc<CompletionQueue>>,
    pub(crate) users: UseCount,
}

impl Context {
    /// Creates a completion channel.
    pub fn create_completion_channel(self: &Arc<Self>) -> Result<Arc<CompletionChannel>, CreateError> {
        self.check_current()?;
        let (context, events) = (Arc::clone(self), EventQueue::new()?);
        Ok(Arc::new(CompletionChannel { context, events, users: UseCount::default() }))
    }
}

impl CompletionChannel {
    /// Readable while events wait. The program may set `O_NONBLOCK` on it.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.events.descriptor()
    }

    /// The completion queue whose event is oldest. Blocks while there is none, unless the descriptor has `O_NONBLOCK`
    /// (then `WouldBlock`); a signal ends the wait (`Interrupted`). Every event must be acknowledged with
    /// [`CompletionQueue::acknowledge_events`].
    ///
    /// The thread that blocks drives the device; the descriptor becomes readable only for events that no such thread takes.
    pub fn next_event(self: &Arc<Self>) -> io::Result<Arc<CompletionQueue>> {
        self.begin_wait().finish()
    }

    pub(crate) fn engine(&self) -> &Engine {
        self.context.engine()
    }

    /// Whether it was made on this context.
    pub(crate) fn is_of(&self, context: &Arc<Context>) -> bool {
        Arc::ptr_eq(&self.context, context)
    }

    /// Whether a thread that waits for an event may drive the device for it.
    pub(crate) fn may_be_driven_for(&self) -> bool {
        self.context.is_current() && self.events.is_empty()
    }

    /// Gives the channel back; refused while completion queues use it.
    pub fn destroy(&self) -> Result<(), Busy> {
        Busy::unless_closed(&self.users, "completion channel")
    }

    pub(crate) fn notify(&self, queue: Arc<CompletionQueue>) {
        if self.events.push(queue) {
            self.context.engine().party().waiter_bell.signal();
        }
    }

    pub(crate) fn forget(&self, queue: &CompletionQueue) {
        self.events.remove(|waiting| std::ptr::eq(Arc::as_ptr(waiting), queue));
    }
}

/// The next event of a channel, for a thread that drives the device until it comes.
pub(crate) struct ChannelEvent<'a, D> {
    pub(crate) events: &'a EventQueue<Arc<CompletionQueue>>,
    pub(crate) deliver: D,
}

impl<D: Fn(&Arc<CompletionQueue>)> Awaited for ChannelEvent<'_, D> {
    type Found = Arc<CompletionQueue>;

    fn begin(&mut self) {
        self.events.begin_wait();
    }

    fn look(&mut self) -> Option<Self::Found> {
        Some(self.events.try_next(&self.deliver)?.0)
    }

    fn fall_asleep(&mut self) -> Option<Self::Found> {
        Some(self.events.fall_asleep(&self.deliver)?.0)
    }

    fn wake(&mut self) {
        self.events.wake();
    }

    fn end(&mut self, found: Option<Self::Found>) -> Option<Self::Found> {
        match found {
            Some(_) => {
                self.events.end_wait();
                found
            }
            None => Some(self.events.end_wait_with(&self.deliver)?.0),
        }
    }
}
