//! A sparse anonymous file as large as several address spaces, and the ways bytes go between it and this process's own
//! memory.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags, SeekFrom};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};

use crate::signals::set_file_length;

/// What a mapping allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    /// Loads.
    pub read: bool,
    /// Stores.
    pub write: bool,
    /// Running code.
    pub execute: bool,
}

impl Rights {
    pub(crate) fn map(self) -> ProtFlags {
        let mut flags = ProtFlags::empty();
        flags.set(ProtFlags::READ, self.read);
        flags.set(ProtFlags::WRITE, self.write);
        flags.set(ProtFlags::EXEC, self.execute);
        flags
    }

    pub(crate) fn protect(self) -> MprotectFlags {
        let mut flags = MprotectFlags::empty();
        flags.set(MprotectFlags::READ, self.read);
        flags.set(MprotectFlags::WRITE, self.write);
        flags.set(MprotectFlags::EXEC, self.execute);
        flags
    }
}

/// Whose a mapping's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Everybody's who maps the file.
    Shared,
    /// Copied when they are written, out of memory that the kernel promises now.
    Private(Reserve),
}

/// Whether the kernel promises memory for all of a private mapping when it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserve {
    /// It does, as for most of a program's memory: a mapping too large is refused.
    Promised,
    /// It does not (`MAP_NORESERVE`), unless it always insists (`vm.overcommit_memory` is 2).
    None,
}

impl Reserve {
    pub(crate) fn flags(self) -> MapFlags {
        match self {
            Self::Promised => MapFlags::empty(),
            Self::None => MapFlags::NORESERVE,
        }
    }
}

/// The first range of a sparse file at or after `start` and before `end` that has pages, as start and end offset.
pub fn sparse_data(file: BorrowedFd<'_>, start: u64, end: u64) -> io::Result<Option<(u64, u64)>> {
    if start >= end {
        return Ok(None);
    }
    let data = match rustix::fs::seek(file, SeekFrom::Data(start)) {
        Ok(data) if data < end => data,
        Ok(_) | Err(rustix::io::Errno::NXIO) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let hole = rustix::fs::seek(file, SeekFrom::Hole(data))?;
    Ok(Some((data, hole.min(end))))
}

/// Writes `length` bytes of this process's memory at `address` to a file. Memory that cannot be read is an error (`EFAULT`), not a
/// fault.
pub(crate) fn write_from(file: BorrowedFd<'_>, address: usize, length: usize, offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < length {
        // SAFETY: the kernel reads the memory and refuses what it cannot read; no reference is made to it.
        let count = unsafe {
            libc::pwrite(
                file.as_raw_fd(),
                (address + done) as *const libc::c_void,
                length - done,
                (offset + done as u64) as i64,
            )
        };
        match count {
            1.. => done += count as usize,
            0 => return Err(io::ErrorKind::WriteZero.into()),
            _ => return Err(io::Error::last_os_error()),
        }
    }
    Ok(())
}

/// The file. Pages exist once they are written; the length never changes.
#[derive(Debug)]
pub struct AddressFile {
    descriptor: OwnedFd,
    device: (u32, u32),
    inode: u64,
}

impl AddressFile {
    /// A file of 2^`log_length` bytes that can neither shrink nor grow. Refused if the process may not make files of any
    /// size (`RLIMIT_FSIZE`): writing to it would then raise `SIGXFSZ`.
    pub fn create(name: &str, log_length: u32) -> io::Result<Self> {
        if !Self::any_size_allowed() {
            return Err(io::Error::other("RLIMIT_FSIZE limits the size of files"));
        }
        let descriptor = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        set_file_length(&descriptor, 1 << log_length)?;
        rustix::fs::fcntl_add_seals(&descriptor, SealFlags::SHRINK | SealFlags::GROW)?;
        let stat = rustix::fs::fstat(&descriptor)?;
        let device = (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev));
        Ok(Self { descriptor, device, inode: stat.st_ino })
    }

    /// Whether files may have any size now. The limit can change at any time, so ask before writing.
    pub fn any_size_allowed() -> bool {
        rustix::process::getrlimit(rustix::process::Resource::Fsize).current.is_none()
    }

    /// Device and inode, as [`crate::MemoryArea`] tells them of an area that maps the file.
    pub fn identity(&self) -> ((u32, u32), u64) {
        (self.device, self.inode)
    }

    /// Writes `length` bytes of this process's memory at `address` to `offset`. Memory that cannot be read is an error
    /// (`EFAULT`), not a fault.
    pub fn write_from(&self, address: usize, length: usize, offset: u64) -> io::Result<()> {
        write_from(self.as_fd(), address, length, offset)
    }

    /// Reads `length` bytes at `offset` into this process's memory at `address`.
    ///
    /// # Safety
    /// The memory may be overwritten: nobody else relies on what it holds.
    pub unsafe fn read_into(&self, address: usize, length: usize, offset: u64) -> io::Result<()> {
        let mut done = 0;
        while done < length {
            // SAFETY: the caller vouches for the memory; the kernel refuses what it cannot write.
            let count = unsafe {
                libc::pread(
                    self.descriptor.as_raw_fd(),
                    (address + done) as *mut libc::c_void,
                    length - done,
                    (offset + done as u64) as i64,
                )
            };
            match count {
                1.. => done += count as usize,
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                _ => return Err(io::Error::last_os_error()),
            }
        }
        Ok(())
    }

    /// The first range at or after `start` and before `end` that has pages, as start and end offset. Both are multiples of
    /// the page size, and so is what comes back. The time it takes grows with the range, not with what follows.
    pub fn next_data(&self, start: u64, end: u64) -> io::Result<Option<(u64, u64)>> {
        /// A page that the kernel walks over takes about a tenth of the time that a call of its own takes; less, to be safe.
        const WALKED: u64 = 10;
        let page = crate::PAGE as u64;
        let Some(data) = self.next_page(start, end)? else { return Ok(None) };
        let mut data_end = data + page;
        if data_end < end && self.data_bytes() < (end - data).saturating_mul(WALKED) {
            let hole = rustix::fs::seek(&self.descriptor, SeekFrom::Hole(data))?;
            return Ok(Some((data, hole.min(end))));
        }
        // To find the next hole the kernel would walk all pages that follow, of other regions too; the next page it finds at
        // once.
        while self.next_page(data_end, end)? == Some(data_end) {
            data_end += page;
        }
        Ok(Some((data, data_end)))
    }

    /// The first offset at or after `start` and before `end` that is in a page.
    pub fn next_page(&self, start: u64, end: u64) -> io::Result<Option<u64>> {
        if start >= end {
            return Ok(None);
        }
        match rustix::fs::seek(&self.descriptor, SeekFrom::Data(start)) {
            Ok(data) => Ok(Some(data).filter(|data| *data < end)),
            Err(rustix::io::Errno::NXIO) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Bytes of the pages it has.
    pub fn data_bytes(&self) -> u64 {
        rustix::fs::fstat(&self.descriptor).map_or(0, |stat| stat.st_blocks as u64 * 512)
    }

    /// Gives the pages of a range back to the kernel; it reads as zeros.
    pub fn punch(&self, offset: u64, length: u64) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(rustix::fs::fallocate(&self.descriptor, flags, offset, length)?)
    }

    /// Maps the file at `offset` over the memory at `address`, in one step, so that other threads see the one or the other:
    /// shared with everybody who maps the file, or copied on write.
    ///
    /// # Safety
    /// The program must not notice: the file holds there what the memory holds, and nobody writes to the memory from when
    /// it was copied until this returns.
    pub unsafe fn map_over(
        &self,
        address: usize,
        length: usize,
        rights: Rights,
        offset: u64,
        sharing: Sharing,
    ) -> io::Result<()> {
        let kind = match sharing {
            Sharing::Shared => MapFlags::SHARED,
            Sharing::Private(reserve) => MapFlags::PRIVATE | reserve.flags(),
        };
        // SAFETY: the caller vouches for what is replaced.
        unsafe {
            rustix::mm::mmap(
                address as *mut _,
                length,
                rights.map(),
                kind | MapFlags::FIXED,
                &self.descriptor,
                offset,
            )?;
        }
        Ok(())
    }
}

impl AsFd for AddressFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Backing, PAGE, SharedMapping, find_area};

    const RIGHTS: Rights = Rights { read: true, write: true, execute: false };

    #[test]
    fn memory_goes_into_the_file_and_back_at_any_offset() {
        let file = AddressFile::create("addresses", 62).unwrap();
        let memory = SharedMapping::anonymous(4 * PAGE).unwrap();
        let start = memory.as_ptr() as usize;
        let offset = (3 << 47) + start as u64;
        memory.word(PAGE).store(7, std::sync::atomic::Ordering::Relaxed);
        file.write_from(start + PAGE, PAGE, offset + PAGE as u64).unwrap();
        let data = file.next_data(offset, offset + 4 * PAGE as u64).unwrap();
        assert_eq!(data, Some((offset + PAGE as u64, offset + 2 * PAGE as u64)));
        // SAFETY: the file holds what the memory holds; no other thread has it.
        unsafe { file.map_over(start, 4 * PAGE, RIGHTS, offset, Sharing::Shared).unwrap() };
        assert_eq!(memory.word(PAGE).load(std::sync::atomic::Ordering::Relaxed), 7);
        let area = find_area(start).unwrap().unwrap();
        let (device, inode) = file.identity();
        assert_eq!(area.backing, Backing::SharedFile { device, inode, offset });
        file.punch(offset, 4 * PAGE as u64).unwrap();
        assert_eq!(file.next_data(offset, offset + 4 * PAGE as u64).unwrap(), None);
        assert_eq!(memory.word(PAGE).load(std::sync::atomic::Ordering::Relaxed), 0);
    }

    #[test]
    fn runs_of_pages_end_at_holes_and_at_the_end_of_what_was_asked_for() {
        let file = AddressFile::create("addresses", 62).unwrap();
        let memory = SharedMapping::anonymous(PAGE).unwrap();
        let page: fn(u64) -> u64 = |index| (5 << 47) + index * PAGE as u64;
        for index in [1, 2, 3, 6, 7, 8, 9] {
            file.write_from(memory.as_ptr() as usize, PAGE, page(index)).unwrap();
        }
        // With and without so many other pages that the kernel must not walk.
        for others in [0, 100] {
            for index in 1000..1000 + others {
                file.write_from(memory.as_ptr() as usize, PAGE, page(index)).unwrap();
            }
            look(&file, page);
        }
    }

    fn look(file: &AddressFile, page: fn(u64) -> u64) {
        let data = |from, to| file.next_data(page(from), page(to)).unwrap();
        assert_eq!(data(0, 8), Some((page(1), page(4))));
        assert_eq!(data(2, 8), Some((page(2), page(4))));
        assert_eq!(data(4, 8), Some((page(6), page(8))));
        assert_eq!(data(7, 8), Some((page(7), page(8))));
        assert_eq!((data(4, 6), data(8, 8), data(10, 100)), (None, None, None));
    }

    #[test]
    fn memory_that_cannot_be_read_is_an_error_and_not_a_fault() {
        let file = AddressFile::create("addresses", 62).unwrap();
        let refused = file.write_from(PAGE, PAGE, 0).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EFAULT));
    }
}
