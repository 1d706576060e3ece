//! Yielding the CPU, for a thread whose caller may hold a lock.
//!
//! A program may poll under a spin lock of its own, over and over, while another of its threads spins for that lock on the same CPU.
//! Were the poller to yield in every poll, it would always be the yield that takes the CPU from it, thus always with the lock held:
//! the other would spin for all of its time and never have it. Preempted by the kernel, anywhere, the poller is outside now and then.
//!
//! Where many threads poll, each for itself, every one of them must yield, and at once: who spins for the rest of its slice keeps the
//! processor from those that have something to do. So the two are told apart: who had the CPU for long and did not poll meanwhile may
//! have waited for a lock.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::clock::{process_cpu_ns, raw_clock_ns, thread_cpu_ns};
use crate::yield_now;

/// Who has the CPU for as long does not poll and yield as we do. Less than the kernel's shortest slice (0.75 ms), more than a few
/// pollers take until each of them has yielded.
const SLICE_NS: u64 = 500_000;
/// Twice as much as this is the longest time without a yield: a thread may have been stopped meanwhile, for hours.
const LONGEST_NS: u64 = 10_000_000;

/// Yields that are looked at after one that took long: who was robbed of a slice by it has the next few for nothing.
const WATCHED: u32 = 64;
/// What a poll takes at most, or a message that is handled in one, with what the program does between two of them.
const POLL_NS: u64 = 4_000;

/// When to yield next. For all threads of a process that poll the same thing: a hint, which they may take from each other.
#[derive(Debug, Default)]
pub struct Yielder {
    /// Not before this time of the raw clock.
    next: AtomicU64,
    /// Yields that are still looked at, since one took long.
    watched: AtomicU32,
}

impl Yielder {
    /// Lets other runnable threads of this CPU go first; but where threads of this process had it for whole slices and did not poll,
    /// the next calls return at once, for twice the time that this took. `polls` counts those of all threads, about, and what they
    /// handled there.
    pub fn give_way(&self, polls: impl Fn() -> u32) {
        let left = raw_clock_ns();
        if left < self.next.load(Ordering::Relaxed) {
            return;
        }
        // These clocks are system calls, and a yield in time is to cost no more than it must.
        let watched = self.watched.load(Ordering::Relaxed);
        let before = (watched > 0).then(|| (cpu_of_others_ns(), polls()));
        yield_now();
        let back = raw_clock_ns();
        let was_slow = back.saturating_sub(left) >= SLICE_NS;
        if let Some((others, before)) = before.filter(|_| was_slow) {
            // A thread that is preempted while it counts sets the count back, which looks like very many: it polled, too.
            self.learn(left, back, cpu_of_others_ns().saturating_sub(others), polls().wrapping_sub(before));
        }
        if watched > 0 || was_slow {
            self.watched.store(if was_slow { WATCHED } else { watched - 1 }, Ordering::Relaxed);
        }
    }

    /// From this time to that others had the CPU; the other threads of the process ran for so long meanwhile, and polled so often.
    fn learn(&self, left: u64, back: u64, ran: u64, polls: u32) {
        if ran.saturating_sub(u64::from(polls) * POLL_NS) >= SLICE_NS {
            self.next.store(back + 2 * (back - left).min(LONGEST_NS), Ordering::Relaxed);
        }
    }
}

/// How long the other threads of the process have run.
fn cpu_of_others_ns() -> u64 {
    process_cpu_ns().saturating_sub(thread_cpu_ns())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::time::{Duration, Instant};

    use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};

    use super::*;
    use crate::cpu_relax;

    /// Makes the calling thread, and those that it starts, run on one CPU.
    fn stay_on_one_cpu() {
        let mut one = CpuSet::new();
        one.set(sched_getcpu());
        sched_setaffinity(None, &one).unwrap();
    }

    #[test]
    fn a_thread_that_spins_for_a_lock_gets_it_from_one_that_yields_under_it() {
        let (locked, done) = (AtomicBool::new(false), AtomicBool::new(false));
        let take = || !locked.swap(true, Ordering::Acquire);
        std::thread::scope(|scope| {
            // A thread of its own: the other tests stay where they are.
            scope.spawn(|| {
                stay_on_one_cpu();
                scope.spawn(|| {
                    let yielder = Yielder::default();
                    while !done.load(Ordering::Relaxed) {
                        if take() {
                            (0..64).for_each(|_| cpu_relax());
                            yielder.give_way(|| 0);
                            locked.store(false, Ordering::Release);
                        }
                        (0..8).for_each(|_| cpu_relax());
                    }
                });
                let deadline = Instant::now() + Duration::from_secs(20);
                let mut taken = 0;
                while taken < 8 && Instant::now() < deadline {
                    if take() {
                        taken += 1;
                        locked.store(false, Ordering::Release);
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    cpu_relax();
                }
                done.store(true, Ordering::Relaxed);
                assert_eq!(taken, 8);
            });
        });
    }

    #[test]
    fn only_threads_of_the_same_process_that_did_not_poll_defer_the_next_yield_and_not_for_long() {
        let (yielder, next) = (Yielder::default(), |yielder: &Yielder| yielder.next.load(Ordering::Relaxed));
        yielder.learn(1_000_000, 4_000_000, SLICE_NS - 1, 0);
        assert_eq!(next(&yielder), 0);
        yielder.learn(5_000_000, 8_000_000, 2 * SLICE_NS, 0);
        assert_eq!(next(&yielder), 14_000_000);
        // Those that polled all the time, as far as that is known, and some that polled a little.
        yielder.learn(30_000_000, 33_000_000, 3 * SLICE_NS, (2 * SLICE_NS / POLL_NS) as u32 + 1);
        assert_eq!(next(&yielder), 14_000_000);
        yielder.learn(40_000_000, 43_000_000, 3 * SLICE_NS, (SLICE_NS / POLL_NS) as u32);
        assert_eq!(next(&yielder), 49_000_000);
        let hour = 3_600_000_000_000;
        yielder.learn(hour, 2 * hour, hour, 0);
        assert_eq!(next(&yielder), 2 * hour + 2 * LONGEST_NS);
    }
}
