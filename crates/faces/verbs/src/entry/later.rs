//! Exported functions of extensions that are not in this release: each refuses as its manual page says a
//! device without the extension does, with `EOPNOTSUPP`.

use core::ffi::{c_int, c_void};

use crate::abi::{ibv_context, ibv_dm, ibv_mr, ibv_pd};
use crate::errno::Errno;
use crate::guard;
use crate::objects::{CONTEXTS, ZONES};

versions! {
    nonic_ibv_import_pd => "ibv_import_pd@@IBVERBS_1.10";
    nonic_ibv_unimport_pd => "ibv_unimport_pd@@IBVERBS_1.10";
    nonic_ibv_import_mr => "ibv_import_mr@@IBVERBS_1.10";
    nonic_ibv_unimport_mr => "ibv_unimport_mr@@IBVERBS_1.10";
    nonic_ibv_import_dm => "ibv_import_dm@@IBVERBS_1.13";
    nonic_ibv_unimport_dm => "ibv_unimport_dm@@IBVERBS_1.13";
    nonic_ibv_reg_dmabuf_mr => "ibv_reg_dmabuf_mr@@IBVERBS_1.12";
    nonic_later_null =>
        "ibv_alloc_dmah@@IBVERBS_1.15", "ibv_alloc_buf@@IBVERBS_1.17", "ibv_reg_buf_mr@@IBVERBS_1.17";
    nonic_later_errno => "ibv_dealloc_dmah@@IBVERBS_1.15";
    nonic_later_nothing => "ibv_free_buf@@IBVERBS_1.17";
    nonic_later_minus_one => "ibv_dm_export_dmabuf_fd@@IBVERBS_1.16";
}

fn refuse_on_zone<T>(pd: *mut ibv_pd) -> *mut T {
    guard::or_null(|| {
        ZONES.parent(pd)?;
        Err(Errno::EOPNOTSUPP)
    })
}

fn refuse_on_context<T>(context: *mut ibv_context) -> *mut T {
    guard::or_null(|| {
        CONTEXTS.parent(context)?;
        Err(Errno::EOPNOTSUPP)
    })
}

/// `ibv_import_pd(3)`: NULL with `EOPNOTSUPP`, `EINVAL` (not an open device).
///
/// # Safety
/// None beyond the signature's: the pointer is looked up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_import_pd(context: *mut ibv_context, _handle: u32) -> *mut ibv_pd {
    refuse_on_context(context)
}

/// `ibv_unimport_pd(3)`: there can be nothing imported.
///
/// # Safety
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_unimport_pd(_pd: *mut ibv_pd) {}

/// `ibv_import_mr(3)`: NULL with `EOPNOTSUPP`, `EINVAL` (unknown domain).
///
/// # Safety
/// None beyond the signature's: the pointer is looked up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_import_mr(pd: *mut ibv_pd, _handle: u32) -> *mut ibv_mr {
    refuse_on_zone(pd)
}

/// `ibv_unimport_mr(3)`: there can be nothing imported.
///
/// # Safety
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_unimport_mr(_mr: *mut ibv_mr) {}

/// `ibv_import_dm(3)`: NULL with `EOPNOTSUPP`, `EINVAL` (not an open device).
///
/// # Safety
/// None beyond the signature's: the pointer is looked up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_import_dm(context: *mut ibv_context, _handle: u32) -> *mut ibv_dm {
    refuse_on_context(context)
}

/// `ibv_unimport_dm(3)`: there can be nothing imported.
///
/// # Safety
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_unimport_dm(_dm: *mut ibv_dm) {}

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
    refuse_on_zone(pd)
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
