//! Both sides of a connection in one process, or in a process and its children.

#![allow(unsafe_code)]

mod commotion;
mod family;
mod fences;
mod maps;
mod rma;
mod speed;
mod windows;

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nonic_sys::{AsFd, BorrowedFd, SharedMemory};

use super::{AREA_LENGTH, RegisteredMemory};
use crate::ScifError;
use crate::options::{Protection, RmaFlags};
use crate::side::Side;

const PAGE: usize = nonic_sys::PAGE;
const BOTH: Protection = Protection::READ_WRITE;
const PLAIN: RmaFlags = RmaFlags { use_cpu: false, sync: false, ordered: false };
const SYNC: RmaFlags = RmaFlags { use_cpu: false, sync: true, ordered: false };
/// The first offset the library chooses.
const FIRST: i64 = 1 << 62;

/// A connection: what the endpoints would have.
struct Pair {
    here: Arc<RegisteredMemory>,
    there: Arc<RegisteredMemory>,
    sockets: (UnixStream, UnixStream),
    gone: Arc<AtomicBool>,
}

impl Pair {
    fn new() -> Self {
        let memory = SharedMemory::create("segment", 2 * AREA_LENGTH).unwrap();
        let segment = Arc::new(memory.map(nonic_sys::Protection::ReadWrite).unwrap());
        let _ = nonic_sys::fork_generation();
        let gone = Arc::new(AtomicBool::new(false));
        let side = |side| {
            let (segment, gone) = (Arc::clone(&segment), Arc::clone(&gone));
            let is_gone = Arc::new(move || gone.load(Ordering::Relaxed));
            RegisteredMemory::new(segment, [0, AREA_LENGTH], side, is_gone, nonic_sys::forks())
        };
        Self {
            here: side(Side::Connector),
            there: side(Side::Acceptor),
            sockets: UnixStream::pair().unwrap(),
            gone,
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.sockets.0.as_fd()
    }

    /// Opens a window of this side where the library chooses.
    fn open(&self, pages: &Pages) -> i64 {
        self.here.register(self.fd(), pages.start(), pages.length, 0, BOTH, false).unwrap()
    }

    /// One of the other side.
    fn open_there(&self, pages: &Pages) -> i64 {
        self.there.register(self.sockets.1.as_fd(), pages.start(), pages.length, 0, BOTH, false).unwrap()
    }

    fn fixed(&self, pages: &Pages, offset: i64) -> Result<i64, ScifError> {
        self.here.register(self.fd(), pages.start(), pages.length, offset, BOTH, true)
    }

    fn close(&self, offset: i64, length: usize) -> Result<(), ScifError> {
        self.here.unregister(self.fd(), offset, length)
    }
}

/// Memory of the program between pages that are not mapped.
struct Pages {
    whole: *mut libc::c_void,
    length: usize,
}

// SAFETY: it is used through atomics and system calls only.
unsafe impl Sync for Pages {}
// SAFETY: as above.
unsafe impl Send for Pages {}

impl Pages {
    fn new(pages: usize) -> Self {
        Self::with(pages, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)
    }

    fn with(pages: usize, flags: libc::c_int, file: libc::c_int) -> Self {
        let length = pages * PAGE;
        // SAFETY: new mappings; the second replaces the middle of the first.
        unsafe {
            let nothing = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let whole = libc::mmap(std::ptr::null_mut(), length + 2 * PAGE, libc::PROT_NONE, nothing, -1, 0);
            assert_ne!(whole, libc::MAP_FAILED);
            let rights = libc::PROT_READ | libc::PROT_WRITE;
            let middle = whole.byte_add(PAGE);
            assert_eq!(libc::mmap(middle, length, rights, flags | libc::MAP_FIXED, file, 0), middle);
            Self { whole, length }
        }
    }

    /// Holding words that tell where they are.
    fn filled(pages: usize, add: u64) -> Self {
        let this = Self::new(pages);
        for index in 0..this.length / 8 {
            this.word(index * 8).store(index as u64 + add, Ordering::Relaxed);
        }
        this
    }

    fn start(&self) -> usize {
        self.whole as usize + PAGE
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at + 8 <= self.length && at.is_multiple_of(8));
        word_at(self.start() + at)
    }

    fn load(&self, at: usize) -> u64 {
        self.word(at).load(Ordering::SeqCst)
    }

    fn store(&self, at: usize, value: u64) {
        self.word(at).store(value, Ordering::SeqCst);
    }

    fn bytes(&self) -> Vec<u8> {
        (0..self.length / 8).flat_map(|index| self.load(index * 8).to_ne_bytes()).collect()
    }

    /// Maps new memory over it.
    fn replace(&self) {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the pages are the test's.
        unsafe { libc::mmap(self.start() as *mut _, self.length, rights, flags, -1, 0) };
    }

    fn protect(&self, rights: libc::c_int) {
        // SAFETY: the pages are the test's.
        assert_eq!(unsafe { libc::mprotect(self.start() as *mut _, self.length, rights) }, 0);
    }

    fn advise(&self, advice: libc::c_int) {
        // SAFETY: the pages are the test's.
        assert_eq!(unsafe { libc::madvise(self.start() as *mut _, self.length, advice) }, 0);
    }

    /// Unmaps it; the addresses stay taken.
    fn unmap(&self) {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        // SAFETY: the pages are the test's.
        unsafe { libc::mmap(self.start() as *mut _, self.length, libc::PROT_NONE, flags, -1, 0) };
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the pages are the test's.
        unsafe { libc::munmap(self.whole, self.length + 2 * PAGE) };
    }
}

/// A word that the program can use, at an address the test knows to be mapped.
fn word_at(address: usize) -> &'static AtomicU64 {
    // SAFETY: the test maps it.
    unsafe { AtomicU64::from_ptr(address as *mut u64) }
}

/// Waits for what must happen.
fn wait_until(what: &str, mut happened: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !happened() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::yield_now();
    }
}

/// Runs `body` in a child; what it returns is the exit status.
fn child(body: impl FnOnce() -> bool) -> i32 {
    // SAFETY: the child uses its own memory and leaves by `_exit`.
    unsafe {
        let pid = libc::fork();
        assert!(pid >= 0);
        if pid == 0 {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            let good = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).unwrap_or(false);
            libc::_exit(i32::from(!good));
        }
        pid
    }
}

/// Runs `body` where no other test is: nobody maps anything into the holes that it makes among its pages.
fn alone(body: impl FnOnce()) {
    let pid = child(|| {
        body();
        true
    });
    assert_eq!(reap(pid), 0, "what failed stands above");
}

fn reap(pid: i32) -> i32 {
    let mut status = -1;
    // SAFETY: the child is the test's.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    status
}
