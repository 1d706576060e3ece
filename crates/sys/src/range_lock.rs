//! Locks on ranges of an open file, which the kernel takes back when the file is closed, however that comes about
//! (`fcntl(2)`, `F_OFD_SETLK`).
//!
//! They belong to one opening of a file and not to a process: whoever opens the file once more is somebody else, threads that
//! share a descriptor are not. They need not lie within the file's length.

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

use crate::process_memory::process_is_stopped;
use crate::thread::nap;

/// What a lock keeps away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeLock {
    /// Those who want it alone.
    Shared,
    /// Everybody.
    Alone,
}

fn describe(range: &Range<u64>, kind: libc::c_int) -> io::Result<libc::flock> {
    // A length of nothing means all that follows.
    let length = range.end.checked_sub(range.start).filter(|length| *length > 0);
    let number = |value: u64| i64::try_from(value).map_err(|_| io::ErrorKind::InvalidInput);
    Ok(libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: number(range.start)?,
        l_len: number(length.ok_or(io::ErrorKind::InvalidInput)?)?,
        l_pid: 0,
    })
}

fn ask(file: BorrowedFd<'_>, command: libc::c_int, lock: &mut libc::flock) -> io::Result<()> {
    loop {
        // SAFETY: the structure is a local of the callers', which the call reads and may write.
        if unsafe { libc::fcntl(file.as_raw_fd(), command, std::ptr::from_mut(lock)) } == 0 {
            return Ok(());
        }
        match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => {}
            error => return Err(error),
        }
    }
}

/// Takes the lock on a range if nobody else's is in the way; whether it did. Waits for nobody.
pub fn try_lock_range(file: BorrowedFd<'_>, range: &Range<u64>, kind: RangeLock) -> io::Result<bool> {
    let kind = if kind == RangeLock::Shared { libc::F_RDLCK } else { libc::F_WRLCK };
    match ask(file, libc::F_OFD_SETLK, &mut describe(range, kind)?) {
        Ok(()) => Ok(true),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Lets go of whatever of a range is locked.
pub fn unlock_range(file: BorrowedFd<'_>, range: &Range<u64>) -> io::Result<()> {
    ask(file, libc::F_OFD_SETLK, &mut describe(range, libc::F_UNLCK)?)
}

/// A part of a range that others have a lock of any kind on, which need not be the first. `None`: nobody has.
pub fn locked_by_others(file: BorrowedFd<'_>, range: &Range<u64>) -> io::Result<Option<Range<u64>>> {
    let mut lock = describe(range, libc::F_WRLCK)?;
    ask(file, libc::F_OFD_GETLK, &mut lock)?;
    if lock.l_type == libc::F_UNLCK as libc::c_short {
        return Ok(None);
    }
    let start = lock.l_start as u64;
    let end = if lock.l_len == 0 { u64::MAX } else { start + lock.l_len as u64 };
    Ok(Some(start.max(range.start)..end.min(range.end)))
}

/// A lock on one byte, alone, until it is dropped.
#[derive(Debug)]
#[must_use]
pub struct LockedByte<'a> {
    file: BorrowedFd<'a>,
    byte: Range<u64>,
}

/// Takes the lock on one byte, alone, waiting for others at most `patience`; `None`: one of them kept it. Whoever has it is
/// supposed to have it for a moment; if that is a process that was stopped, as far as `holder` knows which it is, it is not
/// waited for.
pub fn lock_byte_within(
    file: BorrowedFd<'_>,
    byte: u64,
    patience: Duration,
    holder: impl Fn() -> i32,
) -> io::Result<Option<LockedByte<'_>>> {
    const PAUSE_MIN: Duration = Duration::from_micros(20);
    const PAUSE_MAX: Duration = Duration::from_millis(1);
    let (byte, started, mut pause) = (byte..byte + 1, Instant::now(), PAUSE_MIN);
    while !try_lock_range(file, &byte, RangeLock::Alone)? {
        if started.elapsed() >= patience || pause == PAUSE_MAX && process_is_stopped(holder()) {
            return Ok(None);
        }
        nap(pause);
        pause = (pause * 2).min(PAUSE_MAX);
    }
    Ok(Some(LockedByte { file, byte }))
}

impl Drop for LockedByte<'_> {
    fn drop(&mut self) {
        let _ = unlock_range(self.file, &self.byte);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patience::comes_true;
    use std::fs::File;
    use std::os::fd::AsFd;

    /// The same file twice, as two processes have it.
    fn opened_twice() -> [File; 2] {
        let one = crate::SharedMemory::create("nonic-sys-test", 1).unwrap().into_descriptor();
        let path = format!("/proc/self/fd/{}", one.as_raw_fd());
        [one.into(), File::options().read(true).write(true).open(path).unwrap()]
    }

    #[test]
    fn ranges_exclude_openings_of_the_file_and_not_descriptors() {
        let [one, other] = opened_twice();
        assert!(try_lock_range(one.as_fd(), &(10..20), RangeLock::Shared).unwrap());
        assert!(try_lock_range(other.as_fd(), &(15..30), RangeLock::Shared).unwrap());
        assert!(!try_lock_range(other.as_fd(), &(10..11), RangeLock::Alone).unwrap());
        assert_eq!(locked_by_others(other.as_fd(), &(0..100)).unwrap(), Some(10..20));
        assert_eq!(locked_by_others(one.as_fd(), &(0..16)).unwrap(), Some(15..16));
        assert_eq!(locked_by_others(one.as_fd(), &(0..15)).unwrap(), None);
        unlock_range(one.as_fd(), &(12..14)).unwrap();
        assert_eq!(locked_by_others(other.as_fd(), &(12..14)).unwrap(), None);
        assert!(locked_by_others(other.as_fd(), &(11..13)).unwrap().is_some());
        assert!(try_lock_range(one.as_fd(), &(5..5), RangeLock::Shared).is_err());
        drop(one);
        assert!(comes_true(|| locked_by_others(other.as_fd(), &(0..100)).unwrap().is_none()));
    }

    #[test]
    fn who_keeps_a_byte_is_not_waited_for_without_end() {
        let [one, other] = opened_twice();
        let nobody = || 0;
        let held = lock_byte_within(one.as_fd(), 7, Duration::ZERO, nobody).unwrap().unwrap();
        assert!(lock_byte_within(other.as_fd(), 7, Duration::from_millis(5), nobody).unwrap().is_none());
        assert!(lock_byte_within(other.as_fd(), 8, Duration::ZERO, nobody).unwrap().is_some());
        drop(held);
        assert!(lock_byte_within(other.as_fd(), 7, Duration::ZERO, nobody).unwrap().is_some());
    }

    #[test]
    fn a_killed_process_lets_go_of_its_ranges() {
        let [one, other] = opened_twice();
        let (read_end, write_end) = crate::pipe().unwrap();
        // SAFETY: the child makes system calls only and is killed.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // The parent's opening; the parent lets go of its own descriptor.
            let _ = try_lock_range(one.as_fd(), &(0..1), RangeLock::Alone);
            let _ = crate::write_byte(&write_end);
            loop {
                // SAFETY: waits for the signal that kills it.
                unsafe { libc::pause() };
            }
        }
        crate::read_byte(&read_end).unwrap();
        drop(one);
        let taken = try_lock_range(other.as_fd(), &(0..1), RangeLock::Alone);
        // SAFETY: the child is this test's.
        unsafe {
            libc::kill(pid, libc::SIGKILL);
            libc::waitpid(pid, std::ptr::null_mut(), 0);
        }
        assert!(!taken.unwrap(), "the child holds it");
        assert!(comes_true(|| try_lock_range(other.as_fd(), &(0..1), RangeLock::Alone).unwrap()));
    }
}
