//! Threads that sleep for a while at most, and of which others wake one at a time.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::thread::{Timespec, futex};

/// Where they sleep. Who wakes them has to know that somebody does, and says so to nobody else.
#[derive(Debug, Default)]
pub struct Sleepers {
    /// How often one was woken: the word that they sleep on.
    wakes: AtomicU32,
}

/// What a thread has seen that is about to sleep.
#[derive(Clone, Copy, Debug)]
pub struct Place(u32);

impl Sleepers {
    /// Where this thread will sleep. Whoever wakes somebody after this wakes it too, if it comes to that before it sleeps.
    pub fn place(&self) -> Place {
        Place(self.wakes.load(Ordering::Relaxed))
    }

    /// Sleeps for so long at most. It may return early.
    pub fn sleep(&self, place: Place, time: Duration) {
        let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
        let time = Timespec { tv_sec: seconds, tv_nsec: time.subsec_nanos().into() };
        let _ = futex::wait(&self.wakes, futex::Flags::PRIVATE, place.0, Some(&time));
    }

    /// Wakes one of those who sleep, and those who are about to.
    #[cold]
    pub fn wake_one(&self) {
        self.wakes.fetch_add(1, Ordering::Relaxed);
        let _ = futex::wake(&self.wakes, futex::Flags::PRIVATE, 1);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    const LONG: Duration = Duration::from_secs(600);

    #[test]
    fn a_sleep_ends_with_its_time() {
        let sleepers = Sleepers::default();
        let (began, time) = (Instant::now(), Duration::from_millis(5));
        while began.elapsed() < time {
            sleepers.sleep(sleepers.place(), time);
        }
        assert!(began.elapsed() < LONG);
    }

    #[test]
    fn who_was_woken_before_it_sleeps_does_not() {
        let sleepers = Sleepers::default();
        let (place, began) = (sleepers.place(), Instant::now());
        sleepers.wake_one();
        sleepers.sleep(place, LONG);
        assert!(began.elapsed() < LONG);
    }

    #[test]
    fn who_sleeps_is_woken() {
        let sleepers = &Sleepers::default();
        std::thread::scope(|scope| {
            let sleep = |_| scope.spawn(|| sleepers.sleep(sleepers.place(), LONG));
            let threads: Vec<_> = (0..3).map(sleep).collect();
            let began = Instant::now();
            while threads.iter().any(|thread| !thread.is_finished()) {
                sleepers.wake_one();
                std::thread::yield_now();
            }
            assert!(began.elapsed() < LONG);
        });
    }
}
