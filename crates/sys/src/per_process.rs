//! Values that belong to one process: a child made by `fork` gets new ones, and leaves its parent's alone.

use std::fmt;
use std::sync::OnceLock;

use crate::fork::fork_generation;

/// A value that every process makes for itself when it first asks. In a child the parent's value is neither used nor dropped:
/// its locks may be held by threads that are not there, and what it owns (mappings, descriptors, threads) is the parent's.
pub struct PerProcess<T> {
    first: OnceLock<Box<Made<T>>>,
}

struct Made<T> {
    generation: u32,
    /// `None` only while it is dropped.
    value: Option<T>,
    /// That of the process's child.
    next: OnceLock<Box<Made<T>>>,
}

impl<T> Default for PerProcess<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> PerProcess<T> {
    /// No process has asked yet.
    pub const fn new() -> Self {
        Self { first: OnceLock::new() }
    }

    /// This process's value, if it has made one.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        let generation = crate::current_generation();
        let mut made = self.first.get()?;
        while made.generation != generation {
            made = made.next.get()?;
        }
        made.value.as_ref()
    }

    /// This process's value, made by `make` if there is none yet. Of threads that make one at the same time, one's is kept.
    #[inline]
    pub fn get_or_make(&self, make: impl FnOnce() -> T) -> &T {
        match self.get() {
            Some(value) => value,
            None => self.make(make()),
        }
    }

    #[cold]
    fn make(&self, value: T) -> &T {
        let generation = fork_generation();
        let mut new = Some(Box::new(Made { generation, value: Some(value), next: OnceLock::new() }));
        let mut place = &self.first;
        loop {
            // Never made inside the cell's own lock: a fork of another thread would leave that lock taken in the child.
            if let Some(mine) = new.take()
                && let Err(mine) = place.set(mine)
            {
                new = Some(mine);
            }
            let made = place.get().expect("it was set just now, here or by another thread");
            if made.generation == generation {
                return made.value.as_ref().expect("it is not being dropped while it is borrowed");
            }
            place = &made.next;
        }
    }
}

impl<T> Drop for Made<T> {
    fn drop(&mut self) {
        if self.generation != crate::current_generation() {
            std::mem::forget(self.value.take());
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for PerProcess<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PerProcess").field(&self.get()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    static DROPPED: AtomicU32 = AtomicU32::new(0);

    struct Counted(u32);

    impl Drop for Counted {
        fn drop(&mut self) {
            DROPPED.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_child_makes_its_own_value_and_never_drops_its_parents() {
        let values = PerProcess::new();
        assert!(values.get().is_none());
        assert_eq!(values.get_or_make(|| Counted(1)).0, 1);
        assert_eq!(values.get_or_make(|| Counted(9)).0, 1);
        // SAFETY: the child touches its own memory only and leaves by `_exit`.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let nothing_yet = values.get().is_none();
            let own = values.get_or_make(|| Counted(2)).0 == 2 && values.get_or_make(|| Counted(9)).0 == 2;
            let before = DROPPED.load(Ordering::Relaxed);
            drop(values);
            let dropped = DROPPED.load(Ordering::Relaxed) - before;
            let good = nothing_yet && own && dropped == 1;
            // SAFETY: leaves at once.
            unsafe { libc::_exit(i32::from(!good)) };
        }
        let mut status = -1;
        // SAFETY: the child is this test's.
        assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
        assert_eq!(status, 0);
        assert_eq!(values.get().map(|value| value.0), Some(1));
    }
}
