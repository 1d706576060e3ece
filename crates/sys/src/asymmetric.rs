//! Fences in pairs of which one side is free: the other, rare side has the kernel interrupt every CPU that matters
//! (`membarrier(2)`, Linux 4.16). Where the kernel refuses, both sides are ordinary full fences.

use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(loom)]
use loom::sync::atomic::fence;
#[cfg(not(loom))]
use std::sync::atomic::{compiler_fence, fence};

/// Whom a heavy fence reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FenceReach {
    /// The threads of this process.
    Process,
    /// Every process of this machine that prepared for it, this one included.
    Machine,
}

const GLOBAL_EXPEDITED: libc::c_int = 1 << 1;
const REGISTER_GLOBAL_EXPEDITED: libc::c_int = 1 << 2;
const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

static PREPARED: AtomicBool = AtomicBool::new(false);

fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: the call takes numbers and touches no memory.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// Makes light fences of this process free from now on, if the kernel allows it; returns whether. To be called before
/// anything is built that uses fences of this kind.
pub fn prepare_light_fences() -> bool {
    if PREPARED.load(Ordering::SeqCst) {
        return true;
    }
    let allowed =
        [REGISTER_PRIVATE_EXPEDITED, REGISTER_GLOBAL_EXPEDITED, PRIVATE_EXPEDITED, GLOBAL_EXPEDITED]
            .into_iter()
            .all(membarrier);
    PREPARED.store(allowed, Ordering::SeqCst);
    allowed
}

/// Whether light fences of this process are free, and heavy ones reach others.
#[inline]
pub fn light_fences_are_free() -> bool {
    PREPARED.load(Ordering::Relaxed)
}

/// The side of the pair that runs often. `free` says whether those who revoke use [`heavy_fence`] with effect: without
/// that this is a full fence.
#[inline]
pub fn light_fence(free: bool) {
    #[cfg(not(loom))]
    if free {
        compiler_fence(Ordering::SeqCst);
        return;
    }
    // A model knows no interrupts: there both sides are full fences.
    let _ = free;
    fence(Ordering::SeqCst);
}

/// The side that runs rarely: what every thread within reach did before its last light fence is seen after this, and
/// what was stored before this is seen by every thread after its next light fence.
pub fn heavy_fence(reach: FenceReach) {
    fence(Ordering::SeqCst);
    if light_fences_are_free() {
        membarrier(match reach {
            FenceReach::Process => PRIVATE_EXPEDITED,
            FenceReach::Machine => GLOBAL_EXPEDITED,
        });
    }
}
