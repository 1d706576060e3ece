//! Event channels.

use std::os::fd::AsRawFd;

use nonic_rdma_cm::EventChannel;
use nonic_verbs::errno::Errno;
use nonic_verbs::guard;

use crate::abi::rdma_event_channel;
use crate::devices;
use crate::errno::refused;
use crate::objects::{CHANNELS, IDENTIFIERS};

/// `rdma_create_event_channel(3)`: NULL with `ENODEV`, or what the system lacked (`EMFILE`, ...).
pub(crate) unsafe extern "C-unwind" fn rdma_create_event_channel() -> *mut rdma_event_channel {
    guard::or_null(create)
}

/// Creates a channel.
pub(crate) fn create() -> Result<*mut rdma_event_channel, Errno> {
    nonic_device::log_to_standard_error();
    devices::check_any()?;
    let engine = EventChannel::create().map_err(refused)?;
    let fd = engine.fd().as_raw_fd();
    Ok(CHANNELS.reserve().fill(engine, |_| rdma_event_channel { fd }))
}

/// `rdma_destroy_event_channel(3)`. Identifiers that are still on it end their connections, and can only be destroyed.
pub(crate) unsafe extern "C-unwind" fn rdma_destroy_event_channel(channel: *mut rdma_event_channel) {
    guard::silent(|| {
        // SAFETY: the identifiers asked about are alive.
        let left = IDENTIFIERS.living(|id| unsafe { (*id).channel } == channel);
        destroy(channel);
        left.iter().for_each(|identifier| identifier.engine.abandon());
    });
}

/// Destroys a channel, if there is one.
pub(crate) fn destroy(channel: *mut rdma_event_channel) {
    if let Ok(claim) = CHANNELS.claim(channel) {
        claim.retire();
    }
}
