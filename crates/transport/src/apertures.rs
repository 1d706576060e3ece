//! Apertures onto a file, such as a peer's of adopted pages: mapped when they are first needed, found without a lock.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use nonic_memory::SharedSlice;
use nonic_sys::{OwnedFd, Protection, SharedMapping, SharedMemory};

use crate::link_record::LinkRecord;

/// Log2 of the bytes of an aperture. A program's heap, its mapped areas and its stacks are in a few of them.
const LARGE: u32 = 36;
/// The same where the process may not have so much address space (`RLIMIT_AS`), and where it may have next to none.
const SMALL: u32 = 30;
const SMALLEST: u32 = 25;
/// What every aperture's bounds are multiples of: bytes that cross no such multiple lie in one aperture.
pub const BOUND: usize = 1 << SMALLEST;
/// Apertures of one size at most, onto one peer's file.
const PLACES: usize = 64;

/// How many more apertures may be mapped onto all peers' files: 16 TiB of each size, and 1 TiB of the smallest. The rest of the address space is the
/// program's.
static LARGE_LEFT: AtomicUsize = AtomicUsize::new(16 << 40 >> LARGE);
static SMALL_LEFT: AtomicUsize = AtomicUsize::new(16 << 40 >> SMALL);
static SMALLEST_LEFT: AtomicUsize = AtomicUsize::new(1 << 40 >> SMALLEST);

/// Runs what maps an aperture and returns where it is, at a moment when that may happen.
pub type Placing = Box<dyn Fn(&mut dyn FnMut() -> Option<(usize, usize)>) + Send + Sync>;

/// A file, such as a peer's of adopted pages, as far as it is mapped here.
pub struct Apertures {
    /// None: it was let go.
    file: RwLock<Option<Arc<SharedMemory>>>,
    length: usize,
    protection: Protection,
    placing: Option<Placing>,
    large: Table,
    small: Table,
    smallest: Table,
    /// Where it is shown what is mapped.
    record: Option<Arc<LinkRecord>>,
    /// Held while an aperture is mapped.
    mapping: Mutex<()>,
}

/// Apertures of one size. Places are filled and never emptied, so a reader needs no lock.
#[derive(Debug)]
struct Table {
    shift: u32,
    left: &'static AtomicUsize,
    places: [OnceLock<Aperture>; PLACES],
}

#[derive(Debug)]
struct Aperture {
    number: u64,
    /// None: the kernel refused to map it.
    mapping: Option<SharedMapping>,
}

/// What a table knows of an aperture.
enum Found<'a> {
    Mapped(&'a SharedMapping),
    Refused,
    /// Not yet: this place is free for it.
    Free(&'a OnceLock<Aperture>),
    /// Not yet, and there is no place left.
    Full,
}

impl Table {
    fn new(shift: u32, left: &'static AtomicUsize) -> Self {
        Self { shift, left, places: [const { OnceLock::new() }; PLACES] }
    }

    #[inline]
    fn find(&self, number: u64) -> Found<'_> {
        let first = number as usize % PLACES;
        for step in 0..PLACES {
            match self.places[(first + step) % PLACES].get() {
                Some(aperture) if aperture.number == number => {
                    return aperture.mapping.as_ref().map_or(Found::Refused, Found::Mapped);
                }
                Some(_) => {}
                None => return Found::Free(&self.places[(first + step) % PLACES]),
            }
        }
        Found::Full
    }

    fn show(&self, record: &LinkRecord, refused: Option<&io::Error>) {
        record.update(|facts| match refused {
            Some(error) => facts.aperture_error = error.raw_os_error().unwrap_or(ENOMEM) as u16,
            None if self.shift == LARGE => facts.large_apertures = facts.large_apertures.saturating_add(1),
            None => facts.small_apertures = facts.small_apertures.saturating_add(1),
        });
    }

    fn map(
        &self,
        file: &SharedMemory,
        protection: Protection,
        start: u64,
        length: usize,
    ) -> io::Result<SharedMapping> {
        if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err() {
            return Err(io::Error::other("as many apertures are mapped as may be"));
        }
        file.map_part(start, length, protection).inspect_err(|_| {
            self.left.fetch_add(1, Ordering::Relaxed);
        })
    }

    /// The aperture with the byte at `offset` of the file, mapped now if it is not yet.
    #[cold]
    fn open(&self, apertures: &Apertures, file: &SharedMemory, offset: u64) -> Option<&SharedMapping> {
        let number = offset >> self.shift;
        match self.find(number) {
            Found::Mapped(mapping) => Some(mapping),
            Found::Refused | Found::Full => None,
            Found::Free(place) => {
                let start = number << self.shift;
                let length = (file.length() as u64).checked_sub(start)?.min(1 << self.shift) as usize;
                let mut mapping = Err(io::ErrorKind::NotFound.into());
                let mut map = || {
                    mapping = self.map(file, apertures.protection, start, length);
                    let mapping = mapping.as_ref().ok()?;
                    let start = mapping.as_ptr() as usize;
                    Some((start, start + mapping.length()))
                };
                match &apertures.placing {
                    Some(placing) => placing(&mut map),
                    None => {
                        map();
                    }
                }
                if let Err(error) = &mapping {
                    tracing::debug!(start, length, %error, "an aperture onto a peer's memory cannot be mapped");
                }
                if let Some(record) = &apertures.record {
                    self.show(record, mapping.as_ref().err());
                }
                place.get_or_init(|| Aperture { number, mapping: mapping.ok() }).mapping.as_ref()
            }
        }
    }
}

/// What an aperture lacks that this process may not map any more: room.
const ENOMEM: i32 = 12;

impl Drop for Table {
    fn drop(&mut self) {
        let mapped =
            self.places.iter().filter(|place| place.get().is_some_and(|aperture| aperture.mapping.is_some()));
        self.left.fetch_add(mapped.count(), Ordering::Relaxed);
    }
}

impl Apertures {
    /// Onto the file a peer sent, if it cannot shrink. Nothing is mapped yet.
    pub(crate) fn new(file: OwnedFd, record: Option<Arc<LinkRecord>>) -> io::Result<Self> {
        let mut apertures = Self::of(SharedMemory::from_peer_whole(file)?, Protection::ReadWrite);
        apertures.record = record;
        Ok(apertures)
    }

    /// Onto any file, of which whoever may answers for its not shrinking. Nothing is mapped yet; `placing`, if there is one, has
    /// each aperture mapped. Fails for an empty file.
    pub fn onto(file: OwnedFd, protection: Protection, placing: Option<Placing>) -> io::Result<Self> {
        let mut apertures = Self::of(SharedMemory::from_unsealed_whole(file)?, protection);
        apertures.placing = placing;
        Ok(apertures)
    }

    fn of(file: SharedMemory, protection: Protection) -> Self {
        Self {
            length: file.length(),
            file: RwLock::new(Some(Arc::new(file))),
            protection,
            placing: None,
            large: Table::new(LARGE, &LARGE_LEFT),
            small: Table::new(SMALL, &SMALL_LEFT),
            smallest: Table::new(SMALLEST, &SMALLEST_LEFT),
            record: None,
            mapping: Mutex::new(()),
        }
    }

    /// The file, if it was not let go.
    pub fn file(&self) -> Option<Arc<SharedMemory>> {
        self.file.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// In the order in which they are tried.
    fn tables(&self) -> [&Table; 3] {
        [&self.large, &self.small, &self.smallest]
    }

    fn lock_mapping(&self) -> MutexGuard<'_, ()> {
        self.mapping.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets go of the file and all that is mapped of it, while nobody uses that: apertures stay where they are and hold zeros, and no
    /// more are mapped.
    pub(crate) fn let_go(&self) {
        let _mapping = self.lock_mapping();
        *self.file.write().unwrap_or_else(PoisonError::into_inner) = None;
        for place in self.tables().into_iter().flat_map(|table| &table.places) {
            if let Some(Aperture { mapping: Some(mapping), .. }) = place.get() {
                let _ = mapping.let_go(Protection::Read);
            }
        }
    }

    /// Bytes of the file when it was taken: what is beyond is not reached.
    pub fn length(&self) -> usize {
        self.length
    }

    /// `length` bytes at `offset` of the file, 1 or more. `None` if they are outside, lie in two apertures, or cannot be
    /// mapped.
    #[inline]
    pub fn slice(&self, offset: u64, length: usize) -> Option<SharedSlice<'_>> {
        let mapping = match self.large.find(offset >> LARGE) {
            Found::Mapped(mapping) => mapping,
            _ => return self.slice_slowly(offset, length),
        };
        SharedSlice::of_mapping(mapping, (offset & ((1 << LARGE) - 1)) as usize, length)
    }

    #[cold]
    fn slice_slowly(&self, offset: u64, length: usize) -> Option<SharedSlice<'_>> {
        let part = |table: &Table| (offset & ((1 << table.shift) - 1)) as usize;
        let mut all_declined = true;
        for table in self.tables() {
            match table.find(offset >> table.shift) {
                Found::Mapped(mapping) => return SharedSlice::of_mapping(mapping, part(table), length),
                Found::Free(_) => all_declined = false,
                Found::Refused | Found::Full => {}
            }
        }
        if all_declined {
            return None;
        }
        let _mapping = self.lock_mapping();
        let file = self.file()?;
        for table in self.tables() {
            if let Some(mapping) = table.open(self, &file, offset) {
                return SharedSlice::of_mapping(mapping, part(table), length);
            }
        }
        None
    }
}

impl fmt::Debug for Apertures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Apertures").field("length", &self.length).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nonic_sys::AsFd;

    fn file_of(length: usize) -> (SharedMemory, Apertures) {
        let memory = SharedMemory::create("apertures", length).unwrap();
        let apertures = Apertures::new(memory.as_fd().try_clone_to_owned().unwrap(), None).unwrap();
        (memory, apertures)
    }

    #[test]
    fn bytes_anywhere_in_a_huge_file_are_reached() {
        let (memory, apertures) = file_of(1 << 50);
        for offset in [0, 8, 1 << 36, (1 << 47) + 4096, (1 << 50) - 8] {
            apertures.slice(offset, 8).unwrap().write(&offset.to_ne_bytes());
            let page = memory.map_part(offset / 4096 * 4096, 4096, Protection::Read).unwrap();
            let mut seen = [0; 8];
            SharedSlice::of_mapping(&page, offset as usize % 4096, 8).unwrap().read(&mut seen);
            assert_eq!(u64::from_ne_bytes(seen), offset);
        }
    }

    #[test]
    fn what_is_outside_or_crosses_a_aperture_is_declined() {
        let (_, apertures) = file_of(1 << 37);
        assert!(apertures.slice((1 << 36) - 4, 4).is_some());
        assert!(apertures.slice((1 << 36) - 4, 5).is_none());
        assert!(apertures.slice((1 << 37) - 4, 4).is_some());
        assert!(apertures.slice((1 << 37) - 4, 5).is_none());
        assert!(apertures.slice(1 << 37, 1).is_none());
        assert!(apertures.slice(u64::MAX, 1).is_none());
        assert!(apertures.slice(0, usize::MAX).is_none());
    }

    #[test]
    fn more_apertures_than_there_are_places_are_declined() {
        let (_, apertures) = file_of(1 << 43);
        for number in 0..PLACES as u64 {
            assert!(apertures.slice(number << LARGE, 1).is_some());
        }
        // The large table is full; the small one takes on, then the smallest.
        for number in 0..PLACES as u64 {
            assert!(apertures.slice((PLACES as u64) << LARGE | number << SMALL, 1).is_some());
        }
        let beyond = (PLACES as u64 + 1) << LARGE;
        for number in 0..PLACES as u64 {
            assert!(apertures.slice(beyond | number << SMALLEST, 1).is_some());
        }
        assert!(apertures.slice(beyond | (PLACES as u64) << SMALLEST, 1).is_none());
        assert!(apertures.slice(5 << LARGE, 1).is_some());
    }

    #[test]
    fn apertures_that_were_let_go_hold_no_memory_and_no_more_are_mapped() {
        let (memory, apertures) = file_of(1 << 40);
        let before = apertures.slice(5 << LARGE, 8).unwrap();
        before.write(&7u64.to_ne_bytes());
        apertures.let_go();
        // Nobody else maps it for writing, or this would fail.
        memory.seal_writes().unwrap();
        let mut seen = [1; 8];
        before.read(&mut seen);
        assert_eq!(seen, [0; 8]);
        assert!(apertures.slice(6 << LARGE, 8).is_none());
        assert!(apertures.file().is_none());
    }

    #[test]
    fn a_file_that_could_shrink_is_refused() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        assert!(Apertures::new(file.into(), None).is_err());
    }

    #[test]
    fn readers_of_the_same_aperture_at_the_same_time_map_it_once() {
        let (_, apertures) = file_of(1 << 40);
        let address = || apertures.slice(7 << LARGE, 1).unwrap().address();
        let seen: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(address)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(seen.iter().all(|one| *one == seen[0]));
    }
}
