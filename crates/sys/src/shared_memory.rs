//! Memory that several processes see: anonymous files, sealed against shrinking.

use std::io;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{Advice, MapFlags};

use crate::mapping::{Protection, SharedMapping};
use crate::signals::set_file_length;

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

    /// The same memory by a number that programs do not count on, where there is one.
    pub fn out_of_the_way(self) -> Self {
        const HIGH: i32 = 700;
        let fd = rustix::io::fcntl_dupfd_cloexec(&self.fd, HIGH).unwrap_or(self.fd);
        Self { fd, length: self.length }
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
    pub fn map_part(&self, offset: u64, length: usize, protection: Protection) -> io::Result<SharedMapping> {
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

    /// Reads its first bytes, without mapping it.
    pub fn read_first(&self, bytes: &mut [u8]) -> io::Result<()> {
        let read = rustix::io::pread(&self.fd, &mut *bytes, 0)?;
        if read == bytes.len() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn a_window_shows_its_part_of_the_memory_and_none_beyond() {
        let memory = SharedMemory::create("part", 3 * 4096).unwrap();
        let whole = memory.map(Protection::ReadWrite).unwrap();
        whole.word(8192).store(9, Ordering::Relaxed);
        let part = memory.map_part(8192, 4096, Protection::Read).unwrap();
        assert_eq!((part.word(0).load(Ordering::Relaxed), part.length()), (9, 4096));
        assert!(memory.map_part(8192, 8192, Protection::Read).is_err());
        assert!(memory.map_part(u64::MAX - 4095, 4096, Protection::Read).is_err());
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
