//! Fences in pairs of which one side is free: the other, rare side has the kernel interrupt every CPU that matters
//! (`membarrier(2)`, Linux 4.16). Where the kernel refuses, both sides are ordinary full fences.
//!
//! The kernel may begin to refuse later: a program may install a filter of system calls at any time. Then light fences
//! become full ones, here and at the peers that are told ([`show_fences`]), and the rare side waits once, in place of what
//! the kernel did ([`wait_out_stores`]).

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

#[cfg(loom)]
use loom::sync::atomic::fence;
#[cfg(not(loom))]
use std::sync::atomic::{compiler_fence, fence};

use crate::{PerProcess, SharedMapping};

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

/// Never asked for, or refused from the beginning: every light fence so far was a full one.
const ORDINARY: u8 = 0;
/// Light fences are free.
const FREE: u8 = 1;
/// They were: some thread may have passed one that nobody sees.
const LOSING: u8 = 2;
/// They were, and what they left in doubt is settled.
const LOST: u8 = 3;

static STATE: AtomicU8 = AtomicU8::new(ORDINARY);

/// Words by which other processes know whether heavy fences of this one have effect.
type Shown = Mutex<Vec<(Weak<SharedMapping>, usize)>>;
static SHOWN: PerProcess<Shown> = PerProcess::new();

fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: the call takes numbers and touches no memory.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// Makes light fences of this process free from now on, if the kernel allows it; returns whether. To be called before
/// anything is built that uses fences of this kind.
pub fn prepare_light_fences() -> bool {
    if STATE.load(Ordering::SeqCst) == ORDINARY {
        let allowed =
            [REGISTER_PRIVATE_EXPEDITED, REGISTER_GLOBAL_EXPEDITED, PRIVATE_EXPEDITED, GLOBAL_EXPEDITED]
                .into_iter()
                .all(membarrier);
        if allowed {
            // Whoever was faster may have lost them again.
            let _ = STATE.compare_exchange(ORDINARY, FREE, Ordering::SeqCst, Ordering::SeqCst);
        }
    }
    light_fences_are_free()
}

/// Whether light fences of this process are free, and heavy ones reach others.
#[inline]
pub fn light_fences_are_free() -> bool {
    // A model's fences always have effect.
    cfg!(loom) || STATE.load(Ordering::Acquire) == FREE
}

/// Keeps the word at `offset` of `mapping` at 1 as long as heavy fences of this process have effect, and at 0 from then on.
pub fn show_fences(mapping: &Arc<SharedMapping>, offset: usize) {
    let mut shown = shown().lock().unwrap_or_else(PoisonError::into_inner);
    shown.retain(|(mapping, _)| mapping.strong_count() > 0);
    shown.push((Arc::downgrade(mapping), offset));
    // Under the lock: whoever loses them comes to this word afterwards.
    mapping.word(offset).store(u64::from(light_fences_are_free()), Ordering::SeqCst);
}

fn shown() -> &'static Shown {
    SHOWN.get_or_make(Mutex::default)
}

/// The side of the pair that runs often. `free` says whether those who revoke use [`heavy_fence`] with effect: without
/// that this is a full fence. It is asked behind everything that stands before the fence, so that who loses its heavy
/// fences, says so, and then waits for what was stored before, misses nobody.
#[inline(always)]
pub fn light_fence(free: impl FnOnce() -> bool) {
    #[cfg(not(loom))]
    {
        compiler_fence(Ordering::SeqCst);
        if free() {
            compiler_fence(Ordering::SeqCst);
            return;
        }
    }
    // A model knows no interrupts: there both sides are full fences.
    #[cfg(loom)]
    let _ = free;
    fence(Ordering::SeqCst);
}

/// The side that runs rarely: what every thread within reach did before its last light fence is seen after this, and
/// what was stored before this is seen by every thread after its next light fence.
///
/// The light side asks each time whether its fence is free; where that was settled once and for all, the rare side is
/// [`heavy_fence_for_grants`].
pub fn heavy_fence(reach: FenceReach) {
    fence(Ordering::SeqCst);
    match STATE.load(Ordering::SeqCst) {
        FREE if membarrier(command(reach)) => {}
        FREE | LOSING => lose(),
        _ => {}
    }
}

/// The same for light sides that are free because they were told so while light fences were: a favour, a flag. They stay so
/// when the kernel begins to refuse, and this then waits in its place. No such grant may be given any more
/// ([`light_fences_are_free`]), so that happens once for each.
pub fn heavy_fence_for_grants(reach: FenceReach) {
    fence(Ordering::SeqCst);
    match STATE.load(Ordering::SeqCst) {
        FREE if membarrier(command(reach)) => {}
        FREE | LOSING => lose(),
        LOST => wait_out_stores(),
        _ => {}
    }
}

fn command(reach: FenceReach) -> libc::c_int {
    match reach {
        FenceReach::Process => PRIVATE_EXPEDITED,
        FenceReach::Machine => GLOBAL_EXPEDITED,
    }
}

/// The kernel refuses what it allowed before. Several threads may be here at once; each waits for itself.
#[cold]
fn lose() {
    let _ = STATE.compare_exchange(FREE, LOSING, Ordering::SeqCst, Ordering::SeqCst);
    {
        let shown = shown().lock().unwrap_or_else(PoisonError::into_inner);
        for (mapping, offset) in shown.iter() {
            if let Some(mapping) = mapping.upgrade() {
                mapping.word(*offset).store(0, Ordering::SeqCst);
            }
        }
    }
    wait_out_stores();
    STATE.store(LOST, Ordering::SeqCst);
}

/// Waits until whatever any CPU had stored before is seen by all.
///
/// What a free light fence leaves undone is one thing: a store may still stand in its CPU's store buffer while a later load
/// of the same thread has been carried out. Such a buffer empties by itself as fast as the caches take its stores, within
/// microseconds: no machine holds one back, and a thread that is interrupted or switched out meanwhile leaves its CPU to a
/// kernel that empties it. So when this returns, everything is seen that was stored before a load that was carried out
/// before this began. A thread that stores later asks after its store whether its fence is free, and is told that it is
/// not (see [`light_fence`]). The time is some thousand times what the slowest buffer needs.
fn wait_out_stores() {
    fence(Ordering::SeqCst);
    let end = Instant::now() + STORES_LAST;
    while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        crate::nap(left);
    }
    fence(Ordering::SeqCst);
}

const STORES_LAST: Duration = Duration::from_millis(10);
