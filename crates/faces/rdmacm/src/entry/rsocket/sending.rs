//! Sending.

use core::ffi::{c_int, c_void};

use nonic_verbs::errno::Errno;

use super::{address, counted, refused, slice};
use crate::abi::{iovec, msghdr, sockaddr};

/// `UIO_MAXIOV`: places of one call at most.
const PLACES_MAX: usize = 1024;

/// # Safety
/// `buf` is NULL or leads to `len` bytes.
unsafe fn send(socket: c_int, buf: *const c_void, len: usize, flags: c_int) -> Result<usize, Errno> {
    // SAFETY: the caller says so.
    let source = unsafe { slice(buf.cast(), len)? };
    nonic_rsocket::send(socket, &[source], flags).map_err(refused)
}

/// # Safety
/// `iov` is NULL or leads to `count` entries, and those to bytes.
unsafe fn send_all(socket: c_int, iov: *const iovec, count: usize, flags: c_int) -> Result<usize, Errno> {
    if count > PLACES_MAX || (count > 0 && iov.is_null()) {
        return Err(Errno::EINVAL);
    }
    let slices = (0..count).map(|place| {
        // SAFETY: the caller says so.
        unsafe {
            let one = iov.add(place).read_unaligned();
            slice(one.iov_base.cast_const().cast(), one.iov_len)
        }
    });
    let slices = slices.collect::<Result<Vec<_>, _>>()?;
    nonic_rsocket::send(socket, &slices, flags).map_err(refused)
}

/// `rsend`: how many bytes were taken; -1 with `EAGAIN`, `ECONNRESET`, `ENOTCONN`, `EINTR`.
pub(crate) unsafe extern "C-unwind" fn rsend(
    socket: c_int,
    buf: *const c_void,
    len: usize,
    flags: c_int,
) -> isize {
    // SAFETY: the program's promise is the same.
    counted(|| unsafe { send(socket, buf, len, flags) })
}

/// `rsendto`: -1 with `EISCONN` for an address and a stream.
pub(crate) unsafe extern "C-unwind" fn rsendto(
    socket: c_int,
    buf: *const c_void,
    len: usize,
    flags: c_int,
    dest_addr: *const sockaddr,
    addrlen: u32,
) -> isize {
    counted(|| {
        if dest_addr.is_null() || addrlen == 0 {
            // SAFETY: the program's promise is the same.
            return unsafe { send(socket, buf, len, flags) };
        }
        // SAFETY: the program's address and buffer have the lengths that it says.
        let (source, to) = unsafe { (slice(buf.cast(), len)?, address(socket, dest_addr, addrlen)?) };
        nonic_rsocket::send_to(socket, &[source], flags, to).map_err(refused)
    })
}

/// `rsendmsg`: -1 with `ENOTSUP` for control data.
pub(crate) unsafe extern "C-unwind" fn rsendmsg(socket: c_int, msg: *const msghdr, flags: c_int) -> isize {
    counted(|| {
        // SAFETY: the program's header is NULL or readable.
        let header = unsafe { msg.as_ref() }.ok_or(Errno::EFAULT)?;
        if !header.msg_control.is_null() && header.msg_controllen > 0 {
            return Err(Errno(libc::ENOTSUP));
        }
        // SAFETY: it leads to as many entries as it says.
        unsafe { send_all(socket, header.msg_iov, header.msg_iovlen, flags) }
    })
}

/// `rwrite`.
pub(crate) unsafe extern "C-unwind" fn rwrite(socket: c_int, buf: *const c_void, count: usize) -> isize {
    // SAFETY: the program's promise is the same.
    counted(|| unsafe { send(socket, buf, count, 0) })
}

/// `rwritev`.
pub(crate) unsafe extern "C-unwind" fn rwritev(socket: c_int, iov: *const iovec, iovcnt: c_int) -> isize {
    counted(|| {
        let count = usize::try_from(iovcnt).map_err(|_| Errno::EINVAL)?;
        // SAFETY: the program's promise is the same.
        unsafe { send_all(socket, iov, count, 0) }
    })
}
