//! One open context of each device, with one domain in it, for all identifiers of the process.
//!
//! They stay for as long as the process lives: a program may keep what it found in an identifier. A child that was forked opens
//! its own.

use std::sync::{Mutex, PoisonError};

use nonic_device::Device;
use nonic_verbs::entry::{context, zone};
use nonic_verbs::errno::Errno;

use crate::abi::{ibv_context, ibv_pd};

/// A device as identifiers show it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opened {
    index: u32,
    pub(crate) context: *mut ibv_context,
    pub(crate) zone: *mut ibv_pd,
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
    let new = Opened { index: device.index(), context, zone: zone::allocate(context)? };
    opened.push(new);
    Ok(new)
}

/// All of them, in the order of the devices.
pub(crate) fn all() -> Result<Vec<Opened>, Errno> {
    nonic_device::devices().iter().map(opened).collect()
}

/// `ENODEV` if there are no devices.
pub(crate) fn check_any() -> Result<(), Errno> {
    if nonic_device::devices().is_empty() { Err(Errno::ENODEV) } else { Ok(()) }
}
