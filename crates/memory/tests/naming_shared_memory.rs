//! Shared anonymous memory that is given a file: where that is done, nothing else changes, and where another might notice it is
//! not done.
//!
//! Each test runs in a process with one thread.

#![cfg(not(loom))]

mod common;

use std::sync::atomic::{AtomicU64, Ordering};

use common::{PAGE, alone, end_of, mapped_as};
use nonic_memory::{Adopter, AdoptionPolicy, Purpose, watch_offspring};
use nonic_sys::{AsFd, OwnedFd, Protection, SharedMemory, file_identity};

/// A child that waits for its end.
struct Child(libc::pid_t);

impl Child {
    /// Forked by the C library, or by the bare system call.
    fn new(bare: bool) -> Self {
        // SAFETY: the child only waits to be killed.
        unsafe {
            let pid = if bare {
                libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) as libc::pid_t
            } else {
                libc::fork()
            };
            assert!(pid >= 0);
            if pid == 0 {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                loop {
                    libc::pause();
                }
            }
            Self(pid)
        }
    }

    fn end(self) {
        // SAFETY: a child of this process.
        unsafe { libc::kill(self.0, libc::SIGKILL) };
        end_of(self.0);
    }
}

/// Shared anonymous pages.
struct Shared {
    start: usize,
    pages: usize,
}

impl Shared {
    fn new(pages: usize) -> Self {
        let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping where the kernel chooses.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), pages * PAGE, rights, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        Self { start: start as usize, pages }
    }

    fn at(&self, page: usize) -> *mut libc::c_void {
        (self.start + page * PAGE) as *mut libc::c_void
    }

    fn word(&self, page: usize) -> &AtomicU64 {
        assert!(page < self.pages);
        // SAFETY: inside the mapping, aligned, and used as an atomic only.
        unsafe { AtomicU64::from_ptr(self.at(page).cast()) }
    }

    fn store(&self, page: usize, value: u64) {
        self.word(page).store(value, Ordering::SeqCst);
    }

    fn load(&self, page: usize) -> u64 {
        self.word(page).load(Ordering::SeqCst)
    }

    /// The same pages at another address.
    fn again(&self) -> Self {
        // SAFETY: an old length of zero leaves the old mapping as it is.
        let start = unsafe { libc::mremap(self.at(0), 0, self.pages * PAGE, libc::MREMAP_MAYMOVE) };
        assert_ne!(start, libc::MAP_FAILED);
        Self { start: start as usize, pages: self.pages }
    }

    fn is_named(&self) -> bool {
        mapped_as(self.start).contains("memfd:nonic-shared")
    }
}

fn adopter() -> Adopter {
    watch_offspring();
    Adopter::new(AdoptionPolicy::Auto)
}

fn refused(adopter: &Adopter, memory: &Shared, why: &str) {
    let before = mapped_as(memory.start);
    assert!(adopter.name_shared(memory.start).is_none(), "{why}");
    assert_eq!(mapped_as(memory.start), before, "{why}");
}

fn blocks(file: &OwnedFd) -> u64 {
    use std::os::unix::fs::MetadataExt;
    std::fs::File::from(file.try_clone().unwrap()).metadata().unwrap().blocks() * 512 / PAGE as u64
}

#[test]
fn all_mappings_of_the_memory_are_of_the_file_with_their_bytes_holes_rights_and_advice() {
    alone(|| {
        let adopter = adopter();
        let memory = Shared::new(1000);
        let pages = [0, 1, 255, 256, 600, 999];
        pages.iter().for_each(|page| memory.store(*page, *page as u64 + 1));
        let again = memory.again();
        // SAFETY: own memory; nothing is stored to what may not be.
        unsafe {
            assert_eq!(libc::mprotect(memory.at(300), 10 * PAGE, libc::PROT_READ), 0);
            assert_eq!(libc::mprotect(memory.at(700), 10 * PAGE, libc::PROT_NONE), 0);
            assert_eq!(libc::madvise(again.at(0), 1000 * PAGE, libc::MADV_DONTFORK), 0);
        }
        let file = adopter.name_shared(memory.start + 3 * PAGE).expect("nothing forbids it");
        assert!(memory.is_named() && again.is_named());
        for page in 0..1000 {
            let expected = if pages.contains(&page) { page as u64 + 1 } else { 0 };
            if !(700..710).contains(&page) {
                assert_eq!(memory.load(page), expected);
            }
            assert_eq!(again.load(page), expected);
        }
        assert_eq!(
            SharedMemory::from_unsealed_whole(file.try_clone().unwrap()).unwrap().length(),
            1000 * PAGE
        );
        let rights = |page: usize| mapped_as(memory.start + page * PAGE);
        assert!(rights(299).contains("rw-s") && rights(300).contains("r--s") && rights(700).contains("---s"));
        memory.store(5, 77);
        assert_eq!(again.load(5), 77);
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let head = format!("{:x}-", again.start);
        let flags = smaps.lines().skip_while(|line| !line.starts_with(&head));
        assert!(flags.skip(1).find(|line| line.starts_with("VmFlags:")).unwrap().contains(" dc"));
        // What is moved already is an ordinary file.
        refused(&adopter, &memory, "it has a file");
    });
}

#[test]
fn what_was_never_stored_to_stays_a_hole() {
    alone(|| {
        let adopter = adopter();
        let memory = Shared::new(2000);
        (0..2000).step_by(100).for_each(|page| memory.store(page, 1));
        let file = adopter.name_shared(memory.start).expect("nothing forbids it");
        assert_eq!(blocks(&file), 20);
    });
}

#[test]
fn a_child_of_later_shares_it_and_the_file_is_the_same_memory() {
    alone(|| {
        let adopter = adopter();
        let memory = Shared::new(4);
        memory.store(1, 5);
        let file = adopter.name_shared(memory.start).expect("nothing forbids it");
        let peer = SharedMemory::from_unsealed_whole(file).unwrap().map(Protection::ReadWrite).unwrap();
        // SAFETY: the child uses atomics and leaves by `_exit`.
        unsafe {
            let pid = libc::fork();
            if pid == 0 {
                let good = memory.load(1) == 5;
                memory.store(2, 6);
                while memory.load(3) != 7 {
                    std::thread::yield_now();
                }
                libc::_exit(i32::from(!good));
            }
            while memory.load(2) != 6 {
                std::thread::yield_now();
            }
            peer.word(3 * PAGE).store(7, Ordering::SeqCst);
            assert_eq!(end_of(pid), 0);
        }
    });
}

#[test]
fn it_stays_as_it_is_while_a_process_has_it_that_was_forked_in_whatever_way() {
    for bare in [false, true] {
        alone(move || {
            let adopter = adopter();
            let early = Child::new(bare);
            let memory = Shared::new(4);
            memory.store(1, 5);
            if bare {
                // Nobody is told of such a child: it could have the memory.
                refused(&adopter, &memory, "an early child, not told of");
                early.end();
            } else {
                let other = Shared::new(1);
                assert!(adopter.name_shared(other.start).is_some(), "an early child does not have it");
                early.end();
            }
            let child = Child::new(bare);
            refused(&adopter, &memory, "a child has it");
            refused(&adopter, &memory, "a child has it still");
            let second = Child::new(bare);
            child.end();
            refused(&adopter, &memory, "another child has it");
            second.end();
            assert!(adopter.name_shared(memory.start).is_some(), "nobody has it any more");
            assert_eq!(memory.load(1), 5);
        });
    }
}

#[test]
fn a_grandchild_counts_also_when_its_parent_has_ended() {
    alone(|| {
        let adopter = adopter();
        let memory = Shared::new(2);
        let (waited_for, writing) = nonic_sys::pipe().unwrap();
        // SAFETY: the children only wait, and leave by `_exit`.
        unsafe {
            libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
            let pid = libc::fork();
            if pid == 0 {
                if libc::fork() == 0 {
                    // Until the test, or its failure, closes the other end.
                    drop(writing);
                    let _ = nonic_sys::read_byte(&waited_for);
                }
                libc::_exit(0);
            }
            assert_eq!(end_of(pid), 0);
            refused(&adopter, &memory, "a grandchild has it");
            drop(writing);
            assert!(libc::waitpid(-1, std::ptr::null_mut(), 0) > 0);
        }
        assert!(adopter.name_shared(memory.start).is_some());
    });
}

#[test]
fn a_child_does_not_move_what_its_parent_has_and_moves_what_is_its_own() {
    alone(|| {
        let adopter = adopter();
        let inherited = Shared::new(2);
        // SAFETY: the child has one thread and leaves by `_exit`.
        unsafe {
            let pid = libc::fork();
            if pid == 0 {
                watch_offspring();
                let own = Shared::new(2);
                let good = adopter.name_shared(inherited.start).is_none()
                    && adopter.name_shared(own.start).is_some()
                    && adopter.name_shared(inherited.start).is_none();
                libc::_exit(i32::from(!good));
            }
            assert_eq!(end_of(pid), 0);
        }
        assert!(adopter.name_shared(inherited.start).is_some());
    });
}

#[test]
fn what_was_mapped_before_anybody_watched_stays_as_it_is() {
    alone(|| {
        let before = Shared::new(2);
        let adopter = adopter();
        refused(&adopter, &before, "it was there before");
        assert!(adopter.name_shared(Shared::new(2).start).is_some());
        refused(&adopter, &before, "it was there before");
    });
}

#[test]
fn memory_that_is_not_all_mapped_or_locked_or_in_use_or_not_to_be_moved_stays() {
    alone(|| {
        let adopter = adopter();
        for (from, to) in [(0, 1), (3, 4), (1, 2)] {
            let memory = Shared::new(4);
            // SAFETY: own memory, and no longer used.
            assert_eq!(unsafe { libc::munmap(memory.at(from), (to - from) * PAGE) }, 0);
            let rest = Shared { start: memory.at(if from == 0 { 1 } else { 0 }) as usize, pages: 1 };
            refused(&adopter, &rest, "some of it is not mapped");
        }
        let memory = Shared::new(4);
        // Not by the C library: under AddressSanitizer that locks nothing.
        // SAFETY: locking changes no contents.
        let locked = unsafe { libc::syscall(libc::SYS_mlock, memory.at(2), PAGE) };
        assert_eq!(locked, 0);
        refused(&adopter, &memory, "some of it is locked");
        // SAFETY: as above.
        assert_eq!(unsafe { libc::syscall(libc::SYS_munlock, memory.at(2), PAGE) }, 0);
        let region = adopter.leave_plain(memory.start + PAGE, 100, Purpose::Remote);
        refused(&adopter, &memory, "peers reach some of it through the kernel");
        adopter.give_back(region, false);
        refused(&Adopter::new(AdoptionPolicy::Never), &memory, "never");
        assert!(adopter.name_shared(memory.start).is_some());
    });
}

#[test]
fn memory_of_a_program_with_several_threads_stays() {
    alone(|| {
        let adopter = adopter();
        let memory = Shared::new(2);
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || receiver.recv());
        refused(&adopter, &memory, "a thread could sleep on a word of it");
        drop(sender);
        let _ = thread.join();
        // The kernel may have it a moment longer.
        while adopter.name_shared(memory.start).is_none() {
            std::thread::yield_now();
        }
    });
}

#[test]
fn a_descriptor_of_the_program_is_never_taken_for_one_of_the_librarys() {
    alone(|| {
        let adopter = adopter();
        let memory = Shared::new(2);
        // The program closes everything, and opens files of its own.
        // SAFETY: nothing of this test is among them that is used afterwards.
        unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) };
        let files: Vec<_> = (0..64).map(|_| SharedMemory::create("own", PAGE).unwrap()).collect();
        let identities: Vec<_> = files.iter().map(|file| file_identity(file.as_fd()).unwrap()).collect();
        assert!(adopter.name_shared(memory.start).is_none());
        // SAFETY: the child looks at files and leaves by `_exit`.
        unsafe {
            let pid = libc::fork();
            if pid == 0 {
                let same = |(file, identity)| file_identity(SharedMemory::as_fd(file)).ok() == Some(identity);
                libc::_exit(i32::from(!files.iter().zip(identities.clone()).all(same)));
            }
            assert_eq!(end_of(pid), 0);
        }
        for (file, identity) in files.iter().zip(identities) {
            assert_eq!(file_identity(file.as_fd()).unwrap(), identity);
            assert!(file.map(Protection::ReadWrite).is_ok(), "it can be written");
        }
        std::mem::forget(adopter);
    });
}
