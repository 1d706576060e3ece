//! A mutex that costs the thread which keeps taking it a few plain instructions: no locked one, no fence.
//!
//! A thread that took the mutex often without anybody else coming between becomes its *favourite* and from then on only
//! raises a flag while it is inside. Another thread that comes takes the ordinary mutex behind it, withdraws the favour,
//! has the kernel fence all threads ([`heavy_fence_for_grants`]), and waits until the flag is down. A mutex whose favour is
//! withdrawn again and again takes longer and longer to grant it.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::asymmetric::{FenceReach, heavy_fence_for_grants, light_fence, light_fences_are_free};
use crate::raw_lock::RawLock;
use crate::{cpu_relax, nap, thread_mark, yield_now};

/// Times in a row that a thread takes a mutex before it becomes its favourite.
const FIRST_PATIENCE: u32 = 16;
/// The most that grows to.
const LAST_PATIENCE: u32 = 1 << 20;
const NOBODY: usize = 0;
/// Looks at a favourite inside before the thread that waits sleeps between two.
const YIELDS: u32 = 64 * 1000;
const NAP: Duration = Duration::from_micros(50);

/// Who came last, and how often in a row. Used by who holds the ordinary lock.
#[derive(Debug)]
struct Habit {
    last: usize,
    times: u32,
    patience: u32,
}

/// A mutex for data that one thread uses nearly always. It does not poison: who panics inside leaves what is there.
#[derive(Debug)]
pub struct BiasedMutex<T> {
    favourite: AtomicUsize,
    /// The favourite is inside.
    inside: AtomicBool,
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
    as_favourite: bool,
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
            inside: AtomicBool::new(false),
            ordinary: RawLock::new(),
            habit: UnsafeCell::new(Habit { last: NOBODY, times: 0, patience: FIRST_PATIENCE }),
            data: UnsafeCell::new(data),
        }
    }

    /// Waits for the mutex and takes it. A thread that holds it already waits for ever.
    #[inline]
    pub fn lock(&self) -> BiasedGuard<'_, T> {
        let as_favourite = self.enter_as_favourite();
        if !as_favourite {
            self.lock_slowly();
        }
        BiasedGuard { mutex: self, as_favourite, not_send: PhantomData }
    }

    /// Takes the mutex if nobody has it now.
    #[inline]
    pub fn try_lock(&self) -> Option<BiasedGuard<'_, T>> {
        let as_favourite = self.enter_as_favourite();
        if !as_favourite && !self.try_lock_slowly() {
            return None;
        }
        Some(BiasedGuard { mutex: self, as_favourite, not_send: PhantomData })
    }

    #[inline]
    fn enter_as_favourite(&self) -> bool {
        let favourite = self.favourite.load(Ordering::Relaxed);
        // Inside already: a signal handler of this thread. It waits like anybody else, which is for ever.
        if favourite == NOBODY || favourite != thread_mark() || self.inside.load(Ordering::Relaxed) {
            return false;
        }
        self.inside.store(true, Ordering::Relaxed);
        // Between the flag and the look at the favour: whoever withdraws it fences this thread before looking at the
        // flag, so one of the two sees the other. A favour exists only where light fences are free.
        light_fence(|| true);
        if self.favourite.load(Ordering::Acquire) == favourite {
            return true;
        }
        self.inside.store(false, Ordering::Release);
        false
    }

    #[cold]
    fn lock_slowly(&self) {
        self.ordinary.lock();
        self.withdraw();
        let mut rounds = 0u32;
        while self.inside.load(Ordering::Acquire) {
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
        if !self.inside.load(Ordering::Relaxed) {
            self.withdraw();
            if !self.inside.load(Ordering::Acquire) {
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
        }
        habit.times += 1;
        if habit.times >= habit.patience && light_fences_are_free() {
            // In force from the next time on; whoever comes before finds the ordinary lock taken.
            self.favourite.store(me, Ordering::Release);
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
        if self.as_favourite {
            self.mutex.inside.store(false, Ordering::Release);
        } else {
            self.mutex.ordinary.unlock();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prepare_light_fences;
    use std::sync::Arc;

    /// Two numbers that are equal whenever nobody is inside.
    fn twice(pair: &mut (u64, u64)) {
        // Volatile: the compiler must not make one step of two.
        // SAFETY: both are exclusively borrowed.
        unsafe {
            let first = std::ptr::read_volatile(&raw const pair.0);
            std::ptr::write_volatile(&raw mut pair.0, first + 1);
            let second = std::ptr::read_volatile(&raw const pair.1);
            std::ptr::write_volatile(&raw mut pair.1, second + 1);
            assert_eq!(first, second, "two threads were inside");
        }
    }

    #[test]
    fn a_favourite_and_its_rivals_are_never_inside_together() {
        prepare_light_fences();
        let mutex = Arc::new(BiasedMutex::new((0u64, 0u64)));
        std::thread::scope(|scope| {
            for rival in 0..3u32 {
                let mutex = Arc::clone(&mutex);
                scope.spawn(move || {
                    for round in 0..60_000u32 {
                        // The rivals come in turns, so that favours are granted and withdrawn over and over.
                        let rare = rival > 0 && !round.is_multiple_of(500);
                        if rare {
                            cpu_relax();
                        } else if rival == 2 {
                            if let Some(mut guard) = mutex.try_lock() {
                                twice(&mut guard);
                            }
                        } else {
                            twice(&mut mutex.lock());
                        }
                    }
                });
            }
        });
        let seen = *mutex.lock();
        assert!(seen.0 >= 60_000 && seen.0 == seen.1, "{seen:?}");
    }

    #[test]
    fn a_thread_alone_becomes_the_favourite_where_light_fences_are_free() {
        let free = prepare_light_fences();
        let mutex = BiasedMutex::new(0);
        for _ in 0..=FIRST_PATIENCE {
            *mutex.lock() += 1;
        }
        assert_eq!(mutex.favourite.load(Ordering::Relaxed) == thread_mark(), free);
        assert_eq!(mutex.lock().as_favourite, free);
        std::thread::scope(|scope| {
            scope.spawn(|| *mutex.lock() += 1);
        });
        assert_eq!(mutex.favourite.load(Ordering::Relaxed), NOBODY);
        assert_eq!(*mutex.lock(), FIRST_PATIENCE + 2);
    }

    #[test]
    fn nobody_gets_in_while_the_favourite_is_inside() {
        prepare_light_fences();
        let mutex = BiasedMutex::new(());
        for _ in 0..=FIRST_PATIENCE {
            drop(mutex.lock());
        }
        let guard = mutex.lock();
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(mutex.try_lock().is_none()));
        });
        drop(guard);
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(mutex.try_lock().is_some()));
        });
    }
}
