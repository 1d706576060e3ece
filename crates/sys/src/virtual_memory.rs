//! What stands at an address of this process: mapped or not, writable or not, private or shared.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::fd::OwnedFd;

use crate::area_map::{AreaMap, parse_line};
use crate::{PerProcess, Rights};

/// Size of a page in bytes. x86-64 has this one; other machines will ask the kernel.
pub const PAGE: usize = 4096;

/// Where an area's bytes live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// Memory of this process alone, and of no file.
    Private,
    /// A file mapped `MAP_PRIVATE`: what was not written yet comes from it.
    PrivateFile {
        /// Device number, major and minor.
        device: (u32, u32),
        /// Inode.
        inode: u64,
        /// Offset in bytes.
        offset: u64,
    },
    /// A file mapped `MAP_SHARED`: this device and inode, and the offset of the area's first byte.
    SharedFile {
        /// Device number, major and minor.
        device: (u32, u32),
        /// Inode.
        inode: u64,
        /// Offset in bytes.
        offset: u64,
    },
}

impl Backing {
    pub(crate) fn new(shared: bool, device: (u32, u32), inode: u64, offset: u64) -> Self {
        match (shared, inode) {
            (true, _) => Self::SharedFile { device, inode, offset },
            (false, 0) => Self::Private,
            (false, _) => Self::PrivateFile { device, inode, offset },
        }
    }
}

/// What the kernel or the program calls an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AreaName {
    /// It has no name, or one that the program gave it, or it is the heap.
    Program,
    /// The stack of the first thread.
    Stack,
    /// A segment of System V shared memory, or a file that is called like one.
    Segment,
    /// Shared anonymous memory, or a file that is called like it.
    SharedAnonymous,
    /// A file, or something of the kernel's (`[vdso]`).
    Other,
}

/// One mapped area (a line of `/proc/self/maps`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryArea {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
    /// Whether it can be read.
    pub readable: bool,
    /// Whether it can be written.
    pub writable: bool,
    /// Whether code in it can run.
    pub executable: bool,
    /// Where its bytes live.
    pub backing: Backing,
}

impl MemoryArea {
    /// Whether it can be read, and also written if asked for.
    pub fn allows(&self, write: bool) -> bool {
        self.readable && (self.writable || !write)
    }

    /// What the area allows.
    pub fn rights(&self) -> Rights {
        Rights { read: self.readable, write: self.writable, execute: self.executable }
    }
}

/// The descriptor shows the memory of the process that opened it, so a child opens its own. There is no lock that a fork could
/// leave taken: asking moves no position.
static MAPS: PerProcess<AreaMap> = PerProcess::new();

fn own_map() -> io::Result<&'static AreaMap> {
    Ok(match MAPS.get() {
        Some(map) => map,
        None => {
            let map = AreaMap::open()?;
            MAPS.get_or_make(|| map)
        }
    })
}

/// The area that holds `address`; `Ok(None)` if nothing is mapped there. An error means that the kernel does not tell
/// (no `/proc`).
pub fn find_area(address: usize) -> io::Result<Option<MemoryArea>> {
    Ok(own_map()?.at_or_above(address)?.filter(|area| area.start <= address))
}

/// Whether what is mapped shared at `address` is a segment of System V. Of those the kernel shows the number of the segment where
/// it shows the inode of everything else.
pub fn is_system_v(address: usize) -> io::Result<bool> {
    Ok(own_map()?.name_at(address)? == Some(AreaName::Segment))
}

/// Whether the kernel knows `MADV_POPULATE_WRITE` (Linux 5.14): asked about no bytes at all.
pub(crate) fn can_populate() -> bool {
    // SAFETY: a range of no bytes.
    unsafe { libc::madvise(PAGE as *mut libc::c_void, 0, libc::MADV_POPULATE_WRITE) == 0 }
}

/// Asks the kernel to touch every page of a range: the way to learn, without `/proc`, whether it can be read or written.
/// An error means that it cannot. A kernel that does not know the call (before 5.14) tells only whether there is memory.
pub fn touch_pages(address: usize, length: usize, write: bool) -> io::Result<()> {
    let start = address / PAGE * PAGE;
    let length = (address + length).next_multiple_of(PAGE) - start;
    let advice = if write { libc::MADV_POPULATE_WRITE } else { libc::MADV_POPULATE_READ };
    // SAFETY: this advice changes no contents; on a range that is not mapped it fails.
    if unsafe { libc::madvise(start as *mut libc::c_void, length, advice) } == 0 {
        return Ok(());
    }
    match io::Error::last_os_error() {
        // The kernel's answer also for memory that has not the right.
        error if error.raw_os_error() == Some(libc::EINVAL) && !can_populate() => is_mapped(start, length),
        error => Err(error),
    }
}

/// Which pages from `start` on are in memory, in order, as the lowest bit of each byte; an error if not all are mapped. Of the
/// others of a shared mapping none holds anything that is not zero, unless the machine has swap space.
pub fn pages_in_memory(start: usize, pages: &mut [u8]) -> io::Result<()> {
    // SAFETY: the kernel writes a byte for each page of the range, which `pages` has room for, and fails if that is not mapped.
    match unsafe { libc::mincore(start as *mut libc::c_void, pages.len() * PAGE, pages.as_mut_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// An error if not all pages of a range are mapped.
fn is_mapped(start: usize, length: usize) -> io::Result<()> {
    const PAGES: usize = 256;
    let mut resident = [0u8; PAGES];
    for at in (start..start + length).step_by(PAGES * PAGE) {
        let count = ((start + length - at) / PAGE).min(PAGES);
        pages_in_memory(at, &mut resident[..count])?;
    }
    Ok(())
}

/// What tells a file from others: its device number, major and minor, and its inode.
pub type FileIdentity = ((u32, u32), u64);

/// The identity of an open file, as [`Backing::SharedFile`] has it.
pub fn file_identity(file: rustix::fd::BorrowedFd<'_>) -> io::Result<FileIdentity> {
    let stat = rustix::fs::fstat(file)?;
    Ok(((rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev)), stat.st_ino))
}

/// Opens the file behind a shared area of this process: a descriptor the program still has, or the file's own path.
/// `None` if it can no longer be reached by either.
pub fn shared_file_of(area: &MemoryArea) -> Option<OwnedFd> {
    let Backing::SharedFile { device, inode, .. } = area.backing else { return None };
    let is_it =
        |file: &File| file_identity(std::os::fd::AsFd::as_fd(file)).is_ok_and(|seen| seen == (device, inode));
    let open = |path: &std::path::Path| {
        let file = File::options().read(true).write(true).open(path).ok()?;
        is_it(&file).then(|| OwnedFd::from(file))
    };
    for number in crate::numbers_in("/proc/self/fd").ok()? {
        let path = std::path::PathBuf::from(format!("/proc/self/fd/{number}"));
        // Asking before opening: opening a device or a pipe can have effects.
        let same = rustix::fs::stat(&path)
            .is_ok_and(|stat| stat.st_ino == inode && stat.st_mode & libc::S_IFMT == libc::S_IFREG);
        if same && let Some(fd) = open(&path) {
            return Some(fd);
        }
    }
    let file = File::open("/proc/self/maps").ok()?;
    for line in BufReader::new(file).lines().map_while(Result::ok) {
        if parse_line(&line).is_some_and(|(seen, _)| seen.start == area.start)
            && let Some(path) = line.find('/').map(|at| &line[at..])
        {
            return open(std::path::Path::new(path));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_behind_shared_memory_is_found_by_its_descriptor() {
        let memory = crate::SharedMemory::create("found", 3 * PAGE).unwrap();
        let mapping = memory.map(crate::Protection::ReadWrite).unwrap();
        let area = find_area(mapping.as_ptr() as usize + PAGE).unwrap().unwrap();
        assert!(matches!(area.backing, Backing::SharedFile { offset: 0, .. }));
        let again = shared_file_of(&area).unwrap();
        let stat = |fd: &dyn std::os::fd::AsFd| rustix::fs::fstat(fd.as_fd()).unwrap().st_ino;
        assert_eq!(stat(&again), stat(&memory));
        drop(memory);
    }

    #[test]
    fn memory_without_the_right_and_holes_are_found_by_touching() {
        // More pages than are asked about at once.
        let pages = crate::SharedMapping::anonymous(600 * PAGE).unwrap();
        let start = pages.as_ptr() as usize;
        let protect = |protection| {
            let last = (start + 599 * PAGE) as *mut libc::c_void;
            // SAFETY: the last page of the mapping above, which nobody reads or writes.
            assert_eq!(unsafe { libc::mprotect(last, PAGE, protection) }, 0);
        };
        assert!(touch_pages(start, 600 * PAGE, true).is_ok() && is_mapped(start, 600 * PAGE).is_ok());
        protect(libc::PROT_READ);
        assert!(
            touch_pages(start, 600 * PAGE, false).is_ok() && touch_pages(start, 600 * PAGE, true).is_err()
        );
        protect(libc::PROT_NONE);
        assert!(touch_pages(start + 599 * PAGE + 5, 1, false).is_err());
        drop(pages);
        let hole = crate::reserve_addresses(0, 600 * PAGE).unwrap();
        assert!(is_mapped(hole, 600 * PAGE).is_ok() && touch_pages(hole, PAGE, false).is_err());
        // No process has anything below the least address that it may map.
        assert!(is_mapped(PAGE, PAGE).is_err() && touch_pages(PAGE, PAGE, false).is_err());
        // SAFETY: reserved above, and nobody else's.
        assert_eq!(unsafe { libc::munmap(hole as *mut _, 600 * PAGE) }, 0);
    }

    #[test]
    fn a_segment_of_system_v_is_told_from_a_file() {
        let memory = crate::SharedMemory::create("no segment", PAGE).unwrap();
        let mapping = memory.map(crate::Protection::ReadWrite).unwrap();
        assert!(!is_system_v(mapping.as_ptr() as usize).unwrap());
        assert!(!is_system_v(0).unwrap());
        // SAFETY: a segment of this test's, which goes with its last mapping.
        unsafe {
            let segment = libc::shmget(libc::IPC_PRIVATE, PAGE, libc::IPC_CREAT | 0o600);
            assert!(segment >= 0);
            let at = libc::shmat(segment, std::ptr::null(), 0);
            assert_eq!(libc::shmctl(segment, libc::IPC_RMID, std::ptr::null_mut()), 0);
            let area = find_area(at as usize).unwrap().unwrap();
            assert!(matches!(area.backing, Backing::SharedFile { inode, .. } if inode == segment as u64));
            assert!(is_system_v(at as usize).unwrap());
            assert_eq!(libc::shmdt(at), 0);
        }
    }
}
