//! Shared memory as the model checker sees it: words whose every interleaving and reordering is tried. Only what can be
//! checked so is here; the rest of a mapping has no meaning in a model.

use std::io;
use std::sync::{Arc, OnceLock};

pub use loom::sync::atomic::AtomicU64;
use loom::sync::atomic::Ordering;
use loom::sync::{Condvar, Mutex};

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

/// Words of a mapping, found by number.
#[derive(Clone, Debug)]
pub struct SharedWords {
    mapping: Arc<SharedMapping>,
    offset: usize,
    count: usize,
}

impl SharedWords {
    /// `count` words from byte `offset` on.
    pub fn new(mapping: Arc<SharedMapping>, offset: usize, count: usize) -> Self {
        Self { mapping, offset, count }
    }

    /// The word of a number, counted from the first again beyond the last.
    pub fn at(&self, number: usize) -> &AtomicU64 {
        self.mapping.word(self.offset + number % self.count * 8)
    }

    /// The mapping they are of.
    pub fn mapping(&self) -> &Arc<SharedMapping> {
        &self.mapping
    }
}

/// A value that is set once. Whoever finds it sees what was done before it was set; who does not may come too early.
#[derive(Debug)]
pub struct SetOnce<T> {
    value: OnceLock<T>,
    is_set: AtomicU64,
}

impl<T> SetOnce<T> {
    /// Not set.
    pub fn new() -> Self {
        Self { value: OnceLock::new(), is_set: AtomicU64::new(0) }
    }

    /// What it was set to.
    pub fn get(&self) -> Option<&T> {
        if self.is_set.load(Ordering::Acquire) == 1 { self.value.get() } else { None }
    }

    /// Sets it; the value comes back if it is set already.
    pub fn set(&self, value: T) -> Result<(), T> {
        self.value.set(value)?;
        self.is_set.store(1, Ordering::Release);
        Ok(())
    }
}

/// A lock without data: see `raw_lock.rs`.
#[derive(Debug)]
pub(crate) struct RawLock {
    taken: Mutex<bool>,
    freed: Condvar,
}

impl RawLock {
    pub(crate) fn new() -> Self {
        Self { taken: Mutex::new(false), freed: Condvar::new() }
    }

    pub(crate) fn try_lock(&self) -> bool {
        !std::mem::replace(&mut *self.taken.lock().unwrap(), true)
    }

    pub(crate) fn lock(&self) {
        let mut taken = self.taken.lock().unwrap();
        while *taken {
            taken = self.freed.wait(taken).unwrap();
        }
        *taken = true;
    }

    pub(crate) fn unlock(&self) {
        *self.taken.lock().unwrap() = false;
        self.freed.notify_one();
    }
}

loom::thread_local! {
    static MARK: usize = NEXT_MARK.fetch_add(1 << 6, Ordering::Relaxed);
}
/// Of no interest to the model, so not a part of it.
static NEXT_MARK: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(1 << 6);

/// A number that no other thread of the model has; all threads of a model are one to the machine.
pub(crate) fn thread_mark() -> usize {
    MARK.with(|mark| *mark)
}
