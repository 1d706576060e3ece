//! Receiving.

use core::ffi::{c_int, c_void};

use nonic_verbs::errno::Errno;

use super::{counted, refused, slice, store_address};
use crate::abi::{iovec, msghdr, sockaddr};

/// # Safety
/// `buf` is NULL or leads to `len` bytes that may be written.
unsafe fn receive(socket: c_int, buf: *mut c_void, len: usize, flags: c_int) -> Result<usize, Errno> {
    // SAFETY: the caller says so.
    let target = unsafe { slice(buf.cast(), len)? };
    nonic_rsocket::receive(socket, target, flags).map_err(refused)
}

/// `rrecv`: how many bytes, 0 after the end; -1 with `EAGAIN`, `ENOTCONN`, `EINTR`, `EIO`.
pub(crate) unsafe extern "C-unwind" fn rrecv(
    socket: c_int,
    buf: *mut c_void,
    len: usize,
    flags: c_int,
) -> isize {
    // SAFETY: the program's promise is the same.
    counted(|| unsafe { receive(socket, buf, len, flags) })
}

/// `rrecvfrom`: the same, and from whom.
pub(crate) unsafe extern "C-unwind" fn rrecvfrom(
    socket: c_int,
    buf: *mut c_void,
    len: usize,
    flags: c_int,
    src_addr: *mut sockaddr,
    addrlen: *mut u32,
) -> isize {
    counted(|| {
        // SAFETY: the program's buffer has the length that it says.
        let target = unsafe { slice(buf.cast(), len)? };
        let (count, from) = nonic_rsocket::receive_from(socket, target, flags).map_err(refused)?;
        // SAFETY: so has its place for an address.
        unsafe { store_address(socket, from, src_addr, addrlen) };
        Ok(count)
    })
}

/// Receives into the first place only, as the original does.
///
/// # Safety
/// `iov` is NULL or leads to `count` entries, whose memory may be written.
unsafe fn receive_first(
    socket: c_int,
    iov: *const iovec,
    count: usize,
    flags: c_int,
) -> Result<usize, Errno> {
    if count == 0 || iov.is_null() {
        return Err(Errno::EINVAL);
    }
    // SAFETY: the caller says so.
    unsafe {
        let first = iov.read_unaligned();
        receive(socket, first.iov_base, first.iov_len, flags)
    }
}

/// `rrecvmsg`: -1 with `ENOTSUP` for a control buffer. The flags are those of the header.
pub(crate) unsafe extern "C-unwind" fn rrecvmsg(socket: c_int, msg: *mut msghdr, _flags: c_int) -> isize {
    counted(|| {
        // SAFETY: the program's header is NULL or readable.
        let header = unsafe { msg.as_ref() }.ok_or(Errno::EFAULT)?;
        if !header.msg_control.is_null() && header.msg_controllen > 0 {
            return Err(Errno(libc::ENOTSUP));
        }
        // SAFETY: it leads to as many entries as it says.
        unsafe { receive_first(socket, header.msg_iov, header.msg_iovlen, header.msg_flags) }
    })
}

/// `rread`.
pub(crate) unsafe extern "C-unwind" fn rread(socket: c_int, buf: *mut c_void, count: usize) -> isize {
    // SAFETY: the program's promise is the same.
    counted(|| unsafe { receive(socket, buf, count, 0) })
}

/// `rreadv`: the first place only.
pub(crate) unsafe extern "C-unwind" fn rreadv(socket: c_int, iov: *const iovec, iovcnt: c_int) -> isize {
    // SAFETY: the program's promise is the same.
    counted(|| unsafe { receive_first(socket, iov, usize::try_from(iovcnt).unwrap_or(0), 0) })
}
