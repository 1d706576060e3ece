//! Binding memory windows.

use nonic_device::{Key, MemoryWindow, Operation, WindowKind};

use super::window_rights;
use crate::abi::{ibv_mw, ibv_mw_bind_info, ibv_send_wr};
use crate::errno::Errno;
use crate::objects::{REGIONS, WINDOWS};

/// The request that binds a window under `key`. What is wrong with the objects themselves is refused here, as the
/// original libraries do: `EINVAL`, or `EPERM` for a region of another domain.
pub(crate) fn bind(window: &MemoryWindow, key: Key, info: &ibv_mw_bind_info) -> Result<Operation, Errno> {
    let rights = window_rights(info.mw_access_flags)?;
    let region = if info.mr.is_null() {
        if info.addr != 0 || info.length != 0 {
            return Err(Errno::EINVAL);
        }
        None
    } else {
        let region = REGIONS.parent(info.mr)?;
        if region.zone().id() != window.zone().id() {
            return Err(Errno::EPERM);
        }
        Some(region.local_key())
    };
    Ok(Operation::Bind {
        window: window.id(),
        key,
        region,
        address: info.addr,
        length: info.length,
        access: rights.access,
        zero_based: rights.zero_based,
    })
}

/// What `IBV_WR_BIND_MW` asks for: a window of type 2, and the low 8 bits of its new key.
///
/// # Safety
/// `request` is a program's send request with that opcode.
#[cold]
pub(crate) unsafe fn bind_request(request: *const ibv_send_wr) -> Result<Operation, Errno> {
    // SAFETY: the caller vouches for the request; the member is plain numbers and pointers that are looked up.
    let asked = unsafe { (*request).last.bind_mw };
    let window = WINDOWS.parent(asked.mw)?;
    if window.kind() != WindowKind::Type2 {
        return Err(Errno::EINVAL);
    }
    bind(&window, window.key_with_tag(asked.rkey as u8), &asked.bind_info)
}

/// The key of a bind that was posted stands in the program's window: its upper 24 bits are the window's, whatever the
/// request said.
#[cold]
pub(crate) fn show_key(mw: *mut ibv_mw, asked: Key) {
    if let Ok(window) = WINDOWS.find(mw) {
        // SAFETY: the window was found a moment ago, so its structure is alive.
        unsafe { (*mw).rkey = window.key_with_tag(asked.0 as u8).0 };
    }
}
