//! Options of identifiers.

use core::ffi::{c_int, c_void};

use nonic_rdma_cm::IdOption;
use nonic_verbs::errno::Errno;

use super::zero;
use crate::abi::{
    RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, RDMA_OPTION_ID_AFONLY,
    RDMA_OPTION_ID_REUSEADDR, RDMA_OPTION_ID_TOS, rdma_cm_id,
};
use crate::errno::refused;
use crate::objects::identifier;

/// Bytes of a `struct ibv_path_data`: flags, then a path.
const PATH: usize = 72;
/// `IBV_PATH_FLAG_GMP | PRIMARY | BIDIRECTIONAL`: the one path that counts.
const PRIMARY_PATH: u32 = 1 | 1 << 1 | 1 << 3 | 1 << 5;

/// `rdma_set_option(3)`: -1 with `ENOSYS` (no such option), `EINVAL` (another length, a state in which it cannot be set).
pub(crate) unsafe extern "C-unwind" fn rdma_set_option(
    id: *mut rdma_cm_id,
    level: c_int,
    optname: c_int,
    optval: *mut c_void,
    optlen: usize,
) -> c_int {
    zero(|| {
        let identifier = identifier(id)?;
        // SAFETY: the program's value has the length that it says.
        let option = unsafe { option(level, optname, optval, optlen)? };
        identifier.engine.set_option(option).map_err(refused)
    })
}

/// # Safety
/// `value` is NULL or leads to `length` bytes.
unsafe fn option(level: c_int, name: c_int, value: *const c_void, length: usize) -> Result<IdOption, Errno> {
    // SAFETY: the caller says so.
    unsafe {
        match (level, name) {
            (RDMA_OPTION_ID, RDMA_OPTION_ID_TOS) => Ok(IdOption::TypeOfService(number(value, length)?)),
            (RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR) => {
                Ok(IdOption::ReuseAddress(number::<c_int>(value, length)? != 0))
            }
            (RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY) => {
                Ok(IdOption::AddressFamilyOnly(number::<c_int>(value, length)? != 0))
            }
            (RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT) => Ok(IdOption::AckTimeout(number(value, length)?)),
            (RDMA_OPTION_IB, RDMA_OPTION_IB_PATH) => check_path(value, length).map(|()| IdOption::Path),
            _ => Err(Errno::ENOSYS),
        }
    }
}

/// # Safety
/// `value` is NULL or leads to `length` bytes; any bytes are a `T`.
unsafe fn number<T: Copy>(value: *const c_void, length: usize) -> Result<T, Errno> {
    if value.is_null() || length != size_of::<T>() {
        return Err(Errno::EINVAL);
    }
    // SAFETY: the caller says so.
    Ok(unsafe { value.cast::<T>().read_unaligned() })
}

/// Whether these are paths, one of which leads there and back.
///
/// # Safety
/// `paths` is NULL or leads to `length` bytes.
pub(crate) unsafe fn check_path(paths: *const c_void, length: usize) -> Result<(), Errno> {
    if paths.is_null() || !length.is_multiple_of(PATH) {
        return Err(Errno::EINVAL);
    }
    // SAFETY: the caller says so; each path begins with its flags.
    let flags = |at| unsafe { paths.byte_add(at).cast::<u32>().read_unaligned() };
    if (0..length).step_by(PATH).any(|at| flags(at) == PRIMARY_PATH) { Ok(()) } else { Err(Errno::EINVAL) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_another_length_and_an_option_that_there_is_not_are_two_errnos() {
        let value = 1_u32;
        // SAFETY: the value has as many bytes as are named at most.
        let option = |level, name, length| unsafe { option(level, name, (&raw const value).cast(), length) };
        assert_eq!(option(0, RDMA_OPTION_ID_REUSEADDR, 4), Ok(IdOption::ReuseAddress(true)));
        assert_eq!(option(0, RDMA_OPTION_ID_REUSEADDR, 1), Err(Errno::EINVAL));
        assert_eq!(option(0, RDMA_OPTION_ID_TOS, 4), Err(Errno::EINVAL));
        assert_eq!(option(0, 4, 4), Err(Errno::ENOSYS));
        assert_eq!(option(2, 0, 1), Err(Errno::ENOSYS));
    }

    #[test]
    fn paths_need_one_that_is_primary() {
        let mut paths = [0_u8; 2 * PATH];
        // SAFETY: as many bytes as are named at most.
        let check = |paths: &[u8], length| unsafe { check_path(paths.as_ptr().cast(), length) };
        assert_eq!(check(&paths, 2 * PATH), Err(Errno::EINVAL));
        paths[PATH..PATH + 4].copy_from_slice(&PRIMARY_PATH.to_ne_bytes());
        assert_eq!(check(&paths, 2 * PATH), Ok(()));
        assert_eq!(check(&paths, PATH), Err(Errno::EINVAL));
        assert_eq!(check(&paths, PATH + 1), Err(Errno::EINVAL));
    }
}
