//! Opening and closing a device.

use core::ffi::c_int;
use std::os::fd::AsRawFd;

use nonic_device::{Context, Device};

use super::device::{device_of, pointer_to};
use crate::abi::{ibv_context, ibv_device, verbs_context};
use crate::convert::int;
use crate::errno::Errno;
use crate::guard;
use crate::objects::CONTEXTS;
use crate::operations;

versions! {
    nonic_ibv_open_device => "ibv_open_device@@IBVERBS_1.1";
    nonic_ibv_close_device => "ibv_close_device@@IBVERBS_1.1";
    nonic_ibv_import_device => "ibv_import_device@@IBVERBS_1.10";
}

/// `ibv_open_device(3)`: a new context each time. NULL with `EINVAL` (no such device), `EIO` (in a forked
/// child whose parent had the device open), or what the system lacked (`EMFILE`, `ENOMEM`, ...).
///
/// # Safety
/// None beyond the signature's: the pointer is compared with the devices there are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_open_device(device: *mut ibv_device) -> *mut ibv_context {
    guard::or_null(|| open(device_of(device)?))
}

/// Opens a device; as [`nonic_ibv_open_device`].
pub fn open(device: &Device) -> Result<*mut ibv_context, Errno> {
    let engine = device.open()?;
    let reservation = CONTEXTS.reserve();
    let face = face_of(&engine);
    Ok(reservation.fill(engine, |_| face))
}

/// Whether a context is open, was opened by this process and not by one that forked it, and its device has not failed.
pub fn is_usable(context: *const ibv_context) -> bool {
    CONTEXTS.find(context).is_ok_and(|engine| engine.is_usable())
}

fn face_of(context: &Context) -> verbs_context {
    operations::verbs(ibv_context {
        device: pointer_to(context.device()),
        ops: operations::basic(),
        cmd_fd: context.command_fd().as_raw_fd(),
        async_fd: context.async_fd().as_raw_fd(),
        num_comp_vectors: int(context.limits().completion_vectors),
        mutex: libc::PTHREAD_MUTEX_INITIALIZER,
        abi_compat: usize::MAX,
    })
}

/// `ibv_close_device(3)`: 0, or -1 with `EINVAL` (not an open device). Objects still open on it can no longer
/// be used but may still be destroyed.
///
/// # Safety
/// No other thread uses the context any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_close_device(context: *mut ibv_context) -> c_int {
    guard::or_minus_one(|| {
        let claim = CONTEXTS.claim(context).map_err(|_| Errno::EINVAL)?;
        claim.engine().close();
        claim.retire();
        Ok(0)
    })
}

/// `ibv_import_device(3)`: sharing a context between processes is not in this release; NULL with
/// `EOPNOTSUPP`.
///
/// # Safety
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_import_device(_cmd_fd: c_int) -> *mut ibv_context {
    guard::or_null(|| Err(Errno::EOPNOTSUPP))
}
