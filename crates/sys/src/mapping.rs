//! Mappings of memory that several processes see.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::fd::BorrowedFd;
use rustix::mm::{Advice, MapFlags, MremapFlags, ProtFlags};

use crate::PAGE;

/// How a mapping may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// Loads only.
    Read,
    /// Loads and stores.
    ReadWrite,
}

impl Protection {
    pub(crate) fn flags(self) -> ProtFlags {
        match self {
            Self::Read => ProtFlags::READ,
            Self::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
        }
    }
}

/// A mapping that other threads and processes use at the same time. It gives out atomics and raw pointers only. Core dumps
/// leave it out: it is the library's or another process's, most of it never touched, and a dump would make every page of it.
#[derive(Debug)]
pub struct SharedMapping {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping is plain memory, used through atomics and the copy primitive only.
unsafe impl Send for SharedMapping {}
// SAFETY: as above.
unsafe impl Sync for SharedMapping {}

impl SharedMapping {
    pub(crate) fn new(
        file: Option<(BorrowedFd<'_>, u64)>,
        length: usize,
        protection: Protection,
    ) -> io::Result<Self> {
        let protection = protection.flags();
        let Some((fd, offset)) = file else {
            // SAFETY: a new mapping where the kernel chooses: it replaces nothing.
            let start = unsafe {
                rustix::mm::mmap_anonymous(std::ptr::null_mut(), length, protection, MapFlags::SHARED)?
            };
            let mapping = Self::of(start.cast(), length)?;
            // A kernel built without core dumps may refuse.
            let _ = mapping.advise(Advice::LinuxDontDump);
            return Ok(mapping);
        };
        // A page first, and the rest when that page is left out of dumps: a crash in between must not dump all of it, of which
        // there can be gigabytes.
        let first = length.min(PAGE);
        // SAFETY: a new mapping where the kernel chooses: it replaces nothing.
        let start = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), first, protection, MapFlags::SHARED, fd, offset)?
        };
        let mut mapping = Self::of(start.cast(), first)?;
        let _ = mapping.advise(Advice::LinuxDontDump);
        if length > first {
            // SAFETY: the mapping is this function's own, and nobody knows its address.
            let grown = unsafe { rustix::mm::mremap(start, first, length, MremapFlags::MAYMOVE)? };
            std::mem::forget(std::mem::replace(&mut mapping, Self::of(grown.cast(), length)?));
        }
        Ok(mapping)
    }

    fn of(start: *mut u8, length: usize) -> io::Result<Self> {
        let start = NonNull::new(start).ok_or_else(|| io::Error::other("the kernel mapped at address 0"))?;
        Ok(Self { start, length })
    }

    pub(crate) fn advise(&self, advice: Advice) -> io::Result<()> {
        // SAFETY: the range is this mapping; only advice about dumps and children is given, which leaves its bytes alone.
        unsafe { rustix::mm::madvise(self.as_ptr().cast(), self.length, advice)? };
        Ok(())
    }

    /// Memory of this process and its children only.
    pub fn anonymous(length: usize) -> io::Result<Self> {
        Self::new(None, length, Protection::ReadWrite)
    }

    /// Shared memory of this process once more, at an address of its own: it stays when the first mapping goes. Children do
    /// not inherit it. All of the range is one area and mapped `MAP_SHARED`; of private memory the kernel refuses it.
    pub fn duplicate(address: usize, length: usize) -> io::Result<Self> {
        // SAFETY: an old length of zero leaves the old mapping as it is.
        let start = unsafe { libc::mremap(address as *mut libc::c_void, 0, length, libc::MREMAP_MAYMOVE) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mapping = Self::of(start.cast(), length)?;
        mapping.advise(Advice::LinuxDontFork)?;
        let _ = mapping.advise(Advice::LinuxDontDump);
        Ok(mapping)
    }

    /// Lets go of what is mapped, for every user of the mapping: from now on it holds zeros, which cost nothing while nobody stores
    /// to them. The addresses stay taken, so that whoever still looks meets no hole and nothing else.
    pub fn let_go(&self, protection: Protection) -> io::Result<()> {
        let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
        // SAFETY: what is replaced is this mapping, of which only atomics and raw pointers are given out.
        unsafe {
            rustix::mm::mmap_anonymous(self.as_ptr().cast(), self.length, protection.flags(), flags)?;
        }
        let _ = self.advise(Advice::LinuxDontDump);
        Ok(())
    }

    /// Length in bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    /// First byte.
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// The word at a byte offset. Storing through a mapping made for reading raises `SIGSEGV`: its owner never does.
    ///
    /// # Panics
    /// If the offset is outside or not a multiple of 8: offsets come from layouts, never from a peer.
    #[inline(always)]
    pub fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(
            offset.is_multiple_of(8) && offset < self.length && self.length - offset >= 8,
            "word {offset} is outside"
        );
        // SAFETY: inside the mapping, which lives as long as `self`, and aligned because mappings are page aligned.
        unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(offset).cast()) }
    }

    /// The 32-bit word at a byte offset.
    ///
    /// # Panics
    /// If the offset is outside or not a multiple of 4.
    #[inline]
    pub fn half_word(&self, offset: usize) -> &AtomicU32 {
        assert!(
            offset.is_multiple_of(4) && offset < self.length && self.length - offset >= 4,
            "word {offset} is outside"
        );
        // SAFETY: as in `word`.
        unsafe { AtomicU32::from_ptr(self.start.as_ptr().add(offset).cast()) }
    }
}

impl Drop for SharedMapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new` and nothing borrowed from `self` outlives it.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SharedMemory;
    use std::sync::atomic::Ordering;

    #[test]
    fn two_mappings_of_one_memory_show_the_same_words() {
        let memory = SharedMemory::create("test", 8192).unwrap();
        let (one, other) =
            (memory.map(Protection::ReadWrite).unwrap(), memory.map(Protection::Read).unwrap());
        one.word(4096).store(7, Ordering::Relaxed);
        assert_eq!(other.word(4096).load(Ordering::Relaxed), 7);
    }

    /// Of areas of the memory of that name: the largest that a core dump would have, in KiB.
    fn largest_in_dumps(name: &str) -> u64 {
        let areas = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let (mut ours, mut size, mut largest) = (false, 0, 0);
        for line in areas.lines() {
            let mut fields = line.split_whitespace();
            match fields.next() {
                Some("Size:") => size = fields.next().unwrap().parse().unwrap(),
                Some("VmFlags:") if ours && !fields.any(|flag| flag == "dd") => largest = largest.max(size),
                Some(first) if first.contains('-') => ours = line.contains(name),
                _ => {}
            }
        }
        largest
    }

    #[test]
    fn a_crash_at_any_moment_dumps_no_more_than_a_page_of_a_mapping() {
        let memory = SharedMemory::create("dumped", 64 << 20).unwrap();
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..3000 {
                    let mapping = memory.map(Protection::ReadWrite).unwrap();
                    mapping.word(mapping.length() - 8).store(1, Ordering::Relaxed);
                }
                done.store(true, Ordering::Relaxed);
            });
            while !done.load(Ordering::Relaxed) {
                let largest = largest_in_dumps("dumped");
                assert!(largest <= 4, "{largest} KiB would be dumped");
            }
        });
    }

    #[test]
    fn what_was_let_go_is_zeros_in_its_place_and_holds_no_memory() {
        let memory = SharedMemory::create("let go", 8192).unwrap();
        let (first, second) =
            (memory.map(Protection::ReadWrite).unwrap(), memory.map(Protection::ReadWrite).unwrap());
        first.word(4096).store(7, Ordering::Relaxed);
        // As long as nobody else maps it for writing the file can be sealed.
        drop(first);
        assert!(memory.seal_writes().is_err());
        second.let_go(Protection::ReadWrite).unwrap();
        memory.seal_writes().unwrap();
        assert_eq!(second.word(4096).load(Ordering::Relaxed), 0);
        second.word(4096).store(8, Ordering::Relaxed);
        let third = memory.map(Protection::Read).unwrap();
        assert_eq!(
            (third.word(4096).load(Ordering::Relaxed), second.word(4096).load(Ordering::Relaxed)),
            (7, 8)
        );
    }
}
