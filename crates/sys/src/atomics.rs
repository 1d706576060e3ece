//! Atomics on memory that other processes use at the same time.

use std::sync::atomic::{AtomicU64, Ordering};

/// Atomic compare and swap of 8 bytes with the CPU's own instruction; returns what was there.
///
/// # Safety
/// `word` is mapped, writable and 8-byte aligned for the duration of the call.
pub unsafe fn compare_swap_u64(word: *mut u64, compare: u64, swap: u64) -> u64 {
    // SAFETY: the caller vouches for mapping and alignment.
    let word = unsafe { AtomicU64::from_ptr(word) };
    word.compare_exchange(compare, swap, Ordering::AcqRel, Ordering::Acquire).unwrap_or_else(|seen| seen)
}

/// Atomic fetch and add of 8 bytes with the CPU's own instruction; returns what was there.
///
/// # Safety
/// `word` is mapped, writable and 8-byte aligned for the duration of the call.
pub unsafe fn fetch_add_u64(word: *mut u64, add: u64) -> u64 {
    // SAFETY: the caller vouches for mapping and alignment.
    let word = unsafe { AtomicU64::from_ptr(word) };
    word.fetch_add(add, Ordering::AcqRel)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn atomics_return_the_old_value() {
        let mut word = 5u64;
        // SAFETY: a local, aligned word.
        unsafe {
            assert_eq!(fetch_add_u64(&raw mut word, 3), 5);
            assert_eq!(compare_swap_u64(&raw mut word, 1, 2), 8);
            assert_eq!(compare_swap_u64(&raw mut word, 8, 2), 8);
        }
        assert_eq!(word, 2);
    }
}
