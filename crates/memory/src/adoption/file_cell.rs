//! The file of a process, behind a lock of its own: who passes it to peers does not wait for an adoption that runs.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nonic_sys::{AddressFile, AsFd, forget_in_children, fork_generation};

/// Log2 of the bytes of the file.
const FILE_BITS: u32 = 62;

/// Each with the generation that made it: the last one counts. Files of parents stay, so that nothing is lost track of.
type Made = Vec<(u32, &'static AddressFile)>;

/// The cell's lock.
pub(super) type FileGuard = MutexGuard<'static, Made>;

/// The file of the process that asks, made when it is first asked for. It is never closed: who maps it from its descriptor
/// need not ask whether it is still there.
#[derive(Debug)]
pub(super) struct FileCell(Mutex<Made>);

impl FileCell {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Nobody makes a file while this is held.
    pub(super) fn hold(&'static self) -> FileGuard {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file. A child gets one of its own.
    pub(super) fn file(&'static self) -> io::Result<&'static AddressFile> {
        let mut made = self.hold();
        let generation = fork_generation();
        if let Some((_, file)) = made.last().filter(|(made_in, _)| *made_in == generation) {
            return Ok(file);
        }
        let file: &'static AddressFile = Box::leak(Box::new(AddressFile::create("nonic-pages", FILE_BITS)?));
        // A child that had it would keep the pages of a dead parent.
        forget_in_children(file.as_fd());
        made.push((generation, file));
        Ok(file)
    }

    /// The file, if this process has made one.
    pub(super) fn made(&'static self) -> Option<&'static AddressFile> {
        let generation = fork_generation();
        self.hold().last().filter(|(made_in, _)| *made_in == generation).map(|(_, file)| *file)
    }
}
