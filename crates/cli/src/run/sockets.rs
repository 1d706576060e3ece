//! The library that `nonic run --sockets` has the loader put in front of all others.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The variable that tells the loader.
pub(super) const VARIABLE: &str = "LD_PRELOAD";

/// The way bytes take, unless the user says which: each write of a stream comes with a message that tells of it, and those that take
/// the ring as well do not wait for the message before.
pub(super) const TIER_VARIABLE: &str = "NONIC_TIER";
pub(super) const TIER: &str = "ring";

/// Why it cannot be put there.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum PreloadError {
    /// It is not beside the others.
    #[error("there is no {}; build it (cargo build --release), or run without --sockets", .0.display())]
    Missing(PathBuf),
    /// The loader would see several names.
    #[error("{} has a space in its name, which LD_PRELOAD cannot carry; move or link the folder elsewhere", .0.display())]
    Unspeakable(PathBuf),
}

/// The variable's value: the library in front of those that were there already.
pub(super) fn preload(library: PathBuf, before: Option<&OsStr>) -> Result<OsString, PreloadError> {
    if !library.is_file() {
        return Err(PreloadError::Missing(library));
    }
    joined(library, before)
}

fn joined(library: PathBuf, before: Option<&OsStr>) -> Result<OsString, PreloadError> {
    if library.as_os_str().as_bytes().iter().any(u8::is_ascii_whitespace) {
        return Err(PreloadError::Unspeakable(library));
    }
    let mut value = library.into_os_string();
    if let Some(before) = before.filter(|before| !before.is_empty()) {
        value.push(":");
        value.push(before);
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_preloaded_stays_behind_the_library_and_a_space_is_refused() {
        let library = || PathBuf::from("/n/libnonic-sockets.so");
        assert_eq!(joined(library(), None).unwrap(), "/n/libnonic-sockets.so");
        assert_eq!(joined(library(), Some(OsStr::new(""))).unwrap(), "/n/libnonic-sockets.so");
        assert_eq!(joined(library(), Some(OsStr::new("a b"))).unwrap(), "/n/libnonic-sockets.so:a b");
        let spaced = PathBuf::from("/my folder/libnonic-sockets.so");
        assert_eq!(joined(spaced.clone(), None), Err(PreloadError::Unspeakable(spaced)));
        let nowhere = PathBuf::from("/nowhere/libnonic-sockets.so");
        assert_eq!(preload(nowhere.clone(), None), Err(PreloadError::Missing(nowhere)));
    }
}
