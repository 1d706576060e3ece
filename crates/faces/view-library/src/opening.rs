//! Opening files of the view. Nobody writes to one.

use core::ffi::{c_char, c_int};

use libc::mode_t;
use nonic_neighbour::fail;

use crate::place::{Place, lead, may_be_ours};
use crate::real;

/// Opens what stands at a place.
///
/// Of a device node that is the null device: writes vanish, reads end, and no call of a driver is known. Of a counter it is its
/// present value. Errors are those of sysfs: a file may not be written to, nor a folder changed, by anybody.
pub(crate) fn open_place(place: &Place, flags: c_int) -> c_int {
    let creates = flags & libc::O_CREAT != 0;
    let writes = flags & libc::O_ACCMODE != libc::O_RDONLY || flags & libc::O_TRUNC != 0;
    let looks = flags & libc::O_PATH != 0;
    let there = place.exists();
    if !looks && creates && (!there || flags & libc::O_EXCL != 0) {
        return fail(if there { libc::EEXIST } else { libc::EACCES });
    }
    if !looks && writes && there && place.node.is_none() {
        // A folder cannot be written to by anybody, and says so.
        let folder = || {
            // SAFETY: a path that ends.
            let number =
                unsafe { real::open(place.path(), libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC, 0) };
            if number >= 0 {
                // SAFETY: this process's own, just opened.
                unsafe { libc::close(number) };
            }
            number >= 0
        };
        return fail(if folder() { libc::EISDIR } else { libc::EACCES });
    }
    if !looks
        && flags & libc::O_DIRECTORY == 0
        && let Some(number) = place.counter()
    {
        if number >= 0 && flags & libc::O_CLOEXEC == 0 {
            // SAFETY: this process's own, just opened.
            unsafe { libc::fcntl(number, libc::F_SETFD, 0) };
        }
        return number;
    }
    // A node is no link, whatever stands for it.
    let kept = if place.node.is_some() { flags & !(libc::O_NOFOLLOW | libc::O_CREAT) } else { flags };
    // SAFETY: a path that ends, and flags that ask for no mode.
    unsafe { real::open(place.path(), kept & !libc::O_CREAT, 0) }
}

macro_rules! opens {
    ($($(#[$doc:meta])* $name:ident($path:ident, $flags:ident, $mode:ident);)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As in C; the mode is there if the flags ask for one.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($path: *const c_char, $flags: c_int, $mode: mode_t) -> c_int {
            // SAFETY: as in C.
            unsafe {
                if may_be_ours($path)
                    && let Some(number) = lead(libc::AT_FDCWD, $path, |place| open_place(place, $flags))
                {
                    return number;
                }
                real::$name($path, $flags, $mode)
            }
        }
    )*};
    (at: $($(#[$doc:meta])* $name:ident($path:ident, $flags:ident, $mode:ident);)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As in C; the mode is there if the flags ask for one.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            folder: c_int, $path: *const c_char, $flags: c_int, $mode: mode_t
        ) -> c_int {
            // SAFETY: as in C.
            unsafe {
                if may_be_ours($path)
                    && let Some(number) = lead(folder, $path, |place| open_place(place, $flags))
                {
                    return number;
                }
                real::$name(folder, $path, $flags, $mode)
            }
        }
    )*};
}

opens! {
    /// `open(2)`.
    open(path, flags, mode);
    /// `open64(2)`.
    open64(path, flags, mode);
}

opens! { at:
    /// `openat(2)`.
    openat(path, flags, mode);
    /// `openat64(2)`.
    openat64(path, flags, mode);
}

/// `open(2)` as programs call it that were compiled to be checked.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __open_2(path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: as in C.
    unsafe { open(path, flags, 0) }
}

/// The same of `open64(2)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __open64_2(path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: as in C.
    unsafe { open64(path, flags, 0) }
}

/// The same of `openat(2)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __openat_2(folder: c_int, path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: as in C.
    unsafe { openat(folder, path, flags, 0) }
}

/// The same of `openat64(2)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __openat64_2(folder: c_int, path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: as in C.
    unsafe { openat64(folder, path, flags, 0) }
}

macro_rules! creates {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As in C.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(path: *const c_char, mode: mode_t) -> c_int {
            let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
            // SAFETY: as in C.
            unsafe {
                if may_be_ours(path)
                    && let Some(number) = lead(libc::AT_FDCWD, path, |place| open_place(place, flags))
                {
                    return number;
                }
                real::$name(path, mode)
            }
        }
    )*};
}

creates! {
    /// `creat(2)`.
    creat;
    /// `creat64(2)`.
    creat64;
}
