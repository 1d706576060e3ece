//! Times of the protocol. What an instant is says the caller: a clock's, or a simulator's.

use core::ops::Add;
use core::time::Duration;

/// An instant of the caller's clock.
pub trait Moment: Copy + Ord + Add<Duration, Output = Self> {}

impl<T: Copy + Ord + Add<Duration, Output = T>> Moment for T {}

/// How long an answer may take: 4.096 µs · 2^exponent (IBTA vol. 1, 9.9.2.1); 0 is for ever.
pub fn ack_timeout(exponent: u8) -> Option<Duration> {
    (exponent > 0).then(|| Duration::from_nanos(4096 << exponent.min(31)))
}

/// How long an answer is waited for when `in_vain` attempts went without one: what the program said, then twice and four times that,
/// since a timeout may last up to four times as long (9.9.2.1). A peer that is a process may not run for a while. `None` is for ever.
pub fn answer_time(exponent: u8, in_vain: u8) -> Option<Duration> {
    ack_timeout(exponent).map(|timeout| timeout * (1 << in_vain.min(2)))
}

/// How long to wait after RNR: the 32 values of IBTA vol. 1, table 45, in units of 10 µs.
pub fn rnr_wait(code: u8) -> Duration {
    const TENS_OF_US: [u64; 32] = [
        65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048,
        3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
    ];
    Duration::from_micros(TENS_OF_US[usize::from(code & 31)] * 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_are_those_of_the_specification() {
        assert_eq!(rnr_wait(0), Duration::from_micros(655_360));
        assert_eq!(rnr_wait(1), Duration::from_micros(10));
        assert_eq!(rnr_wait(12), Duration::from_micros(640));
        assert_eq!(rnr_wait(31), Duration::from_micros(491_520));
        assert_eq!(ack_timeout(0), None);
        assert_eq!(ack_timeout(14), Some(Duration::from_nanos(67_108_864)));
        assert_eq!(answer_time(0, 3), None);
        let times = [0, 1, 2, 3, 7].map(|in_vain| answer_time(14, in_vain).unwrap() / 67_108_864);
        assert_eq!(times.map(|time| time.as_nanos()), [1, 2, 4, 4, 4]);
    }
}
