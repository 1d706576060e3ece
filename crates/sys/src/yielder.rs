//! Yielding the CPU, for a thread whose caller may hold a lock.
//!
//! A program may poll under a spin lock of its own, over and over, while another of its threads spins for that lock on the same CPU.
//! Were the poller to yield in every poll, it would always be the yield that takes the CPU from it, thus always with the lock held:
//! the other would spin for all of its time and never have it. Preempted by the kernel, anywhere, the poller is outside now and then.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::{process_cpu_ns, raw_clock_ns, thread_cpu_ns};
use crate::yield_now;

/// Who has the CPU for as long does not poll and yield as we do. Less than the kernel's shortest slice (0.75 ms), more than a few
/// pollers take until each of them has yielded.
const SLICE_NS: u64 = 500_000;
/// Twice as much as this is the longest time without a yield: a thread may have been stopped meanwhile, for hours.
const LONGEST_NS: u64 = 10_000_000;

/// When to yield next. For all threads of a process that poll the same thing: a hint, which they may take from each other.
#[derive(Debug, Default)]
pub struct Yielder {
    /// Not before this time of the raw clock.
    next: AtomicU64,
    /// How long other threads of the process had run when it was last asked.
    others: AtomicU64,
}

impl Yielder {
    /// Lets other runnable threads of this CPU go first; but where threads of this process had it for whole slices, the next calls
    /// return at once, for twice the time that this took.
    pub fn give_way(&self) {
        let left = raw_clock_ns();
        if left < self.next.load(Ordering::Relaxed) {
            return;
        }
        yield_now();
        let back = raw_clock_ns();
        if back.saturating_sub(left) >= SLICE_NS {
            self.learn(left, back, process_cpu_ns().saturating_sub(thread_cpu_ns()));
        }
    }

    /// From this time to that others had the CPU; the other threads of the process have run for so long, ever.
    fn learn(&self, left: u64, back: u64, others: u64) {
        if others.saturating_sub(self.others.swap(others, Ordering::Relaxed)) >= SLICE_NS {
            self.next.store(back + 2 * (back - left).min(LONGEST_NS), Ordering::Relaxed);
        }
    }
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
                            yielder.give_way();
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
    fn only_threads_of_the_same_process_defer_the_next_yield_and_not_for_long() {
        let (yielder, next) = (Yielder::default(), |yielder: &Yielder| yielder.next.load(Ordering::Relaxed));
        yielder.learn(1_000_000, 4_000_000, SLICE_NS - 1);
        assert_eq!(next(&yielder), 0);
        yielder.learn(5_000_000, 8_000_000, 2 * SLICE_NS);
        assert_eq!(next(&yielder), 14_000_000);
        yielder.learn(20_000_000, 23_000_000, 2 * SLICE_NS);
        assert_eq!(next(&yielder), 14_000_000);
        let hour = 3_600_000_000_000;
        yielder.learn(hour, 2 * hour, hour);
        assert_eq!(next(&yielder), 2 * hour + 2 * LONGEST_NS);
    }
}
