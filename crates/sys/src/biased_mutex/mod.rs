//! A mutex that costs the thread which keeps taking it a few plain instructions: no locked one, no fence.
//!
//! A thread that took the mutex often without anybody else coming between becomes its *favourite* and from then on only
//! counts when it goes in and out. Another thread that comes takes the ordinary mutex behind it, withdraws the favour,
//! has the kernel fence all threads ([`heavy_fence_for_grants`]), and waits until the count is even. A mutex whose favour is
//! withdrawn again and again takes longer and longer to grant it.
//!
//! A favourite may be held up for any time between its look at the favour and its count. What it then counts must not be taken
//! for another favourite's going out, so each has a count of its own, until it is known to be elsewhere.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use crate::asymmetric::{FenceReach, heavy_fence_for_grants, light_fence, light_fences_are_free};
use crate::raw_lock::RawLock;
use crate::{cpu_relax, nap, thread_mark, yield_now};

/// Times in a row that a thread takes a mutex before it becomes its favourite.
const FIRST_PATIENCE: u32 = 16;
/// The most that grows to.
const LAST_PATIENCE: u32 = 1 << 20;
const NOBODY: usize = 0;
/// Favourites that each have a count.
const COUNTS: usize = 4;
/// Where the favour says which count is its favourite's: bits that are 0 in every mark, the address of a word.
const COUNT: usize = COUNTS - 1;
/// Looks at a favourite inside before the thread that waits sleeps between two.
const YIELDS: u32 = 64 * 1000;
const NAP: Duration = Duration::from_micros(50);

/// Who came last, and how often in a row. Used by who holds the ordinary lock.
#[derive(Debug)]
struct Habit {
    last: usize,
    times: u32,
    patience: u32,
    /// Whose each count is.
    owners: [usize; COUNTS],
}

/// A mutex for data that one thread uses nearly always. It does not poison: who panics inside leaves what is there.
#[derive(Debug)]
pub struct BiasedMutex<T> {
    /// The favourite's mark, and the number of its count.
    favourite: AtomicUsize,
    /// How often each favourite went in or came out: odd while it is inside.
    steps: [AtomicU32; COUNTS],
    ordinary: RawLock,
    habit: UnsafeCell<Habit>,
    data: UnsafeCell<T>,
}

// SAFETY: as for any mutex: one thread at a time gets to the data.
unsafe impl<T: Send> Send for BiasedMutex<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for BiasedMutex<T> {}

/// The right to use the data, until it is dropped.
#[derive(Debug)]
#[must_use]
pub struct BiasedGuard<'a, T> {
    mutex: &'a BiasedMutex<T>,
    /// The count of the favourite, if that has it.
    steps: Option<&'a AtomicU32>,
    /// Stays on the thread that took it.
    not_send: PhantomData<*mut ()>,
}

// SAFETY: sharing the guard shares the data behind it, and nothing else.
unsafe impl<T: Sync> Sync for BiasedGuard<'_, T> {}

impl<T> BiasedMutex<T> {
    /// A mutex nobody is the favourite of.
    pub const fn new(data: T) -> Self {
        Self {
            favourite: AtomicUsize::new(NOBODY),
            steps: [const { AtomicU32::new(0) }; COUNTS],
            ordinary: RawLock::new(),
            habit: UnsafeCell::new(Habit {
                last: NOBODY,
                times: 0,
                patience: FIRST_PATIENCE,
                owners: [NOBODY; COUNTS],
            }),
            data: UnsafeCell::new(data),
        }
    }

    /// Waits for the mutex and takes it. A thread that holds it already waits for ever.
    #[inline]
    pub fn lock(&self) -> BiasedGuard<'_, T> {
        let steps = self.enter_as_favourite();
        if steps.is_none() {
            self.lock_slowly();
        }
        BiasedGuard { mutex: self, steps, not_send: PhantomData }
    }

    /// Takes the mutex if nobody has it now.
    #[inline]
    pub fn try_lock(&self) -> Option<BiasedGuard<'_, T>> {
        let steps = self.enter_as_favourite();
        if steps.is_none() && !self.try_lock_slowly() {
            return None;
        }
        Some(BiasedGuard { mutex: self, steps, not_send: PhantomData })
    }

    /// Whether the favourite is inside, or one that was it until just now.
    fn is_favourite_inside(&self) -> bool {
        self.steps.iter().any(|steps| !steps.load(Ordering::Acquire).is_multiple_of(2))
    }

    #[inline]
    fn enter_as_favourite(&self) -> Option<&AtomicU32> {
        let favourite = self.favourite.load(Ordering::Relaxed);
        if favourite & !COUNT != thread_mark() {
            return None;
        }
        let steps = &self.steps[favourite & COUNT];
        let before = steps.load(Ordering::Relaxed);
        if !before.is_multiple_of(2) {
            // Inside already: a signal handler of this thread. It waits like anybody else, which is for ever.
            return None;
        }
        steps.store(before.wrapping_add(1), Ordering::Relaxed);
        // Between the count and the look at the favour: whoever withdraws it fences this thread before looking at the
        // count, so one of the two sees the other. A favour exists only where light fences are free.
        light_fence(|| true);
        if self.favourite.load(Ordering::Acquire) == favourite {
            return Some(steps);
        }
        steps.store(before.wrapping_add(2), Ordering::Release);
        None
    }

    #[cold]
    fn lock_slowly(&self) {
        self.ordinary.lock();
        self.withdraw();
        let mut rounds = 0u32;
        while self.is_favourite_inside() {
            rounds = rounds.saturating_add(1);
            if rounds > YIELDS {
                // The favourite may be of a lower priority, for which a real-time thread that only yields leaves no CPU.
                nap(NAP);
            } else if rounds.is_multiple_of(64) {
                yield_now();
            } else {
                cpu_relax();
            }
        }
        self.count();
    }

    #[cold]
    fn try_lock_slowly(&self) -> bool {
        if !self.ordinary.try_lock() {
            return false;
        }
        // Not worth withdrawing a favour for, if it is in use.
        if !self.is_favourite_inside() {
            self.withdraw();
            if !self.is_favourite_inside() {
                self.count();
                return true;
            }
        }
        self.ordinary.unlock();
        false
    }

    /// Takes the favour from whoever has it. The caller holds the ordinary lock.
    fn withdraw(&self) {
        if self.favourite.load(Ordering::Relaxed) != NOBODY {
            self.favourite.store(NOBODY, Ordering::SeqCst);
            heavy_fence_for_grants(FenceReach::Process);
            // SAFETY: the caller holds the ordinary lock.
            let habit = unsafe { &mut *self.habit.get() };
            habit.patience = (habit.patience * 4).min(LAST_PATIENCE);
            (habit.last, habit.times) = (NOBODY, 0);
        }
    }

    /// Notes who has the mutex, and makes a favourite of who keeps coming. The caller holds the ordinary lock.
    fn count(&self) {
        let me = thread_mark();
        // SAFETY: the caller holds the ordinary lock.
        let habit = unsafe { &mut *self.habit.get() };
        if habit.last != me {
            (habit.last, habit.times) = (me, 0);
            // It is here, and not about to count.
            habit.owners.iter_mut().filter(|owner| **owner == me).for_each(|owner| *owner = NOBODY);
        }
        habit.times = habit.times.saturating_add(1);
        if habit.times >= habit.patience
            && light_fences_are_free()
            && let Some(count) = habit.owners.iter().position(|owner| *owner == NOBODY)
        {
            habit.owners[count] = me;
            // In force from the next time on; whoever comes before finds the ordinary lock taken.
            self.favourite.store(me | count, Ordering::Release);
        }
    }
}

impl<T> Deref for BiasedGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard is the right to the data.
        unsafe { &*self.mutex.data.get() }
    }
}

impl<T> DerefMut for BiasedGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard is the right to the data, and borrowed mutably.
        unsafe { &mut *self.mutex.data.get() }
    }
}

impl<T> Drop for BiasedGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if let Some(steps) = self.steps {
            steps.store(steps.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
        } else {
            self.mutex.ordinary.unlock();
        }
    }
}

#[cfg(test)]
mod tests;
