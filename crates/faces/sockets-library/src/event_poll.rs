//! `epoll(7)`.

use core::ffi::c_int;

use libc::{epoll_event, sigset_t, timespec};

use crate::calls::KERNEL;
use crate::engine::{is_event_set, is_socket, table};
use crate::real;
use crate::waiting::{masked, milliseconds, pointer};

/// `epoll_ctl(2)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_ctl(
    poll: c_int,
    operation: c_int,
    number: c_int,
    event: *mut epoll_event,
) -> c_int {
    // What is added may be an event poll itself.
    if is_socket(number) || operation == libc::EPOLL_CTL_ADD {
        // SAFETY: the program's promise is the same.
        match unsafe { (table().control)(poll, operation, number, event) } {
            KERNEL => {}
            answer => return answer,
        }
    }
    // SAFETY: as in C.
    unsafe { real::epoll_ctl(poll, operation, number, event) }
}

/// Waits by the engine, with signals masked.
///
/// # Safety
/// As `epoll_pwait2`.
unsafe fn wait(
    poll: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the program's promise is the same.
    unsafe { masked(mask, || (table().wait)(poll, events, most, timeout)) }
}

/// `epoll_wait(2)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_wait(
    poll: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: c_int,
) -> c_int {
    if is_event_set(poll) {
        let time = milliseconds(timeout);
        // SAFETY: the program's promise is the same.
        match unsafe { wait(poll, events, most, pointer(time.as_ref()), core::ptr::null()) } {
            KERNEL => {}
            answer => return answer,
        }
    }
    // SAFETY: as in C.
    unsafe { real::epoll_wait(poll, events, most, timeout) }
}

/// `epoll_pwait(2)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_pwait(
    poll: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: c_int,
    mask: *const sigset_t,
) -> c_int {
    if is_event_set(poll) {
        let time = milliseconds(timeout);
        // SAFETY: the program's promise is the same.
        match unsafe { wait(poll, events, most, pointer(time.as_ref()), mask) } {
            KERNEL => {}
            answer => return answer,
        }
    }
    // SAFETY: as in C.
    unsafe { real::epoll_pwait(poll, events, most, timeout, mask) }
}

/// `epoll_pwait2(2)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_pwait2(
    poll: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    if is_event_set(poll) {
        // SAFETY: the program's promise is the same.
        match unsafe { wait(poll, events, most, timeout, mask) } {
            KERNEL => {}
            answer => return answer,
        }
    }
    // SAFETY: as in C.
    unsafe { real::epoll_pwait2(poll, events, most, timeout, mask) }
}
