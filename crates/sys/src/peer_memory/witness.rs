//! The page by which the memory of a process is known.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::{PAGE, random_u64};

/// Where a process keeps its witness, and what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mark {
    /// Of the page.
    pub address: u64,
    /// Its first word.
    pub value: u64,
}

/// This process's page that tells its memory from all others. Children do not have it.
#[derive(Debug)]
pub struct Witness {
    page: NonNull<Page>,
    value: u64,
}

#[derive(Debug)]
#[repr(C)]
pub(super) struct Page {
    pub(super) value: AtomicU64,
    /// The number of a thread of the process, not its first, or 0.
    thread: AtomicU64,
}

// SAFETY: the page is atomics, and stays mapped as long as the witness.
unsafe impl Send for Witness {}
// SAFETY: as above.
unsafe impl Sync for Witness {}

/// Where pages are that nobody happens to have: far from where the kernel puts anything by itself, chosen by chance.
pub(super) const FAR: u64 = 1 << 44;
/// Bytes of address space to choose from.
pub(super) const FAR_LENGTH: u64 = 3 << 44;
/// Places that are tried.
const ATTEMPTS: u32 = 8;

impl Witness {
    /// A new one.
    pub fn create() -> io::Result<Self> {
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        let map = |address: u64, flags| {
            // SAFETY: a new mapping; none of the flags used lets the kernel replace another.
            unsafe { rustix::mm::mmap_anonymous(address as *mut _, PAGE, rights, MapFlags::PRIVATE | flags) }
        };
        let far = || FAR + random_u64() % FAR_LENGTH / PAGE as u64 * PAGE as u64;
        let start = (0..ATTEMPTS)
            .find_map(|_| map(far(), MapFlags::FIXED_NOREPLACE).ok())
            .map_or_else(|| map(0, MapFlags::empty()), Ok)?;
        let page =
            NonNull::new(start.cast()).ok_or_else(|| io::Error::other("the kernel mapped at address 0"))?;
        let witness = Self { page, value: random_u64() };
        // SAFETY: the page was mapped just now; what is advised leaves its bytes alone.
        unsafe {
            rustix::mm::madvise(start, PAGE, Advice::LinuxDontFork)?;
            // A kernel built without core dumps may refuse.
            let _ = rustix::mm::madvise(start, PAGE, Advice::LinuxDontDump);
        }
        witness.page().value.store(witness.value, Ordering::Release);
        Ok(witness)
    }

    pub(super) fn page(&self) -> &Page {
        // SAFETY: mapped as long as this lives, zeros at first, and only ever used as atomics.
        unsafe { self.page.as_ref() }
    }

    /// What others know it by.
    pub fn mark(&self) -> Mark {
        Mark { address: self.page.as_ptr() as u64, value: self.value }
    }

    /// Has long writes to this memory addressed to the calling thread, if it is not the first of its process.
    pub fn show_this_thread(&self) {
        let thread = rustix::thread::gettid();
        if thread != rustix::process::getpid() {
            self.page().thread.store(thread.as_raw_nonzero().get() as u64, Ordering::Release);
        }
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        // SAFETY: mapped by `create`; nothing borrowed from `self` outlives it. A child, which does not have the page, has
        // nothing else there: the kernel puts nothing so far out by itself.
        let _ = unsafe { rustix::mm::munmap(self.page.as_ptr().cast(), PAGE) };
    }
}
