//! How long to look before sleeping, learned from how waits went lately.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nonic_sys::{cpu_relax, online_cpus, yield_now};

/// How long a wait looks before it sleeps, if looking pays: about what two wake-ups take.
const LOOK: Duration = Duration::from_micros(50);
/// Looking stops when this many more waits were longer than that than were shorter.
const HOPE: i32 = 4;
/// Of waits that do not look, every so many does, to see whether things have changed.
const RETRY: u32 = 16;
/// Looks between two at the clock, each of which also lets other threads of this CPU run.
const LOOKS_PER_YIELD: u32 = 64;

/// What one direction's waits have taught.
#[derive(Debug)]
pub(crate) struct Patience {
    /// Waits that looking shortened less those that it did not, within bounds.
    hope: AtomicI32,
    waits: AtomicU32,
}

impl Default for Patience {
    fn default() -> Self {
        Self { hope: AtomicI32::new(HOPE), waits: AtomicU32::new(0) }
    }
}

impl Patience {
    /// Looks until `done` says so, for as long as that pays; whether it did. On a machine with one CPU it never pays; on one
    /// with more it is not known where the other side runs, so trying tells.
    #[inline]
    pub(crate) fn look(&self, done: impl Fn() -> bool) -> bool {
        static SEVERAL: LazyLock<bool> = LazyLock::new(|| online_cpus() > 1);
        if !*SEVERAL || !self.may_look() {
            return false;
        }
        let mut until = None;
        loop {
            for _ in 0..LOOKS_PER_YIELD {
                if done() {
                    self.learn(1);
                    return true;
                }
                cpu_relax();
            }
            let now = Instant::now();
            if now >= *until.get_or_insert(now + LOOK) {
                self.learn(-1);
                return false;
            }
            yield_now();
        }
    }

    fn may_look(&self) -> bool {
        let waits = self.waits.load(Ordering::Relaxed);
        self.waits.store(waits.wrapping_add(1), Ordering::Relaxed);
        let retry = waits.is_multiple_of(RETRY);
        retry || self.hope.load(Ordering::Relaxed) > 0
    }

    fn learn(&self, change: i32) {
        let hope = self.hope.load(Ordering::Relaxed);
        let next = (hope + change).clamp(0, HOPE);
        if next != hope {
            self.hope.store(next, Ordering::Relaxed);
        }
    }
}
