//! Bytes that others may write at the same time: never behind a Rust reference, copied by one primitive only.

#![allow(unsafe_code)]

use std::marker::PhantomData;

use nonic_sys::SharedMapping;

use crate::paging::Paging;

/// The bytes do not simply stand there.
const PAGED: usize = 1 << (usize::BITS - 1);
/// Nor are they anywhere.
const NULL: usize = PAGED >> 1;

/// A range of memory that the program, other threads and other processes may write while it is used.
///
/// `'a` is how long the range is known to stand: the life of a mapping, or of the guard that holds off deregistration.
#[derive(Clone, Copy, Debug)]
pub struct SharedSlice<'a> {
    start: *mut u8,
    /// The length in bytes, and above it [`PAGED`] and [`NULL`]: two words in all, so that slices pass in registers.
    extent: usize,
    life: PhantomData<&'a ()>,
}

impl<'a> SharedSlice<'a> {
    /// No bytes.
    pub const EMPTY: Self = Self { start: std::ptr::null_mut(), extent: 0, life: PhantomData };

    /// `length` bytes at `start`.
    ///
    /// # Safety
    /// The range stays mapped for `'a`, readable, and writable if the slice is used as a destination. Whoever passes
    /// a program's own pointer passes on the program's word for that.
    #[inline]
    pub unsafe fn from_raw(start: *mut u8, length: usize) -> Self {
        debug_assert!(length < NULL, "more bytes than there are addresses");
        Self { start, extent: length, life: PhantomData }
    }

    /// `length` bytes at `address`, of which nobody knows whether they are there: if not, whoever copies them has that counted.
    ///
    /// # Safety
    /// What stands there is the program's to have overwritten, if the slice is used as a destination.
    #[cfg(not(loom))]
    #[inline]
    pub(crate) unsafe fn on_demand(address: usize, length: usize) -> Self {
        assert!(length < NULL, "{length} bytes are more than there are addresses");
        let start = std::ptr::without_provenance_mut(address);
        Self { start, extent: PAGED | length, life: PhantomData }
    }

    /// `length` bytes that are none.
    #[inline]
    pub fn null(length: usize) -> Self {
        assert!(length < NULL, "{length} bytes are more than there are addresses");
        Self { start: std::ptr::null_mut(), extent: PAGED | NULL | length, life: PhantomData }
    }

    /// Bytes of this process that nobody else uses meanwhile.
    #[inline]
    pub fn of_private(bytes: &'a mut [u8]) -> Self {
        Self { start: bytes.as_mut_ptr(), extent: bytes.len(), life: PhantomData }
    }

    /// A part of a mapping; `None` if it is not inside.
    #[inline]
    pub fn of_mapping(mapping: &'a SharedMapping, offset: usize, length: usize) -> Option<Self> {
        let end = offset.checked_add(length)?;
        if end > mapping.length() {
            return None;
        }
        // SAFETY: `offset` is inside the mapping, which lives for `'a`.
        Some(unsafe { Self::from_raw(mapping.as_ptr().add(offset), length) })
    }

    /// Length in bytes.
    #[inline]
    pub fn length(&self) -> usize {
        self.extent & (NULL - 1)
    }

    /// Whether there are no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.length() == 0
    }

    /// Address of the first byte in this process.
    #[inline]
    pub fn address(&self) -> usize {
        self.start as usize
    }

    /// `length` bytes from `offset`.
    ///
    /// # Panics
    /// If they are not inside: offsets into a resolved slice are computed, never received.
    #[inline]
    pub fn part(&self, offset: usize, length: usize) -> Self {
        assert!(
            offset <= self.length() && length <= self.length() - offset,
            "part {offset}+{length} of {}",
            self.length()
        );
        let kind = self.extent & (PAGED | NULL);
        Self { start: self.start.wrapping_add(offset), extent: kind | length, ..*self }
    }

    /// Whether the bytes do not simply stand there for as long as the slice: whoever copies asks the operation afterwards whether
    /// all were there, and atomics have no word.
    #[inline]
    pub fn is_paged(&self) -> bool {
        self.extent & PAGED != 0
    }

    /// Whether they are the program's, if it has them.
    #[inline]
    pub fn is_on_demand(&self) -> bool {
        self.paging() == Some(Paging::OnDemand)
    }

    /// How the bytes are copied, if they do not simply stand there.
    #[inline]
    fn paging(&self) -> Option<Paging> {
        match (self.is_paged(), self.extent & NULL != 0) {
            (false, _) => None,
            (true, false) => Some(Paging::OnDemand),
            (true, true) => Some(Paging::Null),
        }
    }

    /// Copies between slices of which one is paged at least, from the first byte to the last, until one is not there.
    #[cold]
    fn copy_paged(&self, source: SharedSlice<'_>) {
        const CHUNK: usize = 4096;
        let mut buffer = [0; CHUNK];
        let mut at = 0;
        while at < source.length() {
            let bytes = &mut buffer[..CHUNK.min(source.length() - at)];
            if !source.part(at, bytes.len()).try_read(bytes) || !self.part(at, bytes.len()).put(bytes) {
                return;
            }
            at += bytes.len();
        }
    }

    /// Copies all bytes out; false if some are not there.
    pub fn try_read(&self, bytes: &mut [u8]) -> bool {
        match self.paging() {
            Some(paging) => paging.read(self.start.addr(), bytes),
            None => {
                self.read(bytes);
                true
            }
        }
    }

    /// Copies all bytes in; false if some are not there.
    fn put(&self, bytes: &[u8]) -> bool {
        match self.paging() {
            // SAFETY: whoever made the slice promised it.
            Some(paging) => unsafe { paging.write(self.start.addr(), bytes) },
            None => {
                self.write(bytes);
                true
            }
        }
    }

    /// Copies all of `source` to the start of this slice, for another core to read; a reader who sees the last byte
    /// sees all.
    ///
    /// # Panics
    /// If `source` is longer.
    #[inline]
    pub fn copy_from(&self, source: SharedSlice<'_>) {
        assert!(source.length() <= self.length(), "{} bytes into {}", source.length(), self.length());
        if self.is_paged() || source.is_paged() {
            return self.copy_paged(source);
        }
        // SAFETY: both slices stand for their lifetimes (promised when they were made) and the length fits in both.
        unsafe { nonic_sys::copy_ordered(self.start, source.start, source.length()) }
    }

    /// [`SharedSlice::copy_from`] for bytes that this core reads next: they stay in its cache.
    ///
    /// # Panics
    /// If `source` is longer.
    #[inline]
    pub fn copy_near_from(&self, source: SharedSlice<'_>) {
        assert!(source.length() <= self.length(), "{} bytes into {}", source.length(), self.length());
        if self.is_paged() || source.is_paged() {
            return self.copy_paged(source);
        }
        // SAFETY: as in `copy_from`.
        unsafe { nonic_sys::copy_ordered_near(self.start, source.start, source.length()) }
    }

    /// Copies private bytes to the start of this slice.
    ///
    /// # Panics
    /// If `source` is longer.
    #[inline]
    pub fn write(&self, source: &[u8]) {
        assert!(source.len() <= self.length(), "{} bytes into {}", source.len(), self.length());
        if self.is_paged() {
            self.put(source);
            return;
        }
        // SAFETY: as in `copy_from`; `source` is an ordinary slice.
        unsafe { nonic_sys::copy_ordered(self.start, source.as_ptr(), source.len()) }
    }

    /// Copies the first bytes of this slice out.
    ///
    /// # Panics
    /// If `destination` is longer.
    #[inline]
    pub fn read(&self, destination: &mut [u8]) {
        assert!(destination.len() <= self.length(), "{} bytes from {}", destination.len(), self.length());
        if self.is_paged() {
            self.try_read(destination);
            return;
        }
        // SAFETY: as in `copy_from`; `destination` is an ordinary slice, exclusively borrowed.
        unsafe { nonic_sys::copy_ordered_near(destination.as_mut_ptr(), self.start, destination.len()) }
    }

    /// Atomic compare and swap of the 8 bytes this slice is; returns what was there.
    ///
    /// # Panics
    /// If it is not 8 aligned bytes.
    #[inline]
    pub fn compare_swap(&self, compare: u64, swap: u64) -> u64 {
        self.assert_word();
        // SAFETY: 8 aligned bytes (asserted) that stand for `'a`.
        unsafe { nonic_sys::compare_swap_u64(self.start.cast(), compare, swap) }
    }

    /// Atomic fetch and add on the 8 bytes this slice is; returns what was there.
    ///
    /// # Panics
    /// If it is not 8 aligned bytes.
    #[inline]
    pub fn fetch_add(&self, add: u64) -> u64 {
        self.assert_word();
        // SAFETY: 8 aligned bytes (asserted) that stand for `'a`.
        unsafe { nonic_sys::fetch_add_u64(self.start.cast(), add) }
    }

    /// Whether it is 8 aligned bytes that stand there, as an atomic needs them.
    #[inline]
    pub fn is_word(&self) -> bool {
        // Eight bytes, and nothing above them.
        self.extent == 8 && (self.start as usize).is_multiple_of(8)
    }

    #[inline]
    fn assert_word(&self) {
        assert!(self.is_word(), "an atomic needs 8 aligned bytes");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paging::Faults;

    #[test]
    fn a_part_beyond_a_mapping_is_refused() {
        let mapping = SharedMapping::anonymous(4096).unwrap();
        assert!(SharedSlice::of_mapping(&mapping, 4000, 96).is_some());
        assert!(SharedSlice::of_mapping(&mapping, 4000, 97).is_none());
        assert!(SharedSlice::of_mapping(&mapping, usize::MAX, 2).is_none());
    }

    #[test]
    fn what_is_written_is_read() {
        let mapping = SharedMapping::anonymous(4096).unwrap();
        let slice = SharedSlice::of_mapping(&mapping, 3, 100).unwrap();
        slice.part(10, 5).write(b"hello");
        let mut seen = [0u8; 5];
        slice.part(10, 5).read(&mut seen);
        assert_eq!(&seen, b"hello");
        let word = SharedSlice::of_mapping(&mapping, 8, 8).unwrap();
        word.write(&5u64.to_ne_bytes());
        assert_eq!(word.fetch_add(2), 5);
        assert_eq!(word.compare_swap(7, 1), 7);
    }

    #[test]
    fn paged_bytes_are_copied_where_they_are_and_missed_where_they_are_not() {
        const LENGTH: usize = 3 * 4096;
        let mapping = SharedMapping::anonymous(LENGTH).unwrap();
        let mapped = SharedSlice::of_mapping(&mapping, 0, LENGTH).unwrap();
        let faults = Faults::default();
        faults.watch();
        // SAFETY: the mapping is this test's, and nobody has a reference to its bytes.
        let paged = |at: usize, length| unsafe { SharedSlice::on_demand(at, length) };
        let start = mapped.address();
        let bytes: Vec<u8> = (0..5000u32).map(|i| (i % 251) as u8).collect();
        let mut seen = vec![9; 5000];
        paged(start + 3, 5000).write(&bytes);
        paged(start + 6000, 5000).copy_from(paged(start + 3, 5000));
        mapped.part(6000, 5000).read(&mut seen);
        assert_eq!(seen, bytes);
        seen.fill(0);
        SharedSlice::of_private(&mut seen).copy_near_from(paged(start + 6000, 5000));
        assert_eq!(seen, bytes);
        assert!(!faults.are_any() && !paged(start, 8).is_word());

        mapped.part(0, 5000).copy_from(SharedSlice::null(5000));
        SharedSlice::null(5000).write(&bytes);
        mapped.part(0, 5000).read(&mut seen);
        assert!(seen.iter().all(|byte| *byte == 0) && !faults.are_any());

        paged(4096, 10).write(&bytes[..10]);
        assert!(faults.are_any());
        let faults = Faults::default();
        faults.watch();
        assert!(!faults.are_any(), "those before are none of this operation");
        mapped.copy_near_from(paged(4096, 10));
        assert!(faults.are_any() && !paged(4096, 10).try_read(&mut seen[..10]));
    }
}
