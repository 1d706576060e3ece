//! What the machine itself can do, without any library: shared lines, copies, the time-stamp counter. The only place of
//! the benchmark that needs unsafe code; each function here is safe to call with any argument.

use std::fs::File;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::LazyLock;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use rustix::mm::{MapFlags, ProtFlags};

use crate::verbs::Buffer;

/// Distance of two words that never share a line, nor the pair of lines that processors fetch together.
const WORD_DISTANCE: usize = 128;

/// Words for signals at the beginning of a shared area.
const WORDS: usize = 32;

/// Memory that both processes have mapped: words for signals first, behind them room to copy to.
pub(super) struct SharedArea {
    start: *mut u8,
    length: usize,
}

impl SharedArea {
    /// Bytes of a file behind one, with that much room.
    pub(super) const fn file_length(room: usize) -> usize {
        WORDS * WORD_DISTANCE + room
    }

    /// Maps the whole of that file.
    pub(super) fn map(file: &File) -> io::Result<Self> {
        let length = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        if length < Self::file_length(0) {
            return Err(io::Error::other(format!("shared memory of {length} bytes is too short")));
        }
        let (rights, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::POPULATE);
        // SAFETY: a new mapping, at a place of the kernel's choice, takes nobody's memory.
        let start = unsafe { rustix::mm::mmap(std::ptr::null_mut(), length, rights, flags, file, 0) }?;
        Ok(Self { start: start.cast(), length })
    }

    /// A word of its own line, aligned and shared.
    pub(super) fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < WORDS, "word {index} of {WORDS}");
        // SAFETY: inside the mapping, which is longer than all words and lives as long as this object; aligned, since a
        // mapping begins with a page; and nothing but atomics of this kind touches these bytes.
        unsafe { AtomicU64::from_ptr(self.start.add(index * WORD_DISTANCE).cast()) }
    }

    /// A word of the room, aligned and shared.
    pub(super) fn word_of_room(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8), "a word at {at}");
        // SAFETY: inside the mapping (`place` has asserted it) and aligned, since the room begins with a multiple of 128; this object stays
        // on one thread, so nothing of this process copies over the word while it is looked at.
        unsafe { AtomicU64::from_ptr(self.place(at, 8).cast()) }
    }

    /// Copies `length` bytes at `from` to the place `at` of `target`, as the C library does it.
    pub(super) fn copy_out(&self, from: usize, target: &Buffer, at: usize, length: usize) {
        let source = self.place(from, length);
        let fits = at.checked_add(length).is_some_and(|end| end <= target.len());
        assert!(fits, "{length} bytes to {at} of {}", target.len());
        // SAFETY: both ranges are inside (asserted above, and by `place`) and of different allocations; no reference of Rust leads to either.
        unsafe { libc::memcpy(target.as_ptr().add(at).cast(), source.cast(), length) };
    }

    /// Bytes to copy to.
    pub(super) fn room(&self) -> usize {
        self.length - Self::file_length(0)
    }

    /// Copies the first `length` bytes of `source` to `at` as the C library does it.
    pub(super) fn copy_plain(&self, at: usize, source: &Buffer, length: usize) {
        let to = self.destination(at, source, length);
        // SAFETY: both ranges are as long (`destination` has asserted it); they are different allocations; no reference
        // of Rust leads to either, and the other process keeps its hands off the room meanwhile.
        unsafe { libc::memcpy(to.cast(), source.as_ptr().cast(), length) };
    }

    /// Copies the first `length` bytes of `source`, a multiple of 128, past the caches to `at`; false where this
    /// processor has no such stores.
    pub(super) fn copy_past_caches(&self, at: usize, source: &Buffer, length: usize) -> bool {
        assert!(length.is_multiple_of(128), "{length} bytes");
        let to = self.destination(at, source, length);
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx") {
            // SAFETY: as in `copy_plain`; the processor has the instructions; the destination is aligned to 32 bytes, as
            // it is a multiple of 128 from the beginning of a page (asserted there); the length is one of 128.
            unsafe { stream(to, source.as_ptr(), length) };
            return true;
        }
        let _ = to;
        false
    }

    fn destination(&self, at: usize, source: &Buffer, length: usize) -> *mut u8 {
        assert!(at.is_multiple_of(128), "{length} bytes at {at}");
        assert!(length <= source.len(), "{length} bytes of {}", source.len());
        self.place(at, length)
    }

    /// Where so many bytes of the room begin.
    fn place(&self, at: usize, length: usize) -> *mut u8 {
        let inside = at.checked_add(length).is_some_and(|end| end <= self.room());
        assert!(inside, "{length} bytes at {at} of {}", self.room());
        // SAFETY: inside the mapping (asserted above).
        unsafe { self.start.add(Self::file_length(0) + at) }
    }
}

impl Drop for SharedArea {
    fn drop(&mut self) {
        // SAFETY: mapped by this object, unmapped once; words borrow it, so none is in use.
        let _ = unsafe { rustix::mm::munmap(self.start.cast(), self.length) };
    }
}

/// # Safety
/// The processor has AVX. `length` bytes, a multiple of 128, can be read at `from` and written at `to`, which is aligned
/// to 32 bytes; nobody else touches them meanwhile.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
unsafe fn stream(to: *mut u8, from: *const u8, length: usize) {
    use std::arch::x86_64::{__m256i, _mm_sfence, _mm256_loadu_si256, _mm256_stream_si256};
    for at in (0..length).step_by(128) {
        // SAFETY: the 128 bytes at `at` are inside both ranges, and 32 divides every offset used.
        unsafe {
            let (from, to) = (from.add(at).cast::<__m256i>(), to.add(at).cast::<__m256i>());
            let quarters = [0, 1, 2, 3].map(|quarter| _mm256_loadu_si256(from.add(quarter)));
            for (quarter, bytes) in quarters.into_iter().enumerate() {
                _mm256_stream_si256(to.add(quarter), bytes);
            }
        }
    }
    _mm_sfence();
}

/// Writes the first `length` bytes of `source` into another process, by one system call.
pub(super) fn write_process(pid: u32, address: u64, source: &Buffer, length: usize) -> io::Result<()> {
    assert!(length <= source.len(), "{length} bytes of {}", source.len());
    assert_ne!(pid, std::process::id(), "this process's own memory is not written behind its back");
    let local = libc::iovec { iov_base: source.as_ptr().cast(), iov_len: length };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: length };
    // SAFETY: the kernel reads `length` bytes of `source` (asserted above) and checks the remote side, which belongs to
    // another process (asserted above).
    match unsafe { libc::process_vm_writev(pid as libc::pid_t, &local, 1, &remote, 1, 0) } {
        ..0 => Err(io::Error::last_os_error()),
        copied if copied as usize == length => Ok(()),
        copied => Err(io::Error::other(format!("only {copied} of {length} bytes were copied"))),
    }
}

/// A descriptor that the parent left open under this number for this process alone; to be asked for once.
pub(super) fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: fcntl of any number harms nothing.
    if number <= libc::STDERR_FILENO || unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
        return Err(io::Error::other(format!("descriptor {number} was not inherited")));
    }
    // SAFETY: open (asked above), and nobody else's in this process: the command line that names it was made by the parent,
    // which left it open for that purpose, and it is read once, before any other descriptor is made.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// The time-stamp counter: costs a few nanoseconds to read, where asking the system costs several times that.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(super) fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and Linux does not forbid it.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Nanoseconds of the system's clock, on processors whose counter this program does not know.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub(super) fn ticks() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed().as_nanos() as u64
}

/// Nanoseconds that one tick takes, found out once by the system's clock.
pub(super) fn nanoseconds_a_tick() -> f64 {
    static RATE: LazyLock<f64> = LazyLock::new(|| {
        let (clock, counter) = moment();
        while clock.elapsed() < Duration::from_millis(10) {
            std::hint::spin_loop();
        }
        let (later, counted) = moment();
        (later - clock).as_nanos() as f64 / (counted - counter) as f64
    });
    *RATE
}

/// The clock and the counter at one moment: the closest of some looks, for a thread may lose its processor between the two.
fn moment() -> (Instant, u64) {
    let look = || {
        let (before, clock, after) = (ticks(), Instant::now(), ticks());
        (after - before, clock, before + (after - before) / 2)
    };
    let (_, clock, counter) =
        (1..8).map(|_| look()).fold(look(), |best, next| if next.0 < best.0 { next } else { best });
    (clock, counter)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(room: usize) -> SharedArea {
        let file = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, SharedArea::file_length(room) as u64).unwrap();
        SharedArea::map(&File::from(file)).unwrap()
    }

    #[test]
    fn both_copies_copy_and_stay_within_their_range() {
        let (area, source) = (area(4096), Buffer::new(4096));
        source.fill(0..4096, 5);
        let at = |offset: usize| {
            // SAFETY: inside the mapping, which nobody else has.
            unsafe { area.start.add(SharedArea::file_length(offset)).read() }
        };
        let holds_what_was_copied = || {
            (0..256).all(|offset| at(128 + offset) == source.load_byte(offset))
                && (at(127), at(384)) == (0, 0)
        };
        area.copy_plain(128, &source, 256);
        assert!(holds_what_was_copied());
        area.copy_plain(128, &Buffer::new(256), 256);
        assert_eq!(at(128 + 7), 0);
        assert_eq!(area.copy_past_caches(128, &source, 256), holds_what_was_copied());
    }

    #[test]
    #[should_panic(expected = "128 bytes at 4096 of 4096")]
    fn a_copy_beyond_the_end_is_never_made() {
        area(4096).copy_plain(4096, &Buffer::new(4096), 128);
    }

    #[test]
    fn a_descriptor_that_is_not_open_is_not_taken() {
        assert!(inherited(1 << 20).is_err());
        assert!(inherited(0).is_err());
    }

    #[test]
    fn ticks_agree_with_the_clock() {
        let ratio = || {
            let (clock, counter) = moment();
            while clock.elapsed() < Duration::from_millis(20) {}
            let (later, ticks) = moment();
            let counted = (ticks - counter) as f64 * nanoseconds_a_tick();
            counted / (later - clock).as_nanos() as f64
        };
        // A processor that is taken away between the two readings of a moment is not the counter's doing.
        let ratios: Vec<_> = (0..5).map(|_| ratio()).collect();
        assert!(ratios.iter().any(|ratio| (0.9..1.1).contains(ratio)), "counted and elapsed: {ratios:?}");
    }
}
