//! Options.

use core::ffi::{c_int, c_ulong, c_void};

use nonic_verbs::errno::Errno;
use nonic_verbs::guard;

use super::refused;

/// The longest value of an option that there is.
const VALUE_MAX: usize = 64;

/// `rsetsockopt`: -1 with `ENOTSUP`, `EINVAL`.
pub(crate) unsafe extern "C-unwind" fn rsetsockopt(
    socket: c_int,
    level: c_int,
    optname: c_int,
    optval: *const c_void,
    optlen: u32,
) -> c_int {
    super::super::zero(|| {
        if optval.is_null() {
            return Err(Errno::EFAULT);
        }
        let mut value = [0; VALUE_MAX];
        let length = (optlen as usize).min(VALUE_MAX);
        // SAFETY: the program's value has the length that it says.
        unsafe { core::ptr::copy_nonoverlapping(optval.cast(), value.as_mut_ptr(), length) };
        nonic_rsocket::set_option(socket, level, optname, &value[..length]).map_err(refused)
    })
}

/// `rgetsockopt`: -1 with `ENOTSUP`.
pub(crate) unsafe extern "C-unwind" fn rgetsockopt(
    socket: c_int,
    level: c_int,
    optname: c_int,
    optval: *mut c_void,
    optlen: *mut u32,
) -> c_int {
    super::super::zero(|| {
        if optval.is_null() || optlen.is_null() {
            return Err(Errno::EFAULT);
        }
        let value = nonic_rsocket::option(socket, level, optname).map_err(refused)?;
        let bytes = value.bytes();
        // SAFETY: the program's place has the length that it says.
        unsafe {
            let room = optlen.read_unaligned() as usize;
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), optval.cast(), bytes.len().min(room));
            optlen.write_unaligned(bytes.len().min(room) as u32);
        }
        Ok(())
    })
}

/// `rfcntl` with `F_GETFL` and `F_SETFL`, of which `O_NONBLOCK` counts; else -1 with `ENOTSUP`.
pub(crate) unsafe extern "C-unwind" fn rfcntl(socket: c_int, cmd: c_int, argument: c_ulong) -> c_int {
    guard::or_minus_one(|| match cmd {
        libc::F_GETFL => {
            let nonblocking = nonic_rsocket::is_nonblocking(socket).map_err(refused)?;
            Ok(if nonblocking { libc::O_NONBLOCK } else { 0 })
        }
        libc::F_SETFL => {
            let nonblocking = argument & libc::O_NONBLOCK as c_ulong != 0;
            nonic_rsocket::set_nonblocking(socket, nonblocking).map_err(refused).map(|()| 0)
        }
        _ => Err(Errno(libc::ENOTSUP)),
    })
}
