//! Waking threads that wait for something of a socket.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use nonic_device::{CompletionObserver, Context, WaitBell};

use crate::inbox::Entry;

/// Wakes whoever waits for a socket: with [`Context::wait`], or for several with an [`crate::Inbox`].
#[derive(Debug, Default)]
pub(crate) struct Wakeup {
    /// There is one once the socket has a device.
    bell: OnceLock<WaitBell>,
    watchers: AtomicUsize,
    entries: Mutex<Vec<Arc<Entry>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Wakeup {
    /// The bell of a device, for threads that have looked ([`crate::waiting`]).
    pub(crate) fn bell(&self, context: &Context) -> &WaitBell {
        self.bell.get_or_init(|| context.wait_bell().without_looking())
    }

    /// Has those who wait look again. Calls nothing of the engine but the bell: completions ring it under the engine's locks.
    pub(crate) fn ring(&self) {
        if let Some(bell) = self.bell.get() {
            bell.ring();
        }
        if self.watchers.load(Ordering::SeqCst) > 0 {
            lock(&self.entries).iter().for_each(|entry| entry.tell());
        }
    }

    /// From now on what happens is told there, too.
    pub(crate) fn add(&self, entry: &Arc<Entry>) {
        lock(&self.entries).push(Arc::clone(entry));
        self.watchers.fetch_add(1, Ordering::SeqCst);
    }

    /// And now no longer.
    pub(crate) fn remove(&self, entry: &Arc<Entry>) {
        let mut entries = lock(&self.entries);
        if let Some(place) = entries.iter().position(|other| Arc::ptr_eq(other, entry)) {
            let gone = entries.swap_remove(place);
            self.watchers.fetch_sub(1, Ordering::SeqCst);
            drop(entries);
            drop(gone);
        }
    }
}

impl CompletionObserver for Wakeup {
    fn completion_added(&self) {
        self.ring();
    }

    fn overran(&self) {
        self.ring();
    }
}
