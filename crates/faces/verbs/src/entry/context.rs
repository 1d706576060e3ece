//! Opening and closing a device.

use core::ffi::c_int;
use std::collections::HashMap;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use nonic_device::{Command, Context, Device, import_device, set_exporter};

use super::device::{device_of, pointer_to};
use crate::abi::{ibv_context, ibv_device, verbs_context};
use crate::convert::int;
use crate::errno::Errno;
use crate::guard;
use crate::objects::CONTEXTS;
use crate::operations;

versions! {
    nonic_ibv_open_device => "ibv_open_device@@IBVERBS_1.1";
    nonic_ibv_import_device => "ibv_import_device@@IBVERBS_1.10";
    nonic_ibv_close_device => "ibv_close_device@@IBVERBS_1.1";
}

/// The descriptors that contexts were imported by, which go with them, by the address of the context.
static DESCRIPTORS: Mutex<Option<HashMap<usize, OwnedFd>>> = Mutex::new(None);

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
    set_exporter(super::import::find_exported);
    let engine = device.open()?;
    let reservation = CONTEXTS.reserve();
    let face = face_of(&engine);
    Ok(reservation.fill(engine, |_| face))
}

/// Whether a context is open, was opened by this process and not by one that forked it, and its device has not failed.
pub fn is_usable(context: *const ibv_context) -> bool {
    CONTEXTS.find(context).is_ok_and(|engine| engine.is_usable())
}

/// What a program sees of an open device.
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
/// be used but may still be destroyed, unless the device is open under another name (`ibv_import_device(3)`).
///
/// # Safety
/// No other thread uses the context any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_close_device(context: *mut ibv_context) -> c_int {
    guard::or_minus_one(|| {
        let claim = CONTEXTS.claim(context).map_err(|_| Errno::EINVAL)?;
        claim.engine().close();
        close_descriptor(context);
        claim.retire();
        Ok(0)
    })
}

/// Closes the descriptor a context was imported by, if it was.
fn close_descriptor(context: *const ibv_context) {
    let mut descriptors = DESCRIPTORS.lock().unwrap_or_else(PoisonError::into_inner);
    let closed = descriptors.as_mut().and_then(|descriptors| descriptors.remove(&context.addr()));
    drop(descriptors);
    drop(closed);
}

/// `ibv_import_device(3)`: the open device that the descriptor is a copy of, under another name. The descriptor is then the
/// library's, and is closed with the name; only `cmd_fd` itself stays with its context. Asynchronous events are told once, whatever
/// name they are asked for by.
///
/// A device that another process opened, also one that forked this, is opened here, too, for what is made on it in either process; what
/// is imported through it is the other's.
///
/// NULL with `EINVAL` (no device has this descriptor), `EIO` (the device has failed); of another process `ENODEV` (it has ended), `ENOENT`
/// (it has closed the device), `EPERM` (the kernel does not let the two at each other's memory), `EAGAIN` (it does not answer),
/// `EOPNOTSUPP` (`NONIC_TIER` allows no way there), or what opening a device says. The descriptor then stays the program's.
///
/// # Safety
/// The descriptor is the caller's to give away.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_import_device(cmd_fd: c_int) -> *mut ibv_context {
    guard::or_null(|| {
        if cmd_fd < 0 {
            return Err(Errno::EINVAL);
        }
        // SAFETY: the number is looked at as long as the caller is here; if nothing is open under it, the kernel says so.
        let descriptor = unsafe { BorrowedFd::borrow_raw(cmd_fd) };
        let mut open = CONTEXTS.living(|_| true).into_iter();
        let engine = match open.find(|engine| engine.is_commanded_by(descriptor)) {
            Some(engine) if engine.is_usable() => engine,
            Some(engine) if engine.has_failed() => return Err(Errno::EIO),
            _ => {
                set_exporter(super::import::find_exported);
                import_device(Command::of(descriptor).ok_or(Errno::EINVAL)?)?
            }
        };
        if !engine.is_imported() && !engine.reopen() {
            return Err(Errno::EINVAL);
        }
        let reservation = CONTEXTS.reserve();
        let mut face = face_of(&engine);
        face.context.cmd_fd = cmd_fd;
        if engine.command_fd().as_raw_fd() != cmd_fd {
            // SAFETY: the caller gives it away, and it is none that anything here has.
            let owned = unsafe { OwnedFd::from_raw_fd(cmd_fd) };
            let mut descriptors = DESCRIPTORS.lock().unwrap_or_else(PoisonError::into_inner);
            descriptors.get_or_insert_default().insert(reservation.pointer().addr(), owned);
        }
        Ok(reservation.fill(engine, |_| face))
    })
}
