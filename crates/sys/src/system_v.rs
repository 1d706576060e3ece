//! System V shared memory: which segment a process has attached somewhere, and attaching it once more by its number.
//!
//! A segment is no file that can be opened, but whoever its mode allows may attach it by number, also after it was removed, as
//! long as somebody has it attached. `/proc/PID/maps` tells the number: it is the inode. Numbers belong to a *space*
//! (ipc_namespaces(7)), and are used again only when their segment is gone: as long as its owner has it attached, the number is
//! that segment's.

use std::io;

use crate::area_map::AreaMap;
use crate::nameless_memory::{duplicate_at, nameless_device};
use crate::user_file::namespace_number;
use crate::virtual_memory::{AreaName, Backing, FileIdentity, MemoryArea, PAGE};
use crate::{Rights, SharedMapping};

/// Some bytes of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentPlace {
    /// What mappings of it have for their file.
    pub identity: FileIdentity,
    /// Offset of the first byte.
    pub offset: u64,
}

impl SegmentPlace {
    fn number(self) -> Option<libc::c_int> {
        libc::c_int::try_from(self.identity.1).ok()
    }
}

fn place_in(areas: &AreaMap, area: &MemoryArea, address: usize) -> io::Result<Option<SegmentPlace>> {
    let Backing::SharedFile { device, inode, offset } = area.backing else { return Ok(None) };
    // Files of other file systems may have any name, and segments of huge pages are elsewhere.
    if Some(device) != nameless_device() || areas.name_at(address)? != Some(AreaName::Segment) {
        return Ok(None);
    }
    let offset = offset + (address - area.start) as u64;
    Ok(Some(SegmentPlace { identity: (device, inode), offset }))
}

/// The segment of which `areas` has `length` bytes attached at `address`; `None` if that is something else, or not one area.
pub fn segment_at(areas: &AreaMap, address: usize, length: usize) -> io::Result<Option<SegmentPlace>> {
    let area = areas.at_or_above(address)?.filter(|area| area.start <= address);
    match area.filter(|area| area.end - address >= length) {
        Some(area) => place_in(areas, &area, address),
        None => Ok(None),
    }
}

/// The space that segment numbers belong to here: few at a time have the same sixteen bits.
fn segment_space() -> io::Result<u16> {
    Ok(namespace_number("ipc")? as u16)
}

fn status(number: libc::c_int) -> io::Result<libc::shmid_ds> {
    let mut status = std::mem::MaybeUninit::<libc::shmid_ds>::zeroed();
    // SAFETY: the kernel fills the structure, of which all zeros is a value, too.
    match unsafe { libc::shmctl(number, libc::IPC_STAT, status.as_mut_ptr()) } {
        // SAFETY: as above.
        0 => Ok(unsafe { status.assume_init() }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The segment attached at `address` once more, as [`SharedMapping::duplicate`] has it, and the space of its number. No space if
/// its number leads elsewhere or nowhere: the process has left the space it attached it in, or may not ask.
pub fn duplicate_segment(address: usize, length: usize) -> io::Result<(SharedMapping, Option<u16>)> {
    let place = segment_at(&AreaMap::open()?, address, length)?;
    let status = || place.and_then(SegmentPlace::number).and_then(|number| status(number).ok());
    let before = status();
    let mapping = SharedMapping::duplicate(address, length)?;
    // Of whichever segment that was, the kernel has counted it.
    let counted = before.zip(status()).is_some_and(|(before, now)| {
        now.shm_nattch > before.shm_nattch && now.shm_lpid == std::process::id() as libc::pid_t
    });
    let space = if counted { segment_space().ok() } else { None };
    Ok((mapping, space))
}

/// Attaches all of the segment that process `pid` has attached at `address`, by its number in `space`; and whether it may be
/// written. Whoever calls keeps that process from detaching it meanwhile. `NotFound` if that is no segment any more.
pub fn attach_segment(
    pid: i32,
    address: usize,
    length: usize,
    space: u16,
) -> io::Result<(SharedMapping, SegmentPlace, bool)> {
    if segment_space()? != space {
        return Err(io::Error::other("its number belongs to another space"));
    }
    let place = || segment_at(&AreaMap::of_process(pid)?, address, length);
    let found = place()?.ok_or(io::ErrorKind::NotFound)?;
    let number = found.number().ok_or(io::ErrorKind::NotFound)?;
    let whole = status(number)?.shm_segsz.checked_next_multiple_of(PAGE).ok_or(io::ErrorKind::NotFound)?;
    let (mapping, writable) = match attach(number, whole, 0) {
        Ok(mapping) => (mapping, true),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            (attach(number, whole, libc::SHM_RDONLY)?, false)
        }
        Err(error) => return Err(error),
    };
    let here = segment_at(&AreaMap::open()?, mapping.as_ptr() as usize, whole)?;
    let is_it = here == Some(SegmentPlace { offset: 0, ..found });
    let reaches = found.offset.checked_add(length as u64).is_some_and(|end| end <= whole as u64);
    // If it is still there, it was there when it was attached, and its number was no other's.
    if is_it && reaches && place()? == Some(found) {
        return Ok((mapping, found, writable));
    }
    Err(io::ErrorKind::NotFound.into())
}

fn attach(number: libc::c_int, length: usize, flags: libc::c_int) -> io::Result<SharedMapping> {
    // SAFETY: the kernel chooses where, and replaces nothing.
    let start = unsafe { libc::shmat(number, std::ptr::null(), flags) };
    if start as isize == -1 {
        return Err(io::Error::last_os_error());
    }
    let mapping = SharedMapping::duplicate(start as usize, length);
    // SAFETY: attached above, and known to nobody.
    unsafe { libc::shmdt(start) };
    mapping
}

/// Maps `length` bytes of the shared memory at `from` also at `to`, over whatever is there, for this process alone.
///
/// # Safety
/// What is replaced is the caller's, or the program asked for it.
pub unsafe fn duplicate_over(
    from: usize,
    length: usize,
    (read, write): (bool, bool),
    to: usize,
) -> io::Result<()> {
    let rights = Rights { read, write, execute: false };
    // SAFETY: the caller vouches for what is replaced; the advice is about the new mapping.
    unsafe {
        duplicate_at(from, length, rights, to)?;
        rustix::mm::madvise(to as *mut _, length, rustix::mm::Advice::LinuxDontFork)?;
        // A kernel built without core dumps may refuse.
        let _ = rustix::mm::madvise(to as *mut _, length, rustix::mm::Advice::LinuxDontDump);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SharedMemory, find_area};
    use std::sync::atomic::Ordering;

    /// A segment that goes when nobody has it attached.
    fn segment(pages: usize) -> (libc::c_int, SharedMapping) {
        // SAFETY: a new segment, attached where the kernel chooses.
        unsafe {
            let number = libc::shmget(libc::IPC_PRIVATE, pages * PAGE, libc::IPC_CREAT | 0o600);
            assert!(number >= 0);
            let mapping = attach(number, pages * PAGE, 0).unwrap();
            assert_eq!(libc::shmctl(number, libc::IPC_RMID, std::ptr::null_mut()), 0);
            (number, mapping)
        }
    }

    fn own() -> i32 {
        std::process::id() as i32
    }

    #[test]
    fn a_segment_is_attached_by_where_its_owner_has_it() {
        let (number, first) = segment(4);
        let start = first.as_ptr() as usize;
        let (owners, space) = duplicate_segment(start + PAGE, 2 * PAGE).unwrap();
        drop(first);
        owners.word(PAGE).store(7, Ordering::Relaxed);
        let (all, place, writable) =
            attach_segment(own(), owners.as_ptr() as usize, 2 * PAGE, space.unwrap()).unwrap();
        assert_eq!((all.length(), place.identity.1, place.offset), (4 * PAGE, number as u64, PAGE as u64));
        assert!(writable);
        assert_eq!(all.word(2 * PAGE).load(Ordering::Relaxed), 7);
        let over = SharedMapping::anonymous(PAGE).unwrap();
        let (from, to) = (all.as_ptr() as usize + 2 * PAGE, over.as_ptr() as usize);
        // SAFETY: what is replaced is this test's.
        unsafe { duplicate_over(from, PAGE, (true, false), to).unwrap() };
        assert_eq!(over.word(0).load(Ordering::Relaxed), 7);
        let area = find_area(to).unwrap().unwrap();
        assert!(area.allows(false) && !area.allows(true));
    }

    #[test]
    fn what_is_no_segment_is_not_attached() {
        let memory = SharedMemory::create("SYSV00000000", 2 * PAGE).unwrap();
        let mapping = memory.map(crate::Protection::ReadWrite).unwrap();
        let (copy, space) = duplicate_segment(mapping.as_ptr() as usize, PAGE).unwrap();
        assert_eq!(space, None);
        let own_space = segment_space().unwrap();
        let refused = attach_segment(own(), copy.as_ptr() as usize, PAGE, own_space).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::NotFound);
        let (_, first) = segment(2);
        let (owners, space) = duplicate_segment(first.as_ptr() as usize, 2 * PAGE).unwrap();
        let (at, space) = (owners.as_ptr() as usize, space.unwrap());
        assert!(attach_segment(own(), at, 3 * PAGE, space).is_err(), "more than is attached there");
        assert!(attach_segment(own(), at, PAGE, !space).is_err(), "a number of another space");
    }
}
