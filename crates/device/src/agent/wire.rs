//! Whether the agent is woken by what comes by the wire while a program polls: a program that polls takes it by itself, and would share
//! its processor with whoever wakes; one that polled a moment ago and now looks at its memory alone waits for somebody who takes it.

use std::time::Duration;

use nonic_sys::nap;

use crate::engine::Engine;

/// A program that polls has polled in this time.
const MOMENT: Duration = Duration::from_micros(20);

/// What the agent knows of who takes what comes.
#[derive(Debug, Default)]
pub(super) struct WireWatch {
    trials: Trials,
    /// The agent is not woken.
    program_takes: bool,
}

impl WireWatch {
    /// Something came while a program polled, as far as the agent knew.
    pub(super) fn called(&mut self, engine: &Engine) {
        if self.trials.is_due() && polls_now(engine) {
            self.program_takes = true;
        } else if engine.wire_waits() {
            // A program that polls takes what has come before the agent is awake; this one does something else.
            engine.progress(usize::MAX);
        }
    }

    /// The agent goes to sleep for a moment because a program polls.
    pub(super) fn program_polls(&mut self, engine: &Engine) {
        if self.program_takes && engine.wire_waits() && !polls_now(engine) {
            self.program_takes = false;
            self.trials.erred();
            engine.progress(usize::MAX);
        }
        if !self.program_takes {
            engine.arm_wire();
        }
    }
}

fn polls_now(engine: &Engine) -> bool {
    let before = engine.poll_count();
    nap(MOMENT);
    engine.poll_count() != before
}

/// When the agent tries whether the program takes what comes: rarer each time, and much rarer each time that it thought so and erred, since
/// a message waited long then. Some programs poll for the end of what they send and look at memory for what comes.
#[derive(Debug)]
struct Trials {
    calls: u32,
    next: u32,
}

/// Calls until the first trial.
const FIRST: u32 = 8;
/// Calls between two at most.
const RAREST: u32 = 1 << 20;

impl Default for Trials {
    fn default() -> Self {
        Self { calls: 0, next: FIRST }
    }
}

impl Trials {
    /// Whether to try at this call.
    fn is_due(&mut self) -> bool {
        self.calls += 1;
        let is_due = self.calls >= self.next;
        if is_due {
            (self.calls, self.next) = (0, (2 * self.next).min(RAREST));
        }
        is_due
    }

    /// The last one was wrong.
    fn erred(&mut self) {
        self.next = (8 * self.next).min(RAREST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls_until_due(trials: &mut Trials) -> usize {
        (1..).find(|_| trials.is_due()).unwrap_or_default()
    }

    #[test]
    fn trials_are_rarer_each_time_and_much_rarer_after_an_error() {
        let mut trials = Trials::default();
        assert_eq!([(); 3].map(|()| calls_until_due(&mut trials)), [8, 16, 32]);
        trials.erred();
        assert_eq!(calls_until_due(&mut trials), 512);
        (0..10).for_each(|_| trials.erred());
        assert_eq!([(); 2].map(|()| calls_until_due(&mut trials)), [RAREST as usize; 2]);
    }
}
