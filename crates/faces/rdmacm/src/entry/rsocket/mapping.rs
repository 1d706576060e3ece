//! Memory that the peer writes to directly.

use core::ffi::{c_int, c_void};

use nonic_rsocket::ProgramAddress;
use nonic_verbs::guard;

use super::{refused, slice, zero};

/// `riomap`: the offset; -1 with `EINVAL` (other rights, no connection), `ENOMEM` (the peer's table is full), `EFAULT`.
pub(crate) unsafe extern "C-unwind" fn riomap(
    socket: c_int,
    buf: *mut c_void,
    len: usize,
    prot: c_int,
    _flags: c_int,
    offset: i64,
) -> i64 {
    // SAFETY: the program keeps what it maps as it is until it unmaps it, and expects the peer to write there.
    let address = unsafe { ProgramAddress::new(buf as usize) };
    let mapped =
        guard::caught(|| nonic_rsocket::map_memory(socket, address, len, prot, offset).map_err(refused));
    mapped.unwrap_or_else(|errno| {
        errno.set();
        -1
    })
}

/// `riounmap`: -1 with `EINVAL` unless exactly that memory is mapped.
pub(crate) unsafe extern "C-unwind" fn riounmap(socket: c_int, buf: *mut c_void, len: usize) -> c_int {
    zero(|| nonic_rsocket::unmap_memory(socket, buf as usize, len))
}

/// `riowrite`: how many bytes lay in mappings of the peer's; the largest number with `errno` as `rsend` sets it.
pub(crate) unsafe extern "C-unwind" fn riowrite(
    socket: c_int,
    buf: *const c_void,
    count: usize,
    offset: i64,
    flags: c_int,
) -> usize {
    let wrote = guard::caught(|| {
        // SAFETY: the program's buffer has the length that it says.
        let source = unsafe { slice(buf.cast(), count)? };
        nonic_rsocket::write_mapped(socket, source, offset, flags).map_err(refused)
    });
    wrote.unwrap_or_else(|errno| {
        errno.set();
        usize::MAX
    })
}
