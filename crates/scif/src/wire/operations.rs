//! Copies that a side has under way, and marks: how many it had begun.

use std::collections::BTreeSet;

use crate::ScifError;

/// Bits of a mark that are the number.
const NUMBER: u64 = (1 << 31) - 1;

/// Numbered as they begin, from 1 on.
#[derive(Debug, Default)]
pub(crate) struct Operations {
    begun: u64,
    under_way: BTreeSet<u64>,
}

impl Operations {
    /// One begins; its number.
    pub(crate) fn begin(&mut self) -> u64 {
        self.begun += 1;
        self.under_way.insert(self.begun);
        self.begun
    }

    /// It is complete.
    pub(crate) fn end(&mut self, number: u64) {
        self.under_way.remove(&number);
    }

    /// How many have begun, in the bits that a mark has.
    pub(crate) fn mark(&self) -> u64 {
        self.begun & NUMBER
    }

    /// Whether all up to a mark are complete; `Invalid` if it was never given.
    pub(crate) fn are_complete(&self, mark: u64) -> Result<bool, ScifError> {
        // The last position of this number.
        let back = self.begun.wrapping_sub(mark) & NUMBER;
        let target = self.begun.checked_sub(back).ok_or(ScifError::Invalid("no such mark was given"))?;
        Ok(self.under_way.first().is_none_or(|first| *first > target))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_reached(operations: &Operations, mark: u64) -> bool {
        operations.are_complete(mark).unwrap()
    }

    #[test]
    fn a_mark_is_reached_when_all_before_it_are_complete_in_whatever_order() {
        let mut operations = Operations::default();
        assert!(is_reached(&operations, operations.mark()));
        let [first, second] = [operations.begin(), operations.begin()];
        let mark = operations.mark();
        let later = operations.begin();
        operations.end(second);
        assert!(!is_reached(&operations, mark));
        operations.end(first);
        assert!(is_reached(&operations, mark) && !is_reached(&operations, operations.mark()));
        operations.end(later);
        assert!(is_reached(&operations, operations.mark()));
    }

    #[test]
    fn marks_go_on_beyond_their_bits_and_one_that_was_never_given_is_refused() {
        let mut operations = Operations { begun: NUMBER - 1, ..Operations::default() };
        let first = operations.begin();
        let before = operations.mark();
        let second = operations.begin();
        assert_eq!((before, operations.mark()), (NUMBER, 0));
        operations.end(first);
        assert!(is_reached(&operations, before) && !is_reached(&operations, 0));
        operations.end(second);
        assert!(is_reached(&operations, 0));
        assert!(Operations::default().are_complete(1).is_err());
    }
}
