//! Whether the program would poll if it had a processor. Where more programs poll than there are processors, that none came for a moment
//! says nothing: whoever took over then would take the processor from all of them, and leave each of them a thread that has to
//! be woken for every message, and locks that were another's.

use std::time::{Duration, Instant};

use nonic_sys::{is_runnable, thread_cpu_ns_of};

use super::POLLED_TICK;

/// How long messages wait at most for a program that has no processor: some dozens of programs have each had one by then.
const LONGEST: Duration = Duration::from_millis(100);
/// It is looked this often whether it has one, at least: it may do something else then.
const RARELY: Duration = Duration::from_millis(20);

/// The thread that polled last.
#[derive(Debug)]
struct Poller {
    thread: i32,
    /// For how long it has run.
    ran: u64,
    /// Since when it is known to wait for a processor.
    waits: Option<Instant>,
    /// When to look again whether it does.
    tick: Duration,
}

/// What the agent knows of it.
#[derive(Debug, Default)]
pub(super) struct Starvation {
    poller: Option<Poller>,
}

impl Starvation {
    /// A thread of the program polls.
    pub(super) fn polls(&mut self, thread: i32) {
        self.poller =
            thread_cpu_ns_of(thread).map(|ran| Poller { thread, ran, waits: None, tick: POLLED_TICK });
    }

    /// No poll has come since. How long to wait before it is looked again, if the thread that polled waits for a processor and has had none
    /// since.
    pub(super) fn patience(&mut self, now: Instant) -> Option<Duration> {
        let poller = self.poller.as_mut()?;
        let since = *poller.waits.get_or_insert(now);
        let is_over = now.saturating_duration_since(since) >= LONGEST;
        if is_over || thread_cpu_ns_of(poller.thread) != Some(poller.ran) || !is_runnable(poller.thread) {
            self.poller = None;
            return None;
        }
        let tick = poller.tick;
        poller.tick = RARELY;
        Some(tick)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;

    use nonic_sys::{nap, thread_number};

    use super::*;

    /// Two threads of one processor that never rest, and one that does, until `look` is done with their numbers.
    fn beside_threads(look: impl FnOnce([i32; 3])) {
        let ended = AtomicBool::new(false);
        let (tell, numbers) = mpsc::channel();
        std::thread::scope(|scope| {
            let one = rustix::thread::sched_getcpu();
            for _ in 0..2 {
                let (tell, ended) = (tell.clone(), &ended);
                scope.spawn(move || {
                    let mut cpus = rustix::thread::CpuSet::new();
                    cpus.set(one);
                    rustix::thread::sched_setaffinity(None, &cpus).unwrap();
                    tell.send(thread_number()).unwrap();
                    while !ended.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let spinning = [numbers.recv().unwrap(), numbers.recv().unwrap()];
            let (wake, sleep) = mpsc::channel::<()>();
            scope.spawn(move || {
                tell.send(thread_number()).unwrap();
                let _ = sleep.recv();
            });
            look([spinning[0], spinning[1], numbers.recv().unwrap()]);
            ended.store(true, Ordering::Relaxed);
            drop(wake);
        });
    }

    #[test]
    fn who_waits_for_a_processor_is_waited_for_but_not_who_sleeps_or_runs_and_not_for_ever() {
        beside_threads(|[spins, _, sleeps]| {
            let (began, mut starvation) = (Instant::now(), Starvation::default());
            assert_eq!(starvation.patience(began), None, "nobody has polled");
            let (mut waited, mut ran) = (false, false);
            while !(waited && ran) {
                assert!(began.elapsed() < Duration::from_secs(60), "waited: {waited}, ran: {ran}");
                starvation.polls(spins);
                nap(Duration::from_micros(200));
                match starvation.patience(began) {
                    Some(tick) => {
                        assert_eq!(tick, POLLED_TICK);
                        assert!(starvation.patience(began).is_none_or(|tick| tick == RARELY));
                        assert_eq!(starvation.patience(began + LONGEST), None);
                        waited = true;
                    }
                    None => ran = true,
                }
            }
            // It may not be asleep yet.
            while is_runnable(sleeps) {
                assert!(began.elapsed() < Duration::from_secs(60), "it does not sleep");
            }
            starvation.polls(sleeps);
            assert_eq!(starvation.patience(Instant::now()), None);
        });
    }
}
