//! Options of a vendor that two sides agree upon while they connect.

use core::ffi::c_int;

use nonic_rdma_cm::Ece;
use nonic_verbs::errno::Errno;

use super::zero;
use crate::abi::{ibv_ece, rdma_cm_id};
use crate::objects::identifier;

/// `rdma_set_local_ece(3)`: -1 with `EINVAL` (a queue pair on the identifier, whose own options count; no vendor; a mask).
pub(crate) unsafe extern "C-unwind" fn rdma_set_local_ece(id: *mut rdma_cm_id, ece: *mut ibv_ece) -> c_int {
    zero(|| {
        let identifier = identifier(id)?;
        // SAFETY: the identifier was found; the program's options are readable.
        unsafe {
            if !(*id).qp.is_null() || ece.is_null() || (*ece).vendor_id == 0 || (*ece).comp_mask != 0 {
                return Err(Errno::EINVAL);
            }
            identifier.rest().local_ece = Ece { vendor: (*ece).vendor_id, options: (*ece).options };
        }
        Ok(())
    })
}

/// `rdma_get_remote_ece(3)`: -1 with `EINVAL` (a queue pair on the identifier). Zeros if the other side named none.
pub(crate) unsafe extern "C-unwind" fn rdma_get_remote_ece(id: *mut rdma_cm_id, ece: *mut ibv_ece) -> c_int {
    zero(|| {
        let identifier = identifier(id)?;
        // SAFETY: the identifier was found; the program's place is writable.
        unsafe {
            if !(*id).qp.is_null() || ece.is_null() {
                return Err(Errno::EINVAL);
            }
            let Ece { vendor, options } = identifier.engine.remote_ece();
            ece.write(ibv_ece { vendor_id: vendor, options, comp_mask: 0 });
        }
        Ok(())
    })
}
