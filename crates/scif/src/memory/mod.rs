//! The registered address space of an endpoint, and what the peer does with it.
//!
//! Windows are pages, not addresses: `nonic_device::expose` moves the program's pages where the peer can map them, and they stay
//! in their window whatever the program does with the addresses. Each side's table of windows lies in the segment, where the
//! other side reads it; remote reads and writes are carried out by whoever asks for them, on memory mapped from both sides.
//! A window that ends while it is in use is *dying*: nobody finds it any more, but its pages and offsets stay until the last
//! user has left.

mod area;
mod checks;
mod copier;
mod copying;
mod far;
mod fences;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod mapped;
mod mirror;
mod owner;
mod range;
mod record;
mod rma;
mod slots;
mod space;
#[cfg(test)]
mod tests;
mod view;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use nonic_sys::{BiasedMutex, PerProcess, SharedMapping, forks, prepare_light_fences};

use self::area::Area;
use self::mirror::Mirror;
use self::owner::Owner;

pub(crate) use self::area::AREA_LENGTH;
pub(crate) use self::checks::check_registration;
pub(crate) use self::mapped::unmap;
pub(crate) use self::range::{FoundRange, Windows};
pub(crate) use self::rma::check as check_range;
use crate::side::Side;

/// The registered memory of a connected endpoint, and the way to the peer's. A child uses its parent's windows through the same
/// files as the peer does, and opens windows of its own.
pub(crate) struct RegisteredMemory {
    this: Weak<Self>,
    own: Area,
    peer: Area,
    peer_is_gone: Arc<dyn Fn() -> bool + Send + Sync>,
    process: PerProcess<Process>,
    /// How many forks there had been when it was connected.
    forks: u32,
    closed: AtomicBool,
    parted: AtomicBool,
}

/// What each process of the family has for itself.
#[derive(Debug)]
struct Process {
    pid: i32,
    mirrors: BiasedMutex<Mirrors>,
    owner: Mutex<Owner>,
    /// Slots that the copier's jobs hold.
    parked: AtomicUsize,
    /// The copier looks after dying windows.
    watched: AtomicBool,
}

/// Copies of both sides' tables.
#[derive(Debug)]
struct Mirrors {
    own: Mirror,
    peer: Mirror,
}

impl fmt::Debug for RegisteredMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegisteredMemory").field("own", &self.own).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RegisteredMemory {
    /// Of an endpoint whose segment holds both sides' areas at `areas`. `peer_is_gone` is asked now and then by whoever waits for
    /// the peer. `forks` is what [`forks`] was when the endpoint was connected: later children have it, too.
    pub(crate) fn new(
        segment: Arc<SharedMapping>,
        areas: [usize; 2],
        side: Side,
        peer_is_gone: Arc<dyn Fn() -> bool + Send + Sync>,
        forks: u32,
    ) -> Arc<Self> {
        prepare_light_fences();
        let [first, second] = areas.map(|start| Area::new(Arc::clone(&segment), start));
        let (own, peer) = match side {
            Side::Connector => (first, second),
            Side::Acceptor => (second, first),
        };
        Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            own,
            peer,
            peer_is_gone,
            process: PerProcess::new(),
            forks,
            closed: AtomicBool::new(false),
            parted: AtomicBool::new(false),
        })
    }

    #[inline]
    fn process(&self) -> &Process {
        self.process.get_or_make(|| Process {
            pid: std::process::id() as i32,
            mirrors: BiasedMutex::new(Mirrors {
                own: Mirror::new(self.own.clone()),
                peer: Mirror::new(self.peer.clone()),
            }),
            owner: Mutex::default(),
            parked: AtomicUsize::new(0),
            watched: AtomicBool::new(false),
        })
    }

    /// Whether other processes may have the endpoint, too.
    fn has_family(&self) -> bool {
        self.forks != forks()
    }

    /// Whether nothing waits for the peer any more.
    fn is_over(&self) -> bool {
        self.closed.load(Ordering::Relaxed) || (self.peer_is_gone)()
    }

    /// Has windows looked after that ended in use.
    fn watch_dying(&self) {
        if let Some(this) = self.this.upgrade()
            && !self.process().watched.swap(true, Ordering::AcqRel)
        {
            copier::look_after(this);
        }
    }

    /// The endpoint is closed for good: what this side has started is completed, and all windows of this process end. Closing
    /// twice is harmless.
    pub(crate) fn close(&self) {
        if self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        self.settle();
        if self.end_all() {
            self.watch_dying();
        }
        self.forget_views();
    }

    /// The peer has closed: what was mapped of its windows to reach them goes. What the program has mapped stays.
    pub(crate) fn peer_closed(&self) {
        if self.parted.swap(true, Ordering::AcqRel) {
            return;
        }
        self.settle();
        let mut mirrors = self.process().mirrors.lock();
        mirrors.peer.clear();
    }

    fn forget_views(&self) {
        let mut mirrors = self.process().mirrors.lock();
        mirrors.own.clear();
        mirrors.peer.clear();
    }
}
