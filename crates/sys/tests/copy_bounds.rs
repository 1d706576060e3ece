//! Every copy moves what it should and touches nothing else: both ranges lie against pages that may not be touched.

use std::ptr;

use nonic_sys::{STREAM_MIN, copy_ordered, copy_ordered_near, copy_with_threshold};

const PAGE: usize = 4096;

/// Pages with a forbidden one on either side.
struct Guarded {
    start: *mut u8,
    length: usize,
}

impl Guarded {
    fn new(pages: usize) -> Self {
        let length = pages * PAGE;
        // SAFETY: new pages at a place of the kernel's choice; the middle ones are made usable.
        unsafe {
            let all = libc::mmap(
                ptr::null_mut(),
                length + 2 * PAGE,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            assert_ne!(all, libc::MAP_FAILED);
            let start = all.cast::<u8>().add(PAGE);
            assert_eq!(libc::mprotect(start.cast(), length, libc::PROT_READ | libc::PROT_WRITE), 0);
            Self { start, length }
        }
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: mapped as long as this lives, and borrowed as long as the slice lives.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.length) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: what `new` mapped.
        unsafe { libc::munmap(self.start.sub(PAGE).cast(), self.length + 2 * PAGE) };
    }
}

type Copy = unsafe fn(*mut u8, *const u8, usize);

unsafe fn streamed(destination: *mut u8, source: *const u8, length: usize) {
    // SAFETY: as the caller vouches.
    unsafe { copy_with_threshold(destination, source, length, 0) }
}

struct Bench {
    source: Guarded,
    target: Guarded,
    /// What the target holds outside the range: checked as a whole, and mended where a copy wrote.
    untouched: Vec<u8>,
}

impl Bench {
    fn new(longest: usize) -> Self {
        let pages = (longest + 128).div_ceil(PAGE);
        let (mut source, mut target) = (Guarded::new(pages), Guarded::new(pages));
        for (i, byte) in source.bytes().iter_mut().enumerate() {
            *byte = (i * 7 + i / 251 + 1) as u8 & 0x7f;
        }
        target.bytes().fill(0xEE);
        let untouched = vec![0xEE; pages * PAGE];
        Self { source, target, untouched }
    }

    fn check(&mut self, copy: Copy, to: usize, from: usize, length: usize) {
        let target = self.target.bytes();
        // SAFETY: both ranges are inside; what lies beyond is there to fault.
        unsafe { copy(target.as_mut_ptr().add(to), self.source.start.add(from), length) };
        let expected = &self.source.bytes()[from..from + length];
        assert!(target[to..to + length] == *expected, "{length} bytes from {from} to {to}");
        target[to..to + length].fill(0xEE);
        assert!(*target == self.untouched, "beside {length} bytes from {from} to {to}");
    }

    /// With the ranges against the forbidden pages, at the beginning and at the end.
    fn check_both_ends(&mut self, copy: Copy, to: usize, from: usize, length: usize) {
        self.check(copy, to, from, length);
        let end = self.target.length;
        self.check(copy, end - length - to, end - length - from, length);
    }
}

const WAYS: [Copy; 3] = [copy_ordered, copy_ordered_near, streamed];

#[test]
fn every_short_length_is_copied_exactly_at_every_alignment_of_either_side() {
    let mut bench = Bench::new(600);
    for copy in WAYS {
        for length in 0..=600 {
            for offset in 0..64 {
                bench.check_both_ends(copy, offset, 0, length);
                bench.check_both_ends(copy, 0, offset, length);
                bench.check_both_ends(copy, offset, 63 - offset, length);
            }
        }
    }
}

#[test]
fn lengths_around_every_threshold_are_copied_exactly_at_every_pair_of_alignments() {
    let mut bench = Bench::new(600);
    for copy in WAYS {
        for length in [7, 8, 9, 15, 16, 17, 33, 63, 64, 65, 72, 73, 127, 128, 129, 136, 255, 256, 257, 320] {
            for to in 0..=64 {
                for from in 0..=64 {
                    bench.check_both_ends(copy, to, from, length);
                }
            }
        }
    }
}

#[test]
fn long_copies_are_exact_around_the_threshold_of_streaming() {
    let mut bench = Bench::new(STREAM_MIN + 64);
    for copy in WAYS {
        for length in STREAM_MIN - 9..=STREAM_MIN + 9 {
            for offset in [0, 1, 7, 8, 31, 32, 33, 63] {
                bench.check_both_ends(copy, offset, 0, length);
                bench.check_both_ends(copy, 0, offset, length);
                bench.check_both_ends(copy, offset, offset, length);
            }
        }
    }
}
