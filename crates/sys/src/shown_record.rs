//! Records in shared memory that a process writes for whoever looks: a stamp, then words. It is odd while they change, and another one
//! after; who copies a record twice and finds the same, with an even stamp, has copied what belongs together.

use std::sync::atomic::{Ordering, fence};

use crate::SharedMapping;

/// Writes the words of the record at a byte offset. False, and nothing was written, if another thread is at it.
pub fn write_shown_record(mapping: &SharedMapping, at: usize, words: &[u64]) -> bool {
    let stamp = mapping.word(at);
    let before = stamp.load(Ordering::Relaxed);
    let odd = before | 1;
    if before == odd || stamp.compare_exchange(before, odd, Ordering::Acquire, Ordering::Relaxed).is_err() {
        return false;
    }
    fence(Ordering::Release);
    for (place, word) in words.iter().enumerate() {
        mapping.word(at + 8 + place * 8).store(*word, Ordering::Relaxed);
    }
    stamp.store(odd.wrapping_add(1), Ordering::Release);
    true
}

/// The words of a record that was copied twice, with its stamp; `None` if it changed meanwhile.
///
/// # Panics
/// If the first copy is shorter than a stamp and so many words.
pub fn words_of_shown_record<const WORDS: usize>(first: &[u8], second: &[u8]) -> Option<[u64; WORDS]> {
    let is_calm = word_of_copy(first, 0).is_multiple_of(2) && first == second;
    is_calm.then(|| std::array::from_fn(|place| word_of_copy(first, 8 + place * 8)))
}

/// The word at a byte offset of copied memory.
///
/// # Panics
/// If it is not within the copy.
pub fn word_of_copy(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].try_into().map_or(0, u64::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PAGE;

    fn copy(mapping: &SharedMapping) -> Vec<u8> {
        (0..4).flat_map(|place| mapping.word(64 + place * 8).load(Ordering::Relaxed).to_ne_bytes()).collect()
    }

    #[test]
    fn what_is_written_is_read_and_what_changes_is_not() {
        let mapping = SharedMapping::anonymous(PAGE).unwrap();
        let before = copy(&mapping);
        assert_eq!(words_of_shown_record(&before, &before), Some([0; 3]));
        assert!(write_shown_record(&mapping, 64, &[1, 2, 3]));
        let after = copy(&mapping);
        assert_eq!(words_of_shown_record(&after, &after), Some([1, 2, 3]));
        assert_eq!(words_of_shown_record::<3>(&before, &after), None);
        // Somebody writes it.
        mapping.word(64).fetch_add(1, Ordering::Relaxed);
        let amid = copy(&mapping);
        assert_eq!(words_of_shown_record::<3>(&amid, &amid), None);
        assert!(!write_shown_record(&mapping, 64, &[4, 5, 6]));
        assert_eq!(copy(&mapping), amid);
    }
}
