//! Shadows: memory as peers see it where nothing keeps it the same as the program sees it (non-coherent memory).
//!
//! A shadow is a copy of a region's bytes, of the owner's alone. What peers write lands there, and a book says where; what
//! they read comes from there. Nothing passes between the shadow and the program's memory but when the program says so:
//! what peers wrote is shown to it, or what it wrote is published to them.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use nonic_sys::SharedMapping;

use crate::SharedSlice;

/// Bytes copied at most before peers are let in again.
const CHUNK: u64 = 1 << 20;

/// The bytes, and the book of what peers wrote and the program was not shown yet.
#[derive(Debug)]
pub struct Shadow {
    bytes: SharedMapping,
    /// Where the first byte stands, so that words are aligned as in the program's memory.
    lead: usize,
    length: u64,
    /// Held also while bytes are copied: what is noted is there, and nothing half copied is overwritten.
    written: Mutex<Written>,
}

impl Shadow {
    /// A shadow of `length` bytes for memory at `address`, zero so far.
    pub fn create(address: u64, length: u64) -> io::Result<Self> {
        const LINE: u64 = 64;
        let lead = (address % LINE) as usize;
        let size = usize::try_from(length).ok().and_then(|length| length.checked_add(lead));
        let bytes = SharedMapping::anonymous(size.ok_or(io::ErrorKind::OutOfMemory)?)?;
        Ok(Self { bytes, lead, length, written: Mutex::default() })
    }

    /// Length in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    fn book(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `length` bytes from `offset`, as peers read them. `None` if they are not inside.
    pub fn slice(&self, offset: u64, length: u64) -> Option<SharedSlice<'_>> {
        if offset.checked_add(length)? > self.length {
            return None;
        }
        SharedSlice::of_mapping(&self.bytes, self.lead + offset as usize, length as usize)
    }

    /// Places what a peer writes. Nothing happens if it is not inside.
    pub fn write(&self, offset: u64, source: SharedSlice<'_>) {
        let length = source.length() as u64;
        let Some(place) = self.slice(offset, length) else { return };
        let mut book = self.book();
        place.copy_near_from(source);
        book.note(offset..offset + length);
    }

    /// Has a peer change the word at `offset`. `None`, and nothing happens, if it is not inside.
    pub fn change<R>(&self, offset: u64, change: impl FnOnce(SharedSlice<'_>) -> R) -> Option<R> {
        const WORD: u64 = 8;
        let word = self.slice(offset, WORD)?;
        let mut book = self.book();
        let result = change(word);
        book.note(offset..offset + WORD);
        Some(result)
    }

    /// Hands what peers wrote in a range to `show`, piece by piece in ascending order, and forgets it. The cost follows what was
    /// written, not the length of the range. What a peer writes meanwhile may or may not be among it, and is not lost.
    pub fn take_written(&self, range: Range<u64>, mut show: impl FnMut(u64, SharedSlice<'_>)) {
        let mut at = range.start;
        while at < range.end {
            let mut book = self.book();
            let Some(piece) = book.first_within(at..range.end) else { return };
            let piece = piece.start..piece.end.min(piece.start + CHUNK);
            if let Some(bytes) = self.slice(piece.start, piece.end - piece.start) {
                show(piece.start, bytes);
            }
            book.forget(piece.clone());
            at = piece.end;
        }
    }

    /// Has peers see what the program wrote in a range: `copy` is handed the places to fill, in ascending order. What peers wrote
    /// there, and the program was not shown, stays.
    pub fn publish(&self, range: Range<u64>, mut copy: impl FnMut(u64, SharedSlice<'_>)) {
        let mut at = range.start;
        while at < range.end {
            let end = range.end.min(at + CHUNK);
            let book = self.book();
            while at < end {
                let kept = book.first_within(at..end).unwrap_or(end..end);
                if at < kept.start
                    && let Some(place) = self.slice(at, kept.start - at)
                {
                    copy(at, place);
                }
                at = kept.end;
            }
        }
    }

    /// How many bytes of a range peers wrote that the program was not shown.
    pub fn written(&self, range: Range<u64>) -> u64 {
        let (book, mut at, mut count) = (self.book(), range.start, 0);
        while let Some(piece) = book.first_within(at..range.end) {
            count += piece.end - piece.start;
            at = piece.end;
        }
        count
    }
}

/// Intervals: start and end. No two of them touch.
#[derive(Debug, Default)]
struct Written(BTreeMap<u64, u64>);

impl Written {
    fn note(&mut self, mut new: Range<u64>) {
        if new.is_empty() {
            return;
        }
        // Those that begin at its end or before, from the last on, until one ends before its start.
        while let Some((&start, &end)) = self.0.range(..=new.end).next_back()
            && end >= new.start
        {
            self.0.remove(&start);
            new = new.start.min(start)..new.end.max(end);
        }
        self.0.insert(new.start, new.end);
    }

    /// The first noted piece inside a range, cut to it.
    fn first_within(&self, range: Range<u64>) -> Option<Range<u64>> {
        if range.is_empty() {
            return None;
        }
        if let Some((_, &end)) = self.0.range(..=range.start).next_back()
            && end > range.start
        {
            return Some(range.start..end.min(range.end));
        }
        let (&start, &end) = self.0.range(range.clone()).next()?;
        Some(start..end.min(range.end))
    }

    /// Forgets a range that lies inside one interval.
    fn forget(&mut self, range: Range<u64>) {
        let Some((&start, &end)) = self.0.range(..=range.start).next_back() else { return };
        self.0.remove(&start);
        if start < range.start {
            self.0.insert(start, range.start);
        }
        if range.end < end {
            self.0.insert(range.end, end);
        }
    }
}

/// The shadows of a process, by their numbers. A number is never used again.
#[derive(Debug, Default)]
pub struct Shadows(RwLock<Numbered>);

#[derive(Debug, Default)]
struct Numbered {
    next: u32,
    shadows: HashMap<u32, Arc<Shadow>>,
}

impl Shadows {
    /// Enters a shadow; `None` if all numbers are used up.
    pub fn add(&self, shadow: Arc<Shadow>) -> Option<u32> {
        let mut numbered = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let number = numbered.next;
        numbered.next = number.checked_add(1)?;
        numbered.shadows.insert(number, shadow);
        Some(number)
    }

    /// Forgets a shadow.
    pub fn remove(&self, number: u32) {
        let removed = self.0.write().unwrap_or_else(PoisonError::into_inner).shadows.remove(&number);
        drop(removed);
    }

    /// The shadow of a number.
    pub fn find(&self, number: u32) -> Option<Arc<Shadow>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).shadows.get(&number).cloned()
    }
}

/// Bytes of a shadow that a peer names, for the owner to read or change on its behalf.
#[derive(Debug)]
pub struct ShadowBytes {
    pub(crate) shadow: Arc<Shadow>,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

impl ShadowBytes {
    /// Writes `source` at `at` bytes from the first.
    pub fn write(&self, at: usize, source: SharedSlice<'_>) {
        self.shadow.write(self.offset + at as u64, source);
    }

    /// The bytes, to be read.
    pub fn slice(&self) -> SharedSlice<'_> {
        self.shadow.slice(self.offset, self.length).unwrap_or(SharedSlice::EMPTY)
    }

    /// Runs `change` on the bytes, which are the aligned word of an atomic.
    pub fn change<R>(&self, change: impl FnOnce(SharedSlice<'_>) -> R) -> Option<R> {
        self.shadow.change(self.offset, change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shadow(length: u64) -> Shadow {
        Shadow::create(0x1003, length).unwrap()
    }

    fn write(shadow: &Shadow, offset: u64, bytes: &[u8]) {
        shadow.write(offset, SharedSlice::of_private(&mut bytes.to_vec()));
    }

    fn take(shadow: &Shadow, range: Range<u64>) -> Vec<(u64, Vec<u8>)> {
        let mut pieces = Vec::new();
        shadow.take_written(range, |offset, bytes| {
            let mut seen = vec![0; bytes.length()];
            bytes.read(&mut seen);
            pieces.push((offset, seen));
        });
        pieces
    }

    #[test]
    fn what_is_written_is_shown_once_and_no_more_than_that() {
        let shadow = shadow(100);
        write(&shadow, 10, b"abc");
        write(&shadow, 13, b"def");
        write(&shadow, 40, b"xyz");
        assert_eq!(shadow.written(0..100), 9);
        assert_eq!(take(&shadow, 12..41), [(12, b"cdef".to_vec()), (40, b"x".to_vec())]);
        assert_eq!(take(&shadow, 0..100), [(10, b"ab".to_vec()), (41, b"yz".to_vec())]);
        assert_eq!(take(&shadow, 0..100), []);
    }

    #[test]
    fn what_is_outside_moves_nothing() {
        let shadow = shadow(16);
        write(&shadow, 14, b"abc");
        write(&shadow, u64::MAX, b"abc");
        assert_eq!(shadow.change(9, |_| ()), None);
        assert_eq!(shadow.written(0..16), 0);
        assert!(shadow.slice(16, 1).is_none() && shadow.slice(u64::MAX, 2).is_none());
    }

    #[test]
    fn publishing_leaves_what_peers_wrote() {
        let shadow = shadow(3 * CHUNK);
        let middle = CHUNK - 2;
        write(&shadow, middle, b"peer");
        let mut places = Vec::new();
        shadow.publish(1..3 * CHUNK, |offset, place| {
            places.push((offset, place.length() as u64));
            place.write(&vec![7; place.length()]);
        });
        assert_eq!(places.iter().map(|(_, length)| length).sum::<u64>(), 3 * CHUNK - 1 - 4);
        let mut seen = [0; 8];
        shadow.slice(middle - 2, 8).unwrap().read(&mut seen);
        assert_eq!(&seen, b"\x07\x07peer\x07\x07");
        assert_eq!(take(&shadow, 0..3 * CHUNK).concat_bytes(), b"peer");
    }

    trait ConcatBytes {
        fn concat_bytes(&self) -> Vec<u8>;
    }

    impl ConcatBytes for Vec<(u64, Vec<u8>)> {
        fn concat_bytes(&self) -> Vec<u8> {
            self.iter().flat_map(|(_, bytes)| bytes.clone()).collect()
        }
    }

    #[test]
    fn words_are_aligned_as_in_the_memory_they_shadow() {
        let shadow = Arc::new(shadow(64));
        let at = |offset| ShadowBytes { shadow: Arc::clone(&shadow), offset, length: 8 };
        assert!(at(5).slice().is_word() && !at(6).slice().is_word());
        assert_eq!(at(5).change(|word| word.fetch_add(3)), Some(0));
        assert_eq!(at(5).change(|word| word.fetch_add(3)), Some(3));
        assert_eq!(shadow.written(0..64), 8);
    }

    #[test]
    fn a_number_leads_to_its_shadow_until_it_goes() {
        let (shadows, shadow) = (Shadows::default(), Arc::new(shadow(8)));
        let number = shadows.add(Arc::clone(&shadow)).unwrap();
        assert!(Arc::ptr_eq(&shadows.find(number).unwrap(), &shadow));
        shadows.remove(number);
        assert!(shadows.find(number).is_none());
        assert_ne!(shadows.add(shadow), Some(number));
    }

    proptest! {
        /// Against a bit for every byte.
        #[test]
        fn the_book_knows_every_byte(steps in prop::collection::vec((0u8..3, 0u64..60, 0u64..20), 0..60)) {
            let mut book = Written::default();
            let mut bits = [false; 80];
            for (step, start, length) in steps {
                let range = start..start + length;
                if step < 2 {
                    book.note(range.clone());
                    bits[start as usize..(start + length) as usize].fill(true);
                } else {
                    while let Some(piece) = book.first_within(range.clone()) {
                        book.forget(piece.clone());
                        for bit in &mut bits[piece.start as usize..piece.end as usize] {
                            prop_assert!(std::mem::take(bit), "{piece:?} was never noted");
                        }
                    }
                    prop_assert!(!bits[start as usize..(start + length) as usize].iter().any(|bit| *bit));
                }
                let noted: Vec<_> = book.0.iter().map(|(start, end)| *start..*end).collect();
                for pair in noted.windows(2) {
                    prop_assert!(pair[0].end < pair[1].start, "{noted:?}");
                }
                for at in 0..80u64 {
                    prop_assert_eq!(noted.iter().any(|range| range.contains(&at)), bits[at as usize]);
                }
            }
        }
    }
}
