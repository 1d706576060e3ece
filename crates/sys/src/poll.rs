//! Waiting for several descriptors, named by their numbers, at a time.

use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

/// There is something to read.
pub const POLL_IN: i16 = libc::POLLIN;
/// There is room to write.
pub const POLL_OUT: i16 = libc::POLLOUT;
/// An error.
pub const POLL_ERROR: i16 = libc::POLLERR;
/// The other end is gone.
pub const POLL_HANG_UP: i16 = libc::POLLHUP;
/// The number is not open.
pub const POLL_INVALID: i16 = libc::POLLNVAL;

/// One descriptor to wait for, in the layout of `struct pollfd`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct PollEntry {
    /// The descriptor; a negative one is skipped.
    pub number: i32,
    /// What to wait for (`POLLIN`, `POLLOUT`).
    pub events: i16,
    /// What there is.
    pub revents: i16,
}

const _: () = assert!(size_of::<PollEntry>() == size_of::<libc::pollfd>());

/// `poll(2)`: how many of `entries` are ready. `None` waits for ever; a signal ends it with `EINTR`.
pub fn poll(entries: &mut [PollEntry], timeout: Option<Duration>) -> io::Result<usize> {
    // SAFETY: the entries are exclusively borrowed and have the layout of `pollfd` (asserted above).
    unsafe { poll_at(entries.as_mut_ptr() as usize, entries.len(), timeout) }
}

/// [`poll`] on entries at any address: the kernel refuses (`EFAULT`) what is not mapped.
///
/// # Safety
/// The kernel writes `revents` of `count` entries: they must be memory the caller may overwrite, if they are mapped at all.
pub unsafe fn poll_at(address: usize, count: usize, timeout: Option<Duration>) -> io::Result<usize> {
    let timeout = timeout.map(|time| libc::timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    });
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the caller vouches for the entries; the time is a local, and no signal mask is given.
    let ready = unsafe {
        libc::syscall(libc::SYS_ppoll, address, count, timeout, std::ptr::null::<libc::sigset_t>(), 0usize)
    };
    if ready < 0 { Err(io::Error::last_os_error()) } else { Ok(ready as usize) }
}

/// What of `events` there is on a descriptor this moment; errors and hang-ups too.
pub fn poll_now(number: RawFd, events: i16) -> i16 {
    let mut entry = [PollEntry { number, events, revents: 0 }];
    match poll(&mut entry, Some(Duration::ZERO)) {
        Ok(1) => entry[0].revents,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsRawFd;

    #[test]
    fn what_a_descriptor_shows_is_told_and_a_bad_array_is_refused() {
        let (read_end, write_end) = crate::pipe().unwrap();
        assert_eq!(poll_now(read_end.as_raw_fd(), POLL_IN), 0);
        crate::write_byte(&write_end).unwrap();
        assert_eq!(poll_now(read_end.as_raw_fd(), POLL_IN), POLL_IN);
        drop(write_end);
        assert_eq!(poll_now(read_end.as_raw_fd(), 0), POLL_HANG_UP);
        // SAFETY: nothing is mapped on the first page.
        let refused = unsafe { poll_at(8, 1, Some(Duration::ZERO)) };
        assert_eq!(refused.unwrap_err().raw_os_error(), Some(libc::EFAULT));
    }
}
