//! The calls. Each answers -1 with `errno` set where the engine refuses, and [`KERNEL`] where the kernel has to act.

pub(crate) mod connecting;
pub(crate) mod descriptors;
pub(crate) mod options;
pub(crate) mod transfer;
pub(crate) mod waiting;

use core::ffi::c_int;
use core::time::Duration;

use libc::timespec;
use nonic_sockets::Way;
use nonic_verbs::errno::Errno;
use nonic_verbs::guard;

use crate::calls::KERNEL;

/// What the engine refuses.
fn refused(error: nonic_sockets::Error) -> Errno {
    Errno(error.errno())
}

/// For calls that answer a number.
fn answered(work: impl FnOnce() -> nonic_sockets::Result<Way<c_int>>) -> c_int {
    kept(|| {
        guard::or_minus_one(|| match work().map_err(refused)? {
            Way::Done(number) => Ok(number),
            Way::Kernel => Ok(KERNEL),
        })
    })
}

/// For calls that answer nothing.
fn silent(work: impl FnOnce()) -> c_int {
    kept(|| {
        guard::silent(work);
        0
    })
}

/// A call that succeeds leaves `errno` alone, as programs expect of the kernel's.
fn kept<T: Copy + PartialEq + From<i8>>(work: impl FnOnce() -> T) -> T {
    // SAFETY: the C library keeps one errno per thread, always readable and writable by its thread.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    let answer = work();
    if answer != T::from(-1) {
        // SAFETY: as above.
        unsafe { *errno = before };
    }
    answer
}

/// A time; `None` for NULL: for ever.
///
/// # Safety
/// `timeout` is NULL or readable.
unsafe fn time(timeout: *const timespec) -> Result<Option<Duration>, Errno> {
    if timeout.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller says so.
    let time = unsafe { timeout.read_unaligned() };
    nonic_sys::time_of(time.tv_sec, time.tv_nsec).map(Some).ok_or(Errno::EINVAL)
}
