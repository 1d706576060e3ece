//! Sending.

use core::ffi::{c_int, c_uint, c_void};

use libc::{iovec, mmsghdr, msghdr, off_t, off64_t, sockaddr, socklen_t, ssize_t};
use nonic_neighbour::{errno, fail, set_errno};

use crate::calls::KERNEL;
use crate::engine::{is_socket, table};
use crate::real;

const KERNEL_BYTES: ssize_t = KERNEL as ssize_t;
/// Bytes of a file that are sent at a time.
const FILE_PIECE: usize = 1 << 16;

/// Sends by the engine, and tells of a peer that takes nothing more as the kernel does: by a signal, unless that is not wanted.
///
/// # Safety
/// `places` leads to `count` entries, and those to bytes.
unsafe fn send_places(number: c_int, places: *const iovec, count: usize, flags: c_int) -> ssize_t {
    // SAFETY: the program's promise is the same.
    let answer = unsafe { (table().send)(number, places, count, flags) };
    if answer == -1 && errno() == libc::EPIPE && flags & libc::MSG_NOSIGNAL == 0 {
        // SAFETY: asks for nothing; a handler of the program's runs, or it ends.
        unsafe { libc::raise(libc::SIGPIPE) };
        set_errno(libc::EPIPE);
    }
    answer
}

/// # Safety
/// `buffer` leads to `count` bytes.
unsafe fn send_one(number: c_int, buffer: *const c_void, count: usize, flags: c_int) -> ssize_t {
    let place = iovec { iov_base: buffer.cast_mut(), iov_len: count };
    // SAFETY: the caller says so.
    unsafe { send_places(number, &raw const place, 1, flags) }
}

/// `write(2)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn write(number: c_int, buffer: *const c_void, count: usize) -> ssize_t {
    if is_socket(number) {
        // SAFETY: the program's promise is the same.
        match unsafe { send_one(number, buffer, count, 0) } {
            KERNEL_BYTES => {}
            answer => return answer,
        }
    }
    // SAFETY: as in C.
    unsafe { real::write(number, buffer, count) }
}

/// `writev(2)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn writev(number: c_int, places: *const iovec, count: c_int) -> ssize_t {
    if is_socket(number) {
        let Ok(count) = usize::try_from(count) else { return fail(libc::EINVAL) };
        // SAFETY: the program's promise is the same.
        match unsafe { send_places(number, places, count, 0) } {
            KERNEL_BYTES => {}
            answer => return answer,
        }
    }
    // SAFETY: as in C.
    unsafe { real::writev(number, places, count) }
}

/// `send(2)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn send(
    number: c_int,
    buffer: *const c_void,
    count: usize,
    flags: c_int,
) -> ssize_t {
    if is_socket(number) {
        // SAFETY: the program's promise is the same.
        match unsafe { send_one(number, buffer, count, flags) } {
            KERNEL_BYTES => {}
            answer => return answer,
        }
    }
    // SAFETY: as in C.
    unsafe { real::send(number, buffer, count, flags) }
}

/// `sendto(2)`. A connection has one peer: an address changes nothing, as with TCP.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendto(
    number: c_int,
    buffer: *const c_void,
    count: usize,
    flags: c_int,
    address: *const sockaddr,
    length: socklen_t,
) -> ssize_t {
    if is_socket(number) {
        // SAFETY: the program's promise is the same.
        match unsafe { send_one(number, buffer, count, flags) } {
            KERNEL_BYTES => {}
            answer => return answer,
        }
    }
    // SAFETY: as in C.
    unsafe { real::sendto(number, buffer, count, flags, address, length) }
}

/// `sendmsg(2)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendmsg(number: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    if is_socket(number) {
        if message.is_null() {
            return fail(libc::EFAULT);
        }
        // SAFETY: the program's promise is the same.
        match unsafe { send_places(number, (*message).msg_iov, (*message).msg_iovlen, flags) } {
            KERNEL_BYTES => {}
            answer => return answer,
        }
    }
    // SAFETY: as in C.
    unsafe { real::sendmsg(number, message, flags) }
}

/// `sendmmsg(2)`: one after the other, up to the first that does not go whole.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendmmsg(
    number: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
) -> c_int {
    if !is_socket(number) || messages.is_null() {
        // SAFETY: as in C.
        return unsafe { real::sendmmsg(number, messages, count, flags) };
    }
    let mut done = 0;
    for place in 0..count as usize {
        // SAFETY: the program's array has as many entries as it says.
        let answer = unsafe {
            let message = messages.add(place);
            let answer = sendmsg(number, &raw const (*message).msg_hdr, flags);
            if answer >= 0 {
                (*message).msg_len = answer as c_uint;
            }
            answer
        };
        if answer < 0 {
            return if done > 0 { done } else { -1 };
        }
        done += 1;
    }
    done
}

/// `sendfile(2)`: the file is read, and sent.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendfile(
    to: c_int,
    from: c_int,
    offset: *mut off_t,
    count: usize,
) -> ssize_t {
    if is_socket(from) {
        return fail(libc::EINVAL);
    }
    if !is_socket(to) {
        // SAFETY: as in C.
        return unsafe { real::sendfile(to, from, offset, count) };
    }
    // SAFETY: the program's promise is the same.
    match unsafe { send_one(to, [0u8; 0].as_ptr().cast(), 0, 0) } {
        // SAFETY: as in C.
        KERNEL_BYTES => return unsafe { real::sendfile(to, from, offset, count) },
        answer if answer < 0 => return answer,
        _ => {}
    }
    let mut piece = [0u8; FILE_PIECE];
    let mut done = 0;
    while done < count {
        // SAFETY: the program's place is NULL, or a position of the file; without one the file's own is looked up.
        let at = unsafe {
            if offset.is_null() { libc::lseek(from, 0, libc::SEEK_CUR) } else { offset.read_unaligned() }
        };
        if at < 0 {
            return fail(libc::EINVAL);
        }
        let most = piece.len().min(count - done);
        // SAFETY: the piece has room for as many bytes.
        let got = unsafe { real::pread(from, piece.as_mut_ptr().cast(), most, at) };
        if got <= 0 {
            return if done > 0 || got == 0 { done as ssize_t } else { -1 };
        }
        // SAFETY: as many bytes were read just now.
        let sent = unsafe { send_one(to, piece.as_ptr().cast(), got as usize, 0) };
        if sent < 0 {
            return if done > 0 { done as ssize_t } else { -1 };
        }
        // What was not sent is read anew.
        let next = at + sent as off_t;
        // SAFETY: as above.
        unsafe {
            if offset.is_null() {
                libc::lseek(from, next, libc::SEEK_SET);
            } else {
                offset.write_unaligned(next);
            }
        }
        done += sent as usize;
        if sent < got {
            break;
        }
    }
    done as ssize_t
}

/// `sendfile64`, which programs with large files call.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendfile64(
    to: c_int,
    from: c_int,
    offset: *mut off64_t,
    count: usize,
) -> ssize_t {
    // SAFETY: as in C.
    unsafe { sendfile(to, from, offset, count) }
}

/// `splice(2)`: `EINVAL` for a connection that is not the kernel's, as for any descriptor that it does not work with.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn splice(
    from: c_int,
    from_offset: *mut off64_t,
    to: c_int,
    to_offset: *mut off64_t,
    count: usize,
    flags: c_uint,
) -> ssize_t {
    if is_socket(from) || is_socket(to) {
        return fail(libc::EINVAL);
    }
    // SAFETY: as in C.
    unsafe { real::splice(from, from_offset, to, to_offset, count, flags) }
}
