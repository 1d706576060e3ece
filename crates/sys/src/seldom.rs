//! What is said to people at most once in ten seconds, however often there is a reason to say it: others cause many of the
//! reasons, and must not fill anybody's log.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long it is not said again.
pub const SILENCE: Duration = Duration::from_secs(10);

/// Never said.
const NEVER: u64 = 0;

/// One kind of message, as a rule a `static` beside the place that says it.
///
/// ```
/// static ODD: nonic_sys::Seldom = nonic_sys::Seldom::new();
/// if let Some(unsaid) = ODD.turn() {
///     println!("a peer sends what makes no sense ({unsaid} more times since it was last said)");
/// }
/// ```
#[derive(Debug)]
pub struct Seldom {
    /// When it was said last, in milliseconds since the first time that anything was, and one.
    said: AtomicU64,
    /// How often it was not said since.
    unsaid: AtomicU64,
}

impl Default for Seldom {
    fn default() -> Self {
        Self::new()
    }
}

impl Seldom {
    /// A kind that was never said.
    pub const fn new() -> Self {
        Self { said: AtomicU64::new(NEVER), unsaid: AtomicU64::new(0) }
    }

    /// Whether it may be said now, and then how often it was left out since the last time. Of several threads that ask at once
    /// one may.
    pub fn turn(&self) -> Option<u64> {
        static BEGINNING: OnceLock<Instant> = OnceLock::new();
        self.turn_at(BEGINNING.get_or_init(Instant::now).elapsed())
    }

    fn turn_at(&self, since_beginning: Duration) -> Option<u64> {
        let now = since_beginning.as_millis() as u64 + 1;
        let said = self.said.load(Ordering::Relaxed);
        let is_due = said == NEVER || now.saturating_sub(said) >= SILENCE.as_millis() as u64;
        let swap = || self.said.compare_exchange(said, now, Ordering::Relaxed, Ordering::Relaxed);
        if is_due && swap().is_ok() {
            return Some(self.unsaid.swap(0, Ordering::Relaxed));
        }
        self.unsaid.fetch_add(1, Ordering::Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_of_message_has_a_turn_once_in_ten_seconds_and_counts_what_it_left_out() {
        let kind = Seldom::new();
        assert_eq!(kind.turn_at(Duration::ZERO), Some(0));
        for millis in [0, 1, 9_999] {
            assert_eq!(kind.turn_at(Duration::from_millis(millis)), None);
        }
        assert_eq!(kind.turn_at(Duration::from_millis(10_000)), Some(3));
        assert_eq!(kind.turn_at(Duration::from_millis(19_999)), None);
        assert_eq!(kind.turn_at(Duration::from_secs(60)), Some(1));
    }

    #[test]
    fn of_many_threads_one_has_the_turn() {
        let kind = Seldom::new();
        let turns: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| (0..1_000).filter(|_| kind.turn().is_some()).count()))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!((turns, kind.unsaid.into_inner()), (1, 7_999));
    }
}
