//! Whom a completion queue tells of its completions, and when.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use nonic_sys::BiasedGuard;

use super::{CompletionQueue, Inner};
use crate::async_event::{AsyncElement, AsyncEventKind};
use crate::completion_channel::CompletionChannel;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Armed {
    No,
    Solicited,
    Any,
}

/// Is told of completions as a completion channel is, by a call in place of an event. All calls come from whichever thread
/// drives the device, under locks of the engine, of queue pairs among them: an observer notes it, wakes somebody
/// ([`crate::WaitBell::ring`]), and calls nothing else of the engine; nor does it drop anything whose end calls the engine. The queue itself is not locked: [`CompletionQueue::added`]
/// and [`CompletionQueue::waiting`] may be asked.
pub trait CompletionObserver: Send + Sync {
    /// A completion was added to the queue, for which [`CompletionQueue::request_notification`] was called.
    fn completion_added(&self);

    /// A completion found no room and is lost. Once, whether or not the queue is armed; the queue is unusable from now on, and
    /// its queue pairs are about to go to error.
    fn overran(&self);
}

/// Where a queue tells of its completions.
pub(super) enum ReportsTo {
    Nobody,
    Channel(Arc<CompletionChannel>),
    Observer(Arc<dyn CompletionObserver>),
}

impl fmt::Debug for ReportsTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nobody => "nobody",
            Self::Channel(_) => "a channel",
            Self::Observer(_) => "an observer",
        })
    }
}

impl CompletionQueue {
    #[cold]
    pub(super) fn overrun(&self, mut inner: BiasedGuard<'_, Inner>) {
        if inner.overrun {
            return;
        }
        inner.overrun = true;
        self.waiting.store(inner.entries.length() as u32 + 1, Ordering::Release);
        drop(inner);
        self.report_overrun();
    }

    /// Tells the channel or the observer, if what was added is what the program waits for.
    #[cold]
    pub(super) fn wake(&self, mut inner: BiasedGuard<'_, Inner>, solicited: bool) {
        if inner.armed == Armed::Solicited && !solicited {
            return;
        }
        inner.armed = Armed::No;
        self.engine.queue_disarmed();
        drop(inner);
        match &self.reports_to {
            ReportsTo::Nobody => {}
            ReportsTo::Channel(channel) => {
                if let Some(this) = self.this.upgrade() {
                    channel.notify(this);
                }
            }
            ReportsTo::Observer(observer) => observer.completion_added(),
        }
    }

    fn report_overrun(&self) {
        if let ReportsTo::Observer(observer) = &self.reports_to {
            observer.overran();
        }
        let Some(this) = self.this.upgrade() else { return };
        self.context.engine().overrun(Arc::clone(&this));
        self.context.raise(AsyncEventKind::CqError, AsyncElement::CompletionQueue(this));
    }

    /// Asks for one event on the channel, or one call of the observer, for the next completion added after this call, or for the next solicited or
    /// failed one. Asking for both gives the wider.
    pub fn request_notification(&self, solicited_only: bool) {
        if !self.context.is_current() {
            return;
        }
        let mut inner = self.lock();
        let before = inner.armed;
        let asked = if solicited_only { Armed::Solicited } else { Armed::Any };
        inner.armed = before.max(asked);
        if before == Armed::No {
            self.context.engine().queue_armed();
        }
    }

    /// Takes back what was asked for with [`CompletionQueue::request_notification`], if nothing has come of it: while a queue is
    /// armed the agent drives the device, even for a program that polls.
    pub fn withdraw_notification(&self) {
        let mut inner = self.lock();
        if inner.armed != Armed::No {
            inner.armed = Armed::No;
            self.engine.queue_disarmed();
        }
    }
}
