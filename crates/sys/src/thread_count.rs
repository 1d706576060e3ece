//! How many threads this process has.

use std::io;
use std::time::{Duration, Instant};

use rustix::fd::OwnedFd;

use crate::numbered_folder::numbers_in;
use crate::thread::{is_ending, thread_number};
use crate::yield_now;

/// Threads that are too many for it to be asked what each does, which takes some microseconds.
const FEW: usize = 2;
/// How long a thread takes to end, where processors are scarce.
const PATIENCE: Duration = Duration::from_millis(20);

/// The threads of this process, for counting (`/proc/self/task`).
#[derive(Debug)]
pub struct Threads {
    descriptor: OwnedFd,
}

impl Threads {
    /// Those of the process that calls; a child needs its own.
    pub fn open() -> io::Result<Self> {
        use rustix::fs::{Mode, OFlags};
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { descriptor: rustix::fs::open("/proc/self/task", flags, Mode::empty())? })
    }

    /// How many there are now.
    pub fn count(&self) -> io::Result<usize> {
        let links = rustix::fs::fstat(&self.descriptor)?.st_nlink as usize;
        // The kernel counts a folder's links as it would subfolders, plus two. Other systems' `/proc` may not.
        if links > 2 { Ok(links - 2) } else { Ok(numbers_in("/proc/self/task")?.len()) }
    }

    /// Whether there are so many at most. Threads that are ending are waited for, for some milliseconds: the kernel still counts a thread
    /// for a moment that another has joined.
    pub fn are_at_most(&self, most: usize) -> bool {
        let began = Instant::now();
        loop {
            match self.count() {
                Ok(count) if count <= most => return true,
                Ok(count) if count <= most + FEW => {}
                _ => return false,
            }
            // A list is cut short where a thread ends meanwhile: then it is waited for, too.
            let Ok(numbers) = numbers_in("/proc/self/task") else { return false };
            let own = thread_number();
            let others = numbers.into_iter().filter(|number| *number != own && !is_ending(*number)).count();
            if others >= most || began.elapsed() > PATIENCE {
                return false;
            }
            yield_now();
        }
    }
}
