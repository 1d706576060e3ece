//! What can be set about a dispatcher while it lives.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};

use super::{DISPATCHER_HANDLE, EVENTS_MAX, EventDispatcher};
use crate::error::{DatError, DatResult, HandleKind, Resource, Subtype};
use crate::notification_object::NotificationObject;
use crate::values::{CompletionFlags, Streams};

/// What can be asked about a dispatcher.
#[derive(Clone, Debug)]
pub struct DispatcherFacts {
    /// Events it holds at most.
    pub length: i32,
    /// `DAT_EVD_STATE` bits: enabled 1, disabled 2, waitable 4, unwaitable 8, notify 0x10, solicited 0x20, threshold 0x30.
    pub state: u32,
    /// The notification object it triggers.
    pub notification: Option<Arc<NotificationObject>>,
    /// The streams it takes.
    pub streams: Streams,
}

/// Which events wake who waits. The numbers are those of `DAT_EVD_STATE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Mode {
    /// No endpoint feeds it yet: all events.
    Open = 0,
    /// All but the completions of requests that were posted not to notify.
    Notify = 0x10,
    /// Receives of messages that were sent so, and failures.
    Solicited = 0x20,
    /// All events, and a waiter may ask for several.
    Threshold = 0x30,
}

impl Mode {
    /// The mode for which an endpoint's flags ask.
    pub(crate) fn of_flags(flags: u32) -> Self {
        let has = |flag: CompletionFlags| flags & flag.bits() != 0;
        if has(CompletionFlags::SOLICITED_WAIT) {
            Self::Solicited
        } else if has(CompletionFlags::UNSIGNALLED) {
            Self::Notify
        } else {
            Self::Threshold
        }
    }

    fn of_number(number: u8) -> Self {
        match number {
            0x10 => Self::Notify,
            0x20 => Self::Solicited,
            0x30 => Self::Threshold,
            _ => Self::Open,
        }
    }
}

/// What is set under a lock.
#[derive(Debug, Default)]
pub(super) struct Settings {
    pub(super) notification: Option<Arc<NotificationObject>>,
}

const ENABLED: u32 = 1;
const DISABLED: u32 = 2;
const WAITABLE: u32 = 4;
const UNWAITABLE: u32 = 8;

impl EventDispatcher {
    pub(super) fn settings(&self) -> MutexGuard<'_, Settings> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn check_alive(&self) -> DatResult<()> {
        if self.is_ended() { Err(DISPATCHER_HANDLE) } else { Ok(()) }
    }

    /// Which events wake who waits.
    pub(super) fn mode(&self) -> Mode {
        Mode::of_number(self.mode.load(Ordering::Acquire))
    }

    /// The first endpoint that feeds the dispatcher decides which completions notify. `flags` are its flags for the
    /// direction in question.
    pub(crate) fn take_mode(&self, flags: u32) {
        let mode = Mode::of_flags(flags);
        let open = Mode::Open as u8;
        if self.mode.compare_exchange(open, mode as u8, Ordering::AcqRel, Ordering::Acquire).is_ok()
            && mode != Mode::Threshold
        {
            self.look_when_counting();
        }
    }

    /// From now on some of its completions do not count.
    pub(crate) fn look_when_counting(&self) {
        self.counts_by_looking.store(true, Ordering::Release);
    }

    /// An endpoint has so many requests at most, whose completions are not all shown: those take no room from the others.
    pub(crate) fn expect_hidden(&self, count: u32) {
        self.look_when_counting();
        self.change_hidden_room(|room| room.saturating_add(count));
    }

    /// The endpoint goes.
    pub(crate) fn expect_less_hidden(&self, count: u32) {
        self.change_hidden_room(|room| room.saturating_sub(count));
    }

    fn change_hidden_room(&self, change: impl FnOnce(u32) -> u32) {
        let mut room = self.hidden_room();
        *room = change(*room);
        if let Some(queue) = &self.completions {
            // One that holds more already stays as large as it is.
            let _ = queue.resize(entries(self.length.load(Ordering::Acquire), *room));
        }
    }

    fn hidden_room(&self) -> MutexGuard<'_, u32> {
        self.hidden_room.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it is and how it is set.
    pub fn facts(&self) -> DatResult<DispatcherFacts> {
        self.check_alive()?;
        let bit = |flag: bool, yes, no| if flag { yes } else { no };
        let state = bit(self.watch.is_enabled(), ENABLED, DISABLED)
            | bit(self.unwaitable.load(Ordering::Acquire), UNWAITABLE, WAITABLE)
            | u32::from(self.mode.load(Ordering::Acquire));
        Ok(DispatcherFacts {
            length: self.length.load(Ordering::Acquire),
            state,
            notification: self.settings().notification.clone(),
            streams: self.streams,
        })
    }

    /// Changes how many events it holds. `INVALID_STATE` below what it holds now.
    pub fn resize(&self, length: i32) -> DatResult<()> {
        self.check_alive()?;
        check_length(length)?;
        let others = self.others();
        if i64::from(length) < i64::from(self.visible()) {
            return Err(DatError::state(Subtype::None));
        }
        let hidden_room = self.hidden_room();
        if let Some(queue) = &self.completions {
            queue.resize(entries(length, *hidden_room)).map_err(|_| DatError::state(Subtype::None))?;
        }
        self.length.store(length, Ordering::Release);
        drop(hidden_room);
        drop(others);
        Ok(())
    }

    /// Lets arrivals trigger the notification object; those that came meanwhile do so now.
    pub fn enable(&self) -> DatResult<()> {
        self.check_alive()?;
        if !self.watch.set_enabled(true) {
            self.trigger_if_due();
        }
        Ok(())
    }

    /// Arrivals do not trigger the notification object any more. Who waits for the dispatcher itself is not concerned.
    pub fn disable(&self) -> DatResult<()> {
        self.check_alive()?;
        self.watch.set_enabled(false);
        self.disarm();
        Ok(())
    }

    /// Forbids waiting; who waits is woken with `INVALID_STATE`.
    pub fn set_unwaitable(&self) -> DatResult<()> {
        self.check_alive()?;
        self.unwaitable.store(true, Ordering::Release);
        self.watch.wake_waiter();
        Ok(())
    }

    /// Permits waiting again.
    pub fn clear_unwaitable(&self) -> DatResult<()> {
        self.check_alive()?;
        self.unwaitable.store(false, Ordering::Release);
        Ok(())
    }

    /// Changes which notification object it triggers. If events wait, the new one is triggered.
    pub fn modify_notification(&self, new: Option<&Arc<NotificationObject>>) -> DatResult<()> {
        self.check_alive()?;
        let wrong = DatError::handle(Subtype::Handle(HandleKind::NotificationObject));
        let this = self.this.upgrade().ok_or(DISPATCHER_HANDLE)?;
        if let Some(object) = new
            && (!Arc::ptr_eq(object.adapter(), &self.adapter) || !object.attach(&this))
        {
            return Err(wrong);
        }
        let old = std::mem::replace(&mut self.settings().notification, new.cloned());
        if let Some(queue) = self.completion_queue() {
            queue.number_arrivals(new.is_some());
        }
        self.watch.set_signal(new.map(|object| Arc::clone(object.signal())));
        if let Some(object) = old {
            object.detach(self);
        }
        self.trigger_if_due();
        Ok(())
    }
}

/// Entries of a queue for so many completions that are shown, and so many that are not.
fn entries(length: i32, hidden: u32) -> u32 {
    length.unsigned_abs().saturating_add(hidden).min(EVENTS_MAX.unsigned_abs())
}

pub(super) fn check_length(length: i32) -> DatResult<()> {
    if length <= 0 {
        return Err(DatError::argument(2));
    }
    if length > EVENTS_MAX {
        return Err(DatError::resources(Subtype::Resource(Resource::TransportEventDispatcher)));
    }
    Ok(())
}
