//! The libraries that the loader is told to put in front of all others.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The variable that tells the loader.
pub(crate) const VARIABLE: &str = "LD_PRELOAD";

/// Why one cannot be put there.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PreloadError {
    /// It is not beside the others.
    #[error("there is no {}; build it (cargo build --release), or run {without}", .library.display())]
    Missing {
        /// Where it would be.
        library: PathBuf,
        /// How to do without.
        without: &'static str,
    },
    /// The loader would see several names.
    #[error("{} has a space in its name, which LD_PRELOAD cannot carry; move or link the folder elsewhere", .0.display())]
    Unspeakable(PathBuf),
}

/// Sees that a library can be put there.
pub(crate) fn check(library: &Path, without: &'static str) -> Result<(), PreloadError> {
    if !library.is_file() {
        return Err(PreloadError::Missing { library: library.to_owned(), without });
    }
    if library.as_os_str().as_bytes().iter().any(|byte| byte.is_ascii_whitespace() || *byte == b':') {
        return Err(PreloadError::Unspeakable(library.to_owned()));
    }
    Ok(())
}

/// The variable's value: the library in front of those that were there already, where it stands once.
pub(crate) fn in_front(library: &Path, before: Option<&OsStr>) -> OsString {
    let mut value = library.as_os_str().to_owned();
    if let Some(others) = without(before, library) {
        value.push(":");
        value.push(others);
    }
    value
}

/// The variable's value: the library behind those that were there already, where it stands once.
pub(crate) fn behind(library: &Path, before: Option<&OsStr>) -> OsString {
    let mut value = without(before, library).unwrap_or_default();
    if !value.is_empty() {
        value.push(":");
    }
    value.push(library);
    value
}

/// The variable's value without a library; `None` if nothing is left.
pub(crate) fn without(value: Option<&OsStr>, library: &Path) -> Option<OsString> {
    let separates = |byte: &u8| *byte == b':' || byte.is_ascii_whitespace();
    let names = value?.as_bytes().split(separates).filter(|name| !name.is_empty());
    let kept: Vec<_> = names.filter(|name| Path::new(OsStr::from_bytes(name)) != library).collect();
    (!kept.is_empty()).then(|| OsString::from_vec(kept.join(&b':')))
}

/// What AddressSanitizer reads. Unless told so, a program built with it ends at once where a library stands in front of its own.
pub(crate) const SANITIZER_VARIABLE: &str = "ASAN_OPTIONS";
const SANITIZER_OPTION: &str = "verify_asan_link_order=0";

/// That variable's value with the option; `None` if it says something of this already.
pub(crate) fn with_sanitizer_option(before: Option<&OsStr>) -> Option<OsString> {
    let before = before.map(OsStr::as_bytes).unwrap_or_default();
    let name = SANITIZER_OPTION.split('=').next().unwrap_or_default().as_bytes();
    if before.windows(name.len()).any(|at| at == name) {
        return None;
    }
    let between: &[u8] = if before.is_empty() { b"" } else { b":" };
    Some(OsString::from_vec([before, between, SANITIZER_OPTION.as_bytes()].concat()))
}

/// That variable's value without the option; `None` if nothing is left.
pub(crate) fn without_sanitizer_option(value: &OsStr) -> Option<OsString> {
    let options = value.as_bytes().split(|byte| *byte == b':');
    let kept: Vec<_> = options.filter(|option| *option != SANITIZER_OPTION.as_bytes()).collect();
    (!kept.is_empty()).then(|| OsString::from_vec(kept.join(&b':')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sanitizers_option_is_added_once_and_taken_back_alone() {
        let with = |before: Option<&str>| with_sanitizer_option(before.map(OsStr::new));
        assert_eq!(with(None), Some(SANITIZER_OPTION.into()));
        assert_eq!(with(Some("a=1")), Some("a=1:verify_asan_link_order=0".into()));
        assert_eq!(with(Some("verify_asan_link_order=1")), None);
        let without = |value: &str| without_sanitizer_option(OsStr::new(value));
        assert_eq!(without("a=1:verify_asan_link_order=0:b=2"), Some("a=1:b=2".into()));
        assert_eq!(without(SANITIZER_OPTION), None);
    }

    #[test]
    fn what_was_preloaded_stays_and_the_library_stands_before_or_behind_it_once() {
        let library = Path::new("/n/libnonic-sockets.so");
        let value = |before: Option<&str>| in_front(library, before.map(OsStr::new));
        assert_eq!(value(None), "/n/libnonic-sockets.so");
        assert_eq!(value(Some("")), "/n/libnonic-sockets.so");
        assert_eq!(value(Some("a b")), "/n/libnonic-sockets.so:a:b");
        assert_eq!(value(Some("a:/n/libnonic-sockets.so:b")), "/n/libnonic-sockets.so:a:b");
        assert_eq!(without(Some(OsStr::new("/n/libnonic-sockets.so")), library), None);
        let value = |before: Option<&str>| behind(library, before.map(OsStr::new));
        assert_eq!((value(None), value(Some(""))), (library.into(), library.into()));
        assert_eq!(value(Some("/n/libnonic-sockets.so:a b")), "a:b:/n/libnonic-sockets.so");
    }

    #[test]
    fn a_library_that_is_not_there_and_one_with_a_space_are_refused() {
        let nowhere = Path::new("/nowhere/libnonic-sockets.so");
        let words = check(nowhere, "without --sockets").unwrap_err().to_string();
        assert!(
            words.contains("/nowhere/libnonic-sockets.so") && words.contains("without --sockets"),
            "{words}"
        );
        let folder = std::env::temp_dir().join(format!("nonic preload {}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let spaced = folder.join("x.so");
        std::fs::write(&spaced, "").unwrap();
        assert_eq!(check(&spaced, ""), Err(PreloadError::Unspeakable(spaced.clone())));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
