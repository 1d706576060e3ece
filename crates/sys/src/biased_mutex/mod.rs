//! A mutex that costs the thread which keeps taking it a few plain instructions: no locked one, no fence.
//!
//! A thread that took the mutex often without anybody else coming between becomes its *favourite* and from then on only
//! raises a flag while it is inside. Another thread that comes takes the ordinary mutex behind it, withdraws the favour,
//! has the kernel fence all threads ([`heavy_fence_for_grants`]), and waits until the flag is down. A mutex whose favour is
//! withdrawn again and again takes longer and longer to grant it.
//!
//! A favourite may be held up for any time between its look at the favour and its flag. When it goes on, the favour may be
//! another thread's, whose flag it must not take down: so each favourite has a flag of its own, which nobody else gets
//! before that thread was seen to be elsewhere.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

#[cfg(loom)]
use crate::model::{RawLock, thread_mark};
#[cfg(not(loom))]
use crate::{raw_lock::RawLock, thread_mark};
#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::asymmetric::{FenceReach, heavy_fence_for_grants, light_fence, light_fences_are_free};
use crate::{cpu_relax, nap, yield_now};

/// Times in a row that a thread takes a mutex before it becomes its favourite. A model has no time for many.
const FIRST_PATIENCE: u32 = if cfg!(loom) { 1 } else { 16 };
/// The most that grows to.
const LAST_PATIENCE: u32 = if cfg!(loom) { 1 } else { 1 << 20 };
const NOBODY: usize = 0;
/// Favourites, of now and before, that each have a flag.
const FLAGS: usize = 4;
/// The bits of a favour that number its flag. They are 0 in every thread's mark, which is the address of a word.
const FLAG: usize = FLAGS - 1;
/// Looks at a favourite inside before the thread that waits sleeps between two.
const YIELDS: u32 = 64 * 1000;
const NAP: Duration = Duration::from_micros(50);

/// Who came last, and how often in a row. Used by who holds the ordinary lock.
#[derive(Debug)]
struct Habit {
    last: usize,
    times: u32,
    patience: u32,
    /// Whose each flag is.
    owners: [usize; FLAGS],
    /// The flag of the favourite before, as long as that may be inside.
    leaving: Option<usize>,
}

/// A mutex for data that one thread uses nearly always. It does not poison: who panics inside leaves what is there.
#[derive(Debug)]
pub struct BiasedMutex<T> {
    /// The favour: the mark of the thread that has it, and the number of its flag.
    favourite: AtomicUsize,
    /// The favourite of each flag is inside.
    inside: [AtomicBool; FLAGS],
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
    /// The flag to take down, if a favourite has it.
    flag: Option<&'a AtomicBool>,
    /// Stays on the thread that took it.
    not_send: PhantomData<*mut ()>,
}

// SAFETY: sharing the guard shares the data behind it, and nothing else.
unsafe impl<T: Sync> Sync for BiasedGuard<'_, T> {}

impl<T> BiasedMutex<T> {
    /// A mutex nobody is the favourite of.
    pub fn new(data: T) -> Self {
        Self {
            favourite: AtomicUsize::new(NOBODY),
            inside: std::array::from_fn(|_| AtomicBool::new(false)),
            ordinary: RawLock::new(),
            habit: UnsafeCell::new(Habit {
                last: NOBODY,
                times: 0,
                patience: FIRST_PATIENCE,
                owners: [NOBODY; FLAGS],
                leaving: None,
            }),
            data: UnsafeCell::new(data),
        }
    }

    /// Waits for the mutex and takes it. A thread that holds it already waits for ever.
    #[inline]
    pub fn lock(&self) -> BiasedGuard<'_, T> {
        let flag = self.enter_as_favourite();
        if flag.is_none() {
            self.lock_slowly();
        }
        BiasedGuard { mutex: self, flag, not_send: PhantomData }
    }

    /// Takes the mutex if nobody has it now.
    #[inline]
    pub fn try_lock(&self) -> Option<BiasedGuard<'_, T>> {
        let flag = self.enter_as_favourite();
        if flag.is_none() && !self.try_lock_slowly() {
            return None;
        }
        Some(BiasedGuard { mutex: self, flag, not_send: PhantomData })
    }

    #[inline]
    fn enter_as_favourite(&self) -> Option<&AtomicBool> {
        let favour = self.favourite.load(Ordering::Relaxed);
        if favour & !FLAG != thread_mark() {
            return None;
        }
        let flag = &self.inside[favour & FLAG];
        // Inside already: a signal handler of this thread. It waits like anybody else, which is for ever.
        if flag.load(Ordering::Relaxed) {
            return None;
        }
        flag.store(true, Ordering::Relaxed);
        // Between the flag and the look at the favour: whoever withdraws it fences this thread before looking at the
        // flag, so one of the two sees the other. A favour exists only where light fences are free.
        light_fence(|| true);
        if self.favourite.load(Ordering::Acquire) == favour {
            return Some(flag);
        }
        flag.store(false, Ordering::Release);
        None
    }

    #[cold]
    fn lock_slowly(&self) {
        self.ordinary.lock();
        self.withdraw();
        let mut rounds = 0u32;
        while !self.has_left() {
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
        if !self.inside[self.favourite.load(Ordering::Relaxed) & FLAG].load(Ordering::Relaxed) {
            self.withdraw();
            if self.has_left() {
                self.count();
                return true;
            }
        }
        self.ordinary.unlock();
        false
    }

    /// Takes the favour from whoever has it. The caller holds the ordinary lock.
    fn withdraw(&self) {
        let favour = self.favourite.load(Ordering::Relaxed);
        if favour != NOBODY {
            self.favourite.store(NOBODY, Ordering::SeqCst);
            heavy_fence_for_grants(FenceReach::Process);
            // SAFETY: the caller holds the ordinary lock.
            let habit = unsafe { &mut *self.habit.get() };
            habit.patience = (habit.patience * 4).min(LAST_PATIENCE);
            (habit.last, habit.times) = (NOBODY, 0);
            habit.leaving = Some(favour & FLAG);
        }
    }

    /// Whether whoever had the favour is outside, and stays there. The caller holds the ordinary lock, and has withdrawn the
    /// favour.
    fn has_left(&self) -> bool {
        // SAFETY: the caller holds the ordinary lock.
        let habit = unsafe { &mut *self.habit.get() };
        // Looked at after the fence: a flag that is raised after this look is raised by who then finds the favour gone.
        habit.leaving = habit.leaving.filter(|flag| self.inside[*flag].load(Ordering::Acquire));
        habit.leaving.is_none()
    }

    /// Notes who has the mutex, and makes a favourite of who keeps coming. The caller holds the ordinary lock, and nobody is
    /// inside.
    fn count(&self) {
        let me = thread_mark();
        // SAFETY: the caller holds the ordinary lock.
        let habit = unsafe { &mut *self.habit.get() };
        if habit.last != me {
            (habit.last, habit.times) = (me, 0);
            // It is here, so not about to raise a flag of before.
            habit.owners.iter_mut().filter(|owner| **owner == me).for_each(|owner| *owner = NOBODY);
        }
        habit.times = habit.times.saturating_add(1);
        if habit.times >= habit.patience
            && light_fences_are_free()
            && let Some(flag) = habit.owners.iter().position(|owner| *owner == NOBODY)
        {
            habit.owners[flag] = me;
            // In force from the next time on; whoever comes before finds the ordinary lock taken.
            self.favourite.store(me | flag, Ordering::Release);
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
        match self.flag {
            Some(flag) => flag.store(false, Ordering::Release),
            None => self.mutex.ordinary.unlock(),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
