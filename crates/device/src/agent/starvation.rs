//! Whether the program would poll if it had a processor. Where more programs poll than there are processors, that none came for a moment
//! says nothing: whoever took over then would take the processor from all of them, and leave each of them a thread that has to
//! be woken for every message, and locks that were another's. To look takes it from them, too: where they have little of it,
//! it is looked seldom.

use std::time::{Duration, Instant};

use nonic_sys::{is_runnable, thread_cpu_ns_of};

use super::POLLED_TICK;

/// How long messages wait at most for a program that has no processor: some dozens of programs have each had one by then.
const LONGEST: Duration = Duration::from_millis(100);
/// It is looked this often whether it has one, at least: it may do something else then.
const RARELY: Duration = Duration::from_millis(20);
/// A thread that has run for less since it polled may still be on its way to the next poll.
const BETWEEN_POLLS: Duration = Duration::from_micros(250);

/// The thread that polled last.
#[derive(Debug)]
struct Poller {
    thread: i32,
    /// For how long it had run when it was last seen to poll, and when that was.
    ran: Duration,
    seen: Instant,
    /// Since when it is known to wait for a processor.
    waits: Option<Instant>,
    /// When to look again.
    tick: Duration,
}

/// What the agent knows of it.
#[derive(Debug, Default)]
pub(super) struct Starvation {
    poller: Option<Poller>,
}

impl Starvation {
    /// A thread of the program polls. How long to wait before it is asked again: as long as it takes to run for a tick, if that is
    /// more since it waits for a processor.
    pub(super) fn polls(&mut self, thread: i32, now: Instant) -> Duration {
        let before = self.poller.take_if(|poller| poller.thread == thread);
        let Some(ran) = ran(thread) else { return POLLED_TICK };
        let slower = before.map_or(POLLED_TICK, |before| {
            let passed = now.saturating_duration_since(before.seen);
            tick_of(passed, ran.saturating_sub(before.ran)).min(2 * before.tick)
        });
        let tick = if slower > POLLED_TICK && is_runnable(thread) { slower } else { POLLED_TICK };
        self.poller = Some(Poller { thread, ran, seen: now, waits: None, tick });
        tick
    }

    /// No poll has come since. How long to wait before it is looked again, if the thread that polled waits for a processor and has hardly
    /// run since.
    pub(super) fn patience(&mut self, now: Instant) -> Option<Duration> {
        let poller = self.poller.as_mut()?;
        let since = *poller.waits.get_or_insert(now);
        let is_over = now.saturating_duration_since(since) >= LONGEST;
        let has_run = ran(poller.thread).is_none_or(|ran| ran.saturating_sub(poller.ran) >= BETWEEN_POLLS);
        if is_over || has_run || !is_runnable(poller.thread) {
            self.poller = None;
            return None;
        }
        let tick = poller.tick;
        poller.tick = RARELY;
        Some(tick)
    }
}

/// For how long a thread has run.
fn ran(thread: i32) -> Option<Duration> {
    thread_cpu_ns_of(thread).map(Duration::from_nanos)
}

/// How long a thread that ran for so much of a while takes to run for a tick.
fn tick_of(passed: Duration, ran: Duration) -> Duration {
    let times = passed.as_nanos() / ran.as_nanos().max(1);
    POLLED_TICK.saturating_mul(u32::try_from(times).unwrap_or(u32::MAX)).clamp(POLLED_TICK, RARELY)
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
                starvation.polls(spins, Instant::now());
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
            starvation.polls(sleeps, Instant::now());
            assert_eq!(starvation.patience(Instant::now()), None);
        });
    }

    #[test]
    fn it_is_asked_the_less_often_the_less_a_thread_runs() {
        let of = |passed, ran| tick_of(Duration::from_micros(passed), Duration::from_micros(ran));
        assert_eq!([of(1000, 1000), of(1000, 999), of(1000, 501)], [POLLED_TICK; 3]);
        assert_eq!([of(1000, 250), of(16_000, 2000)], [4 * POLLED_TICK, 8 * POLLED_TICK]);
        assert_eq!([of(1000, 1), of(1000, 0), of(u64::MAX, 0)], [RARELY; 3]);
    }

    #[test]
    fn who_waits_for_a_processor_most_of_the_time_is_asked_seldom_and_who_sleeps_as_often_as_ever() {
        beside_threads(|[one, _, sleeps]| {
            let (began, mut starvation, mut tick) = (Instant::now(), Starvation::default(), POLLED_TICK);
            // The two share a processor with each other at least, and each has none of it for whole slices.
            while tick < 4 * POLLED_TICK {
                assert!(began.elapsed() < Duration::from_secs(60), "a tick of {tick:?} at most");
                let grown = starvation.polls(one, Instant::now());
                assert!(grown == POLLED_TICK || grown <= 2 * tick, "{grown:?} behind {tick:?}");
                tick = grown;
                nap(Duration::from_micros(200));
            }
            while is_runnable(sleeps) {
                assert!(began.elapsed() < Duration::from_secs(60), "it does not sleep");
            }
            for _ in 0..3 {
                assert_eq!(starvation.polls(sleeps, Instant::now()), POLLED_TICK);
                nap(Duration::from_micros(200));
            }
        });
    }
}
