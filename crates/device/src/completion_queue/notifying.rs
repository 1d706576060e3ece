//! Whom a completion queue tells of its completions, and when.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use nonic_sys::BiasedGuard;

use super::{CompletionQueue, Inner};
use crate::async_event::{AsyncElement, AsyncEventKind};
use crate::completion_channel::CompletionChannel;
use crate::error::CreateError;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Armed {
    #[default]
    No,
    Solicited,
    Any,
}

/// When an event is told of several completions together (`ibv_modify_cq(3)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moderation {
    /// With so many of the completions that were asked for.
    pub count: u16,
    /// So long after the first of them, if they do not get so many.
    pub period: Duration,
}

/// What was asked for, and what of it has come.
#[derive(Debug, Default)]
pub(super) struct Notification {
    armed: Armed,
    moderation: Option<Moderation>,
    /// Completions that were asked for and not told of.
    untold: u32,
    /// When they are told of at the latest.
    due: Option<Instant>,
}

impl Notification {
    #[inline]
    pub(super) fn is_armed(&self) -> bool {
        self.armed != Armed::No
    }

    /// Another one was added. Whether all are told of now; if not, and it is the first, when they are.
    fn add(&mut self, now: impl FnOnce() -> Instant) -> Next {
        let Some(moderation) = self.moderation else { return Next::Tell };
        self.untold = self.untold.saturating_add(1);
        if self.untold >= moderation.count.into() {
            return Next::Tell;
        }
        if self.due.is_some() {
            return Next::Wait;
        }
        let due = now() + moderation.period;
        self.due = Some(due);
        Next::TellAt(due)
    }

    /// Nothing is asked for any more.
    fn disarm(&mut self) {
        (self.armed, self.untold, self.due) = (Armed::No, 0, None);
    }
}

/// What becomes of a completion that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Tell,
    TellAt(Instant),
    Wait,
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
        if inner.notification.armed == Armed::Solicited && !solicited {
            return;
        }
        match inner.notification.add(Instant::now) {
            Next::Tell => self.tell(inner),
            Next::TellAt(due) => {
                drop(inner);
                self.engine.schedule_telling(due, Weak::clone(&self.this));
            }
            Next::Wait => {}
        }
    }

    /// Tells of what has come.
    fn tell(&self, mut inner: BiasedGuard<'_, Inner>) {
        inner.notification.disarm();
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

    /// The time that was scheduled has come; what was to be told by then may have been told of before.
    pub(crate) fn telling_is_due(&self, now: Instant) {
        let inner = self.lock();
        if inner.notification.due.is_some_and(|due| due <= now) {
            self.tell(inner);
        }
    }

    /// Has events tell of several completions together from now on; `None`: of each. What has come by then and was not told of is
    /// told of now. For queues that report to a channel or an observer.
    pub fn moderate(&self, moderation: Option<Moderation>) -> Result<(), CreateError> {
        self.context.check_current()?;
        let mut inner = self.lock();
        inner.notification.moderation = moderation;
        if inner.notification.untold > 0 {
            self.tell(inner);
        }
        Ok(())
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
        self.arm(solicited_only, true);
    }

    /// The same for a thread that is about to wait with [`crate::Context::wait`], which drives the device then: the agent is not called.
    pub fn request_notification_to_wait(&self) {
        self.arm(false, false);
    }

    fn arm(&self, solicited_only: bool, calls_agent: bool) {
        if !self.context.is_current() {
            return;
        }
        let mut inner = self.lock();
        let before = inner.notification.armed;
        let asked = if solicited_only { Armed::Solicited } else { Armed::Any };
        inner.notification.armed = before.max(asked);
        if before == Armed::No {
            self.context.engine().queue_armed(calls_agent);
        }
    }

    /// Takes back what was asked for with [`CompletionQueue::request_notification`], if nothing has come of it: while a queue is
    /// armed the agent drives the device, even for a program that polls.
    pub fn withdraw_notification(&self) {
        let mut inner = self.lock();
        if inner.notification.is_armed() {
            inner.notification.disarm();
            self.engine.queue_disarmed();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_millis(3);

    #[test]
    fn without_moderation_each_completion_is_told_of() {
        let mut notification = Notification::default();
        assert_eq!(notification.add(|| unreachable!("no clock is needed")), Next::Tell);
    }

    #[test]
    fn completions_are_told_of_when_they_are_enough_or_the_first_of_them_is_old_enough() {
        let moderation = Some(Moderation { count: 3, period: PERIOD });
        let mut notification = Notification { armed: Armed::Any, moderation, ..Notification::default() };
        let now = Instant::now();
        assert_eq!(notification.add(|| now), Next::TellAt(now + PERIOD));
        assert_eq!(notification.add(|| unreachable!("the first one counts")), Next::Wait);
        assert_eq!(notification.add(|| now), Next::Tell);
        notification.disarm();
        assert!(notification.due.is_none() && notification.untold == 0 && !notification.is_armed());
        assert_eq!(notification.moderation, moderation, "it holds until it is changed");
    }
}
