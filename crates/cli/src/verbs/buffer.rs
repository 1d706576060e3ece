//! Memory that a peer may read and write at any moment.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

const PAGE: usize = 4096;

/// Whole pages of memory, zero at first, only ever touched by atomic loads and stores: a peer's write may change what
/// is read, but is never undefined.
pub(crate) struct Buffer {
    start: NonNull<u8>,
    length: usize,
    /// What was allocated, which begins at `start` or before it.
    allocation: (NonNull<u8>, Layout),
}

/// The first place where bytes are not what they should be.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {offset} and the seven after it are {found:#018x} and should be {expected:#018x}")]
pub(crate) struct Mismatch {
    offset: usize,
    found: u64,
    expected: u64,
}

impl Buffer {
    /// That many bytes, rounded up to pages.
    pub(crate) fn new(length: usize) -> Self {
        let layout =
            Layout::from_size_align(length.max(1).next_multiple_of(PAGE), PAGE).expect("a reasonable size");
        // SAFETY: the size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        let start = NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout));
        Self { start, length: layout.size(), allocation: (start, layout) }
    }

    /// That many bytes, rounded up to pages, of which none has been touched yet if they are many.
    pub(crate) fn untouched(length: usize) -> Self {
        let length = length.max(1).next_multiple_of(PAGE);
        // Without a wish for alignment zeros come from calloc, which takes large blocks fresh from the kernel and leaves
        // them alone; with one, every page would be written. So the alignment is made here, within a page more.
        let layout = Layout::from_size_align(length + PAGE, 16).expect("a reasonable size");
        // SAFETY: the size is not zero.
        let allocated = unsafe { alloc_zeroed(layout) };
        let allocated = NonNull::new(allocated).unwrap_or_else(|| handle_alloc_error(layout));
        // SAFETY: less than a page on, and a page more than `length` was allocated.
        let start = unsafe { allocated.add(allocated.align_offset(PAGE)) };
        Self { start, length, allocation: (allocated, layout) }
    }

    /// Bytes in it.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Its first byte.
    pub(crate) fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Loads the eight bytes at `offset`, a multiple of 8; what was written before them is seen after.
    pub(crate) fn load(&self, offset: usize) -> u64 {
        self.word(offset).load(Ordering::Acquire)
    }

    /// Stores the eight bytes at `offset`, a multiple of 8.
    pub(crate) fn store(&self, offset: usize, value: u64) {
        self.word(offset).store(value, Ordering::Release);
    }

    /// Loads one byte; what was written before it is seen after.
    pub(crate) fn load_byte(&self, offset: usize) -> u8 {
        assert!(offset < self.len(), "byte {offset} of {}", self.len());
        // SAFETY: inside the allocation (asserted above), and every access to it is atomic.
        unsafe { AtomicU8::from_ptr(self.as_ptr().add(offset)) }.load(Ordering::Acquire)
    }

    /// Stores one byte.
    pub(crate) fn store_byte(&self, offset: usize, value: u8) {
        assert!(offset < self.len(), "byte {offset} of {}", self.len());
        // SAFETY: as in `load_byte`.
        unsafe { AtomicU8::from_ptr(self.as_ptr().add(offset)) }.store(value, Ordering::Release);
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(
            offset.is_multiple_of(8) && offset + 8 <= self.len(),
            "word at byte {offset} of {}",
            self.len()
        );
        // SAFETY: aligned, since the allocation is and `offset` is a multiple of 8; inside it (asserted above); and
        // every access to it is atomic.
        unsafe { AtomicU64::from_ptr(self.as_ptr().add(offset).cast()) }
    }

    /// Fills a range of whole words with the pattern of `seed`.
    pub(crate) fn fill(&self, range: Range<usize>, seed: u64) {
        for offset in range.step_by(8) {
            self.word(offset).store(pattern(seed, offset), Ordering::Relaxed);
        }
        std::sync::atomic::fence(Ordering::SeqCst);
    }

    /// Whether a range of whole words holds the pattern of `seed` as filled from the offset `origin` on.
    pub(crate) fn check(&self, range: Range<usize>, seed: u64, origin: usize) -> Result<(), Mismatch> {
        for offset in range.clone().step_by(8) {
            let (found, expected) = (self.load(offset), pattern(seed, origin + offset - range.start));
            if found != expected {
                return Err(Mismatch { offset, found, expected });
            }
        }
        Ok(())
    }

    /// Sets a range of whole words to zero.
    pub(crate) fn clear(&self, range: Range<usize>) {
        for offset in range.step_by(8) {
            self.store(offset, 0);
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let (allocated, layout) = self.allocation;
        // SAFETY: the allocation was made with this layout and is freed once.
        unsafe { dealloc(allocated.as_ptr(), layout) };
    }
}

/// What the eight bytes at `offset` hold under `seed`: different at each place, and never with a zero in the last byte,
/// so that its arrival shows.
pub(crate) fn pattern(seed: u64, offset: usize) -> u64 {
    let mixed = (offset as u64 ^ seed << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29) | 1 << 56
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_recognised_and_one_changed_byte_is_found() {
        let buffer = Buffer::new(100);
        assert_eq!(buffer.len(), PAGE);
        buffer.fill(0..64, 3);
        assert_eq!(buffer.check(0..64, 3, 0), Ok(()));
        assert!(buffer.check(0..64, 4, 0).is_err());
        buffer.store(8, 0);
        assert_eq!(buffer.check(0..64, 3, 0).map_err(|mismatch| mismatch.offset), Err(8));
    }

    #[test]
    fn a_buffer_is_whole_pages_of_zeros_touched_or_not() {
        for buffer in [Buffer::new(5000), Buffer::untouched(5000)] {
            assert_eq!((buffer.len(), buffer.as_ptr().addr() % PAGE), (2 * PAGE, 0));
            assert!((0..buffer.len()).step_by(8).all(|offset| buffer.load(offset) == 0));
            buffer.store_byte(buffer.len() - 1, 7);
            assert_eq!(buffer.load_byte(buffer.len() - 1), 7);
        }
    }

    #[test]
    fn the_last_byte_of_a_pattern_is_never_zero() {
        assert!((0..4096).step_by(8).all(|offset| pattern(7, offset).to_le_bytes()[7] != 0));
    }

    #[test]
    #[should_panic(expected = "word at byte 4096")]
    fn a_word_beyond_the_end_is_never_touched() {
        Buffer::new(PAGE).load(PAGE);
    }
}
