//! The files behind regions of memory that the program shares already (memfd, `shm_open`, a mapped file): peers that are
//! given such a file map the very same pages.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nonic_sys::{AsFd, Backing, MemoryArea, OwnedFd, shared_file_of};

#[derive(Debug)]
struct SharedFile {
    device: (u32, u32),
    inode: u64,
    descriptor: OwnedFd,
    users: u32,
}

/// The list. A file's number is never used again: a peer may still have the old file mapped under it.
#[derive(Debug, Default)]
pub struct SharedFiles {
    files: Mutex<Files>,
}

#[derive(Debug, Default)]
struct Files {
    next: u32,
    by_number: HashMap<u32, SharedFile>,
}

/// Files at most: each keeps a descriptor of the program's open.
const FILES_MAX: usize = 256;

impl SharedFiles {
    fn lock(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the file behind `area`, counted as used once more. `None` if the memory is private, or the file
    /// cannot be reached any more, or there are too many: the region is then treated as private memory.
    pub fn add(&self, area: &MemoryArea) -> Option<u32> {
        let Backing::SharedFile { device, inode, .. } = area.backing else { return None };
        let mut files = self.lock();
        let same = |file: &SharedFile| file.device == device && file.inode == inode;
        if let Some((number, file)) = files.by_number.iter_mut().find(|(_, file)| same(file)) {
            file.users += 1;
            return Some(*number);
        }
        if files.by_number.len() >= FILES_MAX {
            return None;
        }
        let file = SharedFile { device, inode, descriptor: shared_file_of(area)?, users: 1 };
        let number = files.next;
        files.next = number.checked_add(1)?;
        files.by_number.insert(number, file);
        Some(number)
    }

    /// Counts one use less. True if it was the last and the file was let go.
    pub fn release(&self, number: u32) -> bool {
        let mut files = self.lock();
        let Some(file) = files.by_number.get_mut(&number) else { return false };
        file.users -= 1;
        let last = file.users == 0;
        if last {
            files.by_number.remove(&number);
        }
        last
    }

    /// A descriptor of the file, to give to a peer, and its length now.
    pub fn descriptor(&self, number: u32) -> Option<(OwnedFd, u64)> {
        let files = self.lock();
        let descriptor = files.by_number.get(&number)?.descriptor.as_fd().try_clone_to_owned().ok()?;
        let length = std::fs::File::from(descriptor.try_clone().ok()?).metadata().ok()?.len();
        Some((descriptor, length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nonic_sys::{PAGE, Protection, SharedMemory, find_area};

    #[test]
    fn one_file_has_one_number_until_its_last_region_goes() {
        let memory = SharedMemory::create("files", 4 * PAGE).unwrap();
        let mapping = memory.map(Protection::ReadWrite).unwrap();
        let area = find_area(mapping.as_ptr() as usize).unwrap().unwrap();
        let files = SharedFiles::default();
        let number = files.add(&area).unwrap();
        assert_eq!(files.add(&area), Some(number));
        assert_eq!(files.descriptor(number).unwrap().1, 4 * PAGE as u64);
        assert!(!files.release(number));
        assert!(files.release(number));
        assert!(files.descriptor(number).is_none());
        assert!(!files.release(number));
        assert_ne!(files.add(&area), Some(number), "a number is never used again");
    }

    #[test]
    fn private_memory_has_no_file() {
        let value = Box::new(1u8);
        let area = find_area(&raw const *value as usize).unwrap().unwrap();
        assert_eq!(SharedFiles::default().add(&area), None);
    }
}
