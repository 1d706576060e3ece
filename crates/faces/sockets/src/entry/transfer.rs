//! Receiving and sending.

use core::ffi::{c_int, c_uint};

use libc::{iovec, sockaddr};
use nonic_sockets::{Result as SocketResult, SharedSlice, Way};
use nonic_verbs::errno::Errno;
use nonic_verbs::guard;

use super::{kept, refused};
use crate::address;
use crate::calls::KERNEL;

/// `UIO_MAXIOV`: places of one call at most.
const PLACES_MAX: usize = 1024;
/// Places that need no allocation.
const FEW: usize = 8;

/// Bytes of the program.
///
/// # Safety
/// The place leads to as many bytes as it says, for as long as the slice is used; they may be written if it is written to.
unsafe fn slice<'a>(place: iovec) -> Result<SharedSlice<'a>, Errno> {
    match place.iov_len {
        0 => Ok(SharedSlice::EMPTY),
        _ if place.iov_base.is_null() => Err(Errno::EFAULT),
        length if isize::try_from(length).is_ok() => {
            // SAFETY: the caller says so.
            Ok(unsafe { SharedSlice::from_raw(place.iov_base.cast(), length) })
        }
        _ => Err(Errno::EINVAL),
    }
}

/// Hands the places of a call to `work`.
///
/// # Safety
/// `places` is NULL or leads to `count` entries, and those to bytes.
unsafe fn carried(
    places: *const iovec,
    count: usize,
    work: impl FnOnce(&[SharedSlice<'_>]) -> SocketResult<Way<usize>>,
) -> isize {
    let carry = || {
        if count > PLACES_MAX {
            return Err(Errno::EINVAL);
        }
        if count > 0 && places.is_null() {
            return Err(Errno::EFAULT);
        }
        // SAFETY: the caller says so.
        let at = |place: usize| unsafe { slice(places.add(place).read_unaligned()) };
        let way = if count <= FEW {
            let mut few = [SharedSlice::EMPTY; FEW];
            for (place, slot) in few[..count].iter_mut().enumerate() {
                *slot = at(place)?;
            }
            work(&few[..count])
        } else {
            work(&(0..count).map(at).collect::<Result<Vec<_>, _>>()?)
        };
        Ok(match way.map_err(refused)? {
            Way::Done(count) => isize::try_from(count).unwrap_or(isize::MAX),
            Way::Kernel => KERNEL as isize,
        })
    };
    kept(|| {
        guard::caught(carry).unwrap_or_else(|errno| {
            errno.set();
            -1
        })
    })
}

/// `recvmsg` and its sisters. The peer's address goes where it is wanted.
pub(crate) unsafe extern "C" fn receive(
    number: c_int,
    places: *const iovec,
    count: usize,
    flags: c_int,
    from: *mut sockaddr,
    length: *mut c_uint,
) -> isize {
    // SAFETY: the program's promise is the same.
    let answer = unsafe { carried(places, count, |places| nonic_sockets::receive(number, places, flags)) };
    if answer >= 0 && !length.is_null() {
        // A connection's data come without an address.
        // SAFETY: the program's place has the length that it says.
        unsafe { address::store(None, from, length) };
    }
    answer
}

/// `sendmsg` and its sisters. Without a signal: `EPIPE` says that the library has to raise it.
pub(crate) unsafe extern "C" fn send(
    number: c_int,
    places: *const iovec,
    count: usize,
    flags: c_int,
) -> isize {
    // SAFETY: the program's promise is the same.
    unsafe { carried(places, count, |places| nonic_sockets::send(number, places, flags)) }
}
