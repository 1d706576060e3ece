//! Memory to try adoption on, looking at how it is mapped, and children.

// Each test program uses its part of it.
#![allow(dead_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use nonic_memory::{AdoptedPages, Adopter, Purpose};

pub(crate) const PAGE: usize = 4096;

/// Private anonymous pages.
pub(crate) struct Anonymous {
    start: *mut libc::c_void,
    length: usize,
}

// SAFETY: it is used through atomics and system calls only.
unsafe impl Sync for Anonymous {}

impl Anonymous {
    pub(crate) fn new(pages: usize) -> Self {
        Self::with_flags(pages, 0)
    }

    pub(crate) fn with_flags(pages: usize, flags: libc::c_int) -> Self {
        Self::try_with_flags(pages, flags).unwrap()
    }

    pub(crate) fn try_with_flags(pages: usize, flags: libc::c_int) -> Option<Self> {
        let flags = flags | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let length = pages * PAGE;
        // SAFETY: a new mapping where the kernel chooses.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
        };
        (start != libc::MAP_FAILED).then_some(Self { start, length })
    }

    /// Makes a page one that nobody can touch, not even the kernel (`MADV_GUARD_INSTALL`); whether the kernel can.
    pub(crate) fn install_guard(&self, page: usize) -> bool {
        // SAFETY: own memory, no reference to what it holds.
        unsafe { libc::madvise(self.start.byte_add(page * PAGE), PAGE, 102) == 0 }
    }

    pub(crate) fn address(&self) -> usize {
        self.start as usize
    }

    pub(crate) fn word(&self, page: usize, word: usize) -> &AtomicU64 {
        assert!(page * PAGE + word * 8 < self.length);
        // SAFETY: inside the mapping, aligned, and used as an atomic only.
        unsafe { AtomicU64::from_ptr(self.start.cast::<u64>().add(page * PAGE / 8 + word)) }
    }

    /// `MADV_DONTNEED`.
    pub(crate) fn forget(&self, page: usize, pages: usize) {
        // SAFETY: own memory, no reference to what it holds.
        let done =
            unsafe { libc::madvise(self.start.byte_add(page * PAGE), pages * PAGE, libc::MADV_DONTNEED) };
        assert_eq!(done, 0);
    }

    /// Reads zeros into part of a page by a system call; whether that worked.
    pub(crate) fn read_into(&self, page: usize, offset: usize, length: usize) -> bool {
        use std::os::fd::AsRawFd;
        thread_local! { static ZEROS: std::fs::File = std::fs::File::open("/dev/zero").unwrap(); }
        assert!(page * PAGE + offset + length <= self.length);
        // SAFETY: inside the mapping.
        ZEROS.with(|zeros| unsafe {
            libc::read(zeros.as_raw_fd(), self.start.byte_add(page * PAGE + offset), length)
                == length as isize
        })
    }

    /// Unmaps it and maps new memory at the same address, in one step: other tests map memory meanwhile.
    pub(crate) fn map_anew(&self) {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: own memory, no reference to what it holds.
        let start = unsafe { libc::mmap(self.start, self.length, rights, flags, -1, 0) };
        assert_eq!(start, self.start);
    }

    /// `mremap` to another address, as `realloc` does.
    pub(crate) fn move_and_grow(&mut self, pages: usize) {
        let target = Self::new(pages);
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        // SAFETY: own memory; the target is replaced and so not unmapped a second time.
        unsafe {
            let moved = libc::mremap(self.start, self.length, target.length, flags, target.start);
            assert_eq!(moved, target.start);
        }
        (self.start, self.length) = (target.start, target.length);
        std::mem::forget(target);
    }

    pub(crate) fn protect(&self, page: usize, pages: usize, rights: libc::c_int) {
        // SAFETY: own memory; tests read only what can be read.
        let done = unsafe { libc::mprotect(self.start.byte_add(page * PAGE), pages * PAGE, rights) };
        assert_eq!(done, 0);
    }
}

impl Drop for Anonymous {
    fn drop(&mut self) {
        // SAFETY: own memory.
        unsafe { libc::munmap(self.start, self.length) };
    }
}

/// A mapping of adopted pages as a peer has it.
pub(crate) struct View {
    start: *mut libc::c_void,
    length: usize,
}

impl View {
    pub(crate) fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset < self.length);
        // SAFETY: inside the mapping, aligned, and used as an atomic only.
        unsafe { AtomicU64::from_ptr(self.start.byte_add(offset).cast()) }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: own mapping.
        unsafe { libc::munmap(self.start, self.length) };
    }
}

pub(crate) fn shared_view(adopter: &Adopter, pages: &AdoptedPages) -> View {
    use std::os::fd::AsRawFd;
    let file = adopter.file().unwrap();
    let length = pages.end - pages.start;
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    let offset = pages.file_offset(pages.start) as i64;
    // SAFETY: a new mapping where the kernel chooses.
    let start = unsafe {
        libc::mmap(std::ptr::null_mut(), length, rights, libc::MAP_SHARED, file.as_raw_fd(), offset)
    };
    assert_ne!(start, libc::MAP_FAILED);
    View { start, length }
}

/// The line of `/proc/self/maps` for an address, or nothing.
pub(crate) fn mapped_as(address: usize) -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines()
        .find(|line| {
            let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
            let number = |text| usize::from_str_radix(text, 16).unwrap();
            (number(start)..number(end)).contains(&address)
        })
        .unwrap_or_default()
        .to_owned()
}

/// The first pages of this program's own file, mapped privately.
pub(crate) fn map_private_file(pages: usize) -> Anonymous {
    use std::os::fd::AsRawFd;
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    let length = pages * PAGE;
    // SAFETY: a new mapping where the kernel chooses.
    let start = unsafe {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        libc::mmap(std::ptr::null_mut(), length, rights, libc::MAP_PRIVATE, file.as_raw_fd(), 0)
    };
    assert_ne!(start, libc::MAP_FAILED);
    Anonymous { start, length }
}

/// How many mappings there are from the memory's start to its end. Other tests make theirs meanwhile.
pub(crate) fn mappings_of(memory: &Anonymous) -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let start = |line: &str| usize::from_str_radix(line.split('-').next().unwrap(), 16).unwrap();
    maps.lines()
        .filter(|line| (memory.address()..memory.address() + memory.length).contains(&start(line)))
        .count()
}

/// Bytes of the pages in the adopter's file.
pub(crate) fn file_bytes(adopter: &Adopter) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let file = std::fs::File::from(adopter.file().unwrap().try_clone_to_owned().unwrap());
    file.metadata().unwrap().blocks() * 512
}

/// Whether the kernel tells its page of zeros from pages that hold data (`PAGEMAP_SCAN`, Linux 6.7).
pub(crate) fn tells_holes_that_were_read() -> bool {
    use std::os::fd::AsRawFd;
    let pages = std::fs::File::open("/proc/self/pagemap").unwrap();
    // SAFETY: no memory is named: a kernel that knows the request finds none.
    let answer = unsafe { libc::ioctl(pages.as_raw_fd(), 0xc060_6610, 0) };
    answer == 0 || std::io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT)
}

/// Adopts gigabytes of which a few pages hold data, and gives them back: around where pieces of a switch end, and far apart.
pub(crate) fn check_holes_of_gigabytes(adopter: &Adopter) {
    const PIECE: usize = (64 << 20) / PAGE;
    const PAGES: usize = 24 * 1024 * 1024 / 4;
    let rule = std::fs::read_to_string("/proc/sys/vm/overcommit_memory").unwrap_or_default();
    if rule.trim() == "2" {
        // Then MAP_NORESERVE means nothing (proc_sys_vm(5)).
        println!("SKIPPED: holes of gigabytes: every byte of them would have to be there");
        return;
    }
    let memory = Anonymous::with_flags(PAGES, libc::MAP_NORESERVE);
    let held = [0, PIECE - 1, PIECE, 3 * PIECE, 7 * PIECE - 1, 20 * PIECE + 1, 200 * PIECE, PAGES - 1];
    let check = |add: u64, view: &dyn Fn(usize) -> u64| {
        held.iter().for_each(|&page| assert_eq!(view(page), page as u64 + add, "page {page}"));
        [1, PIECE + 1, 100 * PIECE, PAGES - 2]
            .iter()
            .for_each(|&page| assert_eq!(view(page), 0, "page {page}"));
    };
    let of_program = |page| memory.word(page, 1).load(Ordering::Relaxed);
    held.iter().for_each(|&page| memory.word(page, 1).store(page as u64 + 1, Ordering::Relaxed));
    for round in 1..3 {
        let adoption = adopter.adopt(memory.address(), PAGES * PAGE, Purpose::Remote);
        let pages = adoption.pages.as_ref().expect("nothing forbids it");
        assert_eq!((pages.start, pages.end), (memory.address(), memory.address() + PAGES * PAGE));
        let peer = shared_view(adopter, pages);
        check(round, &of_program);
        check(round, &|page| peer.word(page * PAGE + 8).load(Ordering::Relaxed));
        held.iter().for_each(|&page| {
            peer.word(page * PAGE + 8).fetch_add(1, Ordering::Relaxed);
        });
        adopter.give_back(adoption, false);
        check(round + 1, &of_program);
    }
}

/// Forks a child with one thread, which ends with what `child` returns, or with 101 if that panics.
pub(crate) fn fork_child(child: impl FnOnce() -> u8) -> libc::pid_t {
    // SAFETY: the C library's and the adopter's locks are free in the child; it leaves by `_exit`.
    unsafe {
        let pid = libc::fork();
        assert!(pid >= 0);
        if pid == 0 {
            // A test that fails in the parent must not leave its child waiting.
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            libc::_exit(catch_unwind(AssertUnwindSafe(child)).map_or(101, i32::from));
        }
        pid
    }
}

/// Waits for a child; returns its status as the kernel tells it.
pub(crate) fn end_of(pid: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: a child of this process.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    status
}

/// Runs `test` in a child with one thread; its failure is this test's.
pub(crate) fn alone(test: impl FnOnce()) {
    let child = fork_child(|| {
        test();
        0
    });
    assert_eq!(end_of(child), 0, "the child failed");
}
