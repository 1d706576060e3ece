//! Mappings of other processes' files in the program's own address space, and how such files are reached.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::area_map::AreaMap;
use crate::numbered_folder::numbers_in;
use crate::virtual_memory::{Backing, FileIdentity, MemoryArea, file_identity};

/// Takes `length` bytes of address space, at `hint` if that is free, which nothing can be stored to yet.
pub fn reserve_addresses(hint: usize, length: usize) -> io::Result<usize> {
    // SAFETY: a new mapping where nothing is: without MAP_FIXED the kernel replaces nothing.
    let start = unsafe {
        rustix::mm::mmap_anonymous(
            hint as *mut _,
            length,
            ProtFlags::empty(),
            MapFlags::PRIVATE | MapFlags::NORESERVE,
        )?
    };
    Ok(start as usize)
}

/// Maps `file` from `offset` on over whatever is at `address`, shared, for this process alone: children do not inherit it,
/// core dumps leave it out.
///
/// # Safety
/// What is replaced is the caller's, or the program asked for it.
pub unsafe fn map_file_over(
    address: usize,
    length: usize,
    (read, write): (bool, bool),
    file: BorrowedFd<'_>,
    offset: u64,
) -> io::Result<()> {
    let mut rights = ProtFlags::empty();
    rights.set(ProtFlags::READ, read);
    rights.set(ProtFlags::WRITE, write);
    // SAFETY: the caller vouches for what is replaced.
    unsafe {
        rustix::mm::mmap(
            address as *mut _,
            length,
            rights,
            MapFlags::SHARED | MapFlags::FIXED,
            file,
            offset,
        )?;
        rustix::mm::madvise(address as *mut _, length, Advice::LinuxDontFork)?;
        // A kernel built without core dumps may refuse.
        let _ = rustix::mm::madvise(address as *mut _, length, Advice::LinuxDontDump);
    }
    Ok(())
}

/// `munmap(2)`.
///
/// # Safety
/// What is unmapped is the caller's, or the program asked for it.
pub unsafe fn unmap_range(address: usize, length: usize) -> io::Result<()> {
    // SAFETY: the caller vouches for it.
    unsafe { rustix::mm::munmap(address as *mut _, length)? };
    Ok(())
}

fn open_regular(path: &str, identity: FileIdentity, write: bool) -> io::Result<OwnedFd> {
    // Asked before opening: opening a device or a pipe can have effects.
    let stat = rustix::fs::stat(path)?;
    if stat.st_ino != identity.1 || stat.st_mode & libc::S_IFMT != libc::S_IFREG {
        return Err(io::ErrorKind::NotFound.into());
    }
    let access = if write { OFlags::RDWR } else { OFlags::RDONLY };
    let flags = access | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    let file = rustix::fs::open(path, flags, Mode::empty())?;
    if file_identity(file.as_fd())? != identity {
        return Err(io::ErrorKind::NotFound.into());
    }
    Ok(file)
}

/// Opens what process `pid` has open as `number`, if that is still the file it should be.
pub fn open_file_of(pid: i32, number: i32, identity: FileIdentity, write: bool) -> io::Result<OwnedFd> {
    open_regular(&format!("/proc/{pid}/fd/{number}"), identity, write)
}

/// Opens the file behind an area of this process: by a descriptor the program still has, by its name, or, where the kernel
/// allows that (`CAP_CHECKPOINT_RESTORE`), by the mapping itself. `None` if none of these leads to it.
pub fn open_file_behind(area: &MemoryArea, write: bool) -> Option<OwnedFd> {
    let (Backing::SharedFile { device, inode, .. } | Backing::PrivateFile { device, inode, .. }) =
        area.backing
    else {
        return None;
    };
    let open = |path: &str| open_regular(path, (device, inode), write).ok();
    for number in numbers_in("/proc/self/fd").ok()? {
        if let Some(file) = open(&format!("/proc/self/fd/{number}")) {
            return Some(file);
        }
    }
    if let Some(file) = open(&format!("/proc/self/map_files/{:x}-{:x}", area.start, area.end)) {
        return Some(file);
    }
    use std::io::{BufRead, BufReader};
    let head = format!("{:x}-{:x} ", area.start, area.end);
    let maps = BufReader::new(File::open("/proc/self/maps").ok()?);
    let line = maps.lines().map_while(Result::ok).find(|line| line.starts_with(&head))?;
    open(&line[line.find('/')?..])
}

/// Whether process `pid` maps some of the file's bytes `offset..offset + length` at addresses in `range`, shared with others.
pub fn process_maps_file(
    pid: i32,
    (start, end): (usize, usize),
    identity: FileIdentity,
    (from, to): (u64, u64),
) -> io::Result<bool> {
    let areas = AreaMap::of_process(pid)?;
    for area in areas.walk(start) {
        let area = area?;
        if area.start >= end {
            break;
        }
        let Backing::SharedFile { device, inode, offset } = area.backing else { continue };
        let area_end = offset + (area.end - area.start) as u64;
        if (device, inode) == identity && offset < to && area_end > from {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PAGE, Protection, SharedMapping, SharedMemory, find_area};
    use std::os::fd::AsRawFd;
    use std::sync::atomic::Ordering;

    #[test]
    fn a_file_is_reached_by_number_only_if_it_is_the_one() {
        let (one, other) =
            (SharedMemory::create("a", PAGE).unwrap(), SharedMemory::create("b", PAGE).unwrap());
        let (pid, number) = (std::process::id() as i32, one.as_fd().as_raw_fd());
        let identity = file_identity(one.as_fd()).unwrap();
        let reached = open_file_of(pid, number, identity, true).unwrap();
        assert_eq!(file_identity(reached.as_fd()).unwrap(), identity);
        assert!(open_file_of(pid, number, file_identity(other.as_fd()).unwrap(), true).is_err());
    }

    #[test]
    fn a_mapping_is_where_it_was_put_and_nowhere_after_it_was_unmapped() {
        let memory = SharedMemory::create("mapped", 4 * PAGE).unwrap();
        let view = memory.map(Protection::ReadWrite).unwrap();
        view.word(2 * PAGE).store(7, Ordering::Relaxed);
        let (pid, identity) = (std::process::id() as i32, file_identity(memory.as_fd()).unwrap());
        let start = reserve_addresses(0, 2 * PAGE).unwrap();
        // SAFETY: the range was reserved just now.
        unsafe { map_file_over(start, 2 * PAGE, (true, false), memory.as_fd(), 2 * PAGE as u64).unwrap() };
        let area = find_area(start).unwrap().unwrap();
        assert!(area.allows(false) && !area.allows(true));
        let shows =
            |from, to| process_maps_file(pid, (start, start + 2 * PAGE), identity, (from, to)).unwrap();
        assert!(shows(2 * PAGE as u64, 3 * PAGE as u64) && !shows(0, 2 * PAGE as u64));
        // SAFETY: the mapping is this test's.
        unsafe { unmap_range(start, 2 * PAGE).unwrap() };
        assert!(!shows(0, 4 * PAGE as u64));
    }

    #[test]
    fn shared_memory_without_a_descriptor_is_the_same_under_a_second_address() {
        let first = SharedMapping::anonymous(2 * PAGE).unwrap();
        first.word(PAGE).store(5, Ordering::Relaxed);
        let second = SharedMapping::duplicate(first.as_ptr() as usize, 2 * PAGE).unwrap();
        drop(first);
        assert_eq!(second.word(PAGE).load(Ordering::Relaxed), 5);
    }
}
