//! A peer's address where there is no peer.

use core::cell::UnsafeCell;

/// The address of a peer that is not there, or no more. As in OFED it can be looked at: `dtest` does so without asking whether
/// the connection that it has just made still stands.
pub(super) struct Nowhere(UnsafeCell<[u64; size_of::<libc::sockaddr_storage>() / 8]>);

// SAFETY: only programs look at it or write to it; the library knows where it lies and no more.
unsafe impl Sync for Nowhere {}

impl Nowhere {
    pub(super) fn place() -> usize {
        static NOWHERE: Nowhere = Nowhere(UnsafeCell::new([0; size_of::<libc::sockaddr_storage>() / 8]));
        NOWHERE.0.get().expose_provenance()
    }
}
