//! The list of devices.

use core::ffi::{c_char, c_int};
use core::ptr;
use std::sync::OnceLock;

use nonic_device::Device;

use super::sysfs::sysfs_root;
use crate::abi::{IBV_NODE_CA, IBV_TRANSPORT_IB, ibv_device};
use crate::errno::Errno;
use crate::guard;

versions! {
    nonic_ibv_get_device_list => "ibv_get_device_list@@IBVERBS_1.1";
    nonic_ibv_free_device_list => "ibv_free_device_list@@IBVERBS_1.1";
    nonic_ibv_get_device_name => "ibv_get_device_name@@IBVERBS_1.1";
    nonic_ibv_get_device_index => "ibv_get_device_index@@IBVERBS_1.9";
    nonic_ibv_get_device_guid => "ibv_get_device_guid@@IBVERBS_1.1";
}

/// A device as programs see it, and as the engine does.
#[repr(C)]
struct Entry {
    face: ibv_device,
    engine: Device,
}

/// The devices of this process. They live as long as it does: a program may keep a pointer of a freed list.
struct List(Vec<*mut Entry>);

// SAFETY: the entries are written before the list is shared and never after; `Device` itself may be used
// anywhere.
unsafe impl Send for List {}
// SAFETY: as above.
unsafe impl Sync for List {}

fn list() -> &'static [*mut Entry] {
    static LIST: OnceLock<List> = OnceLock::new();
    let make = || {
        let entry = |engine| Box::into_raw(Box::new(Entry { face: face_of(&engine), engine }));
        List(nonic_device::devices().into_iter().map(entry).collect())
    };
    &LIST.get_or_init(make).0
}

fn face_of(device: &Device) -> ibv_device {
    let node = format!("uverbs{}", device.index());
    let root = sysfs_root();
    ibv_device {
        _ops: [None; 2],
        node_type: IBV_NODE_CA,
        transport_type: IBV_TRANSPORT_IB,
        name: text(device.name()),
        dev_path: text(&format!("{root}/class/infiniband_verbs/{node}")),
        ibdev_path: text(&format!("{root}/class/infiniband/{}", device.name())),
        dev_name: text(&node),
    }
}

/// `value` with a NUL behind it, cut if need be.
pub(super) fn text<const N: usize>(value: &str) -> [c_char; N] {
    let mut out = [0; N];
    for (to, from) in out.iter_mut().zip(value.bytes().take(N - 1)) {
        *to = from as c_char;
    }
    out
}

/// The engine's device behind a program's pointer; `EINVAL` if the pointer is none of ours.
pub(super) fn device_of(pointer: *mut ibv_device) -> Result<&'static Device, Errno> {
    let entry = list().iter().find(|entry| entry.addr() == pointer.addr()).ok_or(Errno::EINVAL)?;
    // SAFETY: entries of the list are never freed or changed.
    Ok(unsafe { &(**entry).engine })
}

/// `ibv_get_device_list(3)`: a NULL-terminated array, its length in `count` unless that is NULL; an empty
/// list is no error. NULL with `ENOMEM`.
///
/// # Safety
/// `count` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_get_device_list(count: *mut c_int) -> *mut *mut ibv_device {
    guard::or_null(|| {
        nonic_device::log_to_standard_error();
        // SAFETY: the caller gives NULL or a writable place.
        let set = |value| unsafe {
            if !count.is_null() {
                count.write(value);
            }
        };
        set(0);
        let devices = list();
        // The array is freed by a function that is not told its length, so it comes from malloc.
        // SAFETY: calloc takes any sizes; the result is checked.
        let array: *mut *mut ibv_device =
            unsafe { libc::calloc(devices.len() + 1, size_of::<*mut ibv_device>()) }.cast();
        if array.is_null() {
            return Err(Errno::ENOMEM);
        }
        for (position, device) in devices.iter().enumerate() {
            // SAFETY: the array has one place more than there are devices.
            unsafe { array.add(position).write(device.cast()) };
        }
        set(crate::convert::int(devices.len()));
        Ok(array)
    })
}

/// `ibv_free_device_list(3)`: frees the array. The devices stay.
///
/// # Safety
/// `array` came from [`nonic_ibv_get_device_list`] and was not freed, or is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_free_device_list(array: *mut *mut ibv_device) {
    // SAFETY: the array came from calloc, or is NULL, which free ignores.
    unsafe { libc::free(array.cast()) };
}

/// `ibv_get_device_name(3)`: the name; NULL for a pointer that is no device.
///
/// # Safety
/// None beyond the signature's: the pointer is compared, and followed only if it is one of ours.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_get_device_name(device: *mut ibv_device) -> *const c_char {
    guard::or_null(|| {
        device_of(device)?;
        // SAFETY: it is one of the list's entries, which are never freed.
        Ok(unsafe { &raw mut (*device).name }.cast::<c_char>())
    })
    .cast_const()
}

/// `ibv_get_device_index(3)`: the kernel's number for a device. There is no kernel behind this one: our own
/// number, from 0 as the kernel counts and as `rdma dev` says, or -1 for a pointer that is no device.
///
/// # Safety
/// None beyond the signature's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_get_device_index(device: *mut ibv_device) -> c_int {
    guard::or_minus_one(|| Ok(crate::convert::int(device_of(device)?.index())))
}

/// `ibv_get_device_guid(3)`: the node GUID in network byte order; 0 with `EINVAL` for a pointer that is no
/// device.
///
/// # Safety
/// None beyond the signature's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_get_device_guid(device: *mut ibv_device) -> u64 {
    match guard::caught(|| device_of(device).map(Device::guid)) {
        Ok(guid) => guid.to_be(),
        Err(errno) => {
            errno.set();
            0
        }
    }
}

/// The pointer programs know a device by.
pub(super) fn pointer_to(device: &Device) -> *mut ibv_device {
    // SAFETY: entries of the list are never freed or changed.
    let found = list().iter().find(|entry| unsafe { (***entry).engine.index() } == device.index());
    found.map_or(ptr::null_mut(), |entry| entry.cast())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_and_still_ends_with_nul() {
        let short: [c_char; 4] = text("ab");
        assert_eq!(short, [b'a' as c_char, b'b' as c_char, 0, 0]);
        let long: [c_char; 4] = text("abcdef");
        assert_eq!(long, [b'a' as c_char, b'b' as c_char, b'c' as c_char, 0]);
    }

    #[test]
    fn a_pointer_that_is_no_device_is_refused() {
        // SAFETY: the functions compare the pointer and do not follow it.
        unsafe {
            assert!(nonic_ibv_get_device_name(ptr::null_mut()).is_null());
            assert_eq!(nonic_ibv_get_device_guid(ptr::without_provenance_mut(64)), 0);
            assert_eq!(nonic_ibv_get_device_index(ptr::without_provenance_mut(64)), -1);
        }
    }
}
