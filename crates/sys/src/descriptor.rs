//! Event descriptors and waiting on several of them.

use std::io;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll, eventfd, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, ReadWriteFlags};

/// What reading an [`EventFd`] takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// Everything that was signalled (a doorbell).
    All,
    /// One of what was signalled (a counter of queued events).
    One,
}

/// An `eventfd(2)`.
#[derive(Debug)]
pub struct EventFd {
    fd: OwnedFd,
}

impl EventFd {
    /// A new one; it blocks unless `nonblocking`.
    pub fn new(kind: EventKind, nonblocking: bool) -> io::Result<Self> {
        let mut flags = EventfdFlags::CLOEXEC;
        if kind == EventKind::One {
            flags |= EventfdFlags::SEMAPHORE;
        }
        if nonblocking {
            flags |= EventfdFlags::NONBLOCK;
        }
        Ok(Self { fd: eventfd(0, flags)? })
    }

    /// One that a peer sent. What it really is does not matter: signalling it can at worst fail.
    pub fn from_peer(fd: OwnedFd) -> Self {
        Self { fd }
    }

    /// Adds one. A full counter has been signalled already, so that is no failure.
    pub fn signal(&self) {
        let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
    }

    /// Takes from the counter; blocks while it is zero unless the descriptor has `O_NONBLOCK`.
    pub fn take(&self) -> io::Result<u64> {
        let mut value = [0u8; 8];
        rustix::io::read(&self.fd, &mut value)?;
        Ok(u64::from_ne_bytes(value))
    }

    /// Takes from the counter if it is not zero, whatever the descriptor's flags and whoever else takes from it; whether it
    /// did. Never blocks.
    pub fn take_if_ready(&self) -> bool {
        let mut value = [0u8; 8];
        let mut place = [io::IoSliceMut::new(&mut value)];
        // At the position of the file, of which an eventfd has none.
        match rustix::io::preadv2(&self.fd, &mut place, u64::MAX, ReadWriteFlags::NOWAIT) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM) => self.take_if_polled(),
            result => result.is_ok(),
        }
    }

    /// The same on kernels before 5.8, as long as no other thread takes from it between the two calls.
    #[cold]
    fn take_if_polled(&self) -> bool {
        wait_readable(self.fd.as_fd(), Some(Duration::ZERO)) && self.take().is_ok()
    }

    /// Sets or clears its `O_NONBLOCK`.
    pub(crate) fn set_nonblocking(&self, nonblocking: bool) {
        // Of a descriptor of ours it cannot fail.
        let _ = rustix::io::ioctl_fionbio(&self.fd, nonblocking);
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Waits until `fd` is readable or hung up; false if `timeout` ran out first. `None` waits for ever.
pub fn wait_readable(fd: BorrowedFd<'_>, timeout: Option<Duration>) -> bool {
    let deadline = timeout.map(|t| Instant::now() + t);
    loop {
        let left = deadline.map(|d| timespec(d.saturating_duration_since(Instant::now())));
        let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
        match poll(&mut fds, left.as_ref()) {
            Ok(0) => return false,
            Ok(_) => return true,
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec { tv_sec: duration.as_secs() as i64, tv_nsec: i64::from(duration.subsec_nanos()) }
}

/// One descriptor that is ready.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    /// The number it was added with.
    pub token: u64,
    /// Whether the other end is gone.
    pub hung_up: bool,
}

/// Whether a call failed because this process, or the machine, has no descriptor left.
pub fn is_out_of_descriptors(error: &io::Error) -> bool {
    use rustix::io::Errno;
    [Errno::MFILE, Errno::NFILE].iter().any(|full| error.raw_os_error() == Some(full.raw_os_error()))
}

/// A pipe that no other program inherits: the end to read from and the end to write to.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?)
}

/// Writes one byte.
pub fn write_byte(descriptor: &OwnedFd) -> io::Result<()> {
    rustix::io::write(descriptor, &[1])?;
    Ok(())
}

/// Reads one byte; whether there was one before the end.
pub fn read_byte(descriptor: &OwnedFd) -> io::Result<bool> {
    Ok(rustix::io::read(descriptor, &mut [0u8])? == 1)
}

/// `epoll_wait(2)` counts in whole milliseconds: it would wait much longer than this. `ppoll(2)` does not, on any kernel;
/// `epoll_pwait2(2)` came with Linux 5.11, and older filters of containers refuse it.
const MILLISECOND: Duration = Duration::from_millis(1);

/// Input and hang-up, one time.
const ONCE: epoll::EventFlags =
    epoll::EventFlags::IN.union(epoll::EventFlags::RDHUP).union(epoll::EventFlags::ONESHOT);

/// An `epoll(7)` instance.
#[derive(Debug)]
pub struct Epoll {
    fd: OwnedFd,
}

impl Epoll {
    /// A new one.
    pub fn new() -> io::Result<Self> {
        Ok(Self { fd: epoll::create(epoll::CreateFlags::CLOEXEC)? })
    }

    /// Watches `fd` for input and hang-up, level triggered.
    pub fn add(&self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        let interest = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
        Ok(epoll::add(&self.fd, fd, epoll::EventData::new_u64(token), interest)?)
    }

    /// Watches `fd` for input and hang-up, and reports it once: not again before [`Epoll::watch_once_more`].
    pub fn add_once(&self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        Ok(epoll::add(&self.fd, fd, epoll::EventData::new_u64(token), ONCE)?)
    }

    /// Reports `fd`, which was added under `token`, once more.
    pub fn watch_once_more(&self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        Ok(epoll::modify(&self.fd, fd, epoll::EventData::new_u64(token), ONCE)?)
    }

    /// Watches `fd`, which was added under `token`, for room to send as well, or no longer.
    pub fn watch_room(&self, fd: BorrowedFd<'_>, token: u64, room: bool) -> io::Result<()> {
        let mut interest = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
        interest.set(epoll::EventFlags::OUT, room);
        Ok(epoll::modify(&self.fd, fd, epoll::EventData::new_u64(token), interest)?)
    }

    /// Has `fd` listed until its last copy, here or in another process, is closed; nothing of it is ever reported but its
    /// hang-up, once.
    pub fn add_silently(&self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        Ok(epoll::add(&self.fd, fd, epoll::EventData::new_u64(token), epoll::EventFlags::ET)?)
    }

    /// Stops watching `fd`.
    pub fn remove(&self, fd: BorrowedFd<'_>) {
        let _ = epoll::delete(&self.fd, fd);
    }

    /// Puts what is ready into `ready`, waiting at most `timeout` (`None`: for ever).
    pub fn wait(&self, ready: &mut Vec<Ready>, mut timeout: Option<Duration>) {
        ready.clear();
        if let Some(short) = timeout.filter(|time| *time < MILLISECOND && !time.is_zero()) {
            wait_readable(self.fd.as_fd(), Some(short));
            timeout = Some(Duration::ZERO);
        }
        let timeout = timeout.map(timespec);
        let empty = epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) };
        let mut events = [empty; 32];
        if let Ok(count) = epoll::wait(&self.fd, &mut events[..], timeout.as_ref()) {
            ready.extend(events[..count].iter().map(|event| {
                let (flags, data) = (event.flags, event.data);
                Ready {
                    token: data.u64(),
                    hung_up: flags.intersects(
                        epoll::EventFlags::HUP | epoll::EventFlags::RDHUP | epoll::EventFlags::ERR,
                    ),
                }
            }));
        }
    }
}

impl AsFd for Epoll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_of_less_than_a_millisecond_ends_before_a_millisecond_is_over() {
        let epoll = Epoll::new().unwrap();
        let event = EventFd::new(EventKind::All, true).unwrap();
        epoll.add(event.as_fd(), 7).unwrap();
        let mut ready = Vec::new();
        let shortest = (0..200)
            .map(|_| {
                let start = Instant::now();
                epoll.wait(&mut ready, Some(Duration::from_micros(100)));
                assert!(ready.is_empty());
                start.elapsed()
            })
            .min();
        // Each may be late on a busy machine; none is early.
        let expected = Duration::from_micros(100)..Duration::from_millis(1);
        assert!(shortest.is_some_and(|time| expected.contains(&time)), "{shortest:?}");
        event.signal();
        epoll.wait(&mut ready, Some(Duration::from_micros(100)));
        assert_eq!(ready.iter().map(|event| event.token).collect::<Vec<_>>(), [7]);
    }
}
