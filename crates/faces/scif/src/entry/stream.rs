//! The byte stream of a connection.

use core::ffi::{c_int, c_void};

use super::known;
use crate::errno::Errno;
use crate::flags;
use crate::guard::answer;

pub(crate) unsafe extern "C" fn scif_send(epd: c_int, msg: *mut c_void, len: c_int, flags: c_int) -> c_int {
    answer(|| {
        let (descriptor, (length, block)) = known(epd, words(len, flags))?;
        Ok(descriptor.send(msg.addr(), length, block)? as c_int) // At most `len`.
    })
}

pub(crate) unsafe extern "C" fn scif_recv(epd: c_int, msg: *mut c_void, len: c_int, flags: c_int) -> c_int {
    answer(|| {
        let (descriptor, (length, block)) = known(epd, words(len, flags))?;
        Ok(descriptor.receive(msg.addr(), length, block)? as c_int) // At most `len`.
    })
}

/// Length, and whether to wait. For no bytes the flags are not looked at.
#[inline]
fn words(len: c_int, flags: c_int) -> Result<(usize, bool), Errno> {
    let length = usize::try_from(len).map_err(|_| Errno::EINVAL)?;
    Ok((length, length > 0 && flags::block(flags)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_negative_length_is_refused_and_no_bytes_are_asked_no_flags() {
        assert_eq!(words(-1, 1), Err(Errno::EINVAL));
        assert_eq!(words(c_int::MIN, 0), Err(Errno::EINVAL));
        assert_eq!(words(0, 2), Ok((0, false)));
        assert_eq!(words(1, 2), Err(Errno::EINVAL));
        assert_eq!(words(c_int::MAX, 1), Ok((c_int::MAX as usize, true)));
    }
}
