//! A relay, as calls of the program know it.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use nonic_rsocket::Entry;
use nonic_sys::{PerProcess, random_u64};

use super::Frame;
use crate::ScifError;

/// Those of this process, by the numbers that stand in their segments.
static LINKS: PerProcess<Mutex<HashMap<u64, Weak<Link>>>> = PerProcess::new();

/// Whose relay a connection has.
#[derive(Clone, Debug)]
pub(crate) enum Relayed {
    /// This process's.
    Here(Arc<Link>),
    /// Another's of this host: that of whoever listened, or of a parent.
    Elsewhere,
}

/// A relay of this process.
pub(crate) struct Link {
    /// The process that it is in: children inherit this and not the relay.
    process: u32,
    /// Tells it from all others of this host.
    number: u64,
    outbox: Mutex<VecDeque<Frame>>,
    /// Tells the relay's thread to look.
    wake: Arc<Entry>,
    ended: AtomicBool,
    /// Why there is no connection.
    refusal: OnceLock<ScifError>,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("number", &self.number).field("ended", &self.ended).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The relay of a number.
pub(crate) fn find(number: u64) -> Relayed {
    let found = LINKS.get().and_then(|links| lock(links).get(&number).and_then(Weak::upgrade));
    found.map_or(Relayed::Elsewhere, Relayed::Here)
}

/// Has all relays of this process look; those that cannot be known at this moment do not.
pub(crate) fn tell_all() {
    let Some(links) = LINKS.get().and_then(|links| links.try_lock().ok()) else { return };
    links.values().filter_map(Weak::upgrade).for_each(|link| link.tell());
}

impl Link {
    /// Of a relay whose thread is told by `wake`.
    pub(crate) fn new(wake: Arc<Entry>) -> Arc<Self> {
        let link = Arc::new(Self {
            process: std::process::id(),
            number: random_u64().max(1),
            outbox: Mutex::default(),
            wake,
            ended: AtomicBool::new(false),
            refusal: OnceLock::new(),
        });
        lock(LINKS.get_or_make(Mutex::default)).insert(link.number, Arc::downgrade(&link));
        link
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Whether it is in this process.
    pub(crate) fn is_here(&self) -> bool {
        self.process == std::process::id()
    }

    /// Has the thread look.
    pub(crate) fn tell(&self) {
        self.wake.tell();
    }

    /// What was told is about to be looked at.
    pub(crate) fn is_looked_at(&self) {
        self.wake.is_looked_at();
    }

    /// Puts a frame behind those that go.
    pub(crate) fn push(&self, frame: Frame) {
        lock(&self.outbox).push_back(frame);
    }

    /// The next that goes.
    pub(crate) fn next(&self) -> Option<Frame> {
        lock(&self.outbox).pop_front()
    }

    /// There will be no connection.
    pub(crate) fn refuse(&self, why: ScifError) {
        let _ = self.refusal.set(why);
    }

    /// Why there is none.
    pub(crate) fn refusal(&self) -> ScifError {
        self.refusal.get().copied().unwrap_or(ScifError::Refused)
    }

    /// Nothing more comes or goes.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
    }

    /// Whether that is so.
    pub(crate) fn is_over(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if self.is_here()
            && let Some(links) = LINKS.get()
        {
            lock(links).remove(&self.number);
        }
    }
}
