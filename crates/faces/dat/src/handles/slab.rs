//! Slots: the memory that handles of programs lead to.
//!
//! The slots lie in one range that is reserved once, so whether a handle can be one of ours is seen from its value, and no
//! pointer of a program is followed. Memory that nothing was ever put into is zero, which is the word of an empty slot.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::alloc::{Layout, alloc_zeroed};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::readers::{Bin, Freed};

/// Slots there are: virtual memory until used.
const SLOTS: usize = 1 << 20;
/// Freed slots that rest before the first of them is used again: a handle kept by mistake stays wrong that long.
const RESTING: usize = 8192;

/// What a handle leads to. The first two words are of the interface.
#[repr(C, align(64))]
pub(super) struct Slot {
    /// The provider's table: macros of programs read it.
    pub(super) provider: AtomicUsize,
    /// `dat_set_consumer_context`.
    pub(super) context: AtomicU64,
    /// Kind and version of a living object, else 0.
    pub(super) word: AtomicU64,
    /// The object, an `Arc` that the slot owns.
    pub(super) object: AtomicPtr<()>,
    /// Makes a [`Freed`] of `object`.
    pub(super) release: AtomicPtr<()>,
    /// The slot of the interface adapter it belongs to; its own for an adapter.
    pub(super) adapter: AtomicUsize,
}

const _: () = assert!(size_of::<Slot>() == 64);

/// Takes over what a slot owned.
pub(super) type Release = unsafe fn(*mut ()) -> Freed;

/// The release of slots that hold an `Arc<T>`.
///
/// # Safety
/// `object` came from `Arc::<T>::into_raw`, and its owner gives it up.
pub(super) unsafe fn release<T: Send + Sync + 'static>(object: *mut ()) -> Freed {
    // SAFETY: the caller's promise.
    Box::new(unsafe { Arc::<T>::from_raw(object.cast()) })
}

/// All slots of a process.
pub(super) struct Slab {
    first: NonNull<Slot>,
    free: Mutex<Free>,
    pub(super) bin: Bin,
}

// SAFETY: slots are atomics, and the objects in them may be used and dropped by any thread (`release` demands it).
unsafe impl Send for Slab {}
// SAFETY: as above.
unsafe impl Sync for Slab {}

/// Which slots are free.
pub(super) struct Free {
    /// Slots from here on were never used.
    fresh: usize,
    resting: VecDeque<usize>,
}

impl Free {
    /// The number of a free slot.
    pub(super) fn take(&mut self) -> Option<usize> {
        if self.resting.len() > RESTING || self.fresh == SLOTS {
            return self.resting.pop_front();
        }
        self.fresh += 1;
        Some(self.fresh - 1)
    }

    /// Has a slot rest.
    pub(super) fn give_back(&mut self, number: usize) {
        self.resting.push_back(number);
    }

    /// Slots that were ever used.
    pub(super) fn used(&self) -> usize {
        self.fresh
    }
}

impl Slab {
    pub(super) fn reserve() -> Self {
        let layout = Layout::array::<Slot>(SLOTS).expect("the size is a constant");
        // SAFETY: the layout is not empty. Zero is a slot: all its members are atomics.
        let memory = unsafe { alloc_zeroed(layout) };
        let Some(first) = NonNull::new(memory.cast()) else { std::alloc::handle_alloc_error(layout) };
        Self { first, free: Mutex::new(Free { fresh: 0, resting: VecDeque::new() }), bin: Bin::new() }
    }

    pub(super) fn free(&self) -> MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The slot of this number, below [`SLOTS`].
    pub(super) fn at(&self, number: usize) -> &Slot {
        assert!(number < SLOTS);
        // SAFETY: within the range, which is never given back.
        unsafe { self.first.add(number).as_ref() }
    }

    /// Number of the slot that a handle leads to, empty or not.
    #[inline]
    pub(super) fn number_of(&self, handle: usize) -> Option<usize> {
        let offset = handle.wrapping_sub(self.first.as_ptr().addr());
        (offset < SLOTS * size_of::<Slot>() && offset.is_multiple_of(size_of::<Slot>()))
            .then_some(offset / size_of::<Slot>())
    }

    /// The slot that a handle leads to, empty or not.
    #[inline]
    pub(super) fn slot(&self, handle: usize) -> Option<&Slot> {
        // SAFETY: as in `at`: the number is below `SLOTS`.
        self.number_of(handle).map(|number| unsafe { self.first.add(number).as_ref() })
    }

    /// The handle of a slot.
    pub(super) fn handle(&self, number: usize) -> usize {
        core::ptr::from_ref(self.at(number)).addr()
    }

    /// Empties a slot that holds `word`, and no other. What it owned goes into the bin, once no lock is held.
    pub(super) fn empty(&self, free: &mut Free, number: usize, word: u64) -> Option<Freed> {
        let slot = self.at(number);
        if word == 0 || slot.word.compare_exchange(word, 0, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return None;
        }
        let object = slot.object.load(Ordering::Relaxed);
        let release = slot.release.load(Ordering::Relaxed);
        // SAFETY: `release` was stored from a `Release` with this object, and the exchange above succeeds once, so the
        // slot's ownership is given up once.
        let freed = unsafe { core::mem::transmute::<*mut (), Release>(release)(object) };
        free.give_back(number);
        Some(freed)
    }
}
