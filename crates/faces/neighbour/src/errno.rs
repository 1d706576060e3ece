//! How functions of C say why they fail.

use core::ffi::c_int;

/// What the last call said.
#[inline]
pub fn errno() -> c_int {
    // SAFETY: the C library keeps one errno per thread, always readable by its thread.
    unsafe { *libc::__errno_location() }
}

/// Stores it where programs look.
#[inline]
pub fn set_errno(errno: c_int) {
    // SAFETY: the C library keeps one errno per thread, always writable by its thread.
    unsafe { *libc::__errno_location() = errno };
}

/// Says why a call fails.
pub fn fail<T: From<i8>>(errno: c_int) -> T {
    set_errno(errno);
    T::from(-1)
}
