//! Who is told when events arrive: the thread that waits for the dispatcher, else its notification object.
//!
//! Completions arrive under locks of the engine, so what is called then stands apart from the dispatcher: it rings bells and
//! leaves everything else to the connection manager's thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use nonic_device::{CompletionObserver, WaitBell};

use super::EventDispatcher;
use crate::notification_object::Signal;

/// Who is told.
#[derive(Debug)]
pub(super) struct Watch {
    dispatcher: Weak<EventDispatcher>,
    /// What the thread that waits for the dispatcher sleeps on.
    pub(super) bell: WaitBell,
    /// There is such a thread: the dispatcher is its own.
    has_waiter: AtomicBool,
    /// Arrivals trigger the notification object.
    enabled: AtomicBool,
    /// There is one.
    notifies: AtomicBool,
    signal: Mutex<Option<Arc<Signal>>>,
}

impl Watch {
    pub(super) fn new(dispatcher: Weak<EventDispatcher>, bell: WaitBell) -> Self {
        Self {
            dispatcher,
            bell,
            has_waiter: AtomicBool::new(false),
            enabled: AtomicBool::new(true),
            notifies: AtomicBool::new(false),
            signal: Mutex::new(None),
        }
    }

    fn signal(&self) -> MutexGuard<'_, Option<Arc<Signal>>> {
        self.signal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_signal(&self, signal: Option<Arc<Signal>>) {
        self.notifies.store(signal.is_some(), Ordering::Release);
        let _old = std::mem::replace(&mut *self.signal(), signal);
    }

    pub(super) fn is_enabled(&self) -> bool {
        self.enabled.load(Ordering::Acquire)
    }

    /// Returns whether it was enabled.
    pub(super) fn set_enabled(&self, enabled: bool) -> bool {
        self.enabled.swap(enabled, Ordering::AcqRel)
    }

    #[inline]
    pub(super) fn has_waiter(&self) -> bool {
        self.has_waiter.load(Ordering::Acquire)
    }

    /// The calling thread becomes the waiter; false if there is one.
    pub(super) fn enter_waiter(&self) -> bool {
        !self.has_waiter.swap(true, Ordering::SeqCst)
    }

    pub(super) fn leave_waiter(&self) {
        self.has_waiter.store(false, Ordering::Release);
    }

    pub(super) fn wake_waiter(&self) {
        self.bell.ring();
    }

    /// Whether there is a notification object.
    #[inline]
    pub(super) fn notifies(&self) -> bool {
        self.notifies.load(Ordering::Relaxed)
    }

    /// Whether arrivals concern the notification object now.
    pub(super) fn triggers(&self) -> bool {
        self.notifies.load(Ordering::SeqCst) && self.is_enabled() && !self.has_waiter()
    }

    /// Whether they do, and anybody waits for it or is to be called.
    pub(super) fn triggers_somebody(&self) -> bool {
        self.triggers() && self.signal().as_ref().is_some_and(|signal| signal.is_wanted())
    }

    /// Has everybody who waits look again.
    pub(super) fn ring(&self) {
        self.bell.ring();
        if let Some(signal) = &*self.signal() {
            signal.ring();
        }
    }

    /// Something has arrived.
    pub(super) fn arrived(&self) {
        // Who begins to wait says so first and then looks; who brings something comes here afterwards. The bell's fence stands
        // between, on both sides.
        self.bell.ring();
        if self.triggers() {
            self.trigger();
        }
    }

    /// Triggers the notification object.
    pub(super) fn trigger(&self) {
        if let Some(signal) = &*self.signal() {
            signal.trigger(&self.dispatcher);
        }
    }
}

impl CompletionObserver for Watch {
    fn completion_added(&self) {
        self.arrived();
    }

    fn overran(&self) {
        let dispatcher = Weak::clone(&self.dispatcher);
        nonic_connection::run(move || {
            if let Some(dispatcher) = dispatcher.upgrade() {
                dispatcher.overflow();
            }
        });
    }
}
