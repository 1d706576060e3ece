//! Exported functions of extensions that are not in this release: each refuses as its manual page says a
//! device without the extension does, with `EOPNOTSUPP`.

use core::ffi::{c_int, c_void};

use crate::abi::{ibv_mr, ibv_pd};
use crate::errno::Errno;
use crate::guard;
use crate::objects::ZONES;

versions! {
    nonic_ibv_reg_dmabuf_mr => "ibv_reg_dmabuf_mr@@IBVERBS_1.12";
    nonic_later_null =>
        "ibv_alloc_dmah@@IBVERBS_1.15", "ibv_alloc_buf@@IBVERBS_1.17", "ibv_reg_buf_mr@@IBVERBS_1.17";
    nonic_later_errno => "ibv_dealloc_dmah@@IBVERBS_1.15";
    nonic_later_nothing => "ibv_free_buf@@IBVERBS_1.17";
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

/// For functions of newer headers that return a pointer: NULL with `EOPNOTSUPP`.
#[unsafe(no_mangle)]
pub extern "C" fn nonic_later_null() -> *mut c_void {
    guard::or_null(|| Err(Errno::EOPNOTSUPP))
}

/// For functions of newer headers that return an errno: `EOPNOTSUPP`.
#[unsafe(no_mangle)]
pub extern "C" fn nonic_later_errno() -> c_int {
    guard::status(|| Err(Errno::EOPNOTSUPP))
}

/// For functions of newer headers that return a descriptor: -1 with `EOPNOTSUPP`.
#[unsafe(no_mangle)]
pub extern "C" fn nonic_later_minus_one() -> c_int {
    guard::or_minus_one(|| Err(Errno::EOPNOTSUPP))
}

/// For functions of newer headers that return nothing: there can be nothing to free.
#[unsafe(no_mangle)]
pub extern "C" fn nonic_later_nothing() {}
