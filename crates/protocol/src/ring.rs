//! A queue whose entries are written and read where they stand: the queues of receives and of completions. It grows as
//! it fills; its owner sets the limit.

use alloc::vec::Vec;

/// Places a ring has at first.
const FIRST_PLACES: usize = 16;

/// The ring. Its places are a power of two, or none.
#[derive(Debug)]
pub struct Ring<T> {
    places: Vec<T>,
    /// Entries taken and added since the beginning.
    taken: usize,
    added: usize,
}

impl<T: Default> Default for Ring<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Default> Ring<T> {
    /// An empty one.
    pub const fn new() -> Self {
        Self { places: Vec::new(), taken: 0, added: 0 }
    }

    /// Entries in it.
    #[inline]
    pub fn length(&self) -> usize {
        self.added.wrapping_sub(self.taken)
    }

    #[inline]
    fn place(&self, position: usize) -> usize {
        position & self.places.len().wrapping_sub(1)
    }

    /// Adds an entry behind the others, for the caller to fill in: it still holds what stood there before.
    #[inline]
    pub fn add(&mut self) -> &mut T {
        if self.length() == self.places.len() {
            self.grow();
        }
        let place = self.place(self.added);
        self.added = self.added.wrapping_add(1);
        &mut self.places[place]
    }

    /// The oldest entry.
    #[inline]
    pub fn first(&self) -> Option<&T> {
        if self.length() == 0 { None } else { Some(&self.places[self.place(self.taken)]) }
    }

    /// All entries, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        (0..self.length()).map(|step| &self.places[self.place(self.taken.wrapping_add(step))])
    }

    /// Takes the oldest away, after it was looked at; what it holds stays in its place until that is filled again.
    #[inline]
    pub fn pass_first(&mut self) {
        if self.length() > 0 {
            self.taken = self.taken.wrapping_add(1);
        }
    }

    /// Shows the oldest, `most` at most, in their order and as they lie, in two pieces at most, and takes them away; what they hold
    /// stays as in [`Ring::pass_first`]. Returns how many.
    #[inline(always)]
    pub fn pass(&mut self, most: usize, mut look: impl FnMut(&[T])) -> usize {
        let count = most.min(self.length());
        if count > 0 {
            let (before, behind) = self.places.split_at(self.place(self.taken));
            let there = count.min(behind.len());
            look(&behind[..there]);
            if there < count {
                look(&before[..count - there]);
            }
            self.taken = self.taken.wrapping_add(count);
        }
        count
    }

    /// Takes the oldest out.
    pub fn take_first(&mut self) -> Option<T> {
        if self.length() == 0 {
            return None;
        }
        let place = self.place(self.taken);
        self.taken = self.taken.wrapping_add(1);
        Some(core::mem::take(&mut self.places[place]))
    }

    /// Puts an entry before the others.
    pub fn put_first(&mut self, entry: T) {
        if self.length() == self.places.len() {
            self.grow();
        }
        self.taken = self.taken.wrapping_sub(1);
        let place = self.place(self.taken);
        self.places[place] = entry;
    }

    #[cold]
    fn grow(&mut self) {
        let room = (self.places.len() * 2).max(FIRST_PLACES);
        let mut places = Vec::with_capacity(room);
        while let Some(entry) = self.take_first() {
            places.push(entry);
        }
        let length = places.len();
        places.resize_with(room, T::default);
        *self = Self { places, taken: 0, added: length };
    }

    /// Removes all entries that are not to stay; the others keep their order.
    pub fn retain(&mut self, mut stays: impl FnMut(&T) -> bool) {
        for _ in 0..self.length() {
            if let Some(entry) = self.take_first()
                && stays(&entry)
            {
                *self.add() = entry;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_ring_is_a_queue(steps in prop::collection::vec((0u8..11, 0u32..3), 0..400)) {
            let mut ring = Ring::<u32>::new();
            let mut queue = VecDeque::new();
            for (step, value) in steps {
                match step {
                    0..4 => {
                        *ring.add() = value;
                        queue.push_back(value);
                    }
                    4..6 => prop_assert_eq!(ring.take_first(), queue.pop_front()),
                    6 => {
                        ring.pass_first();
                        queue.pop_front();
                    }
                    7..9 => {
                        ring.put_first(value);
                        queue.push_front(value);
                    }
                    9 => {
                        let (most, mut seen, mut pieces) = (9 * value as usize, Vec::new(), 0);
                        let count = ring.pass(most, |some| {
                            seen.extend_from_slice(some);
                            pieces += 1;
                        });
                        let expected: Vec<u32> = queue.drain(..most.min(queue.len())).collect();
                        prop_assert_eq!((count, pieces <= 2), (expected.len(), true));
                        prop_assert_eq!(seen, expected);
                    }
                    _ => {
                        ring.retain(|entry| *entry != value);
                        queue.retain(|entry| *entry != value);
                    }
                }
                prop_assert_eq!(ring.length(), queue.len());
                prop_assert_eq!(ring.first(), queue.front());
            }
        }
    }
}
