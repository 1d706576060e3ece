//! What is to be done at a certain time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::shared::Task;

/// What a timer is for.
pub(super) enum Timer {
    /// The attempt of this number ends.
    Attempt(u64),
    /// Attempts at the service of this name go on.
    Lane(Arc<str>),
    /// A stranger has not answered on the socket of this token.
    Unanswered(u64),
    /// The channel of this token is tried to be opened again.
    Open(u64),
    /// The channel of this token may be idle.
    Idle(u64),
    /// The listener of this token takes connections again.
    Resume(u64),
    /// Connections that never said anything are closed.
    Strangers,
    /// Of the layer above.
    Task(Task),
}

/// When a timer fires, and which of several it is.
pub(super) type TimerKey = (Instant, u64);

/// Timers in the order of time.
#[derive(Default)]
pub(super) struct Timers {
    pending: BTreeMap<TimerKey, Timer>,
    count: u64,
}

impl Timers {
    pub(super) fn set(&mut self, at: Instant, timer: Timer) -> TimerKey {
        self.count += 1;
        self.pending.insert((at, self.count), timer);
        (at, self.count)
    }

    pub(super) fn set_after(&mut self, delay: Duration, timer: Timer) -> TimerKey {
        self.set(Instant::now() + delay, timer)
    }

    pub(super) fn cancel(&mut self, key: TimerKey) {
        self.pending.remove(&key);
    }

    /// How long until the next one.
    pub(super) fn next(&self) -> Option<Duration> {
        let ((at, _), _) = self.pending.first_key_value()?;
        Some(at.saturating_duration_since(Instant::now()))
    }

    /// The next one whose time had come at `now`.
    pub(super) fn due(&mut self, now: Instant) -> Option<Timer> {
        let first = self.pending.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }
}
