//! What two processes can be told to measure, and what they answer.

use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// What a program asks of the device.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verb {
    /// RDMA write.
    Write,
    /// RDMA read.
    Read,
    /// Send, into a receive.
    Send,
    /// Fetch and add of 8 bytes.
    Atomics,
}

impl Verb {
    /// All, in the order of the report.
    pub(super) const ALL: [Self; 4] = [Self::Write, Self::Read, Self::Send, Self::Atomics];

    /// As the report says it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::Send => "send",
            Self::Atomics => "atomics",
        }
    }
}

/// A way of moving bytes without any library.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub(super) enum Copy {
    /// `memcpy` into memory that both processes have mapped.
    Plain,
    /// The same with stores that pass the caches.
    NonTemporal,
    /// `process_vm_writev` into private memory of the other process.
    Kernel,
}

/// What a registration costs, and its end.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub(super) enum Registration {
    /// Of pages that hold data, per page.
    Data,
    /// Of 64 MiB never touched, all together.
    Untouched,
    /// Of 64 KiB that a live region covers.
    Covered,
    /// The end of the last region on pages that hold data, per page.
    GiveBack,
}

/// What is measured between the ends of a cable, beside what is measured elsewhere, too.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub(super) enum WireJob {
    /// Writes of 1 MiB a second while packets are lost.
    Lossy,
    /// What UDP carries in runs of datagrams, in transfers of 1 MiB a second.
    Datagrams,
    /// Half a round trip of a datagram of UDP.
    PingPong,
    /// The same of the packets that the device sends, by its calls.
    Packets,
    /// Processor time for a billion bytes that are written.
    WriteCost,
    /// The same for a stream of TCP.
    StreamCost,
}

/// One measurement by two processes.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub(super) enum Job {
    /// Half of a two-line ping-pong: how long a cache line takes from one processor to the other.
    Line,
    /// Half of an eventfd ping-pong: one wake-up.
    Wake,
    /// Copies of that many bytes.
    Copy(Copy, usize),
    /// An atomic addition, by one process alone.
    AtomicAlone,
    /// The same while the other process adds to the same word.
    AtomicContended,
    /// Time of one operation: half a round trip for writes and sends, from post to completion for the others.
    Latency {
        /// Which.
        verb: Verb,
        /// Bytes.
        size: usize,
        /// Sleeping until events come, instead of polling.
        events: bool,
    },
    /// Operations per second, many under way.
    Rate {
        /// Which.
        verb: Verb,
        /// Bytes.
        size: usize,
    },
    /// Time of one fetch and add, many under way, while the other process does the same to the same word.
    Contention,
    /// Registering memory.
    Registration(Registration),
    /// Something that takes a cable.
    Wire(WireJob),
}

/// A job with what bounds it.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(super) struct Order {
    /// What to measure.
    pub(super) job: Job,
    /// For about how long.
    pub(super) budget: Duration,
    /// Not before this moment of the system's monotonic clock, in nanoseconds; for pairs that start together.
    pub(super) begin_at: Option<u64>,
}

/// What a number counts.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Unit {
    /// Less is better.
    Nanoseconds,
    /// More is better.
    OperationsPerSecond,
    /// More is better.
    BytesPerSecond,
}

/// What one measurement gave.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct Sample {
    /// Median of times, or a rate.
    pub(super) value: f64,
    /// In which unit.
    pub(super) unit: Unit,
    /// The time that 99 % stayed below.
    pub(super) p99: Option<f64>,
    /// The time that 99.9 % stayed below.
    pub(super) p999: Option<f64>,
}

impl Sample {
    /// One number.
    pub(super) fn of(value: f64, unit: Unit) -> Self {
        Self { value, unit, p99: None, p999: None }
    }

    /// Median and tail of many times in nanoseconds.
    pub(super) fn of_times(mut times: Vec<f64>) -> Self {
        times.sort_unstable_by(f64::total_cmp);
        let at = |part: f64| times.get(((times.len().max(1) - 1) as f64 * part) as usize).copied();
        // A tail of fewer than some events is chance.
        let tail = |part: f64| at(part).filter(|_| times.len() as f64 * (1.0 - part) >= 3.0);
        Self {
            value: at(0.5).unwrap_or(f64::NAN),
            unit: Unit::Nanoseconds,
            p99: tail(0.99),
            p999: tail(0.999),
        }
    }

    /// Nanoseconds of one operation, whether that is what was measured or how many there were in a second.
    pub(super) fn time(self) -> f64 {
        match self.unit {
            Unit::Nanoseconds => self.value,
            _ => 1e9 / self.value,
        }
    }

    /// The same number of operations as bytes.
    pub(super) fn in_bytes(self, size: usize) -> Self {
        match self.unit {
            Unit::OperationsPerSecond => Self::of(self.value * size as f64, Unit::BytesPerSecond),
            _ => self,
        }
    }
}

/// The middle of some numbers; not a number if there are none.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => sorted[count / 2],
        count => (sorted[count / 2 - 1] + sorted[count / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_is_told_only_where_enough_lies_beyond_it() {
        let few = Sample::of_times((1..=300).map(f64::from).collect());
        assert_eq!((few.value, few.p99, few.p999), (150.0, Some(297.0), None));
        let many = Sample::of_times((1..=10_000).map(f64::from).collect());
        assert_eq!((many.p99, many.p999), (Some(9900.0), Some(9990.0)));
    }

    #[test]
    fn the_median_of_an_even_count_lies_between() {
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn operations_become_bytes_by_their_size() {
        let rate = Sample::of(1000.0, Unit::OperationsPerSecond).in_bytes(4096);
        assert_eq!((rate.value, rate.unit), (4_096_000.0, Unit::BytesPerSecond));
    }
}
