//! Device memory: one arena a device, mapped by trusted peers, given out in pieces.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nonic_sys::{BorrowedFd, PAGE, Protection, SharedMapping, SharedMemory};

use crate::SharedSlice;

/// Pieces start and end at multiples of this, in bytes: two pieces never share a cache line.
const GRANULE: u64 = 64;

/// Why the arena gave nothing. Nothing was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArenaError {
    /// Zero bytes.
    #[error("device memory of no bytes")]
    Empty,
    /// More than the device has in all.
    #[error("{asked} bytes of device memory; the device has {capacity} in all")]
    TooLong {
        /// What was asked for.
        asked: u64,
        /// What there is.
        capacity: u64,
    },
    /// An alignment beyond the arena.
    #[error("an alignment of 2^{asked} bytes; the device goes up to 2^{limit}")]
    Alignment {
        /// Log2 of what was asked for.
        asked: u32,
        /// Log2 of the most there is.
        limit: u32,
    },
    /// Everything large enough is taken.
    #[error("no {asked} bytes of device memory are free in one piece; {free} of {capacity} are free in all")]
    NoRoom {
        /// What was asked for.
        asked: u64,
        /// What is free, in pieces.
        free: u64,
        /// What there is.
        capacity: u64,
    },
}

/// The device memory of one device.
#[derive(Debug)]
pub struct Arena {
    memory: SharedMemory,
    mapping: Arc<SharedMapping>,
    capacity: u64,
    /// Free pieces: start to length, never adjacent to each other.
    free: Mutex<BTreeMap<u64, u64>>,
}

impl Arena {
    /// An arena of `capacity` bytes, rounded up to pages; no page exists before it is touched.
    pub fn create(capacity: u64) -> io::Result<Self> {
        let capacity = capacity.next_multiple_of(PAGE as u64).max(PAGE as u64);
        let memory = SharedMemory::create("nonic-device-memory", capacity as usize)?;
        let mapping = Arc::new(memory.map(Protection::ReadWrite)?);
        let free = Mutex::new(BTreeMap::from([(0, capacity)]));
        Ok(Self { memory, mapping, capacity, free })
    }

    /// Bytes in all.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The file, for peers to map.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        nonic_sys::AsFd::as_fd(&self.memory)
    }

    /// Bytes at an offset; `None` if they are not inside.
    pub fn slice(&self, offset: u64, length: u64) -> Option<SharedSlice<'_>> {
        SharedSlice::of_mapping(&self.mapping, usize::try_from(offset).ok()?, usize::try_from(length).ok()?)
    }

    fn free_pieces(&self) -> MutexGuard<'_, BTreeMap<u64, u64>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes `length` bytes whose start is a multiple of 2^`log_alignment`; they are zero. Returns their offset.
    pub fn allocate(&self, length: u64, log_alignment: u32) -> Result<u64, ArenaError> {
        if length == 0 {
            return Err(ArenaError::Empty);
        }
        if length > self.capacity {
            return Err(ArenaError::TooLong { asked: length, capacity: self.capacity });
        }
        let limit = self.capacity.ilog2();
        if log_alignment > limit {
            return Err(ArenaError::Alignment { asked: log_alignment, limit });
        }
        let alignment = GRANULE.max(1 << log_alignment);
        let length = length.next_multiple_of(GRANULE);
        let mut free = self.free_pieces();
        let fit = free.iter().find_map(|(&start, &size)| {
            let aligned = start.next_multiple_of(alignment);
            (aligned - start + length <= size).then_some((start, size, aligned))
        });
        let Some((start, size, aligned)) = fit else {
            return Err(ArenaError::NoRoom {
                asked: length,
                free: free.values().sum(),
                capacity: self.capacity,
            });
        };
        free.remove(&start);
        if aligned > start {
            free.insert(start, aligned - start);
        }
        if aligned + length < start + size {
            free.insert(aligned + length, start + size - aligned - length);
        }
        Ok(aligned)
    }

    /// Gives back what [`Arena::allocate`] gave for `length` bytes. Whole pages go back to the kernel.
    pub fn release(&self, offset: u64, length: u64) {
        let length = length.next_multiple_of(GRANULE);
        self.clear(offset, length);
        let mut free = self.free_pieces();
        let (mut start, mut size) = (offset, length);
        if let Some((&before, &before_size)) = free.range(..offset).next_back()
            && before + before_size == offset
        {
            free.remove(&before);
            (start, size) = (before, before_size + size);
        }
        if let Some(after_size) = free.remove(&(offset + length)) {
            size += after_size;
        }
        free.insert(start, size);
    }

    /// Makes a range zero again: the next owner must not read the last one's bytes.
    fn clear(&self, offset: u64, length: u64) {
        let page = PAGE as u64;
        let (first, last) = (offset.next_multiple_of(page), (offset + length) / page * page);
        let zero = |from: u64, to: u64| {
            let zeros = [0u8; PAGE];
            let mut at = from;
            while at < to {
                let count = (to - at).min(page);
                if let Some(slice) = self.slice(at, count) {
                    slice.write(&zeros[..count as usize]);
                }
                at += count;
            }
        };
        if first < last && self.memory.punch(first, last - first).is_ok() {
            zero(offset, first);
            zero(last, offset + length);
        } else {
            zero(offset, offset + length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_whole_arena_can_be_taken_and_taken_again() {
        let arena = Arena::create(1 << 20).unwrap();
        for _ in 0..3 {
            let offset = arena.allocate(1 << 20, 0).unwrap();
            assert!(matches!(arena.allocate(1, 0), Err(ArenaError::NoRoom { free: 0, .. })));
            arena.release(offset, 1 << 20);
        }
    }

    #[test]
    fn what_the_last_owner_wrote_is_gone() {
        let arena = Arena::create(1 << 20).unwrap();
        let offset = arena.allocate(10_000, 0).unwrap();
        arena.slice(offset, 10_000).unwrap().write(&[0xAA; 10_000]);
        arena.release(offset, 10_000);
        let offset = arena.allocate(10_000, 0).unwrap();
        let mut seen = vec![1u8; 10_000];
        arena.slice(offset, 10_000).unwrap().read(&mut seen);
        assert!(seen.iter().all(|&byte| byte == 0));
    }

    #[test]
    fn nonsense_is_refused_by_name_and_takes_nothing() {
        let arena = Arena::create(1 << 20).unwrap();
        assert_eq!(arena.allocate(0, 0), Err(ArenaError::Empty));
        assert!(matches!(arena.allocate((1 << 20) + 1, 0), Err(ArenaError::TooLong { .. })));
        assert!(matches!(arena.allocate(64, 21), Err(ArenaError::Alignment { limit: 20, .. })));
        assert!(matches!(arena.allocate(64, u32::MAX), Err(ArenaError::Alignment { .. })));
        assert!(arena.allocate(1 << 20, 20).is_ok());
    }

    proptest! {
        #[test]
        fn pieces_are_aligned_never_overlap_and_all_come_back(
            steps in prop::collection::vec((1u64..5000, 0u32..13, any::<bool>()), 1..80)
        ) {
            let arena = Arena::create(1 << 18).unwrap();
            let mut held: Vec<(u64, u64)> = Vec::new();
            for (length, log_alignment, give_back) in steps {
                if give_back && !held.is_empty() {
                    let (offset, length) = held.swap_remove(length as usize % held.len());
                    arena.release(offset, length);
                } else if let Ok(offset) = arena.allocate(length, log_alignment) {
                    prop_assert_eq!(offset % (1 << log_alignment), 0);
                    for &(other, other_length) in &held {
                        prop_assert!(offset + length <= other || other + other_length <= offset);
                    }
                    held.push((offset, length));
                }
            }
            for (offset, length) in held {
                arena.release(offset, length);
            }
            prop_assert!(arena.allocate(1 << 18, 0).is_ok());
        }
    }
}
