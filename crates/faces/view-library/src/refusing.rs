//! Changing what is in the view, which nobody may: calls that make, take away or rename are refused as in a folder of root's, and
//! those that change what belongs to somebody else as for any other owner.

use core::ffi::{c_char, c_int, c_uint, c_void};

use libc::mode_t;
use nonic_neighbour::fail;

use crate::place::{Place, lead, may_be_ours};
use crate::real;

/// What taking away says.
fn gone(place: &Place) -> c_int {
    fail(if place.exists() { libc::EACCES } else { libc::ENOENT })
}

/// What making says.
fn made(place: &Place) -> c_int {
    fail(if place.exists() { libc::EEXIST } else { libc::EACCES })
}

/// What changing says.
fn changed(place: &Place) -> c_int {
    fail(if place.exists() { libc::EPERM } else { libc::ENOENT })
}

macro_rules! refused {
    ($($name:ident($($argument:ident: $type:ty),*), $folder:expr, $path:ident, $why:ident;)*) => {$(
        #[doc = concat!("`", stringify!($name), "`.")]
        ///
        /// # Safety
        /// As in C.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($argument: $type),*) -> c_int {
            // SAFETY: as in C.
            unsafe {
                if may_be_ours($path) && let Some(answer) = lead($folder, $path, $why) {
                    return answer;
                }
                real::$name($($argument),*)
            }
        }
    )*};
}

refused! {
    unlink(path: *const c_char), libc::AT_FDCWD, path, gone;
    unlinkat(folder: c_int, path: *const c_char, flags: c_int), folder, path, gone;
    rmdir(path: *const c_char), libc::AT_FDCWD, path, gone;
    remove(path: *const c_char), libc::AT_FDCWD, path, gone;
    truncate(path: *const c_char, length: i64), libc::AT_FDCWD, path, gone;
    truncate64(path: *const c_char, length: i64), libc::AT_FDCWD, path, gone;
    mkdir(path: *const c_char, mode: mode_t), libc::AT_FDCWD, path, made;
    mkdirat(folder: c_int, path: *const c_char, mode: mode_t), folder, path, made;
    mknod(path: *const c_char, mode: mode_t, device: u64), libc::AT_FDCWD, path, made;
    symlink(target: *const c_char, path: *const c_char), libc::AT_FDCWD, path, made;
    symlinkat(target: *const c_char, folder: c_int, path: *const c_char), folder, path, made;
    chmod(path: *const c_char, mode: mode_t), libc::AT_FDCWD, path, changed;
    fchmodat(folder: c_int, path: *const c_char, mode: mode_t, flags: c_int), folder, path, changed;
    chown(path: *const c_char, user: c_uint, group: c_uint), libc::AT_FDCWD, path, changed;
    lchown(path: *const c_char, user: c_uint, group: c_uint), libc::AT_FDCWD, path, changed;
    fchownat(folder: c_int, path: *const c_char, user: c_uint, group: c_uint, flags: c_int), folder, path, changed;
    utimensat(folder: c_int, path: *const c_char, times: *const c_void, flags: c_int), folder, path, changed;
}

macro_rules! renames {
    ($($name:ident($($argument:ident: $type:ty),*), $from_folder:expr, $from:ident, $to_folder:expr, $to:ident;)*) => {$(
        #[doc = concat!("`", stringify!($name), "`.")]
        ///
        /// # Safety
        /// As in C.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($argument: $type),*) -> c_int {
            let into = |_: &Place| fail(libc::EACCES);
            // SAFETY: as in C.
            unsafe {
                if may_be_ours($from) && let Some(answer) = lead($from_folder, $from, gone) {
                    return answer;
                }
                if may_be_ours($to) && let Some(answer) = lead($to_folder, $to, into) {
                    return answer;
                }
                real::$name($($argument),*)
            }
        }
    )*};
}

renames! {
    rename(from: *const c_char, to: *const c_char), libc::AT_FDCWD, from, libc::AT_FDCWD, to;
    renameat(from_folder: c_int, from: *const c_char, to_folder: c_int, to: *const c_char),
        from_folder, from, to_folder, to;
    renameat2(from_folder: c_int, from: *const c_char, to_folder: c_int, to: *const c_char, flags: c_uint),
        from_folder, from, to_folder, to;
}
