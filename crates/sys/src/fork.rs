//! What `fork` does to a device: the child must not keep the parent's sockets alive, nor use its rings.

use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use rustix::fd::{AsRawFd, BorrowedFd};

/// Descriptors at most that are replaced in a child.
const SLOTS: usize = 1024;
const FREE: i32 = -1;

static GENERATION: AtomicU32 = AtomicU32::new(0);
static DESCRIPTORS: [AtomicI32; SLOTS] = [const { AtomicI32::new(FREE) }; SLOTS];
static HANDLER: Once = Once::new();

/// How many forks lie between the first process that used nonic and this one. What was made in an earlier generation
/// belongs to an ancestor.
pub fn fork_generation() -> u32 {
    HANDLER.call_once(|| {
        // SAFETY: the handler touches atomics and makes async-signal-safe system calls only.
        unsafe { libc::pthread_atfork(None, None, Some(child)) };
    });
    GENERATION.load(Ordering::Relaxed)
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

extern "C" fn child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
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
