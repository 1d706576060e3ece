//! Numbers that come and go.

use core::ffi::{c_int, c_uint};

use nonic_sockets::Way;

use super::{answered, silent};

/// `shutdown`.
pub(crate) unsafe extern "C" fn shut_down(number: c_int, how: c_int) -> c_int {
    answered(|| {
        Ok(match nonic_sockets::shut_down(number, how)? {
            Way::Done(()) => Way::Done(0),
            Way::Kernel => Way::Kernel,
        })
    })
}

/// A number is about to be closed, or to stand for something else.
pub(crate) unsafe extern "C" fn close(number: c_int) -> c_int {
    silent(|| nonic_sockets::close(number))
}

/// So are all of these.
pub(crate) unsafe extern "C" fn close_range(first: c_uint, last: c_uint) -> c_int {
    silent(|| nonic_sockets::close_range(first, last))
}

/// Another number stands for the same now.
pub(crate) unsafe extern "C" fn duplicate(number: c_int, other: c_int) -> c_int {
    silent(|| nonic_sockets::duplicate(number, other))
}

/// The process is about to end without the handlers of an exit.
pub(crate) unsafe extern "C" fn say_goodbye() -> c_int {
    silent(nonic_sockets::say_goodbye)
}

/// Calls the C library's `fork`.
pub(crate) unsafe extern "C" fn around_fork(fork: unsafe extern "C" fn() -> c_int) -> c_int {
    // Not guarded: a panic must not come between a child and its return. `errno` is the C library's.
    // SAFETY: the library passes the C library's function.
    nonic_sockets::around_fork(|| unsafe { fork() })
}
