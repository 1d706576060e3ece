//! The slots of a process's own operations.

use std::time::Duration;

use nonic_sys::{SetOnce, THREAD_PLACES};

use super::{Deadline, Inside, OperationGuard, OperationSlots, SLOTS};

/// The slots of this process's own operations, which no other process sees: as many as are needed.
#[derive(Debug)]
pub struct OwnSlots {
    first: OperationSlots,
    more: More,
}

/// Further sets. They are few and stay: as many as were ever full at one moment.
type More = SetOnce<Box<Further>>;

#[derive(Debug)]
struct Further {
    slots: OperationSlots,
    more: More,
}

impl OwnSlots {
    /// Free ones.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self { first: OperationSlots::private()?, more: More::new() })
    }

    /// Takes a slot. `light` is as in [`OperationSlots::enter`].
    #[inline(always)]
    pub fn enter(&self, light: impl FnOnce() -> bool) -> OperationGuard<'_> {
        match self.first.enter_own_place(light) {
            Some(guard) => guard,
            None => self.enter_any(),
        }
    }

    #[cold]
    fn enter_any(&self) -> OperationGuard<'_> {
        self.first.enter_one_of(THREAD_PLACES, SLOTS).unwrap_or_else(|| self.enter_further())
    }

    /// Takes a slot of a further set: what [`OwnSlots::enter`] comes to when all of the first are taken.
    #[cfg(loom)]
    pub fn enter_beyond_the_first(&self) -> OperationGuard<'_> {
        self.enter_further()
    }

    #[cold]
    fn enter_further(&self) -> OperationGuard<'_> {
        let mut more = &self.more;
        loop {
            if more.get().is_none() {
                match OperationSlots::private() {
                    // Of two threads that bring one, one's goes.
                    Ok(slots) => drop(more.set(Box::new(Further { slots, more: More::new() }))),
                    // No memory at all: one of those who are inside leaves some time.
                    Err(_) => {
                        nonic_sys::yield_now();
                        more = &self.more;
                    }
                }
            }
            let Some(further) = more.get() else { continue };
            if let Some(guard) = further.slots.enter_one_of(0, SLOTS) {
                return guard;
            }
            more = &further.more;
        }
    }

    fn sets(&self) -> impl Iterator<Item = &OperationSlots> {
        // A set that is not seen here was added later: who enters it passes a full fence before looking its key up.
        let further = std::iter::successors(self.more.get(), |further| further.more.get());
        std::iter::once(&self.first).chain(further.map(|further| &further.slots))
    }

    /// The operations that are inside now; `None` if there are none. The caller has killed the key and passed the fence that
    /// goes with it.
    pub fn inside(&self) -> Option<Inside> {
        let mut inside = Inside::default();
        self.sets().for_each(|slots| inside.note(slots));
        inside.anybody()
    }

    /// Waits until every operation that is inside now has left, those that begin meanwhile not included. False if `limit` ran
    /// out. The caller has killed the key, passed a heavy fence, and is not inside itself.
    pub fn wait_idle(&self, limit: Duration) -> bool {
        let mut deadline = Deadline { limit, at: None };
        self.sets().all(|slots| slots.wait_until(&mut deadline, &|| false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicBool, Ordering};

    const FULLY_FENCED: fn() -> bool = || false;

    #[test]
    fn waiting_ends_when_the_operation_does_and_not_before() {
        let slots = OwnSlots::new().unwrap();
        let inside = slots.enter(FULLY_FENCED);
        assert!(!slots.wait_idle(Duration::from_millis(5)));
        assert!(!slots.first.wait_idle(Duration::from_secs(60), &|| true));
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert!(slots.wait_idle(Duration::from_secs(60)));
                assert!(done.load(Ordering::SeqCst));
            });
            std::thread::yield_now();
            done.store(true, Ordering::SeqCst);
            drop(inside);
        });
    }

    #[test]
    fn those_inside_have_left_when_each_of_them_has_and_later_ones_do_not_count() {
        let slots = OwnSlots::new().unwrap();
        assert!(slots.inside().is_none());
        let (first, second) = (slots.enter(FULLY_FENCED), slots.enter(FULLY_FENCED));
        let inside = slots.inside().unwrap();
        drop(first);
        assert!(!inside.have_left());
        drop(second);
        let _later = slots.enter(FULLY_FENCED);
        assert!(inside.have_left());
    }

    #[test]
    fn an_operation_that_begins_later_is_not_waited_for() {
        let slots = OwnSlots::new().unwrap();
        assert!(slots.wait_idle(Duration::ZERO));
        let first = slots.enter(FULLY_FENCED);
        let second = slots.enter(FULLY_FENCED);
        drop(first);
        drop(second);
        assert!(slots.wait_idle(Duration::ZERO));
    }

    #[test]
    fn operations_within_operations_never_wait_and_each_is_waited_for() {
        let slots = OwnSlots::new().unwrap();
        let mut guards: Vec<_> = (0..5 * SLOTS).map(|_| slots.enter(FULLY_FENCED)).collect();
        while let Some(guard) = guards.pop() {
            let inside = slots.inside().unwrap();
            assert!(!inside.have_left());
            assert!(!slots.wait_idle(Duration::ZERO));
            drop(guard);
            assert_eq!(inside.have_left(), guards.is_empty());
        }
        assert!(slots.wait_idle(Duration::ZERO));
        // The places that were made are used again.
        let count = || slots.sets().count();
        let sets = count();
        let _again: Vec<_> = (0..5 * SLOTS).map(|_| slots.enter(FULLY_FENCED)).collect();
        assert_eq!(count(), sets);
    }

    #[test]
    fn any_number_of_threads_is_inside_at_once_two_levels_deep() {
        let slots = OwnSlots::new().unwrap();
        let barrier = Barrier::new(100);
        std::thread::scope(|scope| {
            for _ in 0..100 {
                scope.spawn(|| {
                    let outer = slots.enter(FULLY_FENCED);
                    barrier.wait();
                    // Everybody is inside, and now everybody wants a second one.
                    let inner = slots.enter(FULLY_FENCED);
                    barrier.wait();
                    drop(outer);
                    drop(inner);
                });
            }
        });
        assert!(slots.wait_idle(Duration::ZERO));
    }
}
