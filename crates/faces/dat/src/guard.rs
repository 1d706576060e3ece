//! The border between C and Rust: what a result and what a panic become.
//!
//! A call of uDAPL answers by its value alone, so `errno` is left as it was. No panic crosses the border: one inside is a
//! fault of this library, not of the program, so the call answers `DAT_INTERNAL_ERROR` and the program goes on; Rust's
//! panic hook has then already said where on standard error.
//!
//! Nor is a thread cancelled (`pthread_cancel(3)`) while it is inside: it would leave locks held.

use std::panic::{AssertUnwindSafe, catch_unwind};

use nonic_dat::{DatError, DatResult, Kind, Subtype};
use nonic_sys::{CancellationHeld, ErrnoKept};

use crate::error::{Numbering, encode};

/// What a panic becomes.
const FAULT: DatError = DatError::new(Kind::InternalError, Subtype::None);

/// What `work` answers, as a `DAT_RETURN` of this version.
pub(crate) fn answer(numbering: Numbering, work: impl FnOnce() -> DatResult<()>) -> u32 {
    let _uncancelled = CancellationHeld::hold();
    quick_answer(numbering, work)
}

/// [`answer`] for calls that never block and have no point of cancellation: posting, dequeuing, synchronizing.
#[inline]
pub(crate) fn quick_answer(numbering: Numbering, work: impl FnOnce() -> DatResult<()>) -> u32 {
    let _errno = ErrnoKept::new();
    // Unwind safety: the engine's locks recover from poisoning, and the call's own values are dropped.
    match catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(FAULT)) {
        Ok(()) => 0,
        Err(error) => encode(numbering, error),
    }
}

#[cfg(test)]
mod tests {
    use core::ffi::c_int;

    use super::*;

    fn errno() -> c_int {
        // SAFETY: the C library's variable of this thread.
        unsafe { *libc::__errno_location() }
    }

    fn set_errno(value: c_int) {
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = value }
    }

    #[test]
    fn errno_is_as_it_was_whatever_happened_inside() {
        for result in [Ok(()), Err(DatError::argument(4))] {
            set_errno(77);
            let inside = || {
                set_errno(libc::EBUSY);
                result
            };
            let expected = if result.is_ok() { 0 } else { 0x8006_0027 };
            assert_eq!(answer(Numbering::V1_2, inside), expected);
            assert_eq!(errno(), 77);
        }
    }

    #[test]
    fn a_panic_stays_inside_and_is_an_internal_error() {
        assert_eq!(answer(Numbering::V1_2, || panic!("a fault of the library")), 0x8004_0000);
    }
}
