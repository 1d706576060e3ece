//! A path, without an allocation.

use core::ffi::{CStr, c_char};

/// A path of at most `PATH_MAX` bytes.
pub(crate) struct Path {
    bytes: [u8; libc::PATH_MAX as usize],
}

impl Path {
    pub(crate) fn new() -> Self {
        Self { bytes: [0; libc::PATH_MAX as usize] }
    }

    pub(crate) fn as_ptr(&self) -> *const c_char {
        self.bytes.as_ptr().cast()
    }

    /// Becomes the absolute path, without links, of the file that `name` leads to.
    pub(crate) fn resolve(&mut self, name: &CStr) -> bool {
        // SAFETY: the name ends, and the buffer has the length that the call asks for.
        unsafe { !libc::realpath(name.as_ptr(), self.bytes.as_mut_ptr().cast()).is_null() }
    }

    /// Becomes `name`.
    pub(crate) fn take(&mut self, name: &CStr) -> bool {
        self.put(0, name)
    }

    /// Puts `neighbour` in the place of what is behind the last slash.
    pub(crate) fn name_neighbour(&mut self, neighbour: &CStr) -> bool {
        let name = self.bytes.iter().take_while(|byte| **byte != 0);
        let start =
            name.enumerate().filter(|(_, byte)| **byte == b'/').last().map_or(0, |(slash, _)| slash + 1);
        // Without a slash the loader would look for the name in its own folders.
        start > 0 && self.put(start, neighbour)
    }

    /// Puts `text` at `start`, if it fits.
    fn put(&mut self, start: usize, text: &CStr) -> bool {
        let text = text.to_bytes_with_nul();
        let Some(room) = self.bytes.get_mut(start..start + text.len()) else { return false };
        room.copy_from_slice(text);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(path: &Path) -> &str {
        CStr::from_bytes_until_nul(&path.bytes).expect("a path ends").to_str().expect("it is text")
    }

    #[test]
    fn the_engine_is_looked_for_in_the_librarys_own_folder() {
        let mut path = Path::new();
        assert!(path.take(c"/opt/nonic/libscif.so.0"));
        assert!(path.name_neighbour(c"libnonic.so"));
        assert_eq!(text(&path), "/opt/nonic/libnonic.so");
    }

    #[test]
    fn a_name_without_a_folder_is_not_looked_for_anywhere_else() {
        let mut path = Path::new();
        assert!(path.take(c"libscif.so.0"));
        assert!(!path.name_neighbour(c"libnonic.so"));
    }

    #[test]
    fn a_path_with_no_room_for_the_neighbour_is_refused_and_stays() {
        let mut path = Path::new();
        let long = [vec![b'/'; libc::PATH_MAX as usize - 2], vec![b'a', 0]].concat();
        let long = CStr::from_bytes_with_nul(&long).expect("it ends");
        assert!(path.take(long));
        assert!(!path.name_neighbour(c"libnonic.so"));
        assert_eq!(text(&path).len(), long.count_bytes());
    }
}
