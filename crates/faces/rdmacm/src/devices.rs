//! One open context of each device, with one protection domain in it and if need be one XRC domain, for all identifiers of the
//! process.
//!
//! They stay for as long as the process lives: a program may keep what it found in an identifier. A child that was forked opens
//! its own.

use core::ptr;
use std::sync::{Mutex, PoisonError};

use nonic_device::Device;
use nonic_verbs::abi::{IBV_XRCD_INIT_ATTR_FD, IBV_XRCD_INIT_ATTR_OFLAGS, ibv_xrcd, ibv_xrcd_init_attr};
use nonic_verbs::entry::{context, extended_domain, zone};
use nonic_verbs::errno::Errno;

use crate::abi::{ibv_context, ibv_pd};

/// A device as identifiers show it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opened {
    index: u32,
    pub(crate) context: *mut ibv_context,
    pub(crate) zone: *mut ibv_pd,
    /// NULL until somebody needs it.
    extended_domain: *mut ibv_xrcd,
}

// SAFETY: the structures may be used by any thread, and are looked up before they are.
unsafe impl Send for Opened {}

static OPENED: Mutex<Vec<Opened>> = Mutex::new(Vec::new());

/// The context of a device and its domain, opened if need be.
pub(crate) fn opened(device: &Device) -> Result<Opened, Errno> {
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    opened.retain(|known| known.index != device.index() || context::is_usable(known.context));
    if let Some(known) = opened.iter().find(|known| known.index == device.index()) {
        return Ok(*known);
    }
    let context = context::open(device)?;
    let zone = zone::allocate(context)?;
    let new = Opened { index: device.index(), context, zone, extended_domain: ptr::null_mut() };
    opened.push(new);
    Ok(new)
}

/// The XRC domain of the device that identifiers have open as `context`, opened if need be: it is this process's, and nobody
/// else's. `EINVAL` if it is none of theirs.
pub(crate) fn extended_domain(context: *mut ibv_context) -> Result<*mut ibv_xrcd, Errno> {
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    let known = opened.iter_mut().find(|known| known.context == context).ok_or(Errno::EINVAL)?;
    if known.extended_domain.is_null() {
        let comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
        let attributes = ibv_xrcd_init_attr { comp_mask, fd: -1, oflags: libc::O_CREAT };
        // SAFETY: the attributes stand here.
        known.extended_domain = unsafe { extended_domain::open(context, &raw const attributes) }?;
    }
    Ok(known.extended_domain)
}

/// All of them, in the order of the devices.
pub(crate) fn all() -> Result<Vec<Opened>, Errno> {
    nonic_device::devices().iter().map(opened).collect()
}

/// `ENODEV` if there are no devices.
pub(crate) fn check_any() -> Result<(), Errno> {
    if nonic_device::devices().is_empty() { Err(Errno::ENODEV) } else { Ok(()) }
}
