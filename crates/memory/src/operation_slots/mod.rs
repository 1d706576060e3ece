//! Who is inside an operation right now: what revocation waits for.
//!
//! An operation takes a slot before it looks a key up and frees it after the last byte. Whoever kills a key waits until
//! every slot that was taken at that moment has moved on: from then on nothing that began before can still land.
//!
//! Taking a slot must not be reordered with the lookup behind it, as seen by whoever kills the key and then looks at the
//! slots. The rare side, revocation, pays for that with a heavy fence ([`nonic_sys::heavy_fence`]); a thread with a
//! slot of its own then takes it with a plain store.
//!
//! Nobody ever waits for a slot. Those that a peer sees are few, and the peer can write to them: who finds none free does
//! without the peer's memory ([`OperationSlots`]). Those of a process alone become as many as are needed ([`OwnSlots`]). So
//! operations may begin inside others, in any order, by any number of threads.

mod own;

pub use own::OwnSlots;

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use nonic_sys::{
    AtomicU64, SharedMapping, SharedWords, THREAD_PLACES, full_fence, light_fence, thread_mark, thread_place,
};

/// Bytes between slots: each has its cache lines to itself (pairs of lines are fetched together).
const STRIDE: usize = 128;
/// Slots of a set: one for each thread's place, and some for threads without, and for operations within operations.
const SLOTS: usize = THREAD_PLACES + 4;
const _: () = assert!(SLOTS == 16, "the layout of shared memory has room for 16");
/// The last, which only [`OperationSlots::enter_alone`] takes.
const ALONE: usize = SLOTS - 1;

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
    word: &'a AtomicU64,
    taken: u64,
    /// A thread's own slot is that thread's.
    not_send: PhantomData<*const ()>,
}

impl<'a> OperationGuard<'a> {
    fn new(word: &'a AtomicU64, taken: u64) -> Self {
        Self { word, taken, not_send: PhantomData }
    }
}

impl OperationSlots {
    /// Bytes one set takes.
    pub const LENGTH: usize = STRIDE * SLOTS;

    /// The set at `offset` of `mapping`.
    pub fn new(mapping: Arc<SharedMapping>, offset: usize) -> Self {
        Self { words: SharedWords::new(mapping, offset, Self::LENGTH / 8) }
    }

    /// A set that only this process sees.
    fn private() -> std::io::Result<Self> {
        Ok(Self::new(Arc::new(SharedMapping::anonymous(Self::LENGTH)?), 0))
    }

    #[inline(always)]
    fn word(&self, slot: usize) -> &AtomicU64 {
        self.words.at(slot * (STRIDE / 8))
    }

    /// Takes a slot, if there is a free one. `light` is asked once the slot is taken, and says that whoever revokes passes a
    /// heavy fence between killing the key and [`OperationSlots::wait_idle`]: then this costs no fence.
    #[inline(always)]
    pub fn enter(&self, light: impl FnOnce() -> bool) -> Option<OperationGuard<'_>> {
        match self.enter_own_place(light) {
            Some(guard) => Some(guard),
            None => self.enter_one_of(THREAD_PLACES, ALONE),
        }
    }

    /// The same for an operation of which there is never more than one at a time: what other threads do leaves it a slot.
    pub fn enter_alone(&self, light: impl FnOnce() -> bool) -> Option<OperationGuard<'_>> {
        self.enter_own_place(light).or_else(|| self.enter_one_of(ALONE, SLOTS))
    }

    /// Takes the slot of this thread's place.
    #[inline(always)]
    fn enter_own_place(&self, light: impl FnOnce() -> bool) -> Option<OperationGuard<'_>> {
        let word = self.word(thread_place()?);
        let seen = word.load(Ordering::Relaxed);
        // Odd: this thread is inside already, one level up. Or a peer wrote it.
        if !seen.is_multiple_of(2) {
            return None;
        }
        word.store(seen.wrapping_add(1), Ordering::Relaxed);
        light_fence(light);
        Some(OperationGuard::new(word, seen.wrapping_add(1)))
    }

    /// Takes the first slot with a plain store and no fence: what [`OperationSlots::enter`] comes to where fences are light and
    /// nobody passes a heavy one. A model has no other way to say so.
    #[cfg(loom)]
    pub fn enter_unfenced(&self) -> OperationGuard<'_> {
        let seen = self.word(0).load(Ordering::Relaxed);
        self.word(0).store(seen.wrapping_add(1), Ordering::Relaxed);
        OperationGuard::new(self.word(0), seen.wrapping_add(1))
    }

    /// Takes one of the slots from `first` to before `end`, which are nobody's own. One look at each: a peer may keep them odd
    /// for ever.
    #[cold]
    fn enter_one_of(&self, first: usize, end: usize) -> Option<OperationGuard<'_>> {
        let count = end - first;
        // Threads begin at different ones.
        let start = thread_mark() >> 12;
        (0..count).find_map(|turn| {
            let word = self.word(first + (start.wrapping_add(turn)) % count);
            let seen = word.load(Ordering::Relaxed);
            let taken = seen.wrapping_add(1);
            if !seen.is_multiple_of(2)
                || word.compare_exchange(seen, taken, Ordering::SeqCst, Ordering::Relaxed).is_err()
            {
                return None;
            }
            full_fence();
            Some(OperationGuard::new(word, taken))
        })
    }

    /// The operations that are inside now; `None` if there are none. The caller has killed the key and passed the fence that
    /// goes with it.
    pub fn inside(&self) -> Option<Inside> {
        let mut inside = Inside::default();
        inside.note(self);
        inside.anybody()
    }

    /// Waits until every operation that is inside now has left. False if `limit` ran out or `abandoned` said that the
    /// other party is gone. The caller has killed the key and then passed a heavy fence that reaches the other party.
    pub fn wait_idle(&self, limit: Duration, abandoned: &dyn Fn() -> bool) -> bool {
        self.wait_until(&mut Deadline { limit, at: None }, abandoned)
    }

    fn wait_until(&self, deadline: &mut Deadline, abandoned: &dyn Fn() -> bool) -> bool {
        (0..SLOTS).all(|slot| {
            let word = self.word(slot);
            let seen = word.load(Ordering::SeqCst);
            seen.is_multiple_of(2) || wait_for(word, seen, deadline, abandoned)
        })
    }
}

/// When waiting ends: `limit` after it began in earnest.
struct Deadline {
    limit: Duration,
    at: Option<Instant>,
}

impl Deadline {
    fn is_over(&mut self) -> bool {
        let now = Instant::now();
        now > *self.at.get_or_insert_with(|| now + self.limit)
    }
}

/// Waits until a word is another one.
#[cold]
fn wait_for(word: &AtomicU64, seen: u64, deadline: &mut Deadline, abandoned: &dyn Fn() -> bool) -> bool {
    let mut rounds = 0u32;
    while word.load(Ordering::SeqCst) == seen {
        rounds = rounds.saturating_add(1);
        if rounds < SPINS {
            nonic_sys::cpu_relax();
            continue;
        }
        if abandoned() || deadline.is_over() {
            return false;
        }
        if rounds < YIELDS {
            nonic_sys::yield_now();
        } else {
            // Whoever is inside may be of a lower priority, for which a real-time thread that only yields leaves no CPU.
            nonic_sys::nap(NAP);
        }
    }
    true
}

/// Looks at a taken slot before others are let on the CPU.
const SPINS: u32 = 200;
/// Looks before the waiting thread sleeps between two.
const YIELDS: u32 = 2000;
const NAP: Duration = Duration::from_micros(50);

/// The operations that were inside at one moment.
#[derive(Clone, Debug, Default)]
pub struct Inside {
    seen: Vec<(OperationSlots, usize, u64)>,
}

impl Inside {
    fn note(&mut self, slots: &OperationSlots) {
        let taken = (0..SLOTS).map(|slot| (slot, slots.word(slot).load(Ordering::SeqCst)));
        let taken = taken.filter(|(_, word)| !word.is_multiple_of(2));
        self.seen.extend(taken.map(|(slot, word)| (slots.clone(), slot, word)));
    }

    fn anybody(self) -> Option<Self> {
        (!self.seen.is_empty()).then_some(self)
    }

    /// Whether all of them have left.
    pub fn have_left(&self) -> bool {
        self.seen.iter().all(|(slots, slot, word)| slots.word(*slot).load(Ordering::SeqCst) != *word)
    }
}

impl Drop for OperationGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.word.store(self.taken.wrapping_add(1), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULLY_FENCED: fn() -> bool = || false;

    #[test]
    fn a_set_that_a_peer_sees_is_declined_when_it_is_full_whoever_filled_it() {
        let slots = OperationSlots::private().unwrap();
        let mut guards = Vec::new();
        guards.extend(std::iter::from_fn(|| slots.enter(FULLY_FENCED)));
        assert!(guards.len() >= 3 && guards.len() < SLOTS, "{}", guards.len());
        let alone = slots.enter_alone(FULLY_FENCED).expect("this one is kept free by the others");
        assert!(slots.enter_alone(FULLY_FENCED).is_none());
        drop((guards, alone));
        // A peer that keeps every word odd, and changes them all the time.
        for odd in [1, u64::MAX, 77] {
            (0..SLOTS).for_each(|slot| slots.word(slot).store(odd, Ordering::SeqCst));
            assert!(slots.enter(FULLY_FENCED).is_none());
            assert!(slots.enter_alone(FULLY_FENCED).is_none());
        }
    }
}
