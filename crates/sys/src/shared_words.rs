//! Words of shared memory that are found without a check.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::SharedMapping;

/// Words of a mapping, found by number. Numbers wrap around at their count, so that finding one needs no check.
#[derive(Clone, Debug)]
pub struct SharedWords {
    start: NonNull<AtomicU64>,
    mask: usize,
    /// Keeps the words mapped.
    mapping: Arc<SharedMapping>,
}

// SAFETY: the words are atomics of a mapping that may be shared.
unsafe impl Send for SharedWords {}
// SAFETY: as above.
unsafe impl Sync for SharedWords {}

impl SharedWords {
    /// `count` words from byte `offset` on.
    ///
    /// # Panics
    /// If they are not inside, `offset` is not a multiple of 8, or `count` is no power of two.
    pub fn new(mapping: Arc<SharedMapping>, offset: usize, count: usize) -> Self {
        assert!(count.is_power_of_two() && offset.is_multiple_of(8), "{count} words at {offset}");
        let inside = count
            .checked_mul(8)
            .is_some_and(|length| offset <= mapping.length() && length <= mapping.length() - offset);
        assert!(inside, "{count} words at {offset} are outside");
        // SAFETY: inside the mapping, as just seen, so not at null.
        let start = unsafe { NonNull::new_unchecked(mapping.as_ptr().add(offset).cast()) };
        Self { start, mask: count - 1, mapping }
    }

    /// The word of a number, counted from the first again beyond the last.
    #[inline(always)]
    pub fn at(&self, number: usize) -> &AtomicU64 {
        // SAFETY: below the count, so inside the mapping, which this keeps.
        unsafe { self.start.add(number & self.mask).as_ref() }
    }

    /// The mapping they are of.
    #[inline]
    pub fn mapping(&self) -> &Arc<SharedMapping> {
        &self.mapping
    }
}

/// `N` words of a mapping, found without a check.
#[derive(Clone, Debug)]
pub struct SharedBlock<const N: usize> {
    start: NonNull<[AtomicU64; N]>,
    /// Keeps the words mapped.
    _mapping: Arc<SharedMapping>,
}

// SAFETY: as for `SharedWords`.
unsafe impl<const N: usize> Send for SharedBlock<N> {}
// SAFETY: as above.
unsafe impl<const N: usize> Sync for SharedBlock<N> {}

impl<const N: usize> SharedBlock<N> {
    /// Those from byte `offset` on.
    ///
    /// # Panics
    /// If they are not inside, or `offset` is not a multiple of 8.
    pub fn new(mapping: Arc<SharedMapping>, offset: usize) -> Self {
        let inside = offset <= mapping.length() && N <= (mapping.length() - offset) / 8;
        assert!(inside && offset.is_multiple_of(8), "{N} words at {offset} are outside");
        // SAFETY: inside the mapping, as just seen, so not at null.
        let start = unsafe { NonNull::new_unchecked(mapping.as_ptr().add(offset).cast()) };
        Self { start, _mapping: mapping }
    }

    /// The words.
    #[inline(always)]
    pub fn words(&self) -> &[AtomicU64; N] {
        // SAFETY: inside the mapping, which this keeps; they are atomics, and aligned, since mappings begin with a page.
        unsafe { self.start.as_ref() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn a_block_is_inside_its_mapping() {
        let mapping = Arc::new(SharedMapping::anonymous(4096).unwrap());
        let block = SharedBlock::<2>::new(Arc::clone(&mapping), 4080);
        block.words()[1].store(5, Ordering::Relaxed);
        assert_eq!(mapping.word(4088).load(Ordering::Relaxed), 5);
        for offset in [4076, 4088, 4096, 4104, usize::MAX - 7] {
            let mapping = Arc::clone(&mapping);
            assert!(std::panic::catch_unwind(move || SharedBlock::<2>::new(mapping, offset)).is_err());
        }
    }

    #[test]
    fn words_are_found_by_number_and_wrap_around() {
        let mapping = Arc::new(SharedMapping::anonymous(4096).unwrap());
        let words = SharedWords::new(Arc::clone(&mapping), 4032, 8);
        words.at(7).store(5, Ordering::Relaxed);
        assert_eq!(mapping.word(4088).load(Ordering::Relaxed), 5);
        words.at(8).store(6, Ordering::Relaxed);
        assert_eq!(mapping.word(4032).load(Ordering::Relaxed), 6);
        for (offset, count) in [(4040, 8), (4032, 7), (4036, 4), (8192, 1), (0, usize::MAX / 2 + 1)] {
            let mapping = Arc::clone(&mapping);
            assert!(std::panic::catch_unwind(move || SharedWords::new(mapping, offset, count)).is_err());
        }
    }
}
