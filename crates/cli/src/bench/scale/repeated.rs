//! What is done again and again, and how long it takes.

use std::time::{Duration, Instant};

use super::super::device;
use super::super::job::median;
use crate::demo::failure::Outcome;
use crate::verbs::{CompletionQueue, Entries};

/// Calls `once` until the time is over; the median of what it returns.
pub(super) fn repeat(budget: Duration, mut once: impl FnMut() -> Outcome<f64>) -> Outcome<f64> {
    let (begun, mut times) = (Instant::now(), Vec::new());
    while times.len() < 3 || begun.elapsed() < budget {
        times.push(once()?);
    }
    Ok(median(&times))
}

/// Nanoseconds of a poll that finds nothing.
pub(super) fn poll(queue: &CompletionQueue, budget: Duration) -> Outcome<f64> {
    const POLLS: u32 = 64;
    let mut entries = Entries::default();
    repeat(budget, || {
        let begun = device::now();
        for _ in 0..POLLS {
            queue.take(&mut entries)?;
        }
        Ok((device::now() - begun) / f64::from(POLLS))
    })
}
