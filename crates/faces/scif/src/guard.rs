//! The border between C and Rust: what a result and what a panic become, and what `errno` shows.
//!
//! A call that succeeds leaves `errno` as it was: programs set it to 0, call us many times, and exit with it. No panic
//! crosses the border. One inside is a fault of this library, not of the program, so the call fails with `EIO` and the
//! program goes on; Rust's panic hook has then already said where on standard error.
//!
//! Nor is a thread cancelled (`pthread_cancel(3)`) while it is inside: it would leave locks held. With the drivers, calls
//! that wait were no points of cancellation either.

use core::ffi::{c_int, c_void};
use core::ptr;
use std::panic::{AssertUnwindSafe, catch_unwind};

use nonic_sys::CancellationHeld;

use crate::calls::Offset;
use crate::errno::Errno;

/// A value of the C interface, with the one that says that a call failed.
pub(crate) trait Answer {
    /// -1, in this type.
    const FAILURE: Self;
}

impl Answer for c_int {
    const FAILURE: Self = -1;
}

impl Answer for Offset {
    const FAILURE: Self = -1;
}

impl Answer for *mut c_void {
    const FAILURE: Self = ptr::without_provenance_mut(usize::MAX);
}

/// What `work` returns, or the value for failure with `errno` set.
#[inline]
pub(crate) fn answer<T: Answer>(work: impl FnOnce() -> Result<T, Errno>) -> T {
    let _uncancelled = CancellationHeld::hold();
    let errno = Errno::place();
    // SAFETY: the C library keeps one errno per thread, for as long as the thread runs, and this is that thread.
    let before = unsafe { *errno };
    // Unwind safety: the engine's locks recover from poisoning, and the call's own values are dropped.
    let result = catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(Errno::EIO));
    let (value, after) = match result {
        Ok(value) => (value, before),
        Err(reason) => (T::FAILURE, reason.0),
    };
    // SAFETY: as above.
    unsafe { *errno = after };
    value
}

/// [`answer`] for calls that answer 0.
#[inline]
pub(crate) fn status(work: impl FnOnce() -> Result<(), Errno>) -> c_int {
    answer(|| work().map(|()| 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errno() -> c_int {
        // SAFETY: see `answer`.
        unsafe { *Errno::place() }
    }

    fn set_errno(value: c_int) {
        // SAFETY: see `answer`.
        unsafe { *Errno::place() = value }
    }

    #[test]
    fn a_failure_sets_errno_and_answers_minus_one_in_every_type() {
        assert_eq!(status(|| Err(Errno::EINVAL)), -1);
        assert_eq!(errno(), libc::EINVAL);
        assert_eq!(answer::<Offset>(|| Err(Errno::EFAULT)), -1);
        assert_eq!(errno(), libc::EFAULT);
        assert_eq!(answer::<*mut c_void>(|| Err(Errno::EAGAIN)).addr(), usize::MAX);
        assert_eq!(errno(), libc::EAGAIN);
    }

    #[test]
    fn a_success_leaves_errno_as_it_was_whatever_happened_inside() {
        set_errno(77);
        let inside = || {
            set_errno(libc::EBUSY);
            Ok(5)
        };
        assert_eq!(answer(inside), 5);
        assert_eq!(errno(), 77);
    }

    #[test]
    fn a_panic_stays_inside_and_becomes_eio() {
        assert_eq!(status(|| panic!("a fault of the library")), -1);
        assert_eq!(errno(), libc::EIO);
    }
}
