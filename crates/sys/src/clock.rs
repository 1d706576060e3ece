//! The kernel's clocks, as numbers.

/// Nanoseconds of the clock that nobody sets or slews (`CLOCK_MONOTONIC_RAW`), from an arbitrary beginning.
pub fn raw_clock_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC_RAW)
}

/// Nanoseconds since 1970-01-01 00:00 UTC (`CLOCK_REALTIME`).
pub fn wall_clock_ns() -> u64 {
    read(libc::CLOCK_REALTIME)
}

/// Nanoseconds for which the threads of this process have run, those that have ended with them.
pub(crate) fn process_cpu_ns() -> u64 {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Nanoseconds for which the calling thread has run.
pub(crate) fn thread_cpu_ns() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// The same for a thread of this process, by its number; `None` if there is none.
pub fn thread_cpu_ns_of(thread: i32) -> Option<u64> {
    // What the kernel makes of such a number: the clock of what a scheduler gave (2) to one thread (4).
    const CLOCK_OF_THREAD: libc::clockid_t = 2 | 4;
    if thread > 0 { try_read(!thread << 3 | CLOCK_OF_THREAD) } else { None }
}

fn read(clock: libc::clockid_t) -> u64 {
    // These clocks are always there.
    try_read(clock).unwrap_or(0)
}

fn try_read(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place is writable, and a clock that is not there is refused.
    let read = unsafe { libc::clock_gettime(clock, &raw mut time) } == 0;
    read.then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;

    #[test]
    fn the_raw_clock_never_goes_back() {
        let looks: Vec<u64> = (0..1000).map(|_| raw_clock_ns()).collect();
        assert!(looks.is_sorted() && looks[0] > 0);
    }

    #[test]
    fn the_wall_clock_is_that_of_the_system() {
        let (before, here) = (SystemTime::now(), wall_clock_ns());
        let after = SystemTime::now();
        let ns = |time: SystemTime| time.duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as u64;
        assert!((ns(before)..=ns(after)).contains(&here));
    }
}
