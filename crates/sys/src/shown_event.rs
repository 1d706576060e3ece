//! An event counter as programs see it.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{AsFd, AsRawFd, BorrowedFd, Epoll, EventFd, EventKind, is_nonblocking};

/// An event counter that is shown as a descriptor which behaves like the kernel's event files of verbs: readable while the counter is
/// not zero, and never writable. An eventfd is always writable, so who waits for both, as libuv can, would never sleep: what is shown is an
/// `epoll(7)` instance that watches it. The program may set `O_NONBLOCK` on that, and must not read it.
#[derive(Debug)]
pub struct ShownEvent {
    counter: EventFd,
    shown: Epoll,
    /// Whether the counter is non-blocking, as what is shown was when last asked.
    nonblocking: AtomicBool,
}

impl ShownEvent {
    /// A new one, zero; it takes two descriptors. It blocks.
    pub fn new() -> io::Result<Self> {
        let (counter, shown) = (EventFd::new(EventKind::One, false)?, Epoll::new()?);
        shown.add(counter.as_fd(), 0)?;
        Ok(Self { counter, shown, nonblocking: AtomicBool::new(false) })
    }

    /// Adds one.
    pub fn signal(&self) {
        self.counter.signal();
    }

    /// Takes one if there is one, whatever the program has set. Never blocks.
    pub fn take_if_ready(&self) -> bool {
        self.counter.take_if_ready()
    }

    /// What takes one when it is read, and whether it blocks while there is none: unless the program made what is shown non-blocking.
    pub fn to_read(&self) -> (BorrowedFd<'_>, bool) {
        let nonblocking = is_nonblocking(self.shown.as_fd().as_raw_fd()).unwrap_or(false);
        if self.nonblocking.swap(nonblocking, Ordering::Relaxed) != nonblocking {
            self.counter.set_nonblocking(nonblocking);
        }
        (self.counter.as_fd(), !nonblocking)
    }
}

/// What is shown.
impl AsFd for ShownEvent {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shown.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;
    use crate::Sleep;

    /// What poll says of it at once.
    fn polled(event: &ShownEvent) -> PollFlags {
        let everything = PollFlags::IN | PollFlags::RDNORM | PollFlags::OUT | PollFlags::WRNORM;
        let mut entry = [PollFd::from_borrowed_fd(event.as_fd(), everything)];
        poll(&mut entry, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap();
        entry[0].revents()
    }

    #[test]
    fn it_is_readable_once_for_each_signal_and_never_writable() {
        let event = ShownEvent::new().unwrap();
        assert_eq!(polled(&event), PollFlags::empty());
        event.signal();
        event.signal();
        for taken_by_reading in [true, false] {
            assert_eq!(polled(&event), PollFlags::IN | PollFlags::RDNORM);
            if taken_by_reading {
                Sleep::Read(event.to_read().0.as_raw_fd()).here().unwrap();
            } else {
                assert!(event.take_if_ready());
            }
        }
        assert_eq!(polled(&event), PollFlags::empty());
        assert!(!event.take_if_ready());
    }

    #[test]
    fn a_read_blocks_as_the_program_has_set_what_it_sees() {
        let event = ShownEvent::new().unwrap();
        for nonblocking in [true, false, true] {
            rustix::io::ioctl_fionbio(&event, nonblocking).unwrap();
            let (counter, blocks) = event.to_read();
            assert_eq!(blocks, !nonblocking);
            let number = counter.as_raw_fd();
            if nonblocking {
                let nothing = Sleep::Read(number).here().unwrap_err();
                assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
            } else {
                std::thread::scope(|scope| {
                    let reader = scope.spawn(move || Sleep::Read(number).here());
                    event.signal();
                    reader.join().unwrap().unwrap();
                });
            }
        }
    }
}
