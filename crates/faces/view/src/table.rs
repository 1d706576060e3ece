//! The one symbol through which `libnonic-view.so` reaches this face.

use core::ffi::{CStr, c_char, c_int};
use core::ptr;
use std::io::{Seek, Write};
use std::os::fd::{BorrowedFd, IntoRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicPtr, Ordering};

use nonic_sys::{CancellationHeld, ErrnoKept};
use rustix::fs::{MemfdFlags, Mode, SealFlags, fchmod, fcntl_add_seals, memfd_create};

use crate::calls::{TABLE_VERSION, ViewTable};
use crate::facts::{DeviceFacts, HostFacts};
use crate::folder::Standing;
use crate::numbers::counter_text;
use crate::responding::respond;
use crate::tree::tree;

/// The calls of this build.
#[allow(non_upper_case_globals)] // Named as other symbols of libraries are.
#[unsafe(no_mangle)]
pub static nonic_view_table: ViewTable = ViewTable { version: TABLE_VERSION, root, counter, netlink, leave };

/// A tree, and how often the devices had been changed when it was made.
struct Shown {
    standing: Standing,
    changes: u64,
}

/// The tree of this process. No lock: programs ask from signal handlers and in children of `fork`. Those that are replaced are
/// kept, since somebody may be looking at them; they are few: a fork, or a change of a device, between two looks.
static STANDING: AtomicPtr<Shown> = AtomicPtr::new(ptr::null_mut());

fn standing() -> Option<&'static Shown> {
    // SAFETY: NULL, or what was leaked below.
    unsafe { STANDING.load(Ordering::Acquire).as_ref() }
}

/// Runs `work`, of which the program sees nothing but the result: -`EIO` for a panic.
fn guarded(work: impl FnOnce() -> c_int) -> c_int {
    let _uncancelled = CancellationHeld::hold();
    let _errno = ErrnoKept::new();
    // Unwind safety: what `work` owns is dropped, and what is shared is replaced whole.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(-libc::EIO)
}

/// What all devices say of themselves.
fn facts() -> Vec<DeviceFacts> {
    nonic_device::devices().iter().map(DeviceFacts::now).collect()
}

fn found() -> Option<&'static Standing> {
    let before = standing();
    let changes = nonic_device::changes_made();
    let is_true = |shown: &&Shown| shown.changes == changes && shown.standing.is_there();
    if let Some(shown) = before.filter(is_true) {
        return Some(&shown.standing);
    }
    match Standing::put_up(&tree(&HostFacts::now(), &facts())) {
        Ok(new) => {
            let new: &'static Shown = Box::leak(Box::new(Shown { standing: new, changes }));
            STANDING.store(ptr::from_ref(new).cast_mut(), Ordering::Release);
            if let Some(before) = before {
                before.standing.clear(&new.standing);
            }
            Some(&new.standing)
        }
        Err(error) => {
            tracing::warn!(
                %error,
                "the device's files cannot be shown: no folder in XDG_RUNTIME_DIR, /dev/shm or /tmp can be made"
            );
            None
        }
    }
}

unsafe extern "C" fn root(out: *mut c_char, room: usize) -> c_int {
    guarded(|| {
        nonic_device::log_to_standard_error();
        let Some(standing) = found() else { return -libc::ENOENT };
        let path = standing.path();
        let bytes = path.as_bytes_with_nul();
        if bytes.len() > room {
            return -libc::ENAMETOOLONG;
        }
        // SAFETY: the caller's place has room for them.
        unsafe { out.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        (bytes.len() - 1) as c_int
    })
}

unsafe extern "C" fn counter(path: *const c_char) -> c_int {
    // SAFETY: the caller gives a C string.
    let path = unsafe { CStr::from_ptr(path) };
    guarded(|| {
        let Some(text) = path.to_str().ok().and_then(counter_text) else { return -libc::ENOENT };
        match file_of(&text) {
            Ok(file) => file.into_raw_fd(),
            Err(error) => -error.raw_os_error().unwrap_or(libc::EIO),
        }
    })
}

unsafe extern "C" fn netlink(socket: c_int, request: *const u8, length: usize) -> c_int {
    // SAFETY: the caller gives a request of that length, which nobody else has.
    let request = unsafe { std::slice::from_raw_parts(request, length) };
    // SAFETY: open, for as long as the caller sends by it.
    let socket = unsafe { BorrowedFd::borrow_raw(socket) };
    guarded(|| {
        let answered = respond(socket, request, &facts());
        answered.map_or_else(|error| -error.raw_os_error().unwrap_or(libc::EIO), |()| 0)
    })
}

/// A file with this text, which nobody can change.
fn file_of(text: &str) -> std::io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut file: std::fs::File = memfd_create("nonic-counter", flags)?.into();
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    fchmod(&file, Mode::RUSR | Mode::RGRP | Mode::ROTH)?;
    fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(file.into())
}

unsafe extern "C" fn leave() {
    guarded(|| {
        if let Some(shown) = standing() {
            shown.standing.leave();
        }
        0
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counters_file_holds_its_text_and_takes_no_other() {
        let mut file: std::fs::File = file_of("17\n").unwrap().into();
        assert_eq!(std::io::read_to_string(&file).unwrap(), "17\n");
        file.rewind().unwrap();
        assert!(file.write_all(b"18").is_err());
        file.rewind().unwrap();
        assert_eq!(std::io::read_to_string(&file).unwrap(), "17\n");
    }
}
