//! Descriptors that are copied and closed, and processes that are.

use core::ffi::{c_int, c_uint};

use libc::pid_t;

use crate::engine::{is_known, is_own, own, table};
use crate::real;

/// Gives back what the engine has under a number.
fn give_back(number: c_int) {
    if is_known(number) && is_own() {
        // SAFETY: asks for nothing.
        unsafe { (table().close)(number) };
    }
}

/// A number was copied.
fn copied(number: c_int, other: c_int) -> c_int {
    if other >= 0 && other != number && is_known(number) && is_own() {
        // SAFETY: asks for nothing.
        unsafe { (table().duplicate)(number, other) };
    }
    other
}

/// `close(2)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn close(number: c_int) -> c_int {
    give_back(number);
    // SAFETY: as in C.
    unsafe { real::close(number) }
}

/// `close_range(2)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    if flags.cast_unsigned() & libc::CLOSE_RANGE_CLOEXEC == 0 && first <= last && is_own() {
        // SAFETY: asks for nothing.
        unsafe { (table().close_range)(first, last) };
    }
    // SAFETY: as in C.
    unsafe { real::close_range(first, last, flags) }
}

/// `closefrom(3)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn closefrom(first: c_int) {
    // SAFETY: as in C.
    unsafe { close_range(first.max(0).cast_unsigned(), c_uint::MAX, 0) };
}

/// `dup(2)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup(number: c_int) -> c_int {
    // SAFETY: as in C.
    copied(number, unsafe { real::dup(number) })
}

/// Gives the other number of a `dup2` back, if that will succeed.
fn make_room(number: c_int, other: c_int) {
    // SAFETY: asks about a number.
    if number != other && is_known(other) && unsafe { real::fcntl(number, libc::F_GETFD, 0) } >= 0 {
        give_back(other);
    }
}

/// `dup2(2)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup2(number: c_int, other: c_int) -> c_int {
    make_room(number, other);
    // SAFETY: as in C.
    copied(number, unsafe { real::dup2(number, other) })
}

/// `dup3(2)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup3(number: c_int, other: c_int, flags: c_int) -> c_int {
    make_room(number, other);
    // SAFETY: as in C.
    copied(number, unsafe { real::dup3(number, other, flags) })
}

/// For `fcntl(F_DUPFD)`.
pub(crate) fn copied_by_fcntl(number: c_int, other: c_int) -> c_int {
    copied(number, other)
}

/// `fork(2)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fork() -> pid_t {
    // SAFETY: the C library's function; without an engine nothing has to be done around it.
    let answer = unsafe {
        match (table().around_fork)(real::fork) {
            crate::calls::KERNEL => real::fork(),
            answer => answer,
        }
    };
    if answer == 0 {
        own();
    }
    answer
}

/// Ends connections before the process ends without handlers.
fn say_goodbye() {
    if is_own() {
        // SAFETY: asks for nothing.
        unsafe { (table().say_goodbye)() };
    }
}

/// `_exit(2)`. The kernel would end connections in order.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn _exit(status: c_int) -> ! {
    say_goodbye();
    loop {
        // SAFETY: as in C; the process does not come back.
        unsafe { libc::syscall(libc::SYS_exit_group, status) };
    }
}

/// `_Exit(3)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn _Exit(status: c_int) -> ! {
    // SAFETY: as in C.
    unsafe { _exit(status) }
}

/// `daemon(3)`, which forks inside the C library.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn daemon(keep_folder: c_int, keep_output: c_int) -> c_int {
    // SAFETY: as in C; the paths end with a zero.
    unsafe {
        match fork() {
            -1 => return -1,
            0 => {}
            _ => {
                libc::syscall(libc::SYS_exit_group, 0);
            }
        }
        if libc::setsid() < 0 || (keep_folder == 0 && libc::chdir(c"/".as_ptr()) < 0) {
            return -1;
        }
        if keep_output == 0 {
            let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
            if null < 0 || (0..3).any(|number| real::dup2(null, number) < 0) {
                return -1;
            }
            if null > 2 {
                real::close(null);
            }
        }
    }
    0
}

/// `shutdown(2)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn shutdown(number: c_int, how: c_int) -> c_int {
    if crate::engine::is_socket(number) {
        // SAFETY: asks for nothing.
        match unsafe { (table().shut_down)(number, how) } {
            crate::calls::KERNEL => {}
            answer => return answer,
        }
    }
    // SAFETY: as in C.
    unsafe { real::shutdown(number, how) }
}
