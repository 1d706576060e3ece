//! Asking about files of the view: what they are, and whether they may be read.

use core::ffi::{c_char, c_int, c_long, c_uint, c_void};

use libc::ssize_t;
use nonic_neighbour::fail;

use crate::place::{Place, follows, lead, may_be_ours};
use crate::real::{self, Stat, Stat64, StatFs, StatFs64, StatVfs, StatVfs64, StatX};

/// What sysfs says of the length of each of its files.
const FILE_LENGTH: i64 = 4096;

/// Modes of a folder, and of a device node.
const FOLDER_MODE: u32 = 0o755;
const NODE_MODE: u32 = 0o666;

/// What the kernel would say of a card's file, in place of what it says of what stands for it.
macro_rules! tell {
    ($place:expr, $out:expr) => {{
        let (place, out) = ($place, $out);
        out.st_uid = 0;
        out.st_gid = 0;
        if let Some(node) = place.node {
            out.st_mode = libc::S_IFCHR | NODE_MODE;
            out.st_rdev = libc::makedev(node.major, node.minor);
        } else if out.st_mode & libc::S_IFMT == libc::S_IFDIR {
            out.st_mode = libc::S_IFDIR | FOLDER_MODE;
            out.st_size = 0;
        } else if out.st_mode & libc::S_IFMT == libc::S_IFREG {
            out.st_size = FILE_LENGTH;
            out.st_blocks = 0;
        }
    }};
}

macro_rules! asks {
    ($($(#[$doc:meta])* $name:ident, $type:ident, $at:ident, $flags:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As in C.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(path: *const c_char, out: *mut $type) -> c_int {
            // SAFETY: as in C.
            unsafe {
                if may_be_ours(path)
                    && let Some(answer) = lead(libc::AT_FDCWD, path, |place| $at(place, out, $flags))
                {
                    return answer;
                }
                real::$name(path, out)
            }
        }
    )*};
    (at: $($(#[$doc:meta])* $name:ident, $type:ident, $at:ident;)*) => {$(
        /// Asks about a place.
        unsafe fn $at(place: &Place, out: *mut $type, flags: c_int) -> c_int {
            // A node is no link, whatever stands for it.
            let flags = if place.node.is_some() { flags & !libc::AT_SYMLINK_NOFOLLOW } else { flags };
            // SAFETY: a path that ends; the caller's place for the answer, which is filled in when the answer is 0.
            unsafe {
                let answer = real::$name(libc::AT_FDCWD, place.path(), out, flags);
                if answer == 0 {
                    tell!(place, &mut *out);
                }
                answer
            }
        }

        $(#[$doc])*
        ///
        /// # Safety
        /// As in C.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            folder: c_int, path: *const c_char, out: *mut $type, flags: c_int
        ) -> c_int {
            // SAFETY: as in C.
            unsafe {
                if may_be_ours(path) && let Some(answer) = lead(folder, path, |place| $at(place, out, flags)) {
                    return answer;
                }
                real::$name(folder, path, out, flags)
            }
        }
    )*};
}

asks! { at:
    /// `fstatat(2)`.
    fstatat, Stat, stat_at;
    /// `fstatat64(2)`.
    fstatat64, Stat64, stat64_at;
}

asks! {
    /// `stat(2)`.
    stat, Stat, stat_at, 0;
    /// `stat64(2)`.
    stat64, Stat64, stat64_at, 0;
    /// `lstat(2)`.
    lstat, Stat, stat_at, libc::AT_SYMLINK_NOFOLLOW;
    /// `lstat64(2)`.
    lstat64, Stat64, stat64_at, libc::AT_SYMLINK_NOFOLLOW;
}

/// Programs compiled before glibc 2.33 name the version of the structure, of which there is one.
macro_rules! asks_as_before {
    ($($name:ident, $now:ident, $type:ident;)*) => {$(
        #[doc = concat!("`", stringify!($now), "(2)` as older programs call it.")]
        ///
        /// # Safety
        /// As in C.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(version: c_int, path: *const c_char, out: *mut $type) -> c_int {
            if !(0..=1).contains(&version) {
                return fail(libc::EINVAL);
            }
            // SAFETY: as in C.
            unsafe { $now(path, out) }
        }
    )*};
    (at: $($name:ident, $now:ident, $type:ident;)*) => {$(
        #[doc = concat!("`", stringify!($now), "(2)` as older programs call it.")]
        ///
        /// # Safety
        /// As in C.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            version: c_int, folder: c_int, path: *const c_char, out: *mut $type, flags: c_int
        ) -> c_int {
            if !(0..=1).contains(&version) {
                return fail(libc::EINVAL);
            }
            // SAFETY: as in C.
            unsafe { $now(folder, path, out, flags) }
        }
    )*};
}

asks_as_before! {
    __xstat, stat, Stat;
    __xstat64, stat64, Stat64;
    __lxstat, lstat, Stat;
    __lxstat64, lstat64, Stat64;
}

asks_as_before! { at:
    __fxstatat, fstatat, Stat;
    __fxstatat64, fstatat64, Stat64;
}

/// `statx(2)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn statx(
    folder: c_int,
    path: *const c_char,
    flags: c_int,
    mask: c_uint,
    out: *mut StatX,
) -> c_int {
    // SAFETY: as in C.
    unsafe {
        if may_be_ours(path)
            && let Some(answer) = lead(folder, path, |place| statx_at(place, flags, mask, out))
        {
            return answer;
        }
        real::statx(folder, path, flags, mask, out)
    }
}

unsafe fn statx_at(place: &Place, flags: c_int, mask: c_uint, out: *mut StatX) -> c_int {
    let flags = if place.node.is_some() { flags & !libc::AT_SYMLINK_NOFOLLOW } else { flags };
    // SAFETY: a path that ends; the caller's place for the answer, which is filled in when the answer is 0.
    unsafe {
        let answer = real::statx(libc::AT_FDCWD, place.path(), flags, mask, out);
        if answer == 0 {
            tell_more(place, &mut *out);
        }
        answer
    }
}

fn tell_more(place: &Place, out: &mut StatX) {
    const KIND: u16 = libc::S_IFMT as u16;
    const FOLDER: u16 = libc::S_IFDIR as u16;
    const FILE: u16 = libc::S_IFREG as u16;
    out.stx_uid = 0;
    out.stx_gid = 0;
    if let Some(node) = place.node {
        out.stx_mode = (libc::S_IFCHR | NODE_MODE) as u16;
        out.stx_rdev_major = node.major;
        out.stx_rdev_minor = node.minor;
    } else if out.stx_mode & KIND == FOLDER {
        out.stx_mode = FOLDER | FOLDER_MODE as u16;
        out.stx_size = 0;
    } else if out.stx_mode & KIND == FILE {
        out.stx_size = FILE_LENGTH.cast_unsigned();
        out.stx_blocks = 0;
    }
}

/// `faccessat(2)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn faccessat(
    folder: c_int,
    path: *const c_char,
    mode: c_int,
    flags: c_int,
) -> c_int {
    // SAFETY: as in C.
    unsafe {
        if may_be_ours(path)
            && let Some(answer) =
                lead(folder, path, |place| real::faccessat(libc::AT_FDCWD, place.path(), mode, flags))
        {
            return answer;
        }
        real::faccessat(folder, path, mode, flags)
    }
}

/// `inotify_add_watch(2)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn inotify_add_watch(number: c_int, path: *const c_char, mask: u32) -> c_int {
    // SAFETY: as in C.
    unsafe {
        if may_be_ours(path)
            && let Some(answer) =
                lead(libc::AT_FDCWD, path, |place| real::inotify_add_watch(number, place.path(), mask))
        {
            return answer;
        }
        real::inotify_add_watch(number, path, mask)
    }
}

follows! {
    /// `access(2)`.
    access(path, mode: c_int) -> c_int;
    /// `euidaccess(3)`.
    euidaccess(path, mode: c_int) -> c_int;
    /// `eaccess(3)`.
    eaccess(path, mode: c_int) -> c_int;
    /// `statfs(2)`.
    statfs(path, out: *mut StatFs) -> c_int;
    /// `statfs64(2)`.
    statfs64(path, out: *mut StatFs64) -> c_int;
    /// `statvfs(3)`.
    statvfs(path, out: *mut StatVfs) -> c_int;
    /// `statvfs64(3)`.
    statvfs64(path, out: *mut StatVfs64) -> c_int;
    /// `getxattr(2)`.
    getxattr(path, name: *const c_char, out: *mut c_void, room: usize) -> ssize_t;
    /// `lgetxattr(2)`.
    lgetxattr(path, name: *const c_char, out: *mut c_void, room: usize) -> ssize_t;
    /// `listxattr(2)`.
    listxattr(path, out: *mut c_char, room: usize) -> ssize_t;
    /// `llistxattr(2)`.
    llistxattr(path, out: *mut c_char, room: usize) -> ssize_t;
    /// `pathconf(3)`.
    pathconf(path, name: c_int) -> c_long;
}
