//! Streams from files of the view.

use core::ffi::{CStr, c_char, c_int};
use core::ptr;

use libc::FILE;

use crate::opening::open_place;
use crate::place::{follows, lead, may_be_ours};
use crate::real;

/// The flags behind the mode of a stream.
fn flags(mode: &[u8]) -> c_int {
    let both = mode.contains(&b'+');
    let one = |flag| if both { libc::O_RDWR } else { flag };
    let access = match mode.first() {
        Some(b'w') => one(libc::O_WRONLY) | libc::O_CREAT | libc::O_TRUNC,
        Some(b'a') => one(libc::O_WRONLY) | libc::O_CREAT | libc::O_APPEND,
        _ => one(libc::O_RDONLY),
    };
    let close = if mode.contains(&b'e') { libc::O_CLOEXEC } else { 0 };
    let only = if mode.contains(&b'x') { libc::O_EXCL } else { 0 };
    access | close | only
}

macro_rules! streams {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As in C.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(path: *const c_char, mode: *const c_char) -> *mut FILE {
            // SAFETY: as in C.
            unsafe {
                if may_be_ours(path)
                    && !mode.is_null()
                    && let Some(number) = lead(libc::AT_FDCWD, path, |place| {
                        open_place(place, flags(CStr::from_ptr(mode).to_bytes()))
                    })
                {
                    return of(number, mode);
                }
                real::$name(path, mode)
            }
        }
    )*};
}

/// A stream of a descriptor, if there is one.
unsafe fn of(number: c_int, mode: *const c_char) -> *mut FILE {
    if number < 0 {
        return ptr::null_mut();
    }
    // SAFETY: the caller's mode; a descriptor that is nobody else's.
    unsafe {
        let stream = libc::fdopen(number, mode);
        if stream.is_null() {
            libc::close(number);
        }
        stream
    }
}

streams! {
    /// `fopen(3)`.
    fopen;
    /// `fopen64(3)`.
    fopen64;
}

follows! {
    /// `freopen(3)`.
    freopen(path, mode: *const c_char, stream: *mut FILE) -> *mut FILE;
    /// `freopen64(3)`.
    freopen64(path, mode: *const c_char, stream: *mut FILE) -> *mut FILE;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_of_a_stream_becomes_the_flags_that_the_c_library_opens_with() {
        assert_eq!(flags(b"r"), libc::O_RDONLY);
        assert_eq!(flags(b"rbe"), libc::O_RDONLY | libc::O_CLOEXEC);
        assert_eq!(flags(b"r+"), libc::O_RDWR);
        assert_eq!(flags(b"w"), libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC);
        assert_eq!(flags(b"a+"), libc::O_RDWR | libc::O_CREAT | libc::O_APPEND);
    }
}
