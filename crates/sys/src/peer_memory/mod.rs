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

#[cfg(test)]
mod tests;
mod witness;

pub use witness::{Mark, Witness};

use std::io;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::process_memory::{Piece, read_process, write_process};

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

/// Bytes of a cache line.
const LINE: usize = 64;
/// Places at which the pieces of a write are cut.
const CUTS: usize = 2;
/// Up to so many bytes a read through a page of the kernel's is the quicker one.
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

    /// Copies `local` pieces, one after the other, [`PIECES_MAX`] at most, to `address` there; the last cache line comes when all
    /// before it is there, and its last word, or at least the last byte, when all of that is. Returns the bytes copied, fewer than
    /// asked if the memory ends early. `NotFound` if the memory is not there any more.
    pub fn write(&self, local: &[Piece], address: usize) -> io::Result<usize> {
        let length = total(local)?;
        let descriptor = self.descriptor()?;
        let Some(file) = descriptor.file() else { return Err(gone()) };
        let mut room = [Piece { address: 0, length: 0 }; PIECES_MAX + CUTS];
        let ends = ends_of(local, address, length);
        let local = cut(local, ends, &mut room);
        // One line is quicker through a page of the kernel's.
        if ends[0] == 0 {
            return write_file(file, local, address);
        }
        match self.write_behind_witness(file, local, address, length) {
            Some(copied) if copied == length => Ok(length),
            // The descriptor leads also to pages that the program may only read, and knows where there are none.
            _ => match write_file(file, local, address)? {
                // It may have gone between two pieces.
                copied if copied < length && read_page(file, self.mark.address).is_none() => Err(gone()),
                copied => Ok(copied),
            },
        }
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

/// Where a write to `address` is cut, so that what programs look at last comes last.
///
/// The kernel copies a piece as it likes: with one string instruction, of which other CPUs may see the parts in any order; or with
/// the last bytes first, where that is quicker for the processor. But the next piece comes later, and an aligned word comes whole
/// or from its first byte on. So the last piece is an aligned word, where a write ends with one, or a byte.
fn ends_of(local: &[Piece], address: usize, length: usize) -> [usize; CUTS] {
    let end = address.saturating_add(length);
    let last_line = end.saturating_sub(1) / LINE * LINE;
    let most = local.iter().rev().map(|piece| piece.length).find(|length| *length > 0).unwrap_or(0);
    let last = [8, 4].into_iter().find(|word| end.is_multiple_of(*word) && *word <= most).unwrap_or(1);
    [last_line.saturating_sub(address), length.saturating_sub(last)]
}

/// The same bytes, with pieces that begin at these offsets, which ascend and lie inside.
fn cut<'a>(local: &[Piece], offsets: [usize; CUTS], room: &'a mut [Piece; PIECES_MAX + CUTS]) -> &'a [Piece] {
    let (mut count, mut at) = (0, 0);
    for piece in local {
        let mut start = 0;
        for end in offsets.map(|offset| offset.saturating_sub(at)).into_iter().chain([piece.length]) {
            let end = end.min(piece.length);
            if end > start {
                room[count] = Piece { address: piece.address + start, length: end - start };
                count += 1;
                start = end;
            }
        }
        at += piece.length;
    }
    &room[..count]
}

/// A piece and those that come behind it, and how many they are.
fn behind(first: Piece, rest: &[Piece]) -> ([Piece; PIECES_MAX + CUTS + 1], usize) {
    let mut pieces = [first; PIECES_MAX + CUTS + 1];
    let count = rest.len().min(PIECES_MAX + CUTS);
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
