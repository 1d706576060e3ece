//! Shared memory as the model checker sees it: words whose every interleaving and reordering is tried. Only what can be
//! checked so is here; the rest of a mapping has no meaning in a model.

use std::io;

pub use loom::sync::atomic::AtomicU64;

/// Stands in for a mapping of shared memory.
#[derive(Debug)]
pub struct SharedMapping {
    words: Vec<AtomicU64>,
}

impl SharedMapping {
    /// Zeros.
    pub fn anonymous(length: usize) -> io::Result<Self> {
        Ok(Self { words: (0..length / 8).map(|_| AtomicU64::new(0)).collect() })
    }

    /// Length in bytes.
    pub fn length(&self) -> usize {
        self.words.len() * 8
    }

    /// Nothing: a model has no addresses.
    pub fn as_ptr(&self) -> *mut u8 {
        std::ptr::null_mut()
    }

    /// The word at a byte offset.
    ///
    /// # Panics
    /// If the offset is outside or not a multiple of 8.
    pub fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8), "word {offset} is not aligned");
        &self.words[offset / 8]
    }
}
