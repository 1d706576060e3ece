//! Exported functions of extensions that are not in this release: each refuses as its manual page says a
//! device without the extension does, with `EOPNOTSUPP`.

use core::ffi::c_int;

use crate::abi::{ibv_mr, ibv_pd};
use crate::errno::Errno;
use crate::guard;
use crate::objects::ZONES;

versions! {
    nonic_ibv_reg_dmabuf_mr => "ibv_reg_dmabuf_mr@@IBVERBS_1.12";
    nonic_later_minus_one => "ibv_dm_export_dmabuf_fd@@IBVERBS_1.16";
}

/// `ibv_reg_dmabuf_mr(3)`: NULL with `EOPNOTSUPP`, `EINVAL` (unknown domain).
///
/// # Safety
/// None beyond the signature's: the pointer is looked up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_reg_dmabuf_mr(
    pd: *mut ibv_pd,
    _offset: u64,
    _length: usize,
    _iova: u64,
    _fd: c_int,
    _access: c_int,
) -> *mut ibv_mr {
    guard::or_null(|| {
        ZONES.parent(pd)?;
        Err(Errno::EOPNOTSUPP)
    })
}

/// For functions of newer headers that return a descriptor: -1 with `EOPNOTSUPP`.
#[unsafe(no_mangle)]
pub extern "C" fn nonic_later_minus_one() -> c_int {
    guard::or_minus_one(|| Err(Errno::EOPNOTSUPP))
}
