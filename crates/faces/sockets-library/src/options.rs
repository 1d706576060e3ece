//! Options and flags. The kernel's socket has them all; the engine is told what concerns it.

use core::ffi::{c_int, c_ulong, c_void};

use libc::socklen_t;

use crate::calls::KERNEL;
use crate::descriptors::copied_by_fcntl;
use crate::engine::{is_known, is_socket, table};
use crate::real;

/// `TCP_ESTABLISHED`, of the first byte of `struct tcp_info`.
const ESTABLISHED: u8 = 1;

/// `getsockopt(2)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn getsockopt(
    number: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    length: *mut socklen_t,
) -> c_int {
    let known = is_socket(number);
    if known {
        // SAFETY: the program's promise is the same.
        match unsafe { (table().option)(number, level, name, value, length) } {
            KERNEL => {}
            answer => return answer,
        }
    }
    // SAFETY: as in C.
    let told = unsafe { real::getsockopt(number, level, name, value, length) };
    if known && told == 0 && (level, name) == (libc::IPPROTO_TCP, libc::TCP_INFO) && is_connected(number) {
        // The kernel's socket is not connected, and what it counts is nothing.
        // SAFETY: the kernel has just written there, and said how much.
        unsafe {
            if *length > 0 {
                value.cast::<u8>().write(ESTABLISHED);
            }
        }
    }
    told
}

fn is_connected(number: c_int) -> bool {
    // SAFETY: no place is given.
    unsafe { (table().peer_name)(number, core::ptr::null_mut(), core::ptr::null_mut()) == 0 }
}

/// `setsockopt(2)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn setsockopt(
    number: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    length: socklen_t,
) -> c_int {
    // SAFETY: as in C.
    let done = unsafe { real::setsockopt(number, level, name, value, length) };
    if done == 0 && is_socket(number) {
        // SAFETY: the kernel has just read there.
        unsafe { (table().note_option)(number, level, name, value, length) };
    }
    done
}

/// `fcntl(2)`. What comes behind the command is a word for all commands, as the C library takes it.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fcntl(number: c_int, command: c_int, argument: c_ulong) -> c_int {
    // SAFETY: as in C.
    let answer = unsafe { real::fcntl(number, command, argument) };
    if answer >= 0 && is_known(number) {
        match command {
            libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => return copied_by_fcntl(number, answer),
            libc::F_SETFL => set_nonblocking(number, argument & libc::O_NONBLOCK as c_ulong != 0),
            _ => {}
        }
    }
    answer
}

/// `fcntl64`, which programs with large files call.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fcntl64(number: c_int, command: c_int, argument: c_ulong) -> c_int {
    // SAFETY: as in C.
    unsafe { fcntl(number, command, argument) }
}

/// `ioctl(2)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ioctl(number: c_int, request: c_ulong, argument: c_ulong) -> c_int {
    if is_socket(number) && request == libc::FIONREAD {
        // SAFETY: asks for nothing.
        match unsafe { (table().waiting)(number) } {
            KERNEL => {}
            count if count < 0 => return count,
            _ if argument == 0 => return nonic_neighbour::fail(libc::EFAULT),
            count => {
                // SAFETY: the program expects a number there.
                unsafe { (argument as *mut c_int).write_unaligned(count) };
                return 0;
            }
        }
    }
    // SAFETY: as in C.
    let answer = unsafe { real::ioctl(number, request, argument) };
    if answer == 0 && is_socket(number) && request == libc::FIONBIO {
        // SAFETY: the kernel has just read there.
        set_nonblocking(number, unsafe { (argument as *const c_int).read_unaligned() } != 0);
    }
    answer
}

fn set_nonblocking(number: c_int, nonblocking: bool) {
    if is_socket(number) {
        // SAFETY: asks for nothing.
        unsafe { (table().set_nonblocking)(number, nonblocking.into()) };
    }
}
