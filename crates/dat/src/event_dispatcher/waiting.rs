//! Waiting for events.

use std::io;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use super::{EventDispatcher, Mode};
use crate::error::{DatError, DatResult, Kind, StateKind, Subtype};
use crate::event::Event;

/// The argument of `dat_evd_wait` that holds the threshold.
const THRESHOLD: u8 = 3;

impl EventDispatcher {
    /// Waits until `threshold` events are there that notify, and takes the oldest event. Returns with it, or with the refusal,
    /// how many are left. Without a timeout it waits for ever.
    ///
    /// Errors: `INVALID_PARAMETER|ARG3` for a threshold below 1 or beyond the length; `INVALID_STATE` while another thread
    /// waits, if the dispatcher is or becomes unwaitable, for a threshold above 1 unless the endpoints that feed it asked for
    /// thresholds, and after an overflow; `TIMEOUT_EXPIRED`, then no event is taken; `INTERRUPTED_CALL` on a signal; `ABORT`
    /// when the adapter is closed.
    ///
    /// `deliver` is called inside the dispatcher: it must not call back.
    pub fn wait(
        &self,
        timeout: Option<Duration>,
        threshold: i32,
        deliver: impl FnOnce(&Event<'_>),
    ) -> (DatResult<()>, i32) {
        if let Err(error) = self.check_wait(threshold) {
            return (Err(error), self.shown());
        }
        if !self.watch.enter_waiter() {
            return (Err(DatError::state(Subtype::State(StateKind::EvdWaiter))), self.shown());
        }
        let outcome = self.wait_as_owner(timeout, threshold.unsigned_abs(), deliver);
        self.watch.leave_waiter();
        let left = self.shown();
        // What came while this thread had the dispatcher to itself was nobody else's business until now.
        self.trigger_if_due();
        self.disarm();
        (outcome, left)
    }

    fn check_wait(&self, threshold: i32) -> DatResult<()> {
        self.check_alive()?;
        if threshold <= 0 || threshold > self.length.load(Ordering::Acquire) {
            return Err(DatError::argument(THRESHOLD));
        }
        if threshold > 1 && self.mode() != Mode::Threshold {
            let subtype = match self.mode() {
                Mode::Solicited => StateKind::EvdConfigSolicited,
                _ => StateKind::EvdConfigNotify,
            };
            return Err(DatError::state(Subtype::State(subtype)));
        }
        self.check_waitable()
    }

    fn check_waitable(&self) -> DatResult<()> {
        if self.is_ended() {
            return Err(DatError::new(Kind::Abort, Subtype::None));
        }
        if self.unwaitable.load(Ordering::Acquire) {
            return Err(DatError::state(Subtype::State(StateKind::EvdUnwaitable)));
        }
        if self.has_overflowed() {
            return Err(DatError::state(Subtype::None));
        }
        Ok(())
    }

    fn wait_as_owner(
        &self,
        timeout: Option<Duration>,
        threshold: u32,
        deliver: impl FnOnce(&Event<'_>),
    ) -> DatResult<()> {
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        // `take` calls it at most once, and only if it succeeds.
        let mut deliver = Some(deliver);
        loop {
            self.check_waitable()?;
            if self.has_notifying(threshold) {
                let taken = self.take(|event| {
                    if let Some(deliver) = deliver.take() {
                        deliver(event);
                    }
                });
                match taken {
                    // What was there is not shown: the end of a bind, or of an endpoint that has gone.
                    Err(DatError { kind: Kind::QueueEmpty, .. }) => continue,
                    other => return other,
                }
            }
            let mut ready = || {
                self.arm();
                self.check_waitable().is_err() || self.has_notifying(threshold)
            };
            match self.adapter.context().wait(&self.watch.bell, until, &mut ready) {
                Ok(true) => {}
                Ok(false) => return Err(DatError::TIMEOUT_EXPIRED),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    return Err(DatError::new(Kind::InterruptedCall, Subtype::Interrupted));
                }
                Err(_) => return Err(DatError::new(Kind::InternalError, Subtype::None)),
            }
        }
    }

    /// Has the next completion that notifies ring the bell.
    pub(super) fn arm(&self) {
        if let Some(queue) = &self.completions {
            queue.request_notification(self.mode() == Mode::Solicited);
        }
    }

    /// Has completions ring no bell if nobody wants to hear it.
    pub(crate) fn disarm(&self) {
        let Some(queue) = &self.completions else { return };
        let is_wanted = || self.watch.has_waiter() || self.watch.triggers_somebody();
        if is_wanted() {
            return;
        }
        queue.withdraw_notification();
        fence(Ordering::SeqCst);
        if is_wanted() {
            // Somebody came meanwhile, and may have armed the queue before that.
            self.watch.ring();
            self.trigger_if_due();
        }
    }

    /// Whether at least this many events are there that notify.
    fn has_notifying(&self, threshold: u32) -> bool {
        let Some(queue) = &self.completions else { return self.waiting() >= threshold };
        if !self.counts_by_looking.load(Ordering::Acquire) {
            return self.waiting() >= threshold;
        }
        // In the order in which taking locks them: first the front, then the queue.
        let front = self.front.lock();
        let others = self.others_waiting.load(Ordering::Acquire);
        let parked = self.parked.load(Ordering::Acquire);
        let mode = self.mode();
        let counted = queue.count(|completion, solicited| match mode {
            _ if !completion.status.is_success() => true,
            _ if front.hides(completion) => false,
            Mode::Solicited => solicited,
            Mode::Notify => !front.is_silent(completion),
            Mode::Open | Mode::Threshold => true,
        });
        others + parked + counted >= threshold
    }

    /// Whether the notification object is to be triggered for events that wait; the next arrival rings.
    pub(crate) fn is_due_for_notification(&self) -> bool {
        if !self.watch.triggers_somebody() {
            return false;
        }
        self.arm();
        !self.is_ended() && self.has_notifying(1)
    }

    /// How many events a program can take.
    fn shown(&self) -> i32 {
        i32::try_from(self.visible()).unwrap_or(i32::MAX)
    }

    /// Triggers the notification object if events wait and nothing forbids it.
    pub(crate) fn trigger_if_due(&self) {
        if self.is_due_for_notification() {
            self.watch.trigger();
        }
    }
}
