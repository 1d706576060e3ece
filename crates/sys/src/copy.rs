//! The one copy primitive, and atomics on memory that other processes use at the same time.
//!
//! Such memory never stands behind a Rust reference. On x86-64 the bytes move in inline assembly, which the compiler
//! treats as opaque, so a concurrent writer can change bytes but never make the optimiser assume something false; on
//! other machines they move through relaxed atomics.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering, fence};

/// Copies `length` bytes so that a reader who sees the last byte sees all others: first the body, then the bytes of
/// the last naturally aligned word in ascending order.
///
/// # Safety
/// Both ranges are mapped, `source` readable and `destination` writable, for the duration of the call. They may be
/// written by others meanwhile (then the copied bytes are a mix) and may overlap (then the result is unspecified).
pub unsafe fn copy_ordered(destination: *mut u8, source: *const u8, length: usize) {
    if length == 0 {
        return;
    }
    let last_word = (destination as usize + length - 1) & !7;
    let body = last_word.saturating_sub(destination as usize);
    // SAFETY: `body` is at most `length`, so both calls stay within the ranges the caller vouches for.
    unsafe {
        copy_body(destination, source, body);
        copy_tail(destination.add(body), source.add(body), length - body);
    }
}

#[cfg(target_arch = "x86_64")]
unsafe fn copy_body(destination: *mut u8, source: *const u8, length: usize) {
    if length >= STRING_MOVE_MIN {
        // SAFETY: the caller vouches for both ranges; the direction flag is clear by the calling convention.
        unsafe {
            core::arch::asm!(
                "rep movsb",
                inout("rcx") length => _,
                inout("rdi") destination => _,
                inout("rsi") source => _,
                options(nostack, preserves_flags)
            );
        }
        return;
    }
    let words = length / 8;
    // SAFETY: `words * 8` bytes are within both ranges; the loop touches each word once, whatever its alignment.
    unsafe {
        if words > 0 {
            core::arch::asm!(
                "2:",
                "mov {word}, [{source}]",
                "mov [{destination}], {word}",
                "add {source}, 8",
                "add {destination}, 8",
                "dec {words}",
                "jnz 2b",
                word = out(reg) _,
                words = inout(reg) words => _,
                source = inout(reg) source => _,
                destination = inout(reg) destination => _,
                options(nostack)
            );
        }
        copy_tail(destination.add(words * 8), source.add(words * 8), length - words * 8);
    }
}

/// From here on the microcoded string move beats a loop over words.
#[cfg(target_arch = "x86_64")]
const STRING_MOVE_MIN: usize = 256;

#[cfg(not(target_arch = "x86_64"))]
unsafe fn copy_body(destination: *mut u8, source: *const u8, length: usize) {
    for i in 0..length {
        // SAFETY: `i` is within both ranges; bytes need no alignment.
        unsafe {
            let byte = AtomicU8::from_ptr(source.add(i).cast_mut()).load(Ordering::Relaxed);
            AtomicU8::from_ptr(destination.add(i)).store(byte, Ordering::Relaxed);
        }
    }
}

/// At most 8 bytes, within one aligned word of the destination when called for the end of a copy.
unsafe fn copy_tail(destination: *mut u8, source: *const u8, length: usize) {
    // Orders the body before the tail for a reader that acquires the last byte; no instruction on x86.
    fence(Ordering::Release);
    if length == 8 && (destination as usize).is_multiple_of(8) && (source as usize).is_multiple_of(8) {
        // SAFETY: 8 bytes, aligned, within both ranges.
        unsafe {
            let word = AtomicU64::from_ptr(source.cast_mut().cast()).load(Ordering::Relaxed);
            AtomicU64::from_ptr(destination.cast()).store(word, Ordering::Release);
        }
        return;
    }
    for i in 0..length {
        // SAFETY: `i` is within both ranges; bytes need no alignment.
        unsafe {
            let byte = AtomicU8::from_ptr(source.add(i).cast_mut()).load(Ordering::Relaxed);
            AtomicU8::from_ptr(destination.add(i)).store(byte, Ordering::Release);
        }
    }
}

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
    fn every_length_and_alignment_is_copied_and_nothing_beside_it() {
        let source: Vec<u8> = (0..2048u32).map(|i| (i * 7 + 1) as u8).collect();
        for length in (0..300).chain([511, 512, 513, 1024, 1500]) {
            for (to, from) in [(0, 0), (1, 0), (0, 1), (3, 5), (7, 7), (8, 4)] {
                let mut target = vec![0xEEu8; 2048];
                // SAFETY: `to + length` and `from + length` are below 2048.
                unsafe { copy_ordered(target.as_mut_ptr().add(to), source.as_ptr().add(from), length) };
                assert!(target[..to].iter().all(|&b| b == 0xEE));
                assert_eq!(&target[to..to + length], &source[from..from + length], "{length} {to} {from}");
                assert!(target[to + length..].iter().all(|&b| b == 0xEE));
            }
        }
    }

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
