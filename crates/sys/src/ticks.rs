//! A clock that costs next to nothing: the CPU's time stamp counter, where it runs evenly.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The counter now. Two looks on different CPUs may differ by a little.
#[inline(always)]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reads a counter; every x86-64 CPU has it.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    0
}

/// How many ticks a time takes; `None` where there is no such clock. The first call takes a fifth of a millisecond.
pub fn ticks_in(time: Duration) -> Option<u64> {
    static PER_SECOND: OnceLock<Option<u64>> = OnceLock::new();
    let per_second = (*PER_SECOND.get_or_init(measure))?;
    Some((u128::from(per_second) * time.as_nanos() / 1_000_000_000) as u64)
}

fn measure() -> Option<u64> {
    if !is_even() {
        return None;
    }
    let (first, since) = (ticks(), Instant::now());
    while since.elapsed() < Duration::from_micros(200) {
        crate::cpu_relax();
    }
    let (last, time) = (ticks(), since.elapsed());
    let per_second = u128::from(last.checked_sub(first)?) * 1_000_000_000 / time.as_nanos();
    // Nothing ticks slower than 100 MHz or faster than 100 GHz: such a clock was stopped or set meanwhile.
    u64::try_from(per_second).ok().filter(|rate| (100_000_000..100_000_000_000).contains(rate))
}

/// Whether the counter runs at one rate whatever the CPU does (AMD and Intel: leaf 8000_0007, EDX bit 8).
#[cfg(target_arch = "x86_64")]
fn is_even() -> bool {
    use std::arch::x86_64::__cpuid;
    let (leaf, bit) = (0x8000_0007, 1 << 8);
    __cpuid(0x8000_0000).eax >= leaf && __cpuid(leaf).edx & bit != 0
}

#[cfg(not(target_arch = "x86_64"))]
fn is_even() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_measure_time_where_there_are_any() {
        let Some(expected) = ticks_in(Duration::from_millis(2)) else { return };
        let (first, since) = (ticks(), Instant::now());
        while since.elapsed() < Duration::from_millis(2) {
            crate::cpu_relax();
        }
        // The other side of the comparison may be interrupted between its two looks.
        assert!(ticks() - first > expected / 2);
    }
}
