//! The address space that the heap's memory comes from, reserved in a few large pieces and lent in blocks.
//!
//! It is reserved before it is needed, so that the heap grows into addresses of its own and never into a hole that the program
//! has just made and counts on. The owners of the heap's lock change what is here; anybody may ask whether an address is
//! inside.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use nonic_sys::{
    PAGE, address_space_is_unlimited, leave_out_of_dumps, lend_pages, reserve_addresses, take_pages_back,
    tell_leak_checker,
};

/// What is lent is a multiple of this many bytes, at a multiple of it.
pub(crate) const BLOCK: usize = 64 * 1024;
/// A range, where address space costs nothing.
const RANGE: usize = 1 << 30;
/// A range, where the process may only have so much (`RLIMIT_AS`).
const SMALL_RANGE: usize = 32 << 20;
const RANGES: usize = 64;
const WORDS: usize = RANGE / BLOCK / 64;
/// What `/proc/PID/maps` calls the memory.
const NAME: &std::ffi::CStr = c"nonic";

/// All ranges. Each stays once it is reserved.
pub(crate) struct Ranges {
    count: AtomicUsize,
    ranges: [Range; RANGES],
}

struct Range {
    start: AtomicUsize,
    blocks: AtomicUsize,
    /// A bit for each block that is lent.
    lent: [AtomicU64; WORDS],
}

impl Ranges {
    pub(crate) const fn new() -> Self {
        Self { count: AtomicUsize::new(0), ranges: [const { Range::new() }; RANGES] }
    }

    /// Whether an address is of one of the ranges.
    #[inline]
    pub(crate) fn hold(&self, address: usize) -> bool {
        self.known().iter().any(|range| range.holds(address))
    }

    fn known(&self) -> &[Range] {
        &self.ranges[..self.count.load(Acquire)]
    }

    /// Lends `length` bytes of zeros at a multiple of [`BLOCK`].
    pub(crate) fn lend(&self, length: usize) -> Option<usize> {
        if length > RANGE {
            return None;
        }
        self.known().iter().find_map(|range| range.lend(length)).or_else(|| self.add()?.lend(length))
    }

    fn add(&self) -> Option<&Range> {
        let count = self.count.load(Relaxed);
        let range = self.ranges.get(count)?;
        let length = if address_space_is_unlimited() { RANGE } else { SMALL_RANGE };
        // One block more, so that the rest begins at a multiple of a block.
        let start = reserve_addresses(0, length + BLOCK).ok()?;
        leave_out_of_dumps(start, length + BLOCK);
        // What only the library's objects lead to, such as a program's contexts, is not lost.
        tell_leak_checker(start, length + BLOCK);
        range.start.store(start.next_multiple_of(BLOCK), Relaxed);
        range.blocks.store(length / BLOCK, Relaxed);
        self.count.store(count + 1, Release);
        Some(range)
    }

    /// Gives back what was lent, or the end of it: `length` bytes from `address` on.
    ///
    /// # Safety
    /// All of it is lent, and nobody uses it any more.
    pub(crate) unsafe fn give_back(&self, address: usize, length: usize) -> bool {
        // SAFETY: as the caller says.
        self.known()
            .iter()
            .find(|range| range.holds(address))
            .is_some_and(|range| unsafe { range.give_back(address, length) })
    }
}

impl Range {
    const fn new() -> Self {
        Self {
            start: AtomicUsize::new(0),
            blocks: AtomicUsize::new(0),
            lent: [const { AtomicU64::new(0) }; WORDS],
        }
    }

    #[inline]
    fn holds(&self, address: usize) -> bool {
        address.wrapping_sub(self.start.load(Relaxed)) < self.blocks.load(Relaxed) * BLOCK
    }

    fn lend(&self, length: usize) -> Option<usize> {
        let count = length.div_ceil(BLOCK);
        let first = self.find_free(count)?;
        let address = self.start.load(Relaxed) + first * BLOCK;
        // SAFETY: of this range, and no block of it is lent.
        unsafe { lend_pages(address, length.next_multiple_of(PAGE), NAME).ok()? };
        self.mark(first, count, true);
        Some(address)
    }

    unsafe fn give_back(&self, address: usize, length: usize) -> bool {
        // SAFETY: lent, as the caller says.
        let gone = unsafe { take_pages_back(address, length.next_multiple_of(PAGE)) }.is_ok();
        if gone {
            self.mark((address - self.start.load(Relaxed)) / BLOCK, length.div_ceil(BLOCK), false);
        }
        gone
    }

    fn mark(&self, first: usize, count: usize, lent: bool) {
        for block in first..first + count {
            let (word, bit) = (&self.lent[block / 64], 1 << (block % 64));
            let before = word.load(Relaxed);
            word.store(if lent { before | bit } else { before & !bit }, Relaxed);
        }
    }

    /// The first of the lowest `count` neighbouring blocks that are free.
    fn find_free(&self, count: usize) -> Option<usize> {
        let mut first = self.next(0, false);
        while first + count <= self.blocks.load(Relaxed) {
            let end = self.next(first, true);
            if end - first >= count {
                return Some(first);
            }
            first = self.next(end, false);
        }
        None
    }

    /// The first block from `block` on that is lent, or is not; the number of blocks if there is none.
    fn next(&self, block: usize, lent: bool) -> usize {
        let end = self.blocks.load(Relaxed);
        let mut block = block;
        while block < end {
            let word = self.lent[block / 64].load(Relaxed);
            let wanted = (if lent { word } else { !word }) >> (block % 64);
            if wanted != 0 {
                return (block + wanted.trailing_zeros() as usize).min(end);
            }
            block = (block / 64 + 1) * 64;
        }
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_blocks_that_fit_are_lent_and_come_back() {
        let ranges = Ranges::new();
        let lend = |blocks: usize| ranges.lend(blocks * BLOCK).unwrap();
        let [a, b, c] = [lend(1), lend(70), lend(2)];
        assert_eq!([b, c], [a + BLOCK, a + 71 * BLOCK]);
        assert!(
            ranges.hold(a) && ranges.hold(a + RANGE - 1) && !ranges.hold(a + RANGE) && !ranges.hold(a - 1)
        );
        // SAFETY: lent above, used by nobody.
        unsafe {
            assert!(ranges.give_back(b, 70 * BLOCK));
            assert_eq!((lend(71), lend(69), lend(1)), (c + 2 * BLOCK, b, b + 69 * BLOCK));
            // The end of what was lent.
            assert!(ranges.give_back(b + 4 * BLOCK, 65 * BLOCK));
        }
        assert_eq!(lend(66), c + 73 * BLOCK);
        assert_eq!(lend(65), b + 4 * BLOCK);
    }

    #[test]
    fn a_full_range_is_followed_by_another_and_more_than_a_range_is_refused() {
        let ranges = Ranges::new();
        let whole = ranges.lend(RANGE).unwrap();
        let next = ranges.lend(1).unwrap();
        assert!(!(whole..whole + RANGE).contains(&next) && ranges.hold(next));
        assert_eq!(ranges.lend(RANGE + 1), None);
        // SAFETY: lent above, used by nobody.
        assert!(unsafe { ranges.give_back(whole, RANGE) });
        assert_eq!(ranges.lend(RANGE), Some(whole));
    }
}
