//! Files behind memory that the program of a peer shares itself: asked for when the first operation needs one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nonic_sys::SharedMapping;

/// Files of one peer that are mapped, or asked for, at the same time. What lies in others goes another way.
const FILES_MAX: usize = 4096;

/// The files of one peer, by its numbers.
#[derive(Debug, Default)]
pub(super) struct PeerFiles(Mutex<HashMap<u32, PeerFile>>);

#[derive(Debug)]
enum PeerFile {
    Asked,
    Mapped(Arc<SharedMapping>),
    Refused,
}

impl PeerFiles {
    fn lock(&self) -> MutexGuard<'_, HashMap<u32, PeerFile>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A file, if it is there. Has the peer asked for it the first time, and does without until it comes.
    pub(super) fn find(&self, file: u32, ask: impl FnOnce()) -> Option<Arc<SharedMapping>> {
        let mut files = self.lock();
        match files.get(&file) {
            Some(PeerFile::Mapped(mapping)) => Some(Arc::clone(mapping)),
            Some(PeerFile::Asked | PeerFile::Refused) => None,
            // The numbers are the peer's: no more of them are kept than a process can have files open.
            None if files.len() >= FILES_MAX => None,
            None => {
                files.insert(file, PeerFile::Asked);
                drop(files);
                ask();
                None
            }
        }
    }

    /// Whether the bytes before `end` of a file that was asked for may still come, or have come a moment ago.
    pub(super) fn may_come(&self, file: u32, end: u64) -> bool {
        match self.lock().get(&file) {
            Some(PeerFile::Asked) => true,
            Some(PeerFile::Mapped(mapping)) => end <= mapping.length() as u64,
            Some(PeerFile::Refused) | None => false,
        }
    }

    /// A file that was asked for is here, or cannot be had. What nobody asked for is not kept.
    pub(super) fn take(&self, file: u32, mapping: Option<SharedMapping>) {
        if let Some(known @ PeerFile::Asked) = self.lock().get_mut(&file) {
            *known = mapping.map_or(PeerFile::Refused, |mapping| PeerFile::Mapped(Arc::new(mapping)));
        }
    }

    /// The peer no longer has the file.
    pub(super) fn forget(&self, file: u32) {
        self.lock().remove(&file);
    }

    pub(super) fn clear(&self) {
        self.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a file is there, and whether it was asked for now.
    fn find(files: &PeerFiles, file: u32) -> (bool, bool) {
        let mut asked = false;
        let found = files.find(file, || asked = true).is_some();
        (found, asked)
    }

    fn mapping() -> Option<SharedMapping> {
        Some(SharedMapping::anonymous(4096).unwrap())
    }

    #[test]
    fn a_file_is_asked_for_once_and_is_there_when_it_came_until_it_is_dropped() {
        let files = PeerFiles::default();
        assert_eq!(find(&files, 7), (false, true));
        assert_eq!(find(&files, 7), (false, false));
        files.take(7, mapping());
        assert_eq!(find(&files, 7), (true, false));
        files.take(7, None);
        assert_eq!(find(&files, 7), (true, false), "nobody asked for it again");
        files.forget(7);
        assert_eq!(find(&files, 7), (false, true));
    }

    #[test]
    fn a_file_that_is_refused_is_not_asked_for_again_and_one_that_nobody_wants_is_not_kept() {
        let files = PeerFiles::default();
        find(&files, 7);
        files.take(7, None);
        files.take(8, mapping());
        assert_eq!(find(&files, 7), (false, false));
        assert_eq!(find(&files, 8), (false, true));
    }

    #[test]
    fn no_more_files_are_kept_than_there_may_be() {
        let files = PeerFiles::default();
        for file in 0..FILES_MAX as u32 {
            assert_eq!(find(&files, file), (false, true));
        }
        assert_eq!(find(&files, u32::MAX), (false, false));
        files.clear();
        assert_eq!(find(&files, u32::MAX), (false, true));
    }
}
