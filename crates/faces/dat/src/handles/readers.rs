//! Freed objects, and the threads that may still be looking at them.
//!
//! A call on an object reads its slot without a lock, and another thread may free the object at that moment. So a thread says
//! that it is inside (`Inside`), with a plain store, before it reads a slot; whoever frees objects collects some, passes a
//! heavy fence, and gives their memory back once every thread that was inside then has left. The fence stands between
//! entering and reading on one side, and between emptying the slot and looking at the threads on the other.

use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::any::Any;
use std::ptr;
use std::sync::{Mutex, PoisonError};

use nonic_sys::{
    FenceReach, at_thread_end, current_generation, heavy_fence, light_fence, light_fences_are_free,
};

/// Freed objects of which so many come together before a fence is paid for.
const BATCH: usize = 64;

/// What a thread says of itself. Never freed: the next new thread takes it.
struct Reader {
    /// Odd while its thread is inside.
    turns: AtomicU64,
    taken: AtomicBool,
    /// The process it counts for: threads of a parent are not in its children.
    generation: AtomicU32,
    next: AtomicPtr<Reader>,
}

/// All readers, newest first.
static READERS: AtomicPtr<Reader> = AtomicPtr::new(ptr::null_mut());

fn readers() -> impl Iterator<Item = &'static Reader> {
    // SAFETY: the list holds leaked boxes only, and nothing is ever taken out of it.
    let at = |place: &AtomicPtr<Reader>| unsafe { place.load(Ordering::Acquire).as_ref() };
    core::iter::successors(at(&READERS), move |reader| at(&reader.next))
}

impl Reader {
    fn claim() -> &'static Self {
        let free = |reader: &&Self| {
            reader.taken.compare_exchange(false, true, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let reader = readers().find(free).unwrap_or_else(|| {
            let new = Box::leak(Box::new(Self {
                turns: AtomicU64::new(0),
                taken: AtomicBool::new(true),
                generation: AtomicU32::new(0),
                next: AtomicPtr::new(ptr::null_mut()),
            }));
            let mut first = READERS.load(Ordering::Relaxed);
            loop {
                new.next.store(first, Ordering::Relaxed);
                match READERS.compare_exchange_weak(first, new, Ordering::AcqRel, Ordering::Relaxed) {
                    Ok(_) => break new,
                    Err(now) => first = now,
                }
            }
        });
        reader.generation.store(current_generation(), Ordering::Release);
        reader
    }
}

thread_local! {
    /// The thread's reader, given back when the thread ends.
    static OWN: Cell<Option<&'static Reader>> = const { Cell::new(None) };
}

fn give_own_back() {
    if let Some(reader) = OWN.take() {
        reader.taken.store(false, Ordering::Release);
    }
}

#[cold]
fn claim_own() -> (&'static Reader, bool) {
    let reader = Reader::claim();
    let kept = at_thread_end(give_own_back);
    if kept {
        OWN.set(Some(reader));
    }
    (reader, !kept)
}

/// While this lives, what the thread finds in slots is not given back.
pub(super) struct Inside {
    /// `None` if the thread was inside already.
    reader: Option<&'static Reader>,
    /// A reader for this moment only: the thread is ending and has lost its own.
    lent: bool,
}

impl Inside {
    #[inline]
    pub(super) fn enter() -> Self {
        let (reader, lent) = OWN.get().map_or_else(claim_own, |reader| (reader, false));
        let generation = current_generation();
        if reader.generation.load(Ordering::Relaxed) != generation {
            reader.generation.store(generation, Ordering::Relaxed);
        }
        let turns = reader.turns.load(Ordering::Relaxed);
        if turns % 2 == 1 {
            return Self { reader: None, lent: false };
        }
        reader.turns.store(turns + 1, Ordering::Relaxed);
        light_fence(light_fences_are_free);
        Self { reader: Some(reader), lent }
    }
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        let Some(reader) = self.reader else { return };
        reader.turns.store(reader.turns.load(Ordering::Relaxed) + 1, Ordering::Release);
        if self.lent {
            reader.taken.store(false, Ordering::Release);
        }
    }
}

/// An object out of its slot.
pub(super) type Freed = Box<dyn Any + Send>;

/// Objects, and who was inside when no slot led to them any more.
struct Batch {
    objects: Vec<Freed>,
    inside: Vec<(&'static Reader, u64)>,
}

/// Freed objects that are not given back yet.
pub(super) struct Bin {
    state: Mutex<(Vec<Freed>, Vec<Batch>)>,
}

impl Bin {
    pub(super) const fn new() -> Self {
        Self { state: Mutex::new((Vec::new(), Vec::new())) }
    }

    /// Takes an object that no slot leads to any more.
    pub(super) fn put(&self, object: Freed) {
        let ready = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.0.push(object);
            if state.0.len() < BATCH { Vec::new() } else { Self::empty(&mut state) }
        };
        // Without the lock: dropping an object may free others.
        drop(ready);
    }

    /// Gives back now whatever nobody looks at.
    pub(super) fn sweep(&self) {
        let ready = Self::empty(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        drop(ready);
    }

    fn empty((fresh, waiting): &mut (Vec<Freed>, Vec<Batch>)) -> Vec<Freed> {
        heavy_fence(FenceReach::Process);
        let generation = current_generation();
        let inside = readers().filter(|reader| reader.generation.load(Ordering::Acquire) == generation);
        let inside = inside.map(|reader| (reader, reader.turns.load(Ordering::Acquire)));
        let inside = inside.filter(|(_, turns)| turns % 2 == 1).collect();
        waiting.push(Batch { objects: std::mem::take(fresh), inside });
        let mut ready = Vec::new();
        waiting.retain_mut(|batch| {
            batch.inside.retain(|(reader, turns)| reader.turns.load(Ordering::Acquire) == *turns);
            if batch.inside.is_empty() {
                ready.append(&mut batch.objects);
            }
            !batch.inside.is_empty()
        });
        ready
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn an_object_is_given_back_only_after_every_thread_that_was_inside_has_left() {
        let (bin, object) = (Bin::new(), Arc::new(()));
        let outer = Inside::enter();
        let inner = Inside::enter();
        bin.put(Box::new(object.clone()));
        bin.sweep();
        assert_eq!(Arc::strong_count(&object), 2);
        drop(inner);
        bin.sweep();
        assert_eq!(Arc::strong_count(&object), 2, "the thread is still inside");
        drop(outer);
        bin.sweep();
        assert_eq!(Arc::strong_count(&object), 1);
    }

    #[test]
    fn who_comes_in_later_keeps_nothing_back_for_ever() {
        let (bin, object) = (Bin::new(), Arc::new(()));
        let entered = Inside::enter();
        bin.put(Box::new(object.clone()));
        bin.sweep();
        drop(entered);
        let _later = Inside::enter();
        bin.sweep();
        assert_eq!(Arc::strong_count(&object), 1);
    }
}
