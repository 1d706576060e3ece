//! Options and flags.

use core::ffi::{c_int, c_uint, c_void};
use core::slice;

use nonic_sockets::{Error, Way};

use super::{answered, silent};

/// Bytes of the longest option that is looked at.
const LONGEST: usize = 64;

/// `getsockopt`, for what only the engine knows.
pub(crate) unsafe extern "C" fn option(
    number: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    length: *mut c_uint,
) -> c_int {
    answered(|| {
        let Way::Done(told) = nonic_sockets::option(number, level, name) else { return Ok(Way::Kernel) };
        if value.is_null() || length.is_null() {
            return Err(Error::new(libc::EFAULT));
        }
        let bytes = told.to_ne_bytes();
        // SAFETY: the program's place has the length that it says.
        unsafe {
            let count = bytes.len().min(length.read_unaligned() as usize);
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), value.cast(), count);
            length.write_unaligned(count as c_uint);
        }
        Ok(Way::Done(0))
    })
}

/// The kernel has taken an option.
pub(crate) unsafe extern "C" fn note_option(
    number: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    length: c_uint,
) -> c_int {
    silent(|| {
        if !value.is_null() {
            // SAFETY: as many bytes as the program says, which the kernel has just read.
            let value = unsafe { slice::from_raw_parts(value.cast(), (length as usize).min(LONGEST)) };
            nonic_sockets::note_option(number, level, name, value);
        }
    })
}

/// The flag `O_NONBLOCK` is so from now on.
pub(crate) unsafe extern "C" fn set_nonblocking(number: c_int, nonblocking: c_int) -> c_int {
    silent(|| nonic_sockets::set_nonblocking(number, nonblocking != 0))
}

/// `FIONREAD`.
pub(crate) unsafe extern "C" fn waiting(number: c_int) -> c_int {
    answered(|| {
        Ok(match nonic_sockets::waiting(number)? {
            Way::Done(count) => Way::Done(c_int::try_from(count).unwrap_or(c_int::MAX)),
            Way::Kernel => Way::Kernel,
        })
    })
}
