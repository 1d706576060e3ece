//! Who is inside an operation right now: what revocation waits for.
//!
//! An operation takes a slot before it looks a key up and frees it after the last byte. Whoever kills a key waits until
//! every slot that was taken at that moment has moved on: from then on nothing that began before can still land.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nonic_sys::SharedMapping;

/// Bytes between slots: each has its cache lines to itself (pairs of lines are fetched together).
const STRIDE: usize = 128;
/// Slots of one party.
const SLOTS: usize = 16;

/// A set of slots in memory that both the one who operates and the one who revokes can see.
///
/// A slot's word is even when free, odd while taken, and grows with every change.
#[derive(Clone, Debug)]
pub struct OperationSlots {
    mapping: Arc<SharedMapping>,
    offset: usize,
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
        assert!(offset + Self::LENGTH <= mapping.length(), "the slots are outside the mapping");
        Self { mapping, offset }
    }

    /// A set that only this process sees.
    pub fn private() -> std::io::Result<Self> {
        Ok(Self::new(Arc::new(SharedMapping::anonymous(Self::LENGTH)?), 0))
    }

    fn word(&self, slot: usize) -> &nonic_sys::AtomicU64 {
        self.mapping.word(self.offset + slot * STRIDE)
    }

    /// Takes a slot: each thread has its favourite, so that threads do not meet.
    pub fn enter(&self) -> OperationGuard<'_> {
        let mut slot = favourite();
        loop {
            let word = self.word(slot % SLOTS);
            let seen = word.load(Ordering::Relaxed);
            // SeqCst: this store is ordered before the lookup of the key, as the revoker's store to the key is before
            // its look at the slots. One of the two always sees the other.
            if seen.is_multiple_of(2)
                && word
                    .compare_exchange(seen, seen.wrapping_add(1), Ordering::SeqCst, Ordering::Relaxed)
                    .is_ok()
            {
                nonic_sys::sequence_point();
                return OperationGuard { slots: self, slot: slot % SLOTS, taken: seen.wrapping_add(1) };
            }
            slot += 1;
            if slot.is_multiple_of(SLOTS) {
                nonic_sys::yield_now();
            }
        }
    }

    /// Waits until every operation that is inside now has left. False if `limit` ran out or `abandoned` said that the
    /// other party is gone.
    pub fn wait_idle(&self, limit: Duration, abandoned: &dyn Fn() -> bool) -> bool {
        let mut deadline = None;
        nonic_sys::sequence_point();
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

impl Drop for OperationGuard<'_> {
    fn drop(&mut self) {
        self.slots.word(self.slot).store(self.taken.wrapping_add(1), Ordering::Release);
    }
}

fn favourite() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static MINE: usize = NEXT.fetch_add(1, Ordering::Relaxed) % SLOTS;
    }
    MINE.with(|mine| *mine)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn waiting_ends_when_the_operation_does_and_not_before() {
        let slots = Arc::new(OperationSlots::private().unwrap());
        let inside = slots.enter();
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
    fn an_operation_that_begins_later_is_not_waited_for() {
        let slots = OperationSlots::private().unwrap();
        assert!(slots.wait_idle(Duration::ZERO, &|| false));
        let first = slots.enter();
        let second = slots.enter();
        drop(first);
        drop(second);
        assert!(slots.wait_idle(Duration::ZERO, &|| false));
    }
}
