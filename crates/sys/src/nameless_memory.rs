//! Shared memory that has no name in any file system and no descriptor: `MAP_SHARED | MAP_ANONYMOUS`.

use std::io;
use std::os::fd::AsFd;
use std::sync::OnceLock;

use crate::area_map::AreaMap;
use crate::virtual_memory::{AreaName, Backing, FileIdentity, MemoryArea, PAGE, file_identity};
use crate::{Rights, SharedMemory};

/// The device of which the kernel makes shared memory that has no name in any file system.
pub fn nameless_device() -> Option<(u32, u32)> {
    static DEVICE: OnceLock<Option<(u32, u32)>> = OnceLock::new();
    *DEVICE.get_or_init(|| {
        let memory = SharedMemory::create("nonic-device", PAGE).ok()?;
        Some(file_identity(memory.as_fd()).ok()?.0)
    })
}

/// What tells the shared anonymous memory of an area from others, and the offset of the area's first byte; `None` if it is
/// something else.
pub fn shared_anonymous(areas: &AreaMap, area: &MemoryArea) -> io::Result<Option<(FileIdentity, u64)>> {
    let Backing::SharedFile { device, inode, offset } = area.backing else { return Ok(None) };
    if Some(device) != nameless_device() {
        return Ok(None);
    }
    let is_it = areas.name_at(area.start)? == Some(AreaName::SharedAnonymous);
    Ok(is_it.then_some(((device, inode), offset)))
}

/// Whether memory of this machine may be swapped out, as far as the kernel tells.
pub fn has_swap() -> bool {
    let mut facts = std::mem::MaybeUninit::<libc::sysinfo>::zeroed();
    // SAFETY: the kernel fills the structure, of which all zeros is a value, too.
    unsafe { libc::sysinfo(facts.as_mut_ptr()) != 0 || facts.assume_init().totalswap != 0 }
}

/// Maps `length` bytes of the shared memory at `from` also at `to`, over whatever is there. It may go on behind what is mapped at
/// `from`.
///
/// # Safety
/// What is replaced is the caller's, or the program asked for it.
pub unsafe fn duplicate_at(from: usize, length: usize, rights: Rights, to: usize) -> io::Result<()> {
    let (from, at) = (from as *mut libc::c_void, to as *mut libc::c_void);
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    // SAFETY: an old length of zero leaves the old mapping as it is; the caller vouches for what is replaced.
    unsafe {
        if libc::mremap(from, 0, length, flags, at) == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        crate::set_rights(to, length, rights)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SharedMapping, find_area, pages_in_memory};
    use std::sync::atomic::Ordering;

    #[test]
    fn shared_anonymous_memory_is_told_from_other_memory_without_a_name() {
        let areas = AreaMap::open().unwrap();
        let tell = |mapping: &SharedMapping| {
            let area = find_area(mapping.as_ptr() as usize).unwrap().unwrap();
            shared_anonymous(&areas, &area).unwrap()
        };
        let (one, other) =
            (SharedMapping::anonymous(2 * PAGE).unwrap(), SharedMapping::anonymous(PAGE).unwrap());
        let (identity, offset) = tell(&one).unwrap();
        assert_eq!(offset, 0);
        assert_ne!(tell(&other).unwrap().0, identity);
        let copy = SharedMapping::duplicate(one.as_ptr() as usize + PAGE, PAGE).unwrap();
        assert_eq!(tell(&copy), Some((identity, PAGE as u64)));
        let file = SharedMemory::create("dev/zero", PAGE).unwrap();
        assert_eq!(tell(&file.map(crate::Protection::ReadWrite).unwrap()), None);
    }

    #[test]
    fn pages_that_were_stored_to_are_in_memory_and_a_duplicate_may_be_longer() {
        let memory = SharedMapping::anonymous(4 * PAGE).unwrap();
        memory.word(2 * PAGE).store(7, Ordering::Relaxed);
        let mut pages = [0; 4];
        pages_in_memory(memory.as_ptr() as usize, &mut pages).unwrap();
        assert_eq!(pages.map(|page| page & 1), [0, 0, 1, 0]);
        let room = SharedMapping::anonymous(6 * PAGE).unwrap();
        let rights = Rights { read: true, write: true, execute: false };
        let (from, to) = (memory.as_ptr() as usize + PAGE, room.as_ptr() as usize);
        // SAFETY: what is replaced is this test's.
        unsafe { duplicate_at(from, 5 * PAGE, rights, to).unwrap() };
        assert_eq!(room.word(PAGE).load(Ordering::Relaxed), 7);
        assert!(crate::populate(to + 2 * PAGE, PAGE, false).is_ok());
        assert!(crate::populate(to + 3 * PAGE, PAGE, false).is_err(), "behind the end of the memory");
    }
}
