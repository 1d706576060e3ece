//! Whether a wait should look for a while before it sleeps, learned from how waits went lately.

use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::time::Duration;

/// How long a wait looks before it sleeps, if looking pays: about what two wake-ups take, so that the answer of somebody who
/// has to wake first is still met.
pub const LOOK: Duration = Duration::from_micros(50);
/// Looking stops when this many more waits were longer than that than were shorter.
const HOPE: i32 = 4;
/// Of waits that do not look, every so many does, to see whether things have changed.
const RETRY: u32 = 16;

/// What the waits for one thing have taught.
#[derive(Debug)]
pub struct Hope {
    /// Waits that looking shortened less those that it did not, within bounds.
    hope: AtomicI32,
    waits: AtomicU32,
}

impl Default for Hope {
    fn default() -> Self {
        Self::new()
    }
}

impl Hope {
    /// Nothing was learned yet: it is full.
    pub const fn new() -> Self {
        Self { hope: AtomicI32::new(HOPE), waits: AtomicU32::new(0) }
    }

    /// Begins a wait; whether it is one of those that look in any case.
    pub fn begin(&self) -> bool {
        let waits = self.waits.load(Ordering::Relaxed);
        self.waits.store(waits.wrapping_add(1), Ordering::Relaxed);
        waits.is_multiple_of(RETRY)
    }

    /// Whether looking has paid lately.
    pub fn is_left(&self) -> bool {
        self.hope.load(Ordering::Relaxed) > 0
    }

    /// Ends a wait that looked; whether that shortened it.
    pub fn learn(&self, was_short: bool) {
        let hope = self.hope.load(Ordering::Relaxed);
        let next = (hope + if was_short { 1 } else { -1 }).clamp(0, HOPE);
        if next != hope {
            self.hope.store(next, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_stops_where_it_does_not_pay_and_is_tried_again() {
        let hope = Hope::default();
        assert!(hope.begin() && hope.is_left());
        for _ in 0..HOPE {
            hope.learn(false);
        }
        let tried = (1..2 * RETRY).filter(|_| hope.begin()).count();
        assert!(!hope.is_left() && tried == 1);
        hope.learn(true);
        assert!(hope.is_left());
    }
}
