//! Receiving.

use core::ffi::{c_int, c_uint, c_void};
use core::ptr;

use libc::{iovec, mmsghdr, msghdr, sockaddr, socklen_t, ssize_t, timespec};
use nonic_neighbour::fail;

use crate::calls::KERNEL;
use crate::engine::{is_socket, table};
use crate::real;

const KERNEL_BYTES: ssize_t = KERNEL as ssize_t;

/// Receives by the engine.
///
/// # Safety
/// As `recvfrom`.
unsafe fn receive(
    number: c_int,
    buffer: *mut c_void,
    count: usize,
    flags: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> ssize_t {
    let place = iovec { iov_base: buffer, iov_len: count };
    // SAFETY: the program's promise is the same.
    unsafe { (table().receive)(number, &raw const place, 1, flags, address, length) }
}

/// `read(2)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn read(number: c_int, buffer: *mut c_void, count: usize) -> ssize_t {
    if is_socket(number) {
        // SAFETY: the program's promise is the same.
        match unsafe { receive(number, buffer, count, 0, ptr::null_mut(), ptr::null_mut()) } {
            KERNEL_BYTES => {}
            answer => return answer,
        }
    }
    // SAFETY: as in C.
    unsafe { real::read(number, buffer, count) }
}

/// `recvfrom(2)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recvfrom(
    number: c_int,
    buffer: *mut c_void,
    count: usize,
    flags: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> ssize_t {
    if is_socket(number) {
        // SAFETY: the program's promise is the same.
        match unsafe { receive(number, buffer, count, flags, address, length) } {
            KERNEL_BYTES => {}
            answer => return answer,
        }
    }
    // SAFETY: as in C.
    unsafe { real::recvfrom(number, buffer, count, flags, address, length) }
}

/// `recv(2)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recv(
    number: c_int,
    buffer: *mut c_void,
    count: usize,
    flags: c_int,
) -> ssize_t {
    if is_socket(number) {
        // SAFETY: the program's promise is the same.
        match unsafe { receive(number, buffer, count, flags, ptr::null_mut(), ptr::null_mut()) } {
            KERNEL_BYTES => {}
            answer => return answer,
        }
    }
    // SAFETY: as in C.
    unsafe { real::recv(number, buffer, count, flags) }
}

/// `readv(2)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn readv(number: c_int, places: *const iovec, count: c_int) -> ssize_t {
    if is_socket(number) {
        let Ok(count) = usize::try_from(count) else { return fail(libc::EINVAL) };
        // SAFETY: the program's promise is the same.
        match unsafe { (table().receive)(number, places, count, 0, ptr::null_mut(), ptr::null_mut()) } {
            KERNEL_BYTES => {}
            answer => return answer,
        }
    }
    // SAFETY: as in C.
    unsafe { real::readv(number, places, count) }
}

/// `recvmsg(2)`. Nothing comes with the bytes: no control data, no address, no flags.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recvmsg(number: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    if is_socket(number) {
        if message.is_null() {
            return fail(libc::EFAULT);
        }
        // SAFETY: the program's promise is the same; the header is its to be written.
        unsafe {
            let (places, count) = ((*message).msg_iov, (*message).msg_iovlen);
            match (table().receive)(number, places, count, flags, ptr::null_mut(), ptr::null_mut()) {
                KERNEL_BYTES => {}
                answer => {
                    if answer >= 0 {
                        ((*message).msg_namelen, (*message).msg_controllen, (*message).msg_flags) = (0, 0, 0);
                    }
                    return answer;
                }
            }
        }
    }
    // SAFETY: as in C.
    unsafe { real::recvmsg(number, message, flags) }
}

/// `recvmmsg(2)`: one message, for a stream has no others.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recvmmsg(
    number: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut timespec,
) -> c_int {
    if !is_socket(number) || count == 0 || messages.is_null() {
        // SAFETY: as in C.
        return unsafe { real::recvmmsg(number, messages, count, flags, timeout) };
    }
    // SAFETY: the program's array has an entry at least, which is its to be written.
    unsafe {
        let flags = flags & !libc::MSG_WAITFORONE;
        match recvmsg(number, &raw mut (*messages).msg_hdr, flags) {
            answer if answer < 0 => -1,
            answer => {
                (*messages).msg_len = answer as c_uint;
                1
            }
        }
    }
}

unsafe extern "C" {
    /// Ends a program that would write beyond a buffer.
    fn __chk_fail() -> !;
}

macro_rules! checked {
    ($(#[$($meta:tt)*])* $name:ident => $function:ident($($argument:ident: $type:ty),*), $count:ident <= $room:ident) => {
        #[doc = concat!("`", stringify!($function), "` of a program compiled with `_FORTIFY_SOURCE`.")]
        ///
        /// # Safety
        /// As in C.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($argument: $type),*) -> ssize_t {
            if $count > $room {
                // SAFETY: ends the program.
                unsafe { __chk_fail() };
            }
            checked!(@call $function, $($argument),*)
        }
    };
    (@call read, $number:ident, $buffer:ident, $count:ident, $room:ident) => {
        // SAFETY: as in C.
        unsafe { read($number, $buffer, $count) }
    };
    (@call recv, $number:ident, $buffer:ident, $count:ident, $room:ident, $flags:ident) => {
        // SAFETY: as in C.
        unsafe { recv($number, $buffer, $count, $flags) }
    };
    (@call recvfrom, $number:ident, $buffer:ident, $count:ident, $room:ident, $flags:ident, $address:ident, $length:ident) => {
        // SAFETY: as in C.
        unsafe { recvfrom($number, $buffer, $count, $flags, $address, $length) }
    };
}

checked!(__read_chk => read(number: c_int, buffer: *mut c_void, count: usize, room: usize), count <= room);
checked!(
    __recv_chk => recv(number: c_int, buffer: *mut c_void, count: usize, room: usize, flags: c_int), count <= room
);
checked!(
    __recvfrom_chk => recvfrom(
        number: c_int, buffer: *mut c_void, count: usize, room: usize, flags: c_int, address: *mut sockaddr,
        length: *mut socklen_t
    ), count <= room
);
