//! What a face writes on an object: its handle there.

use std::sync::atomic::{AtomicUsize, Ordering};

/// A word for the face, 0 at first.
#[derive(Debug, Default)]
pub struct Mark(AtomicUsize);

impl Mark {
    /// The word.
    #[inline]
    pub fn get(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }

    /// Stores the word.
    pub fn set(&self, word: usize) {
        self.0.store(word, Ordering::Release);
    }
}
