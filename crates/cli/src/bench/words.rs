//! Numbers and sizes for people.

use super::job::{Sample, Unit, Verb};
use super::sweep::Measure;

/// A time in nanoseconds, with three digits or so.
pub(super) fn time(nanoseconds: f64) -> String {
    match nanoseconds {
        small if small < 99.95 => format!("{small:.1} ns"),
        small if small < 999.5 => format!("{small:.0} ns"),
        middle if middle < 99_950.0 => format!("{:.2} us", middle / 1e3),
        middle if middle < 999_500.0 => format!("{:.0} us", middle / 1e3),
        large => format!("{:.2} ms", large / 1e6),
    }
}

/// A figure in its unit.
pub(super) fn figure(sample: Sample) -> String {
    match sample.unit {
        Unit::Nanoseconds => time(sample.value),
        Unit::OperationsPerSecond if sample.value < 1e6 => format!("{:.0} k/s", sample.value / 1e3),
        Unit::OperationsPerSecond => format!("{:.2} M/s", sample.value / 1e6),
        Unit::BytesPerSecond => format!("{:.2} GB/s", sample.value / 1e9),
    }
}

/// A ratio or a share.
pub(super) fn ratio(value: f64) -> String {
    if value < 10.0 { format!("{value:.2}") } else { format!("{value:.1}") }
}

/// A number of bytes.
pub(super) fn size(bytes: usize) -> String {
    match bytes {
        whole if whole >= 1 << 20 && whole % (1 << 20) == 0 => format!("{} MiB", whole >> 20),
        whole if whole >= 1 << 10 && whole % (1 << 10) == 0 => format!("{} KiB", whole >> 10),
        odd => format!("{odd} B"),
    }
}

/// What the figures of a part of the report are.
pub(super) fn measure(verb: Verb, measure: Measure) -> String {
    let what = match (measure, verb) {
        (Measure::Latency, Verb::Write | Verb::Send) => "half a round trip, both sides polling",
        (Measure::Latency, _) => "from post to completion",
        (Measure::EventLatency, _) => "half a round trip, both sides sleeping until an event comes",
        (Measure::Rate, Verb::Atomics | Verb::Read) => "rate, as many under way as a connection allows",
        (Measure::Rate, _) => "rate, 128 under way",
        (Measure::Contention, _) => "time of one, both processes adding to the same word",
    };
    format!("{}: {what}", verb.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_unit_that_suits_them() {
        assert_eq!(time(45.16), "45.2 ns");
        assert_eq!(time(620.4), "620 ns");
        assert_eq!(time(1_579.0), "1.58 us");
        assert_eq!(time(150_000.0), "150 us");
        assert_eq!(time(2_500_000.0), "2.50 ms");
    }

    #[test]
    fn rates_are_messages_or_bytes() {
        assert_eq!(figure(Sample::of(12.3e6, Unit::OperationsPerSecond)), "12.30 M/s");
        assert_eq!(figure(Sample::of(25.1e9, Unit::BytesPerSecond)), "25.10 GB/s");
        assert_eq!(figure(Sample::of(5e3, Unit::OperationsPerSecond)), "5 k/s");
    }

    #[test]
    fn sizes_are_whole_where_they_can_be() {
        assert_eq!(
            (size(8), size(65536), size(1 << 20), size(1500)),
            ("8 B".into(), "64 KiB".into(), "1 MiB".into(), "1500 B".into())
        );
    }
}
