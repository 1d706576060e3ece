//! The program's bytes of one call, from several places.

use nonic_memory::SharedSlice;

/// What is left to be taken of several slices.
#[derive(Debug)]
pub(crate) struct Gather<'a> {
    slices: &'a [SharedSlice<'a>],
    /// Bytes taken of the first of them.
    taken: usize,
    left: usize,
}

impl<'a> Gather<'a> {
    /// All of them.
    pub(crate) fn new(slices: &'a [SharedSlice<'a>]) -> Self {
        let left = slices.iter().fold(0usize, |sum, slice| sum.saturating_add(slice.length()));
        Self { slices, taken: 0, left }
    }

    /// Bytes left.
    pub(crate) fn left(&self) -> usize {
        self.left
    }

    /// The next bytes, those that stand together.
    pub(crate) fn next(&self) -> SharedSlice<'a> {
        let found = self.slices.iter().enumerate().find_map(|(place, slice)| {
            let taken = if place == 0 { self.taken } else { 0 };
            (taken < slice.length()).then(|| slice.part(taken, slice.length() - taken))
        });
        found.unwrap_or(SharedSlice::EMPTY)
    }

    /// Takes the next bytes without copying them.
    ///
    /// # Panics
    /// If fewer are left.
    pub(crate) fn skip(&mut self, length: usize) {
        self.take(length, |_, _| ());
    }

    /// Takes the next bytes, as many as `target` holds.
    ///
    /// # Panics
    /// If fewer are left.
    pub(crate) fn copy_to(&mut self, target: SharedSlice<'_>) {
        self.take(target.length(), |done, part| target.part(done, part.length()).copy_from(part));
    }

    /// Takes the next bytes, and says of each part how many were before it.
    fn take(&mut self, length: usize, mut each: impl FnMut(usize, SharedSlice<'a>)) {
        assert!(length <= self.left, "{length} bytes of {}", self.left);
        let mut done = 0;
        while done < length {
            let first = self.slices[0];
            let part = (first.length() - self.taken).min(length - done);
            each(done, first.part(self.taken, part));
            done += part;
            self.taken += part;
            if self.taken == first.length() {
                self.slices = &self.slices[1..];
                self.taken = 0;
            }
        }
        self.left -= done;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_taken_in_order_across_slices_and_empty_ones() {
        let (mut one, mut two) = (*b"hello", *b" world");
        let slices =
            [SharedSlice::of_private(&mut one), SharedSlice::EMPTY, SharedSlice::of_private(&mut two)];
        let mut gather = Gather::new(&slices);
        assert_eq!(gather.left(), 11);
        let (mut first, mut second) = ([0; 7], [0; 4]);
        gather.copy_to(SharedSlice::of_private(&mut first));
        gather.copy_to(SharedSlice::of_private(&mut second));
        assert_eq!((&first, &second, gather.left()), (b"hello w", b"orld", 0));
    }
}
