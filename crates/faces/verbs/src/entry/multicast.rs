//! Multicast groups of queue pairs.

use core::ffi::c_int;

use nonic_device::GroupError;

use crate::abi::{ibv_gid, ibv_qp};
use crate::errno::Errno;
use crate::guard;
use crate::objects::QUEUE_PAIRS;

versions! {
    nonic_ibv_attach_mcast => "ibv_attach_mcast@@IBVERBS_1.1";
    nonic_ibv_detach_mcast => "ibv_detach_mcast@@IBVERBS_1.1";
}

/// `ibv_attach_mcast(3)`: `EINVAL` (not a queue pair of datagrams, not the address of a group), `ENOENT` (unknown or overwritten
/// handle), `ENOMEM` (no descriptor is left).
///
/// # Safety
/// `gid` is readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_attach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int {
    // SAFETY: the caller's GID is readable; it is bytes.
    guard::status(|| attach(qp, unsafe { gid.cast::<[u8; 16]>().read() }, lid))
}

/// `ibv_detach_mcast(3)`: `EINVAL` (not in that group), `ENOENT` (unknown or overwritten handle).
///
/// # Safety
/// `gid` is readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_detach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int {
    // SAFETY: as above.
    guard::status(|| detach(qp, unsafe { gid.cast::<[u8; 16]>().read() }, lid))
}

/// Attaches a queue pair to a group.
pub fn attach(qp: *mut ibv_qp, gid: [u8; 16], lid: u16) -> Result<(), Errno> {
    QUEUE_PAIRS.find(qp)?.pair()?.attach_multicast(gid, lid).map_err(refused)
}

/// Detaches it.
pub fn detach(qp: *mut ibv_qp, gid: [u8; 16], lid: u16) -> Result<(), Errno> {
    QUEUE_PAIRS.find(qp)?.pair()?.detach_multicast(gid, lid).map_err(refused)
}

fn refused(error: GroupError) -> Errno {
    match error {
        GroupError::System(_) | GroupError::NotOnWire { .. } => Errno::ENOMEM,
        GroupError::Transport | GroupError::Address { .. } | GroupError::NotAttached => Errno::EINVAL,
    }
}
