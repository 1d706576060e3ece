//! Yielding the CPU, for a thread whose caller may hold a lock.
//!
//! A program may poll under a spin lock of its own, over and over, while another of its threads spins for that lock on the same CPU.
//! Were the poller to yield in every poll, it would always be the yield that takes the CPU from it, thus always with the lock held:
//! the other would spin for all of its time and never have it. Preempted by the kernel, anywhere, the poller is outside now and then.
//!
//! Where many threads poll, each for itself, every one of them must yield, and at once: who spins for the rest of its slice keeps the
//! processor from those that have something to do. So the two are told apart: who had the CPU for long and did not poll meanwhile may
//! have waited for a lock.
//!
//! Of many that yield each still has its turn, though none of them has anything to do. Where the one that they all wait for is not among
//! them, as with a peer on the same processors, all but a few do better to sleep.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::{process_cpu_ns, raw_clock_ns, thread_cpu_ns};
use crate::{usable_cpus, yield_now};

/// Who has the CPU for as long does not poll and yield as we do. Less than the kernel's shortest slice (0.75 ms), more than a few
/// pollers take until each of them has yielded.
const SLICE_NS: u64 = 500_000;
/// Twice as much as this is the longest time without a yield: a thread may have been stopped meanwhile, for hours.
const LONGEST_NS: u64 = 10_000_000;

/// Yields that are looked at after one that took long: who was robbed of a slice by it has the next few for nothing.
const WATCHED: u32 = 64;
/// What a poll takes at most, or a message that is handled in one, with what the program does between two of them.
const POLL_NS: u64 = 4_000;

/// Where one thread yields for so many processors, one more makes a crowd.
const CPUS_A_YIELD: u32 = 2;
/// A yield that takes as long let others run: two switches take half of it.
const SWITCHED_NS: u64 = 2_000;
/// A thread of a crowd sleeps for so long for each that does: all of them together keep a tenth of a processor busy with waking up.
const DOZE_NS: u64 = 100_000;
/// After so many sleeps it is looked what the process did meanwhile.
const DOZES_PER_LOOK: u32 = 8;

/// When to yield next. For all threads of a process that poll the same thing: a hint, which they may take from each other.
// Lines of its own: every yield writes to them, and what stands beside this may be read in every poll.
#[derive(Debug)]
#[repr(align(128))]
pub struct Yielder {
    /// Not before this time of the raw clock.
    next: AtomicU64,
    /// Yields that are still looked at, since one took long.
    watched: AtomicU32,
    /// Threads that have yielded and not come back, and how many of them are enough.
    yielding: AtomicU32,
    enough: u32,
    /// Others ran in the last yield.
    let_others_run: AtomicBool,
    /// Threads that sleep, and how often one did.
    dozing: AtomicU32,
    dozes: AtomicU32,
    /// When it was last looked what the process did, how long it had run by then, and its polls.
    looked: AtomicU64,
    had_run: AtomicU64,
    had_polled: AtomicU32,
}

impl Default for Yielder {
    /// For the processors that the calling thread may use.
    fn default() -> Self {
        Self {
            next: AtomicU64::new(0),
            watched: AtomicU32::new(0),
            yielding: AtomicU32::new(0),
            enough: usable_cpus().div_ceil(CPUS_A_YIELD),
            let_others_run: AtomicBool::new(false),
            dozing: AtomicU32::new(0),
            dozes: AtomicU32::new(0),
            looked: AtomicU64::new(0),
            had_run: AtomicU64::new(0),
            had_polled: AtomicU32::new(0),
        }
    }
}

impl Yielder {
    /// Lets other runnable threads of this CPU go first; but where threads of this process had it for whole slices and did not poll,
    /// the next calls return at once, for twice the time that this took. `polls` counts those of all threads, about, and what they
    /// handled there. For how long others had the CPU; `None` if it was not left to them.
    pub fn give_way(&self, polls: impl Fn() -> u32) -> Option<Duration> {
        let left = raw_clock_ns();
        if left < self.next.load(Ordering::Relaxed) {
            return None;
        }
        // These clocks are system calls, and a yield in time is to cost no more than it must.
        let watched = self.watched.load(Ordering::Relaxed);
        let before = (watched > 0).then(|| (cpu_of_others_ns(), polls()));
        self.yielding.fetch_add(1, Ordering::Relaxed);
        yield_now();
        self.yielding.fetch_sub(1, Ordering::Relaxed);
        let back = raw_clock_ns();
        let away = back.saturating_sub(left);
        let was_slow = away >= SLICE_NS;
        if let Some((others, before)) = before.filter(|_| was_slow) {
            // A thread that is preempted while it counts sets the count back, which looks like very many: it polled, too.
            self.learn(left, back, cpu_of_others_ns().saturating_sub(others), polls().wrapping_sub(before));
        }
        if watched > 0 || was_slow {
            self.watched.store(if was_slow { WATCHED } else { watched - 1 }, Ordering::Relaxed);
        }
        let let_others_run = away >= SWITCHED_NS;
        if let_others_run != self.let_others_run.load(Ordering::Relaxed) {
            self.let_others_run.store(let_others_run, Ordering::Relaxed);
        }
        Some(Duration::from_nanos(away))
    }

    /// Whether so many threads yield to each other that another may as well sleep, if what it waits for is none of theirs.
    pub fn is_crowded(&self) -> bool {
        self.yielding.load(Ordering::Relaxed) >= self.enough && self.let_others_run.load(Ordering::Relaxed)
    }

    /// Has the caller sleep in place of a yield, for the time that `sleep` is given at most. It may hold a lock for which others spin, as
    /// for [`Yielder::give_way`].
    pub fn doze(&self, polls: impl Fn() -> u32, sleep: impl FnOnce(Duration)) {
        if raw_clock_ns() < self.next.load(Ordering::Relaxed) {
            return;
        }
        let dozing = self.dozing.fetch_add(1, Ordering::Relaxed) + 1;
        sleep(Duration::from_nanos((u64::from(dozing) * DOZE_NS).min(LONGEST_NS)));
        self.dozing.fetch_sub(1, Ordering::Relaxed);
        if self.dozes.fetch_add(1, Ordering::Relaxed).is_multiple_of(DOZES_PER_LOOK) {
            self.look_at_process(raw_clock_ns(), process_cpu_ns(), polls());
        }
    }

    /// It is this time now, and the process has run for so long and polled so often. One sleep is too short to tell anything.
    fn look_at_process(&self, now: u64, run: u64, polls: u32) {
        let looked = self.looked.swap(now, Ordering::Relaxed);
        let ran = run.saturating_sub(self.had_run.swap(run, Ordering::Relaxed));
        let polled = polls.wrapping_sub(self.had_polled.swap(polls, Ordering::Relaxed));
        // What it did between two crowds says nothing.
        if now.saturating_sub(looked) <= u64::from(DOZES_PER_LOOK) * LONGEST_NS {
            self.learn(looked, now, ran, polled);
        }
    }

    /// From this time to that others had the CPU; threads of the process ran for so long meanwhile, and polled so often.
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
    use std::time::{Duration, Instant};

    use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};

    use super::*;
    use crate::{cpu_relax, nap};

    /// Makes the calling thread, and those that it starts, run on one CPU.
    fn stay_on_one_cpu() {
        let mut one = CpuSet::new();
        one.set(sched_getcpu());
        sched_setaffinity(None, &one).unwrap();
    }

    /// Has a thread `give_way` under a lock for which another spins on the same CPU.
    fn give_way_under_a_lock(give_way: impl Fn(&Yielder) + Sync) {
        let (locked, done) = (AtomicBool::new(false), AtomicBool::new(false));
        let give_way = &give_way;
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
                            give_way(&yielder);
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
    fn a_thread_that_spins_for_a_lock_gets_it_from_one_that_yields_under_it() {
        give_way_under_a_lock(|yielder| _ = yielder.give_way(|| 0));
    }

    #[test]
    fn a_thread_that_spins_for_a_lock_gets_it_from_one_that_sleeps_under_it() {
        give_way_under_a_lock(|yielder| yielder.doze(|| 0, |time| _ = nap(time)));
    }

    #[test]
    fn each_of_a_crowd_sleeps_the_longer_the_more_of_them_do_and_none_for_long() {
        let yielder = Yielder::default();
        yielder.let_others_run.store(true, Ordering::Relaxed);
        assert!(!yielder.is_crowded());
        yielder.yielding.store(usable_cpus().div_ceil(CPUS_A_YIELD), Ordering::Relaxed);
        assert!(yielder.is_crowded());
        yielder.let_others_run.store(false, Ordering::Relaxed);
        assert!(!yielder.is_crowded(), "each has a processor");
        let time_of = |yielder: &Yielder| {
            let mut slept = None;
            yielder.doze(|| 0, |time| slept = Some(time.as_nanos() as u64));
            slept
        };
        assert_eq!(time_of(&yielder), Some(DOZE_NS));
        yielder.dozing.store(9, Ordering::Relaxed);
        assert_eq!(time_of(&yielder), Some(10 * DOZE_NS));
        yielder.dozing.store(1_000_000, Ordering::Relaxed);
        assert_eq!(time_of(&yielder), Some(LONGEST_NS));
        yielder.next.store(u64::MAX, Ordering::Relaxed);
        assert_eq!(time_of(&yielder), None, "somebody may wait for a lock");
        assert_eq!(yielder.dozing.into_inner(), 1_000_000);
    }

    #[test]
    fn who_gives_way_knows_for_how_long_others_ran_or_that_it_did_not() {
        const RUN: Duration = Duration::from_millis(20);
        let (yielder, done) = (Yielder::default(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                stay_on_one_cpu();
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        cpu_relax();
                    }
                });
                let began = Instant::now();
                let mut away = Duration::ZERO;
                // Threads of this process that spin may wait for a lock: then it is not left to them for a while.
                let mut stayed = false;
                while (away < RUN || !stayed) && began.elapsed() < Duration::from_secs(20) {
                    match yielder.give_way(|| 0) {
                        Some(time) => away += time,
                        None => stayed = true,
                    }
                }
                done.store(true, Ordering::Relaxed);
                assert!(
                    stayed && away >= RUN && away <= began.elapsed(),
                    "{away:?} of {:?}",
                    began.elapsed()
                );
            });
        });
    }

    #[test]
    fn what_a_process_did_while_some_slept_counts_and_not_what_it_did_before() {
        let (yielder, next) = (Yielder::default(), |yielder: &Yielder| yielder.next.load(Ordering::Relaxed));
        let long = u64::from(DOZES_PER_LOOK) * LONGEST_NS;
        yielder.look_at_process(long + 1, long, 0);
        assert_eq!(next(&yielder), 0, "it may have had nobody asleep");
        // Of four slices one was spent polling.
        let polls = (SLICE_NS / POLL_NS) as u32;
        yielder.look_at_process(long + 1 + 4 * SLICE_NS, long + 4 * SLICE_NS, polls);
        assert_eq!(next(&yielder), long + 1 + 12 * SLICE_NS);
        yielder.look_at_process(2 * long, 2 * long, u32::MAX);
        assert_eq!(next(&yielder), long + 1 + 12 * SLICE_NS);
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
