//! Listing folders of the view, and what ends a process in order.

use core::ffi::{CStr, c_char, c_int};

use libc::{DIR, dirent, dirent64, glob_t};

use crate::engine::leave;
use crate::path::public;
use crate::place::{Place, follows, lead, may_be_ours};
use crate::real::{self, Choose, Choose64, Order, Order64, Told};

follows! {
    /// `opendir(3)`.
    opendir(path) -> *mut DIR;
    /// `scandir(3)`.
    scandir(path, out: *mut *mut *mut dirent, choose: Choose, order: Order) -> c_int;
    /// `scandir64(3)`.
    scandir64(path, out: *mut *mut *mut dirent64, choose: Choose64, order: Order64) -> c_int;
}

macro_rules! scans {
    ($($(#[$doc:meta])* $name:ident($type:ident, $choose:ident, $order:ident);)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As in C.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            folder: c_int, path: *const c_char, out: *mut *mut *mut $type, choose: $choose, order: $order
        ) -> c_int {
            // SAFETY: as in C.
            unsafe {
                if may_be_ours(path)
                    && let Some(answer) = lead(folder, path, |place| {
                        real::$name(libc::AT_FDCWD, place.path(), out, choose, order)
                    })
                {
                    return answer;
                }
                real::$name(folder, path, out, choose, order)
            }
        }
    )*};
}

scans! {
    /// `scandirat(3)`.
    scandirat(dirent, Choose, Order);
    /// `scandirat64(3)`.
    scandirat64(dirent64, Choose64, Order64);
}

/// Gives the paths that were found the names that programs know.
unsafe fn rename(found: *mut glob_t, from: usize) {
    // SAFETY: the C library has filled the structure in: so many C strings, of its own memory, behind the places kept free. They
    // only become shorter.
    unsafe {
        let found = &*found;
        for at in from..found.gl_pathc {
            let text = *found.gl_pathv.add(found.gl_offs + at);
            let known = CStr::from_ptr(text).to_bytes_with_nul();
            if let Some(kept) = public(known).map(<[u8]>::len) {
                core::ptr::copy(text.add(known.len() - kept), text, kept);
            }
        }
    }
}

macro_rules! globs {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As in C.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            pattern: *const c_char, flags: c_int, told: Told, out: *mut glob_t
        ) -> c_int {
            const PLACES_KEPT: c_int = libc::GLOB_DOOFFS;
            // SAFETY: as in C.
            unsafe {
                let at = |place: &Place| {
                    let before = if flags & libc::GLOB_APPEND != 0 { (*out).gl_pathc } else { 0 };
                    let answer = real::$name(place.path(), flags, told, out);
                    if answer == 0 {
                        if flags & PLACES_KEPT == 0 {
                            (*out).gl_offs = 0;
                        }
                        rename(out, before);
                    }
                    answer
                };
                if may_be_ours(pattern) && let Some(answer) = lead(libc::AT_FDCWD, pattern, at) {
                    return answer;
                }
                real::$name(pattern, flags, told, out)
            }
        }
    )*};
}

globs! {
    /// `glob(3)`, of patterns that begin in the view.
    glob;
    /// `glob64(3)`.
    glob64;
}

macro_rules! replaces {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*);)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As in C.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(path: *const c_char $(, $argument: $type)*) -> c_int {
            leave();
            // SAFETY: as in C.
            unsafe { real::$name(path $(, $argument)*) }
        }
    )*};
}

// The lock of the tree ends with the program.
replaces! {
    /// `execve(2)`.
    execve(arguments: *const *const c_char, environment: *const *const c_char);
    /// `execv(3)`.
    execv(arguments: *const *const c_char);
    /// `execvp(3)`.
    execvp(arguments: *const *const c_char);
    /// `execvpe(3)`.
    execvpe(arguments: *const *const c_char, environment: *const *const c_char);
}

macro_rules! ends {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As in C.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(status: c_int) -> ! {
            leave();
            // SAFETY: as in C.
            unsafe { real::$name(status) }
        }
    )*};
}

ends! {
    /// `_exit(2)`.
    _exit;
    /// `_Exit(3)`.
    _Exit;
}
