//! Memory of another process that has a name in this one: what was registered there and is used here under keys of this process.
//!
//! It is named by addresses that no memory can have, and is paged like memory that may be there or not: so nothing takes it for bytes
//! that stand here, and whoever copies it comes to [`crate::paging`], which asks for it here.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, PoisonError, RwLock};

use nonic_sys::{PAGE, PerProcess};

/// The first such address. No process of this architecture has memory at or above it.
const FIRST: usize = 1 << 62;
/// Those behind the last.
const END: usize = 1 << 63;

/// Bytes of another process, by their offset.
pub trait ForeignMemory: Debug + Send + Sync {
    /// Copies bytes out; false if they cannot be had (any more).
    fn read(&self, offset: u64, bytes: &mut [u8]) -> bool;

    /// Copies bytes in; false if they cannot be had (any more), or not for writing.
    fn write(&self, offset: u64, bytes: &[u8]) -> bool;
}

/// By the first address, how many there are, and where they lead.
type Places = BTreeMap<usize, (usize, Arc<dyn ForeignMemory>)>;

/// A child has none of its parent's.
static PLACES: PerProcess<RwLock<Places>> = PerProcess::new();

/// Addresses that lead to memory of another process, until this is dropped. Whoever drops it has waited for all operations that use
/// them.
#[derive(Debug)]
pub struct ForeignPlace {
    start: usize,
    memory: Arc<dyn ForeignMemory>,
}

impl ForeignPlace {
    /// `length` addresses that lead to `memory`; `None` if there are not so many left.
    pub fn of(memory: Arc<dyn ForeignMemory>, length: u64) -> Option<Self> {
        let length = usize::try_from(length).ok()?;
        let room = length.checked_next_multiple_of(PAGE)?.max(PAGE);
        let places = PLACES.get_or_make(RwLock::default);
        let mut places = places.write().unwrap_or_else(PoisonError::into_inner);
        let start = gap(&places, room)?;
        places.insert(start, (length, Arc::clone(&memory)));
        Some(Self { start, memory })
    }

    /// The first address.
    pub fn start(&self) -> usize {
        self.start
    }
}

impl Drop for ForeignPlace {
    fn drop(&mut self) {
        let Some(places) = PLACES.get() else { return };
        let mut places = places.write().unwrap_or_else(PoisonError::into_inner);
        // In a child the addresses may be of something else.
        if places.get(&self.start).is_some_and(|(_, memory)| Arc::ptr_eq(memory, &self.memory)) {
            places.remove(&self.start);
        }
    }
}

/// Where `room` addresses are free, the first such place.
fn gap(places: &Places, room: usize) -> Option<usize> {
    let mut at = FIRST;
    for (start, (length, _)) in places {
        if start - at >= room {
            return Some(at);
        }
        at = start + length.next_multiple_of(PAGE).max(PAGE);
    }
    (END - at >= room).then_some(at)
}

/// Whether an address is of this kind.
#[inline]
pub fn is_foreign(address: usize) -> bool {
    (FIRST..END).contains(&address)
}

/// The memory behind such an address, and the offset there, if `length` bytes from it on belong to one.
pub(crate) fn find(address: usize, length: usize) -> Option<(Arc<dyn ForeignMemory>, u64)> {
    let places = PLACES.get()?.read().unwrap_or_else(PoisonError::into_inner);
    let (start, (size, memory)) = places.range(..=address).next_back()?;
    let offset = address - start;
    (length <= size.checked_sub(offset)?).then(|| (Arc::clone(memory), offset as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[derive(Debug)]
    struct Bytes(Mutex<Vec<u8>>);

    impl ForeignMemory for Bytes {
        fn read(&self, offset: u64, bytes: &mut [u8]) -> bool {
            bytes.copy_from_slice(&self.0.lock().unwrap()[offset as usize..][..bytes.len()]);
            true
        }

        fn write(&self, offset: u64, bytes: &[u8]) -> bool {
            self.0.lock().unwrap()[offset as usize..][..bytes.len()].copy_from_slice(bytes);
            true
        }
    }

    #[test]
    fn addresses_lead_to_their_memory_alone_and_only_as_long_as_they_are_kept() {
        let memory = |length| Arc::new(Bytes(Mutex::new(vec![7; length])));
        let (first, second) = (memory(5000), memory(10));
        let places = [(&first, 5000), (&second, 10)].map(|(memory, length)| {
            ForeignPlace::of(Arc::clone(memory) as Arc<dyn ForeignMemory>, length).unwrap()
        });
        let [start, other] = [places[0].start(), places[1].start()];
        assert!(is_foreign(start) && is_foreign(other + 9) && !is_foreign(FIRST - 1) && !is_foreign(END));
        let (found, offset) = find(start + 4990, 10).unwrap();
        assert!(found.write(offset, b"0123456789") && offset == 4990);
        assert_eq!(first.0.lock().unwrap()[4990..], *b"0123456789");
        assert!(find(start + 4990, 11).is_none(), "beyond its end");
        assert!(find(start + 5001, 0).is_none() && find(FIRST - 1, 1).is_none());
        assert_eq!(find(other, 10).unwrap().1, 0);
        let [first_place, second_place] = places;
        drop(first_place);
        assert!(find(start, 1).is_none() && find(other, 1).is_some());
        let again = ForeignPlace::of(first, 1).unwrap();
        assert!(again.start() != second_place.start());
        assert!(
            ForeignPlace::of(second, u64::MAX).is_none() && ForeignPlace::of(memory(0), 1 << 62).is_none()
        );
    }
}
