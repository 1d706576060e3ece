//! Whether the agent is woken by what comes by the wire while a program polls: a program that polls takes it by itself, and would share
//! its processor with whoever wakes; one that polled a moment ago and now looks at its memory alone waits for somebody who takes it.

use std::time::{Duration, Instant};

use nonic_sys::nap;

use crate::engine::Engine;

/// A program that polls looks at the wire in some of these, if not in the first: it may have lost its processor in the middle of a call.
const MOMENT: Duration = Duration::from_micros(20);
/// How many are waited for where it did so before.
const PATIENCE: usize = 8;

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
        if self.trials.is_due(Instant::now()) {
            let polls = polls_now(engine, 2);
            self.program_takes = self.trials.has_shown(polls, Instant::now());
            if polls {
                return;
            }
        }
        if !self.program_takes && engine.wire_waits() {
            // A program that polls takes what has come before the agent is awake; this one does something else.
            engine.progress(usize::MAX);
        }
    }

    /// The agent goes to sleep for a moment because a program polls.
    pub(super) fn program_polls(&mut self, engine: &Engine) {
        if self.program_takes && engine.wire_waits() && !polls_now(engine, PATIENCE) {
            self.program_takes = false;
            self.trials.ended(Instant::now());
            engine.progress(usize::MAX);
        }
        if !self.program_takes {
            engine.arm_wire();
        }
    }
}

/// Whether the program looks at the wire, or is sending. How long ago it did says nothing: the agent has just had its processor.
fn polls_now(engine: &Engine, moments: usize) -> bool {
    let before = engine.wire_steps();
    (0..moments).any(|_| {
        nap(MOMENT);
        engine.wire_steps() != before
    })
}

/// When the agent tries whether the program takes what comes: rarer while it does not, and after a rest that grows if it did not for long,
/// since a message waited then. Some programs poll for the end of what they send and look at memory for what comes; others poll for a
/// while, and then do something else.
#[derive(Debug)]
struct Trials {
    calls: u32,
    /// Calls until the next.
    next: u32,
    /// Calls in a row at which the program was about to take what had come.
    shown: u32,
    /// Since when it is left to the program.
    began: Option<Instant>,
    /// None begins before.
    rest_until: Option<Instant>,
    rest: Duration,
}

/// Calls that make one. A program that looks at memory for what comes polls at every other.
const ENOUGH: u32 = 4;
/// Calls between two at least.
const OFTEN: u32 = 8;
/// And at most.
const RARELY: u32 = 1 << 10;
/// A rest after one that was wrong.
const SHORTEST: Duration = Duration::from_millis(1);
/// The same after many.
const LONGEST: Duration = Duration::from_millis(16);
/// So many times as long as the rest before it, and it was right.
const WORTH: u32 = 4;

impl Default for Trials {
    fn default() -> Self {
        Self { calls: 0, next: OFTEN, shown: 0, began: None, rest_until: None, rest: SHORTEST }
    }
}

impl Trials {
    /// Whether to try at this call.
    fn is_due(&mut self, now: Instant) -> bool {
        self.calls = self.calls.saturating_add(1);
        self.calls >= self.next && self.rest_until.is_none_or(|until| now >= until)
    }

    /// The program polls at this call, or does not. Whether it takes what comes.
    fn has_shown(&mut self, polls: bool, now: Instant) -> bool {
        self.shown = if polls { self.shown + 1 } else { 0 };
        let takes = self.shown >= ENOUGH;
        if !polls {
            (self.calls, self.next) = (0, (2 * self.next).min(RARELY));
        } else if takes {
            (self.calls, self.next, self.shown, self.began) = (0, OFTEN, 0, Some(now));
        }
        takes
    }

    /// The program does not take what comes any more, or never did.
    fn ended(&mut self, now: Instant) {
        let lasted = self.began.map_or(Duration::ZERO, |began| now.saturating_duration_since(began));
        self.rest = if lasted >= WORTH * self.rest { SHORTEST } else { (2 * self.rest).min(LONGEST) };
        self.rest_until = Some(now + self.rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls_until_due(trials: &mut Trials, now: Instant) -> Option<usize> {
        (1..=2 * RARELY as usize).find(|_| trials.is_due(now))
    }

    fn is_convinced(trials: &mut Trials, now: Instant) -> bool {
        (1..ENOUGH).for_each(|_| assert!(!trials.has_shown(true, now) && trials.is_due(now)));
        trials.has_shown(true, now)
    }

    #[test]
    fn trials_are_rarer_while_the_program_does_not_take_all_that_comes() {
        let (mut trials, now) = (Trials::default(), Instant::now());
        for calls in [8, 16, 32] {
            assert_eq!(calls_until_due(&mut trials, now), Some(calls));
            assert!(!trials.has_shown(true, now), "once is not enough");
            assert!(trials.is_due(now) && !trials.has_shown(false, now));
        }
        (0..10).for_each(|_| assert!(!trials.has_shown(false, now)));
        assert_eq!(calls_until_due(&mut trials, now), Some(RARELY as usize));
        assert!(is_convinced(&mut trials, now));
        assert_eq!(calls_until_due(&mut trials, now), Some(8));
    }

    #[test]
    fn a_trial_that_was_wrong_is_followed_by_a_rest_that_grows_and_one_that_was_right_by_a_short_one() {
        let (mut trials, mut now) = (Trials::default(), Instant::now());
        assert!(calls_until_due(&mut trials, now).is_some());
        for rest in [2, 4, 8, 16, 16] {
            assert!(is_convinced(&mut trials, now));
            now += Duration::from_millis(1);
            trials.ended(now);
            assert_eq!(calls_until_due(&mut trials, now + Duration::from_millis(rest - 1)), None);
            now += Duration::from_millis(rest);
            assert_eq!(calls_until_due(&mut trials, now), Some(1), "after {rest} ms");
        }
        assert!(is_convinced(&mut trials, now));
        now += Duration::from_secs(5);
        trials.ended(now);
        assert_eq!(calls_until_due(&mut trials, now + SHORTEST), Some(8));
    }
}
