//! What things are called: links, and paths without any. Programs see the paths of the view, not those of the tree.

use core::ffi::{CStr, c_char, c_int};
use core::ptr;

use libc::ssize_t;
use nonic_neighbour::{errno, fail, set_errno};

use crate::engine::is_used;
use crate::path::{self, Buffer};
use crate::place::{Place, current_folder, follows, lead, may_be_ours};
use crate::real;

/// What a link says that leads into a tree (`/proc/self/fd/3`, `/proc/self/cwd`), in the view's words: the length that is left.
unsafe fn in_public(out: *mut c_char, length: ssize_t) -> ssize_t {
    let Ok(known) = usize::try_from(length) else { return length };
    if !is_used() {
        return length;
    }
    // SAFETY: the kernel has written so many bytes.
    let text = unsafe { core::slice::from_raw_parts_mut(out.cast::<u8>(), known) };
    let mut kept = Buffer::new();
    if !path::public(text).is_some_and(|public| kept.push(public)) {
        return length;
    }
    let kept = kept.bytes();
    text[..kept.len()].copy_from_slice(kept);
    kept.len() as ssize_t
}

fn read_place(place: &Place, out: *mut c_char, room: usize) -> ssize_t {
    if place.node.is_some() && place.exists() {
        return fail(libc::EINVAL); // No link, whatever stands for it.
    }
    // SAFETY: a path that ends; the caller's buffer.
    unsafe { real::readlink(place.path(), out, room) }
}

/// `readlink(2)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn readlink(path: *const c_char, out: *mut c_char, room: usize) -> ssize_t {
    // SAFETY: as in C.
    unsafe {
        if may_be_ours(path)
            && let Some(length) = lead(libc::AT_FDCWD, path, |place| read_place(place, out, room))
        {
            return length;
        }
        in_public(out, real::readlink(path, out, room))
    }
}

/// `readlinkat(2)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn readlinkat(
    folder: c_int,
    path: *const c_char,
    out: *mut c_char,
    room: usize,
) -> ssize_t {
    // SAFETY: as in C.
    unsafe {
        if may_be_ours(path)
            && let Some(length) = lead(folder, path, |place| read_place(place, out, room))
        {
            return length;
        }
        in_public(out, real::readlinkat(folder, path, out, room))
    }
}

/// `readlink(2)` as programs call it that were compiled to be checked.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __readlink_chk(
    path: *const c_char,
    out: *mut c_char,
    room: usize,
    size: usize,
) -> ssize_t {
    check(room <= size);
    // SAFETY: as in C.
    unsafe { readlink(path, out, room) }
}

/// The same of `readlinkat(2)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __readlinkat_chk(
    folder: c_int,
    path: *const c_char,
    out: *mut c_char,
    room: usize,
    size: usize,
) -> ssize_t {
    check(room <= size);
    // SAFETY: as in C.
    unsafe { readlinkat(folder, path, out, room) }
}

/// Ends a program that has told the compiler of less room than it asks to be filled, as the C library does.
fn check(fits: bool) {
    if !fits {
        // SAFETY: asks for nothing.
        unsafe { libc::abort() };
    }
}

/// Hands a path out as `realpath(3)` does: into the program's buffer, or into memory of `least` bytes and more that it frees.
unsafe fn hand_out(text: &[u8], out: *mut c_char, least: usize) -> *mut c_char {
    let to = if out.is_null() {
        // SAFETY: asks for memory.
        unsafe { libc::malloc(least.max(text.len() + 1)) }.cast::<c_char>()
    } else {
        out
    };
    if to.is_null() {
        set_errno(libc::ENOMEM);
        return to;
    }
    // SAFETY: the program's buffer has room for the path, as each caller has seen to; the memory was asked for.
    unsafe {
        ptr::copy_nonoverlapping(text.as_ptr(), to.cast(), text.len());
        to.add(text.len()).write(0);
    }
    to
}

unsafe fn resolve_place(place: &Place, out: *mut c_char) -> *mut c_char {
    if place.node.is_some() && place.exists() {
        // SAFETY: the caller's buffer has PATH_MAX bytes, which no path here exceeds.
        return unsafe { hand_out(place.public().bytes(), out, 0) };
    }
    let mut found = Buffer::new();
    // SAFETY: a path that ends, and two buffers of PATH_MAX bytes.
    unsafe {
        if real::realpath(place.path(), found.room().as_mut_ptr().cast()).is_null() {
            return ptr::null_mut();
        }
        let text = CStr::from_ptr(found.as_ptr()).to_bytes();
        hand_out(path::public(text).unwrap_or(text), out, 0)
    }
}

/// `realpath(3)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn realpath(path: *const c_char, out: *mut c_char) -> *mut c_char {
    // SAFETY: as in C.
    unsafe {
        if may_be_ours(path)
            && let Some(answer) = lead(libc::AT_FDCWD, path, |place| resolve_place(place, out))
        {
            return answer;
        }
        real::realpath(path, out)
    }
}

/// `realpath(3)` as programs call it that were compiled to be checked.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __realpath_chk(
    path: *const c_char,
    out: *mut c_char,
    size: usize,
) -> *mut c_char {
    check(size >= Buffer::ROOM);
    // SAFETY: as in C.
    unsafe { realpath(path, out) }
}

/// `canonicalize_file_name(3)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn canonicalize_file_name(path: *const c_char) -> *mut c_char {
    // SAFETY: as in C.
    unsafe { realpath(path, ptr::null_mut()) }
}

/// The working folder of a process whose tree has been taken away: it is there again with the next look.
unsafe fn getcwd_without_tree(out: *mut c_char, room: usize) -> *mut c_char {
    let mut here = Buffer::new();
    if !current_folder(&mut here) {
        return ptr::null_mut();
    }
    let Some(text) = path::public(here.bytes()) else {
        set_errno(libc::ENOENT);
        return ptr::null_mut();
    };
    // Without a buffer and a length there is as much room as it takes.
    if text.len() >= room && !(out.is_null() && room == 0) {
        set_errno(libc::ERANGE);
        return ptr::null_mut();
    }
    // SAFETY: the caller's buffer has room for it. Memory that is asked for is as long as the program says, for it may go on writing.
    unsafe { hand_out(text, out, room) }
}

/// `getcwd(3)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn getcwd(out: *mut c_char, room: usize) -> *mut c_char {
    // SAFETY: as in C; what is given out is a C string, which only becomes shorter.
    unsafe {
        let found = real::getcwd(out, room);
        if found.is_null() && errno() == libc::ENOENT && is_used() {
            return getcwd_without_tree(out, room);
        }
        if !found.is_null() && is_used() {
            let length = libc::strlen(found);
            let kept = in_public(found, length as ssize_t);
            found.add(kept.cast_unsigned()).write(0);
        }
        found
    }
}

/// `getcwd(3)` as programs call it that were compiled to be checked.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __getcwd_chk(out: *mut c_char, room: usize, size: usize) -> *mut c_char {
    check(room <= size);
    // SAFETY: as in C.
    unsafe { getcwd(out, room) }
}

follows! {
    /// `chdir(2)`.
    chdir(path) -> c_int;
}
