//! Memory that several processes see: anonymous files, sealed against shrinking, and mappings of them.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{Advice, MapFlags, MremapFlags, ProtFlags};

use crate::PAGE;
use crate::signals::set_file_length;

/// How a mapping may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// Loads only.
    Read,
    /// Loads and stores.
    ReadWrite,
}

impl Protection {
    fn flags(self) -> ProtFlags {
        match self {
            Self::Read => ProtFlags::READ,
            Self::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
        }
    }
}

/// An anonymous shared file (`memfd_create(2)`): pages appear when they are first touched.
#[derive(Debug)]
pub struct SharedMemory {
    fd: OwnedFd,
    length: usize,
}

impl SharedMemory {
    /// `length` bytes that can neither shrink nor grow, so that nobody who maps it can be hit by `SIGBUS`.
    pub fn create(name: &str, length: usize) -> io::Result<Self> {
        let fd = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        set_file_length(&fd, length as u64)?;
        rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW)?;
        Ok(Self { fd, length })
    }

    /// Takes a file a peer sent, if it is at least `length` bytes and sealed against shrinking.
    pub fn from_peer(fd: OwnedFd, length: usize) -> io::Result<Self> {
        let seals = rustix::fs::fcntl_get_seals(&fd)?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "shared memory that its owner could shrink",
            ));
        }
        Self::from_unsealed(fd, length)
    }

    /// Takes a file a peer sent, whatever its length, if it is sealed against shrinking.
    pub fn from_peer_whole(fd: OwnedFd) -> io::Result<Self> {
        let size = rustix::fs::fstat(&fd)?.st_size;
        Self::from_peer(fd, usize::try_from(size).unwrap_or(0).max(1))
    }

    /// Takes any file of at least `length` bytes; the caller answers for its not shrinking.
    pub fn from_unsealed(fd: OwnedFd, length: usize) -> io::Result<Self> {
        let size = rustix::fs::fstat(&fd)?.st_size;
        if size < 0 || (size as u64) < length as u64 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("{size} bytes of shared memory, not {length}"),
            ));
        }
        Ok(Self { fd, length })
    }

    /// Takes any file, as long as it is; the caller answers for its not shrinking. An empty one is refused.
    pub fn from_unsealed_whole(fd: OwnedFd) -> io::Result<Self> {
        let size = rustix::fs::fstat(&fd)?.st_size;
        Self::from_unsealed(fd, usize::try_from(size).unwrap_or(0).max(1))
    }

    /// Maps all of it.
    pub fn map(&self, protection: Protection) -> io::Result<SharedMapping> {
        SharedMapping::new(Some((self.fd.as_fd(), 0)), self.length, protection)
    }

    /// Maps the part of it from `offset`, a multiple of the page size, for this process alone: children do not inherit
    /// the mapping.
    pub fn map_window(
        &self,
        offset: u64,
        length: usize,
        protection: Protection,
    ) -> io::Result<SharedMapping> {
        if offset.checked_add(length as u64).is_none_or(|end| end > self.length as u64) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mapping = SharedMapping::new(Some((self.fd.as_fd(), offset)), length, protection)?;
        mapping.advise(Advice::LinuxDontFork)?;
        Ok(mapping)
    }

    /// Length in bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Refuses every later attempt to map or write it writable; mappings that exist stay.
    pub fn seal_future_writes(&self) -> io::Result<()> {
        Ok(rustix::fs::fcntl_add_seals(&self.fd, SealFlags::FUTURE_WRITE | SealFlags::SEAL)?)
    }

    /// Refuses every later write. An error (`EBUSY`) means that somebody, in whatever process, has it mapped writable.
    pub fn seal_writes(&self) -> io::Result<()> {
        Ok(rustix::fs::fcntl_add_seals(&self.fd, SealFlags::WRITE)?)
    }

    /// The descriptor alone.
    pub fn into_descriptor(self) -> OwnedFd {
        self.fd
    }

    /// Writes its first bytes, without mapping it.
    pub fn write_first(&self, bytes: &[u8]) -> io::Result<()> {
        let written = rustix::io::pwrite(&self.fd, bytes, 0)?;
        if written == bytes.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }

    /// Writes `length` bytes of this process's memory at `address` to `offset`. Memory that cannot be read is an error (`EFAULT`),
    /// not a fault.
    pub fn write_from(&self, address: usize, length: usize, offset: u64) -> io::Result<()> {
        crate::address_file::write_from(self.as_fd(), address, length, offset)
    }

    /// Maps it at `offset`, shared with everybody who has it, over the memory at `address`, in one step.
    ///
    /// # Safety
    /// The program must not notice: it holds there what the memory holds, and nobody stores to that until this returns.
    pub unsafe fn map_over(
        &self,
        address: usize,
        length: usize,
        rights: crate::Rights,
        offset: u64,
    ) -> io::Result<()> {
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        // SAFETY: the caller vouches for what is replaced.
        unsafe { rustix::mm::mmap(address as *mut _, length, rights.map(), flags, &self.fd, offset)? };
        Ok(())
    }

    /// The same memory by another descriptor.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { fd: self.fd.try_clone()?, length: self.length })
    }

    /// Gives the pages of a range back; they read as zeros.
    pub fn punch(&self, offset: u64, length: u64) -> io::Result<()> {
        use rustix::fs::FallocateFlags;
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(rustix::fs::fallocate(&self.fd, flags, offset, length)?)
    }
}

impl AsFd for SharedMemory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
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
    fn new(file: Option<(BorrowedFd<'_>, u64)>, length: usize, protection: Protection) -> io::Result<Self> {
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

    fn advise(&self, advice: Advice) -> io::Result<()> {
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

    #[test]
    fn a_window_shows_its_part_of_the_memory_and_none_beyond() {
        let memory = SharedMemory::create("window", 3 * 4096).unwrap();
        let whole = memory.map(Protection::ReadWrite).unwrap();
        whole.word(8192).store(9, Ordering::Relaxed);
        let window = memory.map_window(8192, 4096, Protection::Read).unwrap();
        assert_eq!((window.word(0).load(Ordering::Relaxed), window.length()), (9, 4096));
        assert!(memory.map_window(8192, 8192, Protection::Read).is_err());
        assert!(memory.map_window(u64::MAX - 4095, 4096, Protection::Read).is_err());
    }

    #[test]
    fn memory_that_could_shrink_or_is_too_short_is_refused() {
        let loose =
            rustix::fs::memfd_create("loose", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&loose, 4096).unwrap();
        assert!(SharedMemory::from_peer(loose, 4096).is_err());
        let good = SharedMemory::create("short", 4096).unwrap();
        assert!(SharedMemory::from_peer(good.fd, 8192).is_err());
    }

    #[test]
    fn after_sealing_nobody_maps_it_writable() {
        let memory = SharedMemory::create("sealed", 4096).unwrap();
        let writer = memory.map(Protection::ReadWrite).unwrap();
        memory.seal_future_writes().unwrap();
        assert!(memory.map(Protection::ReadWrite).is_err());
        writer.word(0).store(1, Ordering::Relaxed);
        assert_eq!(memory.map(Protection::Read).unwrap().word(0).load(Ordering::Relaxed), 1);
    }
}
