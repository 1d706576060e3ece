//! The files behind shared memory of the program, open while somebody else may want them.

use std::io;
use std::sync::{Arc, Mutex, Weak};

use nonic_sys::{AreaMap, AsFd, Backing, FileIdentity, MemoryArea, OwnedFd, file_identity, open_file_behind};

use crate::engine::lock;

/// A file behind shared memory of the program, kept open while some range lies in it.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) descriptor: OwnedFd,
    identity: FileIdentity,
    writable: bool,
}

/// The open files of a process.
#[derive(Debug, Default)]
pub(crate) struct OpenFiles {
    open: Mutex<Vec<Weak<OpenFile>>>,
    /// Those that were given to shared anonymous memory, as long as that is mapped.
    given: Mutex<Vec<Arc<OpenFile>>>,
}

impl OpenFiles {
    /// The file behind an area that is known by `identity`, if it can be opened.
    pub(crate) fn behind(&self, area: &MemoryArea, identity: FileIdentity) -> Option<Arc<OpenFile>> {
        let mut files = lock(&self.open);
        files.retain(|file| file.strong_count() > 0);
        let fits = |file: &Arc<OpenFile>| file.identity == identity && (file.writable || !area.writable);
        if let Some(file) = files.iter().filter_map(Weak::upgrade).find(fits) {
            return Some(file);
        }
        let writable = area.writable && matches!(area.backing, Backing::SharedFile { .. });
        let descriptor = open_file_behind(area, writable)?;
        let file = Arc::new(OpenFile { descriptor, identity, writable });
        files.push(Arc::downgrade(&file));
        Some(file)
    }

    /// Keeps a file that shared anonymous memory was moved into.
    pub(crate) fn keep(&self, descriptor: OwnedFd) -> io::Result<()> {
        let identity = file_identity(descriptor.as_fd())?;
        let file = Arc::new(OpenFile { descriptor, identity, writable: true });
        lock(&self.open).push(Arc::downgrade(&file));
        let mut given = lock(&self.given);
        for index in (0..given.len()).rev() {
            if let Ok(false) = is_mapped(given[index].identity) {
                let_go(given.swap_remove(index));
            }
        }
        given.push(file);
        Ok(())
    }
}

/// Whether this process has a file mapped.
fn is_mapped(identity: FileIdentity) -> io::Result<bool> {
    for area in AreaMap::open()?.walk(0) {
        let backing = area?.backing;
        if matches!(backing, Backing::SharedFile { device, inode, .. } if (device, inode) == identity) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Closes a file, unless its number is another's by now: a program may close what it did not open.
fn let_go(file: Arc<OpenFile>) {
    if file_identity(file.descriptor.as_fd()).is_ok_and(|identity| identity == file.identity) {
        return;
    }
    std::mem::forget(file);
}
