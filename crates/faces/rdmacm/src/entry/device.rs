//! The devices that identifiers are bound to.

use core::ffi::c_int;

use nonic_verbs::errno::Errno;
use nonic_verbs::guard;

use crate::abi::ibv_context;
use crate::devices;

/// `rdma_get_devices(3)`: a NULL-terminated array of open contexts, the same ones that identifiers show. NULL with `ENODEV`,
/// `ENOMEM`, or what the system lacked.
pub(crate) unsafe extern "C-unwind" fn rdma_get_devices(num_devices: *mut c_int) -> *mut *mut ibv_context {
    guard::or_null(|| {
        devices::check_any()?;
        let opened = devices::all()?;
        // The array is freed by a function that is not told its length, so it comes from malloc.
        // SAFETY: calloc takes any sizes; the result is checked.
        let array: *mut *mut ibv_context =
            unsafe { libc::calloc(opened.len() + 1, size_of::<*mut ibv_context>()) }.cast();
        if array.is_null() {
            return Err(Errno::ENOMEM);
        }
        for (position, device) in opened.iter().enumerate() {
            // SAFETY: the array has one place more than there are devices.
            unsafe { array.add(position).write(device.context) };
        }
        if !num_devices.is_null() {
            // SAFETY: the program's place is writable.
            unsafe { num_devices.write(opened.len() as c_int) };
        }
        Ok(array)
    })
}

/// `rdma_free_devices(3)`: frees the array. The contexts stay open.
pub(crate) unsafe extern "C-unwind" fn rdma_free_devices(list: *mut *mut ibv_context) {
    // SAFETY: the array came from calloc, or is NULL, which free ignores.
    unsafe { libc::free(list.cast()) };
}
