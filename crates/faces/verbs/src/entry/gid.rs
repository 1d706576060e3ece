//! The GID and P_Key tables.

use core::ffi::{c_int, c_uint};
use core::ptr;

use nonic_device::{Context, GidEntry, GidKind};

use crate::abi::{
    IBV_GID_TYPE_IB, IBV_GID_TYPE_ROCE_V2, IBV_GID_TYPE_SYSFS_IB_ROCE_V1, IBV_GID_TYPE_SYSFS_ROCE_V2,
    ibv_context, ibv_gid, ibv_gid_entry,
};
use crate::convert;
use crate::errno::Errno;
use crate::guard;
use crate::objects::working;

versions! {
    nonic_ibv_query_gid => "ibv_query_gid@@IBVERBS_1.1";
    nonic_ibv_query_gid_ex => "_ibv_query_gid_ex@@IBVERBS_1.11";
    nonic_ibv_query_gid_table => "_ibv_query_gid_table@@IBVERBS_1.11";
    nonic_ibv_query_gid_type =>
        "ibv_query_gid_type@@IBVERBS_PRIVATE_34",
        "ibv_query_gid_type@IBVERBS_PRIVATE_57",
        "ibv_query_gid_type@IBVERBS_PRIVATE_59",
        "ibv_query_gid_type@IBVERBS_PRIVATE_64";
    nonic_ibv_query_pkey => "ibv_query_pkey@@IBVERBS_1.1";
    nonic_ibv_get_pkey_index => "ibv_get_pkey_index@@IBVERBS_1.5";
}

/// The one port there is.
pub(super) const PORT: u32 = 1;

/// Entry `index` of the table: `None` if it is empty, `EINVAL` if there is no such entry or port.
fn entry(context: &Context, port: u32, index: u32) -> Result<Option<GidEntry>, Errno> {
    if port != PORT || index >= context.port().gid_count {
        return Err(Errno::EINVAL);
    }
    Ok(context.gid_table().iter().find(|entry| entry.index == index).cloned())
}

fn to_c(entry: &GidEntry) -> ibv_gid_entry {
    ibv_gid_entry {
        gid: ibv_gid { raw: entry.gid },
        gid_index: entry.index,
        port_num: PORT,
        gid_type: match entry.kind {
            GidKind::InfiniBand => IBV_GID_TYPE_IB,
            GidKind::RoceV2 => IBV_GID_TYPE_ROCE_V2,
        },
        ndev_ifindex: entry.interface_index,
    }
}

/// Copies `value` to a program that was compiled for a structure of `room` bytes: what does not fit is left
/// out, what the program has more is zero.
///
/// # Safety
/// `to` is writable for `room` bytes.
pub(super) unsafe fn copy_sized<T: Copy>(value: &T, to: *mut T, room: usize) {
    let known = room.min(size_of::<T>());
    // SAFETY: at most `room` bytes are written, and at most a `T` is read.
    unsafe {
        ptr::copy_nonoverlapping(ptr::from_ref(value).cast::<u8>(), to.cast::<u8>(), known);
        to.cast::<u8>().add(known).write_bytes(0, room - known);
    }
}

/// `ibv_query_gid(3)`: 0 with the GID, all zeros for an empty entry; -1 with `EINVAL` (no such port or
/// index).
///
/// # Safety
/// `gid` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_query_gid(
    context: *mut ibv_context,
    port: u8,
    index: c_int,
    gid: *mut ibv_gid,
) -> c_int {
    guard::or_minus_one(|| {
        let index = u32::try_from(index).map_err(|_| Errno::EINVAL)?;
        let found = entry(&*working(context)?, port.into(), index)?;
        let raw = found.map_or([0; 16], |entry| entry.gid);
        // SAFETY: the caller's place is writable. A program may keep its GID at any alignment, so bytes are
        // written.
        unsafe { gid.cast::<[u8; 16]>().write_unaligned(raw) };
        Ok(0)
    })
}

/// `ibv_query_gid_ex(3)`: 0, `EINVAL` (no such port or index, or flags), `ENODATA` (the entry is empty).
///
/// # Safety
/// `out` is writable for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_query_gid_ex(
    context: *mut ibv_context,
    port: u32,
    index: u32,
    out: *mut ibv_gid_entry,
    flags: u32,
    size: usize,
) -> c_int {
    guard::status(|| {
        let context = working(context)?;
        if flags != 0 {
            return Err(Errno::EINVAL);
        }
        let found = entry(&context, port, index)?.ok_or(Errno::ENODATA)?;
        // SAFETY: the caller's place has that size.
        unsafe { copy_sized(&to_c(&found), out, size) };
        Ok(())
    })
}

/// `ibv_query_gid_table(3)`: how many entries were written, all that are not empty; a negative `EINVAL`
/// (flags, or the array is too small).
///
/// # Safety
/// `out` is writable for `room` entries of `size` bytes each.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_query_gid_table(
    context: *mut ibv_context,
    out: *mut ibv_gid_entry,
    room: usize,
    flags: u32,
    size: usize,
) -> isize {
    let result = guard::caught(|| {
        let context = working(context)?;
        let table = context.gid_table();
        if flags != 0 || table.len() > room {
            return Err(Errno::EINVAL);
        }
        for (position, entry) in table.iter().enumerate() {
            // SAFETY: the position is within the room, each entry of the size the caller was compiled for.
            unsafe { copy_sized(&to_c(entry), out.byte_add(position * size), size) };
        }
        Ok(table.len())
    });
    match result {
        Ok(count) => count as isize,
        Err(errno) => -(errno.set().0 as isize),
    }
}

/// The type of a GID in the words of sysfs, for `ibv_devinfo` and Python: 0, or -1 with `EINVAL` (no such
/// port or index) or `ENODATA` (the entry is empty).
///
/// # Safety
/// `kind` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_query_gid_type(
    context: *mut ibv_context,
    port: u8,
    index: c_uint,
    kind: *mut c_int,
) -> c_int {
    guard::or_minus_one(|| {
        let found = entry(&*working(context)?, port.into(), index)?.ok_or(Errno::ENODATA)?;
        let value = match found.kind {
            GidKind::InfiniBand => IBV_GID_TYPE_SYSFS_IB_ROCE_V1,
            GidKind::RoceV2 => IBV_GID_TYPE_SYSFS_ROCE_V2,
        };
        // SAFETY: the caller's place is writable.
        unsafe { kind.write(value) };
        Ok(0)
    })
}

/// `ibv_query_pkey(3)`: 0 with the key in network byte order; -1 with `EINVAL` (no such port or index).
///
/// # Safety
/// `pkey` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_query_pkey(
    context: *mut ibv_context,
    port: u8,
    index: c_int,
    pkey: *mut u16,
) -> c_int {
    guard::or_minus_one(|| {
        let context = working(context)?;
        let index = u16::try_from(index).map_err(|_| Errno::EINVAL)?;
        let key = context.pkey(index).filter(|_| u32::from(port) == PORT).ok_or(Errno::EINVAL)?;
        // SAFETY: the caller's place is writable.
        unsafe { pkey.write(key.to_be()) };
        Ok(0)
    })
}

/// `ibv_get_pkey_index(3)`: where the key, in network byte order, stands in the table; -1 with `EINVAL` if it
/// does not.
///
/// # Safety
/// None beyond the signature's: the pointer is looked up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_get_pkey_index(context: *mut ibv_context, port: u8, pkey: u16) -> c_int {
    guard::or_minus_one(|| {
        let context = working(context)?;
        let wanted = u16::from_be(pkey);
        let count = if u32::from(port) == PORT { context.port().pkey_count } else { 0 };
        let index = (0..count).find(|index| context.pkey(*index) == Some(wanted)).ok_or(Errno::EINVAL)?;
        Ok(convert::int(index))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_smaller_structure_gets_less_and_a_larger_one_gets_zeros() {
        let value = 0x0102_0304u32;
        let mut out = [0xffu8; 12];
        // SAFETY: the array has more room than is asked to be written.
        unsafe { copy_sized(&value, out.as_mut_ptr().cast(), 2) };
        assert_eq!(out[..3], [0x04, 0x03, 0xff]);
        // SAFETY: as above.
        unsafe { copy_sized(&value, out.as_mut_ptr().cast(), 8) };
        assert_eq!(out, [4, 3, 2, 1, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]);
    }
}
