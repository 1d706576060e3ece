//! Why the demo failed, as a sentence, and until when it waits.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use crate::dat::DatError;
use crate::rdmacm::RdmacmError;
use crate::scif::ScifError;
use crate::verbs::{CallError, Mismatch};

/// What went wrong, as a sentence for a person.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Failure(pub(crate) String);

impl Failure {
    /// Says what was wrong, with the values.
    pub(crate) fn new(words: impl Into<String>) -> Self {
        Self(words.into())
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        Self(error.to_string())
    }
}

impl From<ScifError> for Failure {
    fn from(error: ScifError) -> Self {
        Self(error.to_string())
    }
}

impl From<DatError> for Failure {
    fn from(error: DatError) -> Self {
        Self(error.to_string())
    }
}

impl From<RdmacmError> for Failure {
    fn from(error: RdmacmError) -> Self {
        Self(error.to_string())
    }
}

impl From<Mismatch> for Failure {
    fn from(error: Mismatch) -> Self {
        Self(error.to_string())
    }
}

/// What any step returns.
pub(crate) type Outcome<T> = Result<T, Failure>;

/// Fails with a sentence unless the condition holds.
pub(crate) fn ensure(condition: bool, words: impl FnOnce() -> String) -> Outcome<()> {
    if condition { Ok(()) } else { Err(Failure(words())) }
}

/// Until when something may take. Every wait of the demo has one: a peer that died must not hang it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    begun: Instant,
    patience: Duration,
}

impl Deadline {
    /// That much time from now.
    pub(crate) fn after(patience: Duration) -> Self {
        Self { begun: Instant::now(), patience }
    }

    /// What is left of it; nothing when it has passed.
    pub(crate) fn remaining(&self) -> Option<Duration> {
        self.patience.checked_sub(self.begun.elapsed()).filter(|left| !left.is_zero())
    }

    /// Fails when it has passed.
    pub(crate) fn check(&self, waiting_for: &str) -> Outcome<()> {
        ensure(self.remaining().is_some(), || {
            format!("waited {:.0} s for {waiting_for} in vain", self.patience.as_secs_f64())
        })
    }
}

/// Turns of a polling loop: hot at first, then giving the processor away, since the peer may need it.
pub(crate) struct Spinner<'a> {
    deadline: Deadline,
    waiting_for: &'a str,
    turns: u32,
    hot_turns: u32,
}

impl<'a> Spinner<'a> {
    const HOT_TURNS: u32 = 4096;
    /// The clock is asked once in so many turns.
    const TURNS_A_CHECK: u32 = 256;

    /// A loop that ends with a failure after the usual patience.
    pub(crate) fn new(waiting_for: &'a str) -> Self {
        // Asked once: the answer comes from files and takes longer than most of what is measured here.
        static ALONE: LazyLock<bool> = LazyLock::new(|| {
            std::thread::available_parallelism().is_ok_and(|processors| processors.get() == 1)
        });
        let hot_turns = if *ALONE { 0 } else { Self::HOT_TURNS };
        Self { deadline: Deadline::after(super::PATIENCE), waiting_for, turns: 0, hot_turns }
    }

    /// To be called after each look that found nothing.
    pub(crate) fn turn(&mut self) -> Outcome<()> {
        self.turns = self.turns.wrapping_add(1);
        if self.turns > self.hot_turns {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
        if self.turns.is_multiple_of(Self::TURNS_A_CHECK) {
            self.deadline.check(self.waiting_for)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_that_has_passed_is_a_sentence() {
        let deadline = Deadline::after(Duration::ZERO);
        let words = deadline.check("the peer").unwrap_err().to_string();
        assert_eq!(words, "waited 0 s for the peer in vain");
        assert!(Deadline::after(Duration::from_secs(60)).check("nothing").is_ok());
    }
}
