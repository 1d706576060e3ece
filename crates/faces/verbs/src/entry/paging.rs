//! Memory that is looked for when it is used, and memory that is none. The header reaches these through the table of operations.

use core::ffi::c_int;
use core::ptr;

use nonic_device::{Access, PrefetchError, RegionMemory, RegionRequest};
use nonic_sys::copies_own_memory;

use super::region::publish;
use crate::abi::{
    IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT,
    IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH, IBV_ODP_SUPPORT, IBV_ODP_SUPPORT_FLUSH,
    IBV_ODP_SUPPORT_IMPLICIT, IBV_ODP_SUPPORT_READ, IBV_ODP_SUPPORT_RECV, IBV_ODP_SUPPORT_SEND,
    IBV_ODP_SUPPORT_SRQ_RECV, IBV_ODP_SUPPORT_WRITE, ibv_mr, ibv_odp_caps, ibv_pd, ibv_sge,
};
use crate::convert;
use crate::errno::Errno;
use crate::guard;
use crate::objects::ZONES;

/// What can be done with memory that is paged on demand, and, last, on extended connections: everything but atomics. Nothing where a
/// sandbox forbids that the kernel copies for this process within itself.
pub(super) fn capabilities() -> (ibv_odp_caps, u32) {
    if !copies_own_memory() {
        return (ibv_odp_caps { general_caps: 0, rc_odp_caps: 0, uc_odp_caps: 0, ud_odp_caps: 0 }, 0);
    }
    let messages = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV;
    let reliable =
        IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_SRQ_RECV | IBV_ODP_SUPPORT_FLUSH;
    let caps = ibv_odp_caps {
        general_caps: IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT,
        rc_odp_caps: messages | reliable,
        uc_odp_caps: messages | IBV_ODP_SUPPORT_WRITE,
        ud_odp_caps: messages | IBV_ODP_SUPPORT_SRQ_RECV,
    };
    (caps, messages | reliable)
}

/// `ibv_alloc_null_mr(3)`: a region that is named by its local key only, at any address. NULL with `EINVAL` (unknown domain), `ENOMEM`
/// (no more regions).
///
/// # Safety
/// None beyond the signature's: the pointer is looked up.
pub(crate) unsafe extern "C" fn alloc_null_mr(pd: *mut ibv_pd) -> *mut ibv_mr {
    guard::or_null(|| {
        let zone = ZONES.parent(pd)?;
        let access = Access::LOCAL_WRITE;
        let region = zone.register(RegionRequest { memory: RegionMemory::Null, base: 0, access })?;
        let mr = publish(pd, ptr::null_mut(), usize::MAX, region);
        // SAFETY: the structure was made a moment ago, and nobody else has it.
        unsafe { (*mr).rkey = 0 };
        Ok(mr)
    })
}

/// `ibv_advise_mr(3)`: has the pages of these pieces be there, which is over when it returns whether `IBV_ADVISE_MR_FLAG_FLUSH` is set or
/// not; without it, pages that cannot be had are passed over.
///
/// 0, `EINVAL` (unknown domain, flags or list), `EOPNOTSUPP` (unknown advice); of the first piece that is wrong, behind those that were
/// looked for: `ENOENT` (unknown key), `EPERM` (a key of another domain, `IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE` of memory that may not
/// be written), `EFAULT` (outside the region, or not there).
///
/// # Safety
/// `list` has `count` pieces.
pub(crate) unsafe extern "C" fn advise_mr(
    pd: *mut ibv_pd,
    advice: c_int,
    flags: u32,
    list: *const ibv_sge,
    count: u32,
) -> c_int {
    guard::status(|| {
        let zone = ZONES.parent(pd)?;
        if flags & !IBV_ADVISE_MR_FLAG_FLUSH != 0 || count == 0 {
            return Err(Errno::EINVAL);
        }
        let access = match advice {
            IBV_ADVISE_MR_ADVICE_PREFETCH => Some(Access::LOCAL_READ),
            IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE => Some(Access::LOCAL_WRITE),
            IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT => None,
            _ => return Err(Errno::EOPNOTSUPP),
        };
        let count = c_int::try_from(count).map_err(|_| Errno::EINVAL)?;
        // SAFETY: the caller says that they are readable.
        for piece in unsafe { convert::pieces(list, count) }? {
            match zone.prefetch(piece, access) {
                Err(PrefetchError::NotThere) if flags & IBV_ADVISE_MR_FLAG_FLUSH == 0 => {}
                done => done?,
            }
        }
        Ok(())
    })
}
