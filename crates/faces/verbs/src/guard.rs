//! The border between C and Rust: what a result and what a panic become.
//!
//! No panic crosses it. One inside is a fault of this library, not of the program, so the call fails with
//! `EIO` and the program goes on; Rust's panic hook has then already said where on standard error.
//!
//! Nor is a thread cancelled (`pthread_cancel(3)`) while it is inside, as it is not in the drivers' calls: the places where
//! one may be are in [`crate::cancellable`].

use core::ffi::c_int;
use core::ptr;
use std::panic::{AssertUnwindSafe, catch_unwind};

use nonic_sys::CancellationHeld;

use crate::errno::Errno;

/// For functions that answer 0 or a positive errno. `errno` is set as well: many programs print that one.
pub fn status(work: impl FnOnce() -> Result<(), Errno>) -> c_int {
    let _uncancelled = CancellationHeld::hold();
    quick_status(work)
}

/// [`status`] for calls on the way of every byte, which reach no point of cancellation: what they do in the kernel they ask of
/// it without the C library, and what they say to people holds cancellation itself.
pub fn quick_status(work: impl FnOnce() -> Result<(), Errno>) -> c_int {
    match quick(work) {
        Ok(()) => 0,
        Err(errno) => errno.set().0,
    }
}

/// For functions that answer a count or code, or -1 with `errno` set.
pub fn or_minus_one(work: impl FnOnce() -> Result<c_int, Errno>) -> c_int {
    let _uncancelled = CancellationHeld::hold();
    quick_or_minus_one(work)
}

/// [`or_minus_one`], in the same way.
pub fn quick_or_minus_one(work: impl FnOnce() -> Result<c_int, Errno>) -> c_int {
    quick(work).unwrap_or_else(|errno| {
        errno.set();
        -1
    })
}

/// For functions that answer a pointer, or NULL with `errno` set.
pub fn or_null<T>(work: impl FnOnce() -> Result<*mut T, Errno>) -> *mut T {
    caught(work).unwrap_or_else(|errno| {
        errno.set();
        ptr::null_mut()
    })
}

/// For functions that answer nothing.
pub fn silent(work: impl FnOnce()) {
    let _uncancelled = CancellationHeld::hold();
    quick_silent(work);
}

/// [`silent`], in the way of [`quick_status`].
pub fn quick_silent(work: impl FnOnce()) {
    let _ = quick(|| {
        work();
        Ok(())
    });
}

/// The result of `work`, a panic turned into `EIO`.
pub fn caught<T>(work: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
    let _uncancelled = CancellationHeld::hold();
    quick(work)
}

fn quick<T>(work: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
    // Unwind safety: the engine's locks recover from poisoning, and the call's own values are dropped.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(Errno::EIO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_becomes_its_number_and_sets_errno() {
        assert_eq!(status(|| Err(Errno::EBUSY)), libc::EBUSY);
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EBUSY));
        assert_eq!(or_minus_one(|| Err(Errno::EINVAL)), -1);
        assert!(or_null::<u8>(|| Err(Errno::ENOMEM)).is_null());
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::ENOMEM));
    }

    #[test]
    fn a_panic_stays_inside_and_becomes_eio() {
        assert_eq!(status(|| panic!("a fault of the library")), libc::EIO);
    }
}
