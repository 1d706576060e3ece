//! Event channels.

use std::io;
use std::sync::{Arc, Weak};

use nonic_device::{EventQueue, EventWait, devices};
use nonic_sys::{BorrowedFd, Share};

use crate::event::Delivered;
use crate::{Error, Event, EventChannelWait, EventKind, Id, Parameters};

/// Where the events of identifiers come (`rdma_create_event_channel(3)`). The last `Arc` closes it.
#[derive(Debug)]
pub struct EventChannel {
    pub(crate) queue: EventQueue<Waiting>,
}

/// An event that was not got yet.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) kind: EventKind,
    pub(crate) status: i32,
    pub(crate) target: Target,
    pub(crate) parameters: Parameters,
}

/// Whom it is for.
#[derive(Debug)]
pub(crate) enum Target {
    Known(Weak<Id>),
    /// A request.
    New {
        id: Arc<Id>,
        listener: Weak<Id>,
        /// In the backlog, until it is got.
        _place: Share,
    },
}

impl Target {
    /// Whose event it is: of a request, the listener's.
    pub(crate) fn owner(&self) -> &Weak<Id> {
        match self {
            Self::Known(id) | Self::New { listener: id, .. } => id,
        }
    }
}

/// An event leaves its queue, under the queue's lock: from here on it counts as delivered. `None` if its identifier is gone.
pub(crate) fn deliver(waiting: &Waiting) -> Option<(Delivered, Arc<Id>)> {
    let owner = waiting.target.owner().upgrade()?;
    Some((Delivered::count(&owner), owner))
}

/// The event as the program sees it.
pub(crate) fn shown(waiting: Waiting, (delivered, owner): (Delivered, Arc<Id>)) -> Event {
    let Waiting { kind, status, target, parameters } = waiting;
    let (id, listener) = match target {
        Target::Known(_) => (owner, None),
        Target::New { id, .. } => (id, Some(owner)),
    };
    Event { kind, status, id, listener, parameters, _delivered: delivered }
}

impl EventChannel {
    /// Creates one. `NoDevice` if there is none; else it fails if the kernel gives no descriptor.
    pub fn create() -> Result<Arc<Self>, Error> {
        if devices().is_empty() {
            return Err(Error::NoDevice);
        }
        Ok(Arc::new(Self { queue: EventQueue::new()? }))
    }

    /// Readable while an event waits. The program may set `O_NONBLOCK` on it, and waits with `poll(2)` or anything like it; it
    /// must not read it.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.queue.descriptor()
    }

    /// Begins a wait for the oldest event, in steps (see [`nonic_device::EventWait`]).
    pub fn begin_wait(self: &Arc<Self>) -> EventChannelWait {
        EventChannelWait::new(self)
    }

    /// The oldest event. Blocks while there is none, unless the descriptor has `O_NONBLOCK` (then `WouldBlock`); a signal ends
    /// the wait (`Interrupted`).
    pub fn next_event(self: &Arc<Self>) -> io::Result<Event> {
        self.begin_wait().finish()
    }

    /// The oldest event if there is one now, whatever the descriptor's mode.
    pub fn try_next_event(&self) -> Option<Event> {
        loop {
            if let (waiting, Some(delivered)) = self.queue.try_next(deliver)? {
                return Some(shown(waiting, delivered));
            }
        }
    }
}
