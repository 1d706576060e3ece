//! For tests that run beside others in one process: a child of another test has this one's descriptors, too, until it ends.

use std::time::{Duration, Instant};

/// Waits until something is so, for as long as a busy machine may need; whether it came to be.
pub(crate) fn comes_true(mut is_so: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::yield_now();
    }
    true
}
