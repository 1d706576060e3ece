//! How long to look before sleeping, learned from how waits went lately.

use std::sync::LazyLock;
use std::time::Instant;

use nonic_sys::{Hope, LOOK, cpu_relax, online_cpus, yield_now};

/// Looks between two at the clock, each of which also lets other threads of this CPU run.
const LOOKS_PER_YIELD: u32 = 64;

/// What one direction's waits have taught.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    hope: Hope,
}

impl Patience {
    /// Looks until `done` says so, for as long as that pays; whether it did. On a machine with one CPU it never pays; on one
    /// with more it is not known where the other side runs, so trying tells.
    #[inline]
    pub(crate) fn look(&self, done: impl Fn() -> bool) -> bool {
        static SEVERAL: LazyLock<bool> = LazyLock::new(|| online_cpus() > 1);
        if !*SEVERAL || !(self.hope.begin() || self.hope.is_left()) {
            return false;
        }
        let mut until = None;
        loop {
            for _ in 0..LOOKS_PER_YIELD {
                if done() {
                    self.hope.learn(true);
                    return true;
                }
                cpu_relax();
            }
            let now = Instant::now();
            if now >= *until.get_or_insert(now + LOOK) {
                self.hope.learn(false);
                return false;
            }
            yield_now();
        }
    }
}
