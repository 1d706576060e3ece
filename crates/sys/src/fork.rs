//! What `fork` does to a device: the child must not keep the parent's sockets alive, nor use its rings.

use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::sync::{Once, OnceLock};

use rustix::fd::{AsRawFd, BorrowedFd};

/// Descriptors at most that are replaced in a child.
const SLOTS: usize = 1024;
const FREE: i32 = -1;

static GENERATION: AtomicU32 = AtomicU32::new(0);
/// Children of this process, and forks of its ancestors.
static FORKS: AtomicU32 = AtomicU32::new(0);
static DESCRIPTORS: [AtomicI32; SLOTS] = [const { AtomicI32::new(FREE) }; SLOTS];
static HANDLER: Once = Once::new();

/// What has to happen around a fork. The first two run on the thread that forks; the last one on the child's only thread.
pub trait ForkHandler: Sync {
    /// Before: takes the locks that the child must find in order.
    fn prepare(&self);
    /// After it, in the parent; also when there is no child after all.
    fn parent(&self);
    /// After it, in the child, which may not allocate: another thread may have held the allocator's lock. The parent's
    /// descriptors are still there.
    fn child(&self);
}

/// Whose handler it is. What stands higher takes its locks first, because it calls what stands lower with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForkLayer {
    /// Adopted memory.
    Memory,
    /// SCIF endpoints.
    Scif,
}

static WATCHERS: [OnceLock<&'static dyn ForkHandler>; 2] = [const { OnceLock::new() }; 2];

/// Has `handler` called around every fork from now on (`fork(3)`; not `vfork`, `posix_spawn` or a bare system call). Each
/// layer has one; later ones are ignored.
pub fn on_fork(layer: ForkLayer, handler: &'static dyn ForkHandler) {
    let _ = WATCHERS[layer as usize].set(handler);
    let _ = fork_generation();
}

fn watchers() -> impl DoubleEndedIterator<Item = &'static dyn ForkHandler> {
    WATCHERS.iter().filter_map(|place| place.get().copied())
}

/// Has three functions called around every fork from now on: before it, after it in the parent, after it in the child; outside
/// (before and after) those of whoever asks earlier, inside those of whoever asks later. They keep to what [`ForkHandler`] says.
pub fn around_forks(before: extern "C" fn(), parent: extern "C" fn(), child: extern "C" fn()) {
    // SAFETY: functions of this library, which the C library forgets when the library goes.
    unsafe { libc::pthread_atfork(Some(before), Some(parent), Some(child)) };
}

/// How many forks lie between the first process that used nonic and this one. What was made in an earlier generation
/// belongs to an ancestor.
pub fn fork_generation() -> u32 {
    HANDLER.call_once(|| {
        // SAFETY: the handlers touch atomics and make async-signal-safe system calls only, and what `on_fork` was given keeps
        // to the same in the child.
        unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
    });
    GENERATION.load(Ordering::Relaxed)
}

/// The same for whoever asked [`fork_generation`] before, in this process or an ancestor.
#[inline]
pub fn current_generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Grows with every fork, in the parent and in the child: what was made when it was smaller may be in use by other processes
/// of the family. Counts from when somebody first asked this or [`fork_generation`].
#[inline]
pub fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// Has `descriptor` replaced by an inert one in every child: a peer then sees this process die even while a child
/// lives. The number stays taken in the child, so that closing it there closes nothing else.
pub fn forget_in_children(descriptor: BorrowedFd<'_>) {
    let _ = fork_generation();
    let raw = descriptor.as_raw_fd();
    for slot in &DESCRIPTORS {
        if slot.compare_exchange(FREE, raw, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            return;
        }
    }
}

/// Takes back [`forget_in_children`], before the descriptor is closed.
pub fn keep_in_children(descriptor: BorrowedFd<'_>) {
    let raw = descriptor.as_raw_fd();
    for slot in &DESCRIPTORS {
        if slot.compare_exchange(raw, FREE, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            return;
        }
    }
}

extern "C" fn prepare() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    watchers().rev().for_each(ForkHandler::prepare);
}

extern "C" fn parent() {
    watchers().for_each(ForkHandler::parent);
}

extern "C" fn child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    watchers().for_each(ForkHandler::child);
    let mut inert = FREE;
    for slot in &DESCRIPTORS {
        let raw = slot.swap(FREE, Ordering::AcqRel);
        if raw == FREE {
            continue;
        }
        // SAFETY: plain descriptor calls, all async-signal-safe; `raw` is open in the child because it was in the
        // parent, whose owner takes it out of the list before closing it.
        unsafe {
            if inert == FREE {
                inert = libc::eventfd(0, libc::EFD_CLOEXEC);
            }
            if inert == FREE {
                libc::close(raw);
            } else {
                libc::dup3(inert, raw, libc::O_CLOEXEC);
            }
        }
    }
    if inert != FREE {
        // SAFETY: `inert` was opened above and its duplicates stay.
        unsafe { libc::close(inert) };
    }
}
