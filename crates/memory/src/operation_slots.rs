//! Who is inside an operation right now: what revocation waits for.
//!
//! An operation takes a slot before it looks a key up and frees it after the last byte. Whoever kills a key waits until
//! every slot that was taken at that moment has moved on: from then on nothing that began before can still land.
//!
//! Taking a slot must not be reordered with the lookup behind it, as seen by whoever kills the key and then looks at the
//! slots. The rare side, revocation, pays for that with a heavy fence ([`nonic_sys::heavy_fence`]); a thread with a
//! slot of its own then takes it with a plain store.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use nonic_sys::{SharedMapping, SharedWords, THREAD_PLACES, light_fence, thread_place};

/// Bytes between slots: each has its cache lines to itself (pairs of lines are fetched together).
const STRIDE: usize = 128;
/// Slots of one party: one for each thread's place, and some for threads without, and for operations within operations.
const SLOTS: usize = THREAD_PLACES + 4;
const _: () = assert!(SLOTS == 16, "the layout of shared memory has room for 16");

/// A set of slots in memory that both the one who operates and the one who revokes can see.
///
/// A slot's word is even when free, odd while taken, and grows with every change.
#[derive(Clone, Debug)]
pub struct OperationSlots {
    words: SharedWords,
}

/// A taken slot; freed when dropped.
#[derive(Debug)]
pub struct OperationGuard<'a> {
    slots: &'a OperationSlots,
    slot: usize,
    taken: u64,
}

impl OperationSlots {
    /// Bytes one set takes.
    pub const LENGTH: usize = STRIDE * SLOTS;

    /// The set at `offset` of `mapping`.
    pub fn new(mapping: Arc<SharedMapping>, offset: usize) -> Self {
        Self { words: SharedWords::new(mapping, offset, Self::LENGTH / 8) }
    }

    /// A set that only this process sees.
    pub fn private() -> std::io::Result<Self> {
        Ok(Self::new(Arc::new(SharedMapping::anonymous(Self::LENGTH)?), 0))
    }

    #[inline(always)]
    fn word(&self, slot: usize) -> &nonic_sys::AtomicU64 {
        self.words.at(slot * (STRIDE / 8))
    }

    /// Takes a slot. `light` says that whoever revokes passes a heavy fence between killing the key and
    /// [`OperationSlots::wait_idle`]: then this costs no fence.
    #[inline(always)]
    pub fn enter(&self, light: bool) -> OperationGuard<'_> {
        if let Some(slot) = thread_place() {
            let word = self.word(slot);
            let seen = word.load(Ordering::Relaxed);
            // Odd: this thread is inside already, one level up.
            if seen.is_multiple_of(2) {
                word.store(seen.wrapping_add(1), Ordering::Relaxed);
                light_fence(light);
                return OperationGuard { slots: self, slot, taken: seen.wrapping_add(1) };
            }
        }
        self.enter_shared()
    }

    /// Takes the first slot with a plain store and no fence: what [`OperationSlots::enter`] comes to where fences are light and
    /// nobody passes a heavy one. A model has no other way to say so.
    #[cfg(loom)]
    pub fn enter_unfenced(&self) -> OperationGuard<'_> {
        let seen = self.word(0).load(Ordering::Relaxed);
        self.word(0).store(seen.wrapping_add(1), Ordering::Relaxed);
        OperationGuard { slots: self, slot: 0, taken: seen.wrapping_add(1) }
    }

    /// Takes one of the slots that are nobody's own.
    #[cold]
    fn enter_shared(&self) -> OperationGuard<'_> {
        let mut slot = THREAD_PLACES;
        loop {
            let word = self.word(slot);
            let seen = word.load(Ordering::Relaxed);
            if seen.is_multiple_of(2)
                && word
                    .compare_exchange(seen, seen.wrapping_add(1), Ordering::SeqCst, Ordering::Relaxed)
                    .is_ok()
            {
                light_fence(false);
                return OperationGuard { slots: self, slot, taken: seen.wrapping_add(1) };
            }
            slot += 1;
            if slot == SLOTS {
                slot = THREAD_PLACES;
                nonic_sys::yield_now();
            }
        }
    }

    /// The operations that are inside now; `None` if there are none. The caller has killed the key and passed the fence that
    /// goes with it.
    pub fn inside(&self) -> Option<Inside> {
        let mut seen = [0; SLOTS];
        for (slot, seen) in seen.iter_mut().enumerate() {
            *seen = self.word(slot).load(Ordering::SeqCst);
        }
        seen.iter().any(|word| !word.is_multiple_of(2)).then(|| Inside { slots: self.clone(), seen })
    }

    /// Waits until every operation that is inside now has left. False if `limit` ran out or `abandoned` said that the
    /// other party is gone. The caller has killed the key and then passed a heavy fence that reaches the other party.
    pub fn wait_idle(&self, limit: Duration, abandoned: &dyn Fn() -> bool) -> bool {
        let mut deadline = None;
        for slot in 0..SLOTS {
            let word = self.word(slot);
            let seen = word.load(Ordering::SeqCst);
            if seen.is_multiple_of(2) {
                continue;
            }
            let mut rounds = 0u32;
            while word.load(Ordering::SeqCst) == seen {
                rounds += 1;
                if rounds < 200 {
                    nonic_sys::cpu_relax();
                    continue;
                }
                if abandoned() {
                    return false;
                }
                if Instant::now() > *deadline.get_or_insert_with(|| Instant::now() + limit) {
                    return false;
                }
                nonic_sys::yield_now();
            }
        }
        true
    }
}

/// The operations that were inside at one moment.
#[derive(Clone, Debug)]
pub struct Inside {
    slots: OperationSlots,
    seen: [u64; SLOTS],
}

impl Inside {
    /// Whether all of them have left.
    pub fn have_left(&self) -> bool {
        self.seen.iter().enumerate().all(|(slot, seen)| {
            seen.is_multiple_of(2) || self.slots.word(slot).load(Ordering::SeqCst) != *seen
        })
    }
}

impl Drop for OperationGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.slots.word(self.slot).store(self.taken.wrapping_add(1), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn waiting_ends_when_the_operation_does_and_not_before() {
        let slots = Arc::new(OperationSlots::private().unwrap());
        let inside = slots.enter(false);
        assert!(!slots.wait_idle(Duration::from_millis(5), &|| false));
        assert!(!slots.wait_idle(Duration::from_secs(60), &|| true));
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert!(slots.wait_idle(Duration::from_secs(60), &|| false));
                assert!(done.load(Ordering::SeqCst));
            });
            std::thread::yield_now();
            done.store(true, Ordering::SeqCst);
            drop(inside);
        });
    }

    #[test]
    fn those_inside_have_left_when_each_of_them_has_and_later_ones_do_not_count() {
        let slots = OperationSlots::private().unwrap();
        assert!(slots.inside().is_none());
        let (first, second) = (slots.enter(false), slots.enter(false));
        let inside = slots.inside().unwrap();
        drop(first);
        assert!(!inside.have_left());
        drop(second);
        let _later = slots.enter(false);
        assert!(inside.have_left());
    }

    #[test]
    fn an_operation_that_begins_later_is_not_waited_for() {
        let slots = OperationSlots::private().unwrap();
        assert!(slots.wait_idle(Duration::ZERO, &|| false));
        let first = slots.enter(false);
        let second = slots.enter(false);
        drop(first);
        drop(second);
        assert!(slots.wait_idle(Duration::ZERO, &|| false));
    }
}
