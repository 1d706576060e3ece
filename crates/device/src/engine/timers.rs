//! What is due for queue pairs, and when.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Instant;

use nonic_protocol::QpNumber;

use super::{Engine, lock};
use crate::agent::POLLED_TICK;

/// Deadlines of the queue pairs that wait.
#[derive(Debug, Default)]
pub(super) struct Timers(Mutex<Due>);

#[derive(Debug, Default)]
struct Due {
    queue: BTreeSet<(Instant, QpNumber)>,
    /// Those that are due are being fired: whoever does so looks at the queue again before it sleeps.
    is_fired: bool,
}

impl Engine {
    /// Has the timer of a queue pair fire at a time.
    pub(crate) fn schedule(&self, when: Instant, number: QpNumber) {
        let mut due = lock(&self.timers.0);
        due.queue.insert((when, number));
        let is_seen = due.is_fired;
        drop(due);
        // An agent that looks whether the program still polls says so before it sleeps, and looks at the queue when it wakes.
        let wakes_before = || self.agent.looks_soon() && when >= Instant::now() + POLLED_TICK;
        if !is_seen && !wakes_before() {
            self.party.doorbell.signal();
        }
    }

    /// Fires what is due; returns when the next is.
    pub(crate) fn run_timers(&self) -> Option<Instant> {
        loop {
            let now = Instant::now();
            let number = {
                let mut due = lock(&self.timers.0);
                let first = due.queue.first().copied();
                due.is_fired = first.is_some_and(|(when, _)| when <= now);
                if !due.is_fired {
                    return first.map(|(when, _)| when);
                }
                due.queue.pop_first();
                first.map(|(_, number)| number)
            };
            if let Some(pair) = number.and_then(|number| self.find_pair(number)) {
                pair.timer_fired(now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use super::*;
    use crate::config::Config;
    use crate::engine::commons::Commons;

    #[test]
    fn an_agent_is_called_for_what_is_due_before_it_looks_and_for_nothing_else() {
        let engine = Engine::create(&Config::default(), &Commons::default()).unwrap();
        // No agent runs.
        let is_called = |timed, soon, due: Duration| {
            engine.agent.timed.store(timed, Ordering::SeqCst);
            engine.agent.soon.store(soon, Ordering::SeqCst);
            engine.schedule(Instant::now() + due, QpNumber(1));
            engine.party.doorbell.take_if_ready()
        };
        let (later, sooner) = (10 * POLLED_TICK, POLLED_TICK / 2);
        assert!(!is_called(true, true, later));
        assert!(is_called(true, true, sooner));
        assert!(is_called(true, false, later), "it leaves a program alone that has no processor");
        assert!(is_called(false, true, later), "it sleeps until it is called");
    }
}
