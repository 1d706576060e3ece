//! Many threads that poll on one CPU. Alone in its process: what other threads of it do counts.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use nonic_sys::{Yielder, cpu_relax};
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};

#[test]
fn who_works_under_a_lock_has_the_processor_back_at_once_from_those_that_poll_meanwhile() {
    const THREADS: usize = 8;
    const WORK: u32 = 200_000;
    let (yielder, polls, done) = (Yielder::default(), AtomicU32::new(0), AtomicU32::new(0));
    let locked = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut one = CpuSet::new();
            one.set(sched_getcpu());
            sched_setaffinity(None, &one).unwrap();
            let poll = || {
                while done.load(Ordering::Relaxed) < WORK {
                    if !locked.swap(true, Ordering::Acquire) {
                        // So long that whoever is preempted nearly always has the lock.
                        (0..16).for_each(|_| cpu_relax());
                        done.fetch_add(1, Ordering::Relaxed);
                        locked.store(false, Ordering::Release);
                    } else if polls.fetch_add(1, Ordering::Relaxed).is_multiple_of(64) {
                        yielder.give_way(|| polls.load(Ordering::Relaxed) + done.load(Ordering::Relaxed));
                    }
                }
            };
            (0..THREADS).for_each(|_| drop(scope.spawn(poll)));
        });
    });
    let (polls, done) = (polls.into_inner(), done.into_inner());
    assert!(polls < done, "{polls} polls in vain beside {done} pieces of work");
}
