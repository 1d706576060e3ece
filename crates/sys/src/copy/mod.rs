//! The one copy primitive.
//!
//! Memory that other processes write never stands behind a Rust reference. On x86-64 the bytes move in inline assembly,
//! which the compiler treats as opaque, so a concurrent writer can change bytes but never make the optimiser assume
//! something false; on other machines they move through relaxed atomics.
//!
//! A copy is a *body* and a *last word*: the bytes of the last naturally aligned word of the destination. The body may
//! be stored in any order and more than once; the last word comes after it, in ascending order, with stores that the
//! machine never divides. So whoever sees the last byte sees all others.

#[cfg(target_arch = "x86_64")]
mod lines;
#[cfg(not(target_arch = "x86_64"))]
mod portable;
#[cfg(target_arch = "x86_64")]
mod words;

#[cfg(target_arch = "x86_64")]
use {lines::copy_lines, words::copy_words};

/// From this many bytes on, [`copy_ordered`] stores past the caches.
///
/// A plain store fetches the line it writes to first, from the cache of whoever used it last, and leaves it in this
/// core's, from where the next reader fetches it again. A store past the caches does neither, but what it wrote must be
/// read from farther away. So it depends on how far the two cores are from each other, which changes whenever the
/// scheduler moves a thread, and no measurement at start can know. What can be had is a threshold that is never far
/// wrong (`examples/copy_speed.rs` measures it; GB/s of copying and then reading on the other core, plain and streamed):
///
/// | bytes | cores share a cache | cores far apart |
/// |---|---|---|
/// | 2 KiB | 8.1, 3.3 | 1.6, 2.1 |
/// | 4 KiB | 6.1, 5.4 | 1.6, 3.2 |
/// | 8 KiB | 6.8, 6.7 | 1.7, 5.0 |
/// | 64 KiB | 19, 14 | 2.2, 13 |
/// | 1 MiB | 19, 16 | 2.2, 16 |
///
/// At 8 KiB streaming begins to cost nothing between near cores and gains threefold between far ones; above, the worst
/// is a loss of a quarter against a gain of six times.
pub const STREAM_MIN: usize = 8 * 1024;

/// Copies `length` bytes so that a reader who sees the last byte sees all others. For bytes that another core reads
/// next, or nobody.
///
/// # Safety
/// Both ranges are mapped, `source` readable and `destination` writable, for the duration of the call. They may be
/// written by others meanwhile (then the copied bytes are a mix) and may overlap (then the result is unspecified).
#[inline]
pub unsafe fn copy_ordered(destination: *mut u8, source: *const u8, length: usize) {
    // SAFETY: as the caller vouches.
    unsafe { copy(destination, source, length, STREAM_MIN) }
}

/// [`copy_ordered`] for bytes that this core reads next: they stay in its cache, whatever their number. Of any size that
/// fits there, this and the reading afterwards take two thirds of the time.
///
/// # Safety
/// As for [`copy_ordered`].
#[inline]
pub unsafe fn copy_ordered_near(destination: *mut u8, source: *const u8, length: usize) {
    // SAFETY: as the caller vouches.
    unsafe { copy(destination, source, length, usize::MAX) }
}

/// [`copy_ordered`] with a threshold of the caller's, to measure with: from `stream_min` bytes on it stores past the
/// caches.
///
/// # Safety
/// As for [`copy_ordered`].
#[doc(hidden)]
#[inline]
pub unsafe fn copy_with_threshold(destination: *mut u8, source: *const u8, length: usize, stream_min: usize) {
    // SAFETY: as the caller vouches.
    unsafe { copy(destination, source, length, stream_min) }
}

#[cfg(target_arch = "x86_64")]
#[inline]
unsafe fn copy(destination: *mut u8, source: *const u8, length: usize, stream_min: usize) {
    // SAFETY: the caller vouches for `length` bytes; both functions stay within them.
    unsafe {
        if length <= words::MOST {
            copy_words(destination, source, length);
        } else {
            copy_lines(destination, source, length, stream_min);
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn copy(destination: *mut u8, source: *const u8, length: usize, _: usize) {
    // SAFETY: as the caller vouches.
    unsafe { portable::copy(destination, source, length) }
}

/// Of a copy that is not empty: the bytes before the last aligned word of the destination.
#[inline]
fn body_of(destination: *mut u8, length: usize) -> usize {
    let last_word = (destination as usize + length - 1) & !7;
    last_word.saturating_sub(destination as usize)
}
