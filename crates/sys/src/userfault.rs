//! Holding other threads back from a range while its pages are replaced (`userfaultfd(2)`).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const API: u64 = 0xAA;
const FEATURE_WRITE_PROTECT: u64 = 1;
const USER_MODE_ONLY: libc::c_int = 1;
const MODE_MISSING: u64 = 1;
const MODE_WRITE_PROTECT: u64 = 2;

#[repr(C)]
struct ApiArguments {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
struct RangeArguments {
    start: u64,
    length: u64,
}

#[repr(C)]
struct RegisterArguments {
    range: RangeArguments,
    mode: u64,
    ioctls: u64,
}

#[repr(C)]
struct ProtectArguments {
    range: RangeArguments,
    mode: u64,
}

const fn request<T>(direction: libc::c_ulong, number: libc::c_ulong) -> libc::c_ulong {
    direction << 30 | (size_of::<T>() as libc::c_ulong) << 16 | 0xAA << 8 | number
}

const REGISTER: libc::c_ulong = request::<RegisterArguments>(3, 0x00);
const UNREGISTER: libc::c_ulong = request::<RangeArguments>(2, 0x01);
const WAKE: libc::c_ulong = request::<RangeArguments>(2, 0x02);
const PROTECT: libc::c_ulong = request::<ProtectArguments>(3, 0x06);
const INTRODUCE: libc::c_ulong = request::<ApiArguments>(3, 0x3F);
/// `_IO(0xAA, 0x00)` on `/dev/userfaultfd` (Linux 6.1).
const NEW_FROM_DEVICE: libc::c_ulong = 0xAA << 8;

/// Whom a protected page holds back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Threads and system calls wait.
    Everything,
    /// Threads wait; a system call that touches a protected page fails with `EFAULT` (all that an ordinary user gets).
    UserMode,
}

/// A userfaultfd of this process.
#[derive(Debug)]
pub struct Userfault {
    descriptor: OwnedFd,
    reach: Reach,
}

impl Userfault {
    /// The best there is: `Everything` from the system call or `/dev/userfaultfd`, else `UserMode`.
    pub fn open() -> io::Result<Self> {
        Self::open_with(Reach::Everything).or_else(|_| Self::open_with(Reach::UserMode))
    }

    /// One of the given reach, or an error.
    pub fn open_with(reach: Reach) -> io::Result<Self> {
        let flags = libc::O_CLOEXEC | libc::O_NONBLOCK;
        let mode = if reach == Reach::UserMode { USER_MODE_ONLY } else { 0 };
        // SAFETY: the call takes flags and returns a new descriptor.
        let raw = unsafe { libc::syscall(libc::SYS_userfaultfd, flags | mode) } as libc::c_int;
        let raw = match (raw, reach) {
            (0.., _) => raw,
            (_, Reach::Everything) => Self::from_device(flags)?,
            (_, Reach::UserMode) => return Err(io::Error::last_os_error()),
        };
        // SAFETY: `raw` was opened above and nobody else has it.
        let descriptor = unsafe { OwnedFd::from_raw_fd(raw) };
        let mut arguments = ApiArguments { api: API, features: FEATURE_WRITE_PROTECT, ioctls: 0 };
        let userfault = Self { descriptor, reach };
        userfault.call(INTRODUCE, &raw mut arguments)?;
        Ok(userfault)
    }

    fn from_device(flags: libc::c_int) -> io::Result<libc::c_int> {
        use rustix::fs::{Mode, OFlags};
        let device = rustix::fs::open("/dev/userfaultfd", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        // SAFETY: the request takes flags and returns a new descriptor.
        let raw = unsafe { libc::ioctl(device.as_raw_fd(), NEW_FROM_DEVICE, flags) };
        if raw < 0 { Err(io::Error::last_os_error()) } else { Ok(raw) }
    }

    fn call<T>(&self, number: libc::c_ulong, arguments: *mut T) -> io::Result<()> {
        // SAFETY: every caller passes a local of the type the request is defined for.
        match unsafe { libc::ioctl(self.descriptor.as_raw_fd(), number, arguments) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Whom it holds back.
    pub fn reach(&self) -> Reach {
        self.reach
    }

    /// From now on a thread that writes to the range waits, and so does one that touches a page which does not exist yet,
    /// if `missing`, until [`Userfault::wake`]. The calling thread must not do either.
    ///
    /// Nothing is left protected after an error. `EBUSY`: the program has a userfaultfd of its own on the range.
    pub fn protect(&self, address: usize, length: usize, missing: bool) -> io::Result<()> {
        let range = || RangeArguments { start: address as u64, length: length as u64 };
        let mode = MODE_WRITE_PROTECT | if missing { MODE_MISSING } else { 0 };
        let mut register = RegisterArguments { range: range(), mode, ioctls: 0 };
        self.call(REGISTER, &raw mut register)?;
        let mut protect = ProtectArguments { range: range(), mode: 1 };
        self.call(PROTECT, &raw mut protect).inspect_err(|_| self.release(address, length))
    }

    /// Ends what [`Userfault::protect`] began, the memory being the same as before.
    pub fn release(&self, address: usize, length: usize) {
        let range = || RangeArguments { start: address as u64, length: length as u64 };
        let mut unprotect = ProtectArguments { range: range(), mode: 0 };
        let _ = self.call(PROTECT, &raw mut unprotect);
        let mut unregister = range();
        let _ = self.call(UNREGISTER, &raw mut unregister);
    }

    /// Lets those who wait try again, the memory having been replaced, which ended the protection.
    pub fn wake(&self, address: usize, length: usize) {
        let mut range = RangeArguments { start: address as u64, length: length as u64 };
        let _ = self.call(WAKE, &raw mut range);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PAGE, SharedMapping};
    use std::sync::atomic::Ordering;

    #[test]
    fn a_writer_waits_until_the_range_is_released() {
        let Ok(userfault) = Userfault::open() else {
            println!("SKIPPED: a protected range: userfaultfd is refused here");
            return;
        };
        let memory = SharedMapping::anonymous(PAGE).unwrap();
        memory.word(0).store(1, Ordering::SeqCst);
        let start = memory.as_ptr() as usize;
        userfault.protect(start, PAGE, false).unwrap();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| memory.word(0).fetch_add(1, Ordering::SeqCst));
            while !has_event(&userfault) {
                std::thread::yield_now();
            }
            assert!(!writer.is_finished());
            assert_eq!(memory.word(0).load(Ordering::SeqCst), 1);
            userfault.release(start, PAGE);
            assert_eq!(writer.join().unwrap(), 1);
        });
        assert_eq!(memory.word(0).load(Ordering::SeqCst), 2);
    }

    fn has_event(userfault: &Userfault) -> bool {
        use rustix::event::{PollFd, PollFlags, poll};
        let mut watched = [PollFd::new(&userfault.descriptor, PollFlags::IN)];
        poll(&mut watched, Some(&rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
    }
}
