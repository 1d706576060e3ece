//! Sockets of `NETLINK_RDMA`, by which programs ask the kernel's RDMA subsystem what devices there are (`rdma` of iproute2, newer UCX).
//!
//! What a program gets for one is a socket of `NETLINK_USERSOCK`, which the kernel has everywhere: binding it, its name, its options, waiting and
//! reading are the kernel's own. What is sent by it goes to the engine, which has the answer wait there. The functions here see every socket of
//! the program, so those that are not ours cost a look at a word.

use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use libc::{iovec, msghdr, sockaddr, sockaddr_nl, socklen_t, ssize_t};
use nonic_neighbour::{errno, fail, set_errno};

use crate::engine::inside;
use crate::place::is_none_of_ours;
use crate::real;

/// Numbers up to here can be ours; a program that has more descriptors open has no such socket.
const NUMBERS: usize = 4096;
/// The longest request: those of the subsystem that read are a few attributes.
const REQUEST_MAX: usize = 4096;

/// Whether there ever was a socket of ours.
static ANY: AtomicBool = AtomicBool::new(false);
/// The numbers that they have, or had: the program closes them without a word.
static OURS: [AtomicU64; NUMBERS / 64] = [const { AtomicU64::new(0) }; NUMBERS / 64];

/// Where it is kept whether a number is, or was, that of one.
fn kept(number: c_int) -> Option<(&'static AtomicU64, u64)> {
    let number = usize::try_from(number).ok().filter(|number| *number < NUMBERS)?;
    Some((&OURS[number / 64], 1 << (number % 64)))
}

fn remember(number: c_int) -> bool {
    let Some((word, bit)) = kept(number) else { return false };
    word.fetch_or(bit, Ordering::Relaxed);
    ANY.store(true, Ordering::Relaxed);
    true
}

/// The program has a socket of its own by this number.
fn forget(number: c_int) {
    if let Some((word, bit)) = kept(number) {
        word.fetch_and(!bit, Ordering::Relaxed);
    }
}

/// Whether this is a socket of ours, and not another by the number of one.
#[inline]
fn is_ours(number: c_int) -> bool {
    ANY.load(Ordering::Relaxed) && is_one_of_them(number)
}

#[cold]
fn is_one_of_them(number: c_int) -> bool {
    if kept(number).is_none_or(|(word, bit)| word.load(Ordering::Relaxed) & bit == 0) {
        return false;
    }
    let before = errno();
    let (mut protocol, mut length) = (-1, size_of::<c_int>() as socklen_t);
    // SAFETY: both places are writable, and as long as is said.
    let answer = unsafe {
        let (value, length) = (&raw mut protocol, &raw mut length);
        libc::syscall(libc::SYS_getsockopt, number, libc::SOL_SOCKET, libc::SO_PROTOCOL, value, length)
    };
    set_errno(before);
    let is_one = answer == 0 && protocol == libc::NETLINK_USERSOCK;
    if !is_one {
        forget(number);
    }
    is_one
}

/// `socket(2)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    if domain == libc::AF_NETLINK && protocol == libc::NETLINK_RDMA && !is_none_of_ours() {
        // SAFETY: as in C.
        let number = unsafe { real::socket(domain, kind, libc::NETLINK_USERSOCK) };
        if number >= 0 {
            if remember(number) {
                return number;
            }
            // SAFETY: this process's own, just opened.
            unsafe { libc::close(number) };
        }
    }
    // SAFETY: as in C.
    let number = unsafe { real::socket(domain, kind, protocol) };
    if domain == libc::AF_NETLINK && ANY.load(Ordering::Relaxed) {
        forget(number);
    }
    number
}

/// Has the pieces of a request answered; what `sendmsg(2)` would say.
///
/// # Safety
/// `pieces` are `count` pieces of memory that can be read.
unsafe fn ask(socket: c_int, pieces: *const iovec, count: usize) -> ssize_t {
    let mut request = [0u8; REQUEST_MAX];
    let mut length = 0;
    for number in 0..count {
        // SAFETY: one of those that there are.
        let piece = unsafe { pieces.add(number).read() };
        let Some(room) = request[length..].get_mut(..piece.iov_len) else {
            return fail(libc::EMSGSIZE);
        };
        if piece.iov_base.is_null() && piece.iov_len > 0 {
            return fail(libc::EFAULT);
        }
        // SAFETY: the piece can be read, and is as long as the room.
        unsafe { ptr::copy_nonoverlapping(piece.iov_base.cast(), room.as_mut_ptr(), room.len()) };
        length += piece.iov_len;
    }
    // SAFETY: a request of that length.
    match inside(|table| unsafe { (table.netlink)(socket, request.as_ptr(), length) }) {
        0 => length as ssize_t,
        failed => fail(-failed),
    }
}

/// Whether an address is the kernel's, as is none.
///
/// # Safety
/// NULL, or an address of that length.
unsafe fn is_kernel(address: *const c_void, length: socklen_t) -> bool {
    address.is_null()
        || ((length as usize) >= size_of::<sockaddr_nl>()
            // SAFETY: long enough; wherever it lies.
            && unsafe { address.cast::<sockaddr_nl>().read_unaligned() }.nl_pid == 0)
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
    if is_ours(number) {
        let piece = iovec { iov_base: buffer.cast_mut(), iov_len: count };
        // SAFETY: as in C.
        return unsafe { ask(number, &raw const piece, 1) };
    }
    // SAFETY: as in C.
    unsafe { real::send(number, buffer, count, flags) }
}

/// `sendto(2)`.
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
    // SAFETY: as in C.
    if is_ours(number) && unsafe { is_kernel(address.cast(), length) } {
        let piece = iovec { iov_base: buffer.cast_mut(), iov_len: count };
        // SAFETY: as in C.
        return unsafe { ask(number, &raw const piece, 1) };
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
    if is_ours(number) && !message.is_null() {
        // SAFETY: as in C, and not NULL.
        unsafe {
            if is_kernel((*message).msg_name, (*message).msg_namelen) {
                return ask(number, (*message).msg_iov, (*message).msg_iovlen);
            }
        }
    }
    // SAFETY: as in C.
    unsafe { real::sendmsg(number, message, flags) }
}
