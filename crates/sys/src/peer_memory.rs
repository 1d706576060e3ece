//! The memory of another process, known by itself and not by the number of the process: a program that calls `exec` keeps
//! its number and gets another memory, and the number of one that has ended is used again.
//!
//! Every process shows a [`Witness`]: a page with a random value. Three ways lead to the other bytes of the memory it lies in, and
//! to no other memory's:
//!
//! - A descriptor of `/proc/PID/mem` belongs to the memory that the process had when it was opened. What it reads and writes
//!   passes through a page of the kernel's, so it is the quicker way for little and the slower one for much.
//! - `process_vm_readv(2)` looks up the memory once a call. So a call reads the witness first and then the bytes, which count only
//!   if the value was right.
//! - `process_vm_writev(2)` cannot be taken back. So it is given the number of a thread of that process which is not its first:
//!   before `exec` replaces the memory, it ends all threads but the calling one, which goes on under the number of the first.
//!   Whoever gets the number later has no page where the call has to write the witness first, and a call that cannot ends there.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::process_memory::{Piece, read_process, write_process};
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
struct Page {
    value: AtomicU64,
    /// The number of a thread of the process, not its first, or 0.
    thread: AtomicU64,
}

// SAFETY: the page is atomics, and stays mapped as long as the witness.
unsafe impl Send for Witness {}
// SAFETY: as above.
unsafe impl Sync for Witness {}

/// Where pages are that nobody happens to have: far from where the kernel puts anything by itself, chosen by chance.
const FAR: u64 = 1 << 44;
/// Bytes of address space to choose from.
const FAR_LENGTH: u64 = 3 << 44;
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

    fn page(&self) -> &Page {
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

/// The memory of a process, as far as the kernel lets this one at it.
#[derive(Debug)]
pub struct PeerMemory {
    pid: i32,
    mark: Mark,
    descriptor: RwLock<Descriptor>,
    /// The thread there that is written to; 0 if none is known.
    thread: AtomicI32,
}

#[derive(Debug)]
enum Descriptor {
    /// Nobody has needed it yet, or there was none to be had.
    None,
    Open(OwnedFd),
    /// With this error; asking again would bring the same.
    Refused(Errno),
}

/// Up to so many bytes the way through a page of the kernel's is the quicker one.
const BOUNCE_MOST: usize = 16 << 10;
/// Pieces of local memory in one copy.
pub const PIECES_MAX: usize = 32;

impl PeerMemory {
    /// The memory of process `pid`, if the kernel lets this process read it and it holds the witness. `NotFound` if it does not:
    /// then that is another process, or another program by now.
    pub fn reach(pid: i32, mark: Mark) -> io::Result<Self> {
        let descriptor = RwLock::new(Descriptor::None);
        let memory = Self { pid, mark, descriptor, thread: AtomicI32::new(0) };
        // SAFETY: nothing is read but the witness.
        unsafe { memory.read_behind_witness(&[], 0, 0) }?;
        Ok(memory)
    }

    /// The process.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// What the memory is known by.
    pub fn mark(&self) -> Mark {
        self.mark
    }

    /// Copies from `address` there into `local` pieces, one after the other, [`PIECES_MAX`] at most; returns the bytes copied,
    /// fewer than asked if the memory ends early. An error says that the pieces may hold anything, and `NotFound` that the memory
    /// is not there any more.
    ///
    /// # Safety
    /// The kernel writes to the `local` pieces: they must be memory the caller may overwrite. Unmapped pieces are an
    /// error, not a fault.
    pub unsafe fn read(&self, local: &[Piece], address: usize) -> io::Result<usize> {
        let length = total(local)?;
        if length <= BOUNCE_MOST
            && let Ok(descriptor) = self.descriptor()
            && let Some(file) = descriptor.file()
        {
            // SAFETY: the caller vouches for the pieces.
            return unsafe { read_file(file, local, address) };
        }
        // SAFETY: as above.
        unsafe { self.read_behind_witness(local, address, length) }
    }

    /// Copies `local` pieces, one after the other, [`PIECES_MAX`] at most, to `address` there, in ascending order, and the last byte
    /// when all others are there; returns the bytes copied, fewer than asked if the memory ends early. `NotFound` if the memory is
    /// not there any more.
    pub fn write(&self, local: &[Piece], address: usize) -> io::Result<usize> {
        let length = total(local)?;
        let descriptor = self.descriptor()?;
        let Some(file) = descriptor.file() else { return Err(gone()) };
        // The kernel copies a piece with one string instruction, whose stores other CPUs may see in any order; those of the next
        // come later.
        let mut room = [Piece { address: 0, length: 0 }; PIECES_MAX + 1];
        let local = last_byte_apart(local, &mut room);
        if length > BOUNCE_MOST
            && let Some(copied) = self.write_behind_witness(file, local, address, length)
        {
            return Ok(copied);
        }
        write_file(file, local, address)
    }

    /// Whether it can be written to, as far as can be known before trying.
    pub fn is_writable(&self) -> bool {
        self.descriptor().is_ok_and(|descriptor| descriptor.file().is_some())
    }

    /// Gives the descriptor back. Nothing is written any more.
    pub fn close(&self) {
        let mut descriptor = self.descriptor.write().unwrap_or_else(PoisonError::into_inner);
        *descriptor = Descriptor::Refused(Errno::SRCH);
    }

    /// The descriptor, opened now if it is not yet.
    fn descriptor(&self) -> io::Result<RwLockReadGuard<'_, Descriptor>> {
        let descriptor = self.descriptor.read().unwrap_or_else(PoisonError::into_inner);
        match *descriptor {
            Descriptor::Open(_) => Ok(descriptor),
            Descriptor::Refused(error) => Err(error.into()),
            Descriptor::None => {
                drop(descriptor);
                self.open()?;
                Ok(self.descriptor.read().unwrap_or_else(PoisonError::into_inner))
            }
        }
    }

    #[cold]
    fn open(&self) -> io::Result<()> {
        let mut descriptor = self.descriptor.write().unwrap_or_else(PoisonError::into_inner);
        if !matches!(*descriptor, Descriptor::None) {
            return Ok(());
        }
        match self.open_file() {
            Ok(file) => *descriptor = Descriptor::Open(file),
            // There may be one later.
            Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM)) => return Err(error.into()),
            Err(error) => {
                *descriptor = Descriptor::Refused(error);
                return Err(error.into());
            }
        }
        Ok(())
    }

    fn open_file(&self) -> Result<OwnedFd, Errno> {
        let path = format!("/proc/{}/mem", self.pid);
        let file = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        // It may have become another program's since it was met, or `/proc` counts processes otherwise.
        match read_page(&file, self.mark.address) {
            Some([value, _]) if value == self.mark.value => Ok(file),
            _ => Err(Errno::SRCH),
        }
    }

    /// # Safety
    /// As [`PeerMemory::read`].
    unsafe fn read_behind_witness(
        &self,
        local: &[Piece],
        address: usize,
        length: usize,
    ) -> io::Result<usize> {
        let mut seen = 0u64;
        let (pieces, count) = behind(Piece { address: &raw mut seen as usize, length: 8 }, local);
        let remote = [Piece { address: self.mark.address as usize, length: 8 }, Piece { address, length }];
        // SAFETY: the first piece is a variable of this function's, and the caller vouches for the others.
        let copied = unsafe { read_process(self.pid, &pieces[..count], &remote) };
        match copied {
            Ok(copied) if copied >= 8 && seen == self.mark.value => Ok(copied - 8),
            // Not one byte of the witness, or other bytes: it is another memory.
            Ok(_) => Err(gone()),
            Err(error) => Err(match error.raw_os_error() {
                Some(libc::EFAULT | libc::ESRCH) => gone(),
                _ => error,
            }),
        }
    }

    /// Copies by way of the thread. `None`: nothing was copied, and another way has to say why.
    fn write_behind_witness(
        &self,
        file: &OwnedFd,
        local: &[Piece],
        address: usize,
        length: usize,
    ) -> Option<usize> {
        let mut thread = self.thread.load(Ordering::Relaxed);
        if thread == 0 {
            let [value, named] = read_page(file, self.mark.address)?;
            thread = i32::try_from(named).ok().filter(|thread| *thread > 0)?;
            if thread == self.pid || value != self.mark.value || !self.holds_witness(thread) {
                return None;
            }
            self.thread.store(thread, Ordering::Relaxed);
        }
        let value = self.mark.value;
        let (pieces, count) = behind(Piece { address: &raw const value as usize, length: 8 }, local);
        let remote = [Piece { address: self.mark.address as usize, length: 8 }, Piece { address, length }];
        match write_process(thread, &pieces[..count], &remote) {
            Ok(copied) if copied >= 8 => Some(copied - 8),
            _ => {
                self.thread.store(0, Ordering::Relaxed);
                None
            }
        }
    }

    /// Whether a thread is of this memory: where the process counts threads otherwise, its number may be anybody's here.
    fn holds_witness(&self, thread: i32) -> bool {
        let mut seen = 0u64;
        let local = [Piece { address: &raw mut seen as usize, length: 8 }];
        let remote = [Piece { address: self.mark.address as usize, length: 8 }];
        // SAFETY: the piece is a variable of this function's.
        let copied = unsafe { read_process(thread, &local, &remote) };
        matches!(copied, Ok(8)) && seen == self.mark.value
    }
}

impl Descriptor {
    fn file(&self) -> Option<&OwnedFd> {
        match self {
            Self::Open(file) => Some(file),
            Self::None | Self::Refused(_) => None,
        }
    }
}

fn gone() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "the memory of a process is not there any more")
}

/// Bytes of all pieces.
fn total(local: &[Piece]) -> io::Result<usize> {
    if local.len() > PIECES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many pieces in one copy"));
    }
    Ok(local.iter().map(|piece| piece.length).sum())
}

/// The same bytes with a piece of its own for the last, unless it has one.
fn last_byte_apart<'a>(local: &'a [Piece], room: &'a mut [Piece; PIECES_MAX + 1]) -> &'a [Piece] {
    let used = local.iter().rposition(|piece| piece.length > 0).map_or(0, |last| last + 1);
    match &local[..used] {
        [rest @ .., last] if last.length > 1 => {
            room[..rest.len()].copy_from_slice(rest);
            room[rest.len()] = Piece { length: last.length - 1, ..*last };
            room[rest.len() + 1] = Piece { address: last.address + last.length - 1, length: 1 };
            &room[..rest.len() + 2]
        }
        used => used,
    }
}

/// A piece and those that come behind it, and how many they are.
fn behind(first: Piece, rest: &[Piece]) -> ([Piece; PIECES_MAX + 2], usize) {
    let mut pieces = [first; PIECES_MAX + 2];
    let count = rest.len().min(PIECES_MAX + 1);
    pieces[1..=count].copy_from_slice(&rest[..count]);
    (pieces, count + 1)
}

/// The words of a witness; `None` if there is none.
fn read_page(file: &OwnedFd, address: u64) -> Option<[u64; 2]> {
    let mut words = [0u64; 2];
    let local = [Piece { address: words.as_mut_ptr() as usize, length: 16 }];
    // SAFETY: the piece is a variable of this function's.
    let copied = unsafe { read_file(file, &local, usize::try_from(address).ok()?) };
    matches!(copied, Ok(16)).then_some(words)
}

/// # Safety
/// As [`PeerMemory::read`].
unsafe fn read_file(file: &OwnedFd, local: &[Piece], address: usize) -> io::Result<usize> {
    let raw = file.as_raw_fd();
    let copied = match local {
        // SAFETY: the caller vouches for the piece; a part that is not mapped is an error of the call's.
        [one] => unsafe { libc::pread(raw, one.address as *mut _, one.length, address as libc::off_t) },
        // SAFETY: as above; a piece has the layout of `iovec` (asserted where it is defined).
        _ => unsafe {
            libc::preadv(raw, local.as_ptr().cast(), local.len() as libc::c_int, address as libc::off_t)
        },
    };
    judge(copied, local)
}

fn write_file(file: &OwnedFd, local: &[Piece], address: usize) -> io::Result<usize> {
    let raw = file.as_raw_fd();
    let copied = match local {
        // SAFETY: the kernel only reads local memory, and refuses what is unmapped.
        [one] => unsafe { libc::pwrite(raw, one.address as *const _, one.length, address as libc::off_t) },
        // SAFETY: as above; a piece has the layout of `iovec` (asserted where it is defined).
        _ => unsafe {
            libc::pwritev(raw, local.as_ptr().cast(), local.len() as libc::c_int, address as libc::off_t)
        },
    };
    judge(copied, local)
}

/// The kernel answers 0 when nobody has the memory any more, and `EIO` when nothing is at the address.
fn judge(copied: isize, local: &[Piece]) -> io::Result<usize> {
    match copied {
        0 if local.iter().any(|piece| piece.length > 0) => Err(gone()),
        0.. => Ok(copied as usize),
        _ => {
            let error = io::Error::last_os_error();
            if error.raw_os_error() == Some(libc::EIO) { Ok(0) } else { Err(error) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A child of this process that sleeps, with a copy of its memory; gone when dropped.
    struct Child(i32);

    impl Child {
        /// One that becomes another program once `word` is told to it.
        fn that_waits(word: &AtomicU64) -> Self {
            let sleep = [c"/bin/sleep", c"/usr/bin/sleep", c"/bin/busybox"];
            let words = [c"sleep".as_ptr(), c"1000".as_ptr(), std::ptr::null()];
            // SAFETY: the child makes system calls only, on memory that it has a copy of.
            let pid = unsafe { libc::fork() };
            if pid == 0 {
                while word.load(Ordering::Acquire) == 0 {
                    // SAFETY: as above.
                    unsafe { libc::usleep(100) };
                }
                // SAFETY: as above; `_exit` runs no handler of this process's.
                unsafe {
                    for program in sleep {
                        libc::execv(program.as_ptr(), words.as_ptr());
                    }
                    libc::_exit(1);
                }
            }
            assert!(pid > 0, "{}", io::Error::last_os_error());
            Self(pid)
        }

        fn end(self) {}

        fn bytes(&self, address: usize, length: usize) -> Vec<u8> {
            let mut bytes = vec![0; length];
            let local = [Piece { address: bytes.as_mut_ptr() as usize, length }];
            // SAFETY: the piece is this function's own buffer.
            let copied = unsafe { read_process(self.0, &local, &[Piece { address, length }]) };
            assert_eq!(copied.unwrap(), length);
            bytes
        }
    }

    impl Drop for Child {
        fn drop(&mut self) {
            // SAFETY: the child is this test's, and not waited for elsewhere.
            unsafe {
                libc::kill(self.0, libc::SIGKILL);
                libc::waitpid(self.0, std::ptr::null_mut(), 0);
            }
        }
    }

    fn pieces(bytes: &mut [u8], parts: usize) -> Vec<Piece> {
        let each = bytes.len().div_ceil(parts).max(1);
        bytes
            .chunks_mut(each)
            .map(|part| Piece { address: part.as_mut_ptr() as usize, length: part.len() })
            .collect()
    }

    fn write(memory: &PeerMemory, length: usize, to: usize) -> io::Result<usize> {
        memory.write(&pieces(&mut vec![9; length], 3), to)
    }

    fn read(memory: &PeerMemory, length: usize, from: usize) -> io::Result<usize> {
        let mut bytes = vec![0; length];
        // SAFETY: the pieces are this function's own buffer.
        unsafe { memory.read(&pieces(&mut bytes, 3), from) }
    }

    /// Lengths on both sides of every border between two ways.
    const LENGTHS: [usize; 4] = [1, BOUNCE_MOST, BOUNCE_MOST + 1, 1 << 20];

    fn is_gone(outcome: io::Result<usize>) -> bool {
        outcome.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    #[test]
    fn every_way_copies_the_bytes_asked_for_and_none_beside_them() {
        let witness = Witness::create().unwrap();
        let memory = PeerMemory::reach(std::process::id() as i32, witness.mark()).unwrap();
        for shown in [false, true] {
            if shown {
                witness.show_this_thread();
            }
            for (length, parts) in LENGTHS.into_iter().flat_map(|length| [(length, 1), (length, 32)]) {
                let mut source: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
                let mut there = vec![0u8; length + 2];
                let address = there.as_mut_ptr() as usize + 1;
                assert_eq!(memory.write(&pieces(&mut source, parts), address).unwrap(), length);
                assert!(there[1..=length] == source && there[0] == 0 && there[length + 1] == 0);
                let mut back = vec![0; length];
                // SAFETY: the pieces are this function's own buffer.
                let copied = unsafe { memory.read(&pieces(&mut back, parts), address) };
                assert!(copied.unwrap() == length && back == source);
            }
            // Tests do not run in the first thread.
            assert_eq!(memory.thread.load(Ordering::Relaxed) != 0, shown);
        }
        assert_eq!(witness.page().value.load(Ordering::Relaxed), witness.mark().value);
    }

    #[test]
    fn the_last_byte_of_a_write_has_a_piece_of_its_own() {
        let apart = |lengths: &[usize]| {
            let mut address = 1000;
            let pieces: Vec<Piece> = lengths
                .iter()
                .map(|length| {
                    address += 100;
                    Piece { address, length: *length }
                })
                .collect();
            let mut room = [Piece { address: 0, length: 0 }; PIECES_MAX + 1];
            let apart = last_byte_apart(&pieces, &mut room);
            apart.iter().map(|piece| (piece.address, piece.length)).collect::<Vec<_>>()
        };
        assert_eq!(apart(&[]), []);
        assert_eq!(apart(&[0, 0]), []);
        assert_eq!(apart(&[1]), [(1100, 1)]);
        assert_eq!(apart(&[9]), [(1100, 8), (1108, 1)]);
        assert_eq!(apart(&[9, 0]), [(1100, 8), (1108, 1)]);
        assert_eq!(apart(&[9, 1, 0]), [(1100, 9), (1200, 1)]);
        let most = apart(&[2; PIECES_MAX]);
        assert_eq!((most.len(), most[PIECES_MAX]), (PIECES_MAX + 1, (1000 + 100 * PIECES_MAX + 1, 1)));
    }

    #[test]
    fn a_copy_that_ends_at_memory_that_is_not_there_says_how_far_it_came() {
        let witness = Witness::create().unwrap();
        witness.show_this_thread();
        let memory = PeerMemory::reach(std::process::id() as i32, witness.mark()).unwrap();
        // SAFETY: a new mapping, of which this test gives the end back. It is far out, where no other thread's happens to be: the
        // kernel would fill a hole among the others.
        let start = unsafe {
            let rights = ProtFlags::READ | ProtFlags::WRITE;
            let flags = MapFlags::PRIVATE | MapFlags::FIXED_NOREPLACE;
            let start = (FAR + FAR_LENGTH + random_u64() % FAR_LENGTH / PAGE as u64 * PAGE as u64) as *mut _;
            let start = rustix::mm::mmap_anonymous(start, 64 * PAGE, rights, flags).unwrap();
            rustix::mm::munmap(start.byte_add(63 * PAGE), PAGE).unwrap();
            start as usize
        };
        for at in [start + 62 * PAGE, start] {
            let there = start + 63 * PAGE - at;
            assert_eq!(write(&memory, there + 5, at).unwrap(), there);
            assert_eq!(read(&memory, there + 5, at).unwrap(), there);
        }
        for length in LENGTHS {
            assert_eq!(write(&memory, length, start + 63 * PAGE).unwrap(), 0);
            assert_eq!(read(&memory, length, start + 63 * PAGE).unwrap(), 0);
        }
    }

    #[test]
    fn memory_that_a_program_left_by_exec_is_gone_and_the_next_program_is_left_alone() {
        let shared = crate::SharedMapping::anonymous(PAGE).unwrap();
        let page = Box::new([random_u64(), 0]);
        let mark = Mark { address: page.as_ptr() as u64, value: page[0] };
        let child = Child::that_waits(shared.word(0));
        let there = vec![0u8; 1 << 20];
        let [opened, unopened] = [(); 2].map(|()| PeerMemory::reach(child.0, mark).unwrap());
        assert!(opened.is_writable());
        assert_eq!(write(&opened, 100, there.as_ptr() as usize).unwrap(), 100);
        shared.word(0).store(1, Ordering::Release);
        let name = format!("/proc/{}/comm", child.0);
        while !["sleep\n", "busybox\n"].contains(&std::fs::read_to_string(&name).unwrap().as_str()) {
            assert!(!crate::process_is_ending(child.0), "there is no sleep to become");
            std::thread::yield_now();
        }
        for memory in [opened, unopened] {
            for length in LENGTHS {
                assert!(is_gone(read(&memory, length, there.as_ptr() as usize)));
                assert!(write(&memory, length, there.as_ptr() as usize).is_err());
            }
        }
        assert!(PeerMemory::reach(child.0, mark).is_err());
    }

    #[test]
    fn the_memory_of_a_process_that_ended_is_gone() {
        let (page, shared) = (Box::new([random_u64(), 0]), crate::SharedMapping::anonymous(PAGE).unwrap());
        let mark = Mark { address: page.as_ptr() as u64, value: page[0] };
        let child = Child::that_waits(shared.word(0));
        let memory = PeerMemory::reach(child.0, mark).unwrap();
        assert!(memory.is_writable());
        child.end();
        let there = vec![0u8; 1 << 20];
        for length in LENGTHS {
            assert!(is_gone(read(&memory, length, there.as_ptr() as usize)));
            assert!(is_gone(write(&memory, length, there.as_ptr() as usize)));
        }
    }

    #[test]
    fn whoever_has_the_number_later_is_left_alone() {
        let shared = crate::SharedMapping::anonymous(PAGE).unwrap();
        let witness = Witness::create().unwrap();
        let there = vec![5u8; 1 << 20];
        let mut memory = PeerMemory::reach(std::process::id() as i32, witness.mark()).unwrap();
        assert!(memory.is_writable());
        // A copy of this process, which lacks nothing but the witness, has all its numbers.
        let child = Child::that_waits(shared.word(0));
        memory.pid = child.0;
        memory.thread.store(child.0, Ordering::Relaxed);
        let mut bytes = vec![9; 1 << 20];
        let local = pieces(&mut bytes, 1);
        let address = there.as_ptr() as usize;
        // SAFETY: the pieces are this test's own buffer.
        assert!(is_gone(unsafe { memory.read_behind_witness(&local, address, 1 << 20) }));
        let descriptor = memory.descriptor().unwrap();
        let file = descriptor.file().unwrap();
        assert!(memory.write_behind_witness(file, &local, address, 1 << 20).is_none());
        assert_eq!(memory.thread.load(Ordering::Relaxed), 0);
        assert!(child.bytes(address, 1 << 20) == there);
        assert!(!memory.holds_witness(child.0));
    }

    #[test]
    fn closed_memory_is_written_no_more() {
        let witness = Witness::create().unwrap();
        let memory = PeerMemory::reach(std::process::id() as i32, witness.mark()).unwrap();
        assert!(memory.is_writable());
        memory.close();
        let mut there = [0u8; 8];
        assert!(!memory.is_writable() && write(&memory, 8, there.as_mut_ptr() as usize).is_err());
        assert_eq!(there, [0; 8]);
    }
}
