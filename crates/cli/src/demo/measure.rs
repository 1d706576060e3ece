//! How fast: medians of short operations, rates of long ones, each within a bounded time.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::endpoint::Endpoint;
use super::failure::Outcome;
use crate::verbs::{Operation, Piece};

/// Bytes of the large transfers.
pub(super) const LARGE: usize = 1 << 20;

/// Transfers under way at once when a rate is measured.
pub(super) const DEPTH: u32 = 8;

/// How long one measurement goes on.
const TIME: Duration = Duration::from_millis(120);

/// How often at most.
const TIMES_MAX: usize = 4000;

/// Not counted: caches, page tables and the processor's clock settle.
const WARM_UP: usize = 100;

/// A number that was measured.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Figure {
    /// Of what.
    pub(super) name: String,
    /// How much.
    pub(super) value: f64,
    /// Of which unit.
    pub(super) unit: String,
}

impl Figure {
    /// Median of a time.
    pub(super) fn latency(name: &str, median: Duration) -> Self {
        Self { name: name.to_owned(), value: round(median.as_secs_f64() * 1e6), unit: "us".to_owned() }
    }

    /// How often something was done in that time.
    pub(super) fn frequency(name: &str, count: usize, time: Duration) -> Self {
        let value = round(count as f64 / time.as_secs_f64().max(1e-9));
        Self { name: name.to_owned(), value, unit: "/s".to_owned() }
    }

    fn rate(name: &str, bytes: usize, time: Duration) -> Self {
        let value = round(bytes as f64 / time.as_secs_f64().max(1e-9) / 1e9);
        Self { name: name.to_owned(), value, unit: "GB/s".to_owned() }
    }
}

/// Two digits behind the point are more than such a measurement is worth.
fn round(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// Repeats `operation`, which gets the number of the turn, and returns the median of its times.
pub(super) fn median_time(mut operation: impl FnMut(u64) -> Outcome<()>) -> Outcome<Duration> {
    let begun = Instant::now();
    let mut times = Vec::with_capacity(TIMES_MAX);
    for turn in 0..WARM_UP + TIMES_MAX {
        let start = Instant::now();
        operation(turn as u64)?;
        if turn >= WARM_UP {
            times.push(start.elapsed());
        }
        if begun.elapsed() > TIME && !times.is_empty() {
            break;
        }
    }
    Ok(median(times))
}

/// The middle one of some times.
///
/// # Panics
/// Panics if there are none.
pub(super) fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// Repeats a large one-sided operation and returns the rate of bytes.
pub(super) fn rate(
    endpoint: &mut Endpoint,
    name: &str,
    operation: Operation,
    piece: Piece<'_>,
) -> Outcome<Figure> {
    let (count, time) = repeat_large(|_| {
        endpoint.wait_below(DEPTH)?;
        endpoint.start(operation, piece)
    })?;
    let last = Instant::now();
    endpoint.finish()?;
    Ok(rate_of(name, count, time + last.elapsed()))
}

/// Repeats a large operation that is complete when it returns, and returns the rate of bytes.
pub(super) fn rate_of_calls(name: &str, mut call: impl FnMut() -> Outcome<()>) -> Outcome<Figure> {
    let (count, time) = repeat_large(|_| call())?;
    Ok(rate_of(name, count, time))
}

/// Starts large operations until the time is over; how many, and how long it took to start them.
pub(super) fn repeat_large(mut start: impl FnMut(usize) -> Outcome<()>) -> Outcome<(usize, Duration)> {
    let begun = Instant::now();
    let mut count = 0;
    while count < TIMES_MAX && (begun.elapsed() < TIME || count < DEPTH as usize) {
        start(count)?;
        count += 1;
    }
    Ok((count, begun.elapsed()))
}

/// The rate of so many large operations in that time.
pub(super) fn rate_of(name: &str, count: usize, time: Duration) -> Figure {
    Figure::rate(name, count * LARGE, time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_in_gigabytes_and_a_latency_in_microseconds() {
        let figure = rate_of("write", 1000, Duration::from_secs(1));
        assert_eq!((figure.value, figure.unit.as_str()), (1.05, "GB/s"));
        assert_eq!(Figure::latency("send", Duration::from_nanos(1234)).value, 1.23);
    }

    #[test]
    fn measuring_ends_even_if_every_turn_is_slow() {
        let mut turns = 0;
        let slow = |_| {
            turns += 1;
            let begun = Instant::now();
            while begun.elapsed() < TIME / 50 {}
            Ok(())
        };
        median_time(slow).unwrap();
        assert!(turns <= WARM_UP + 1, "{turns} turns");
    }
}
