//! Memory windows. The header reaches all of these through the table of operations.

use core::ffi::c_int;

use nonic_device::{SendRequest, WindowKind};

use crate::abi::{IBV_MW_TYPE_1, IBV_MW_TYPE_2, ibv_mw, ibv_mw_bind, ibv_pd, ibv_qp, ibv_qp_ex};
use crate::convert;
use crate::errno::Errno;
use crate::guard;
use crate::objects::{QueuePairParts, WINDOWS, ZONES};
use crate::registry;

/// `ibv_alloc_mw(3)`: a window that is bound to nothing. NULL with `EINVAL` (unknown domain or type), `ENOMEM`
/// (no more windows and regions).
///
/// # Safety
/// None beyond the signature's: the pointer is looked up.
pub(crate) unsafe extern "C" fn alloc_mw(pd: *mut ibv_pd, kind: c_int) -> *mut ibv_mw {
    guard::or_null(|| {
        let zone = ZONES.parent(pd)?;
        let kind_of_window = match kind {
            IBV_MW_TYPE_1 => WindowKind::Type1,
            IBV_MW_TYPE_2 => WindowKind::Type2,
            _ => return Err(Errno::EINVAL),
        };
        let window = zone.allocate_window(kind_of_window)?;
        // SAFETY: the domain was found a moment ago; a program that destroys it meanwhile would find it busy.
        let context = unsafe { (*pd).context };
        let rkey = window.key().0;
        Ok(WINDOWS.reserve().fill(window, |handle| ibv_mw { context, pd, rkey, handle, r#type: kind }))
    })
}

/// `ibv_dealloc_mw(3)`: 0, `ENOENT` (unknown or overwritten handle), `EBUSY` (a stopped peer is inside an
/// operation through the window; its key is dead all the same). A bound window is unbound.
///
/// # Safety
/// None beyond the signature's: the pointer is looked up.
pub(crate) unsafe extern "C" fn dealloc_mw(mw: *mut ibv_mw) -> c_int {
    guard::status(|| {
        let claim = WINDOWS.claim(mw)?;
        claim.engine().release()?;
        claim.retire();
        Ok(())
    })
}

/// `ibv_bind_mw(3)`, for windows of type 1: 0, and the new key stands in the window. `ENOENT` (unknown window),
/// `EPERM` (the region is of another domain than the window), `EINVAL` (a window of type 2, no region but an
/// address or a length, an unknown region, other access bits than remote rights, local write and zero based, and what
/// [`super::posting::post_send`] refuses), `ENOMEM` (the send queue is full). Everything else shows when the
/// bind completes.
///
/// # Safety
/// `qp` came from this library; `bind` is readable.
pub(crate) unsafe extern "C" fn bind_mw(qp: *mut ibv_qp, mw: *mut ibv_mw, bind: *mut ibv_mw_bind) -> c_int {
    guard::status(|| {
        let window = WINDOWS.find(mw)?;
        // SAFETY: the caller says where the queue pair came from, and that `bind` is readable.
        let (parts, id, send_flags, info) = unsafe {
            let parts = registry::alive::<ibv_qp_ex, QueuePairParts>(qp).ok_or(Errno::EINVAL)?;
            (parts, (*bind).wr_id, (*bind).send_flags, (*bind).bind_info)
        };
        if window.kind() != WindowKind::Type1 {
            return Err(Errno::EINVAL);
        }
        let key = window.next_key();
        let post = || {
            let request = SendRequest {
                id,
                operation: convert::bind(&window, key, &info)?,
                flags: convert::send_flags(send_flags)?,
                pieces: &[],
                destination: None,
            };
            let mut posting = parts.pair()?.post()?;
            // SAFETY: the request has no pieces.
            unsafe { posting.post(&request) }?;
            Ok(posting)
        };
        let posting = post().inspect_err(|_: &Errno| window.take_back(key))?;
        // Before the doorbell: the bind may have completed when that returns.
        // SAFETY: the window was found a moment ago, so its structure is alive.
        unsafe { (*mw).rkey = key.0 };
        posting.ring_doorbell();
        Ok(())
    })
}
