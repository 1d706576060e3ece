//! Keeping the program's signal handlers off a thread for a moment.

use std::io;
use std::marker::PhantomData;

/// While this lives, no signal handler runs on the thread that made it.
#[derive(Debug)]
pub struct SignalsHeld {
    before: libc::sigset_t,
    /// A mask belongs to a thread.
    _thread: PhantomData<*const ()>,
}

impl SignalsHeld {
    /// Blocks every signal that can be blocked.
    pub fn hold() -> Self {
        // SAFETY: both sets are locals that outlive the calls.
        unsafe {
            let mut all: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
            Self { before, _thread: PhantomData }
        }
    }
}

/// Makes a file as long as told. Where `RLIMIT_FSIZE` forbids that, the kernel also sends `SIGXFSZ` to the thread, which would
/// end the program: here the error is all there is, and it names the limit.
pub(crate) fn set_file_length(file: impl rustix::fd::AsFd, length: u64) -> io::Result<()> {
    let held = SignalsHeld::hold();
    let was_pending = is_pending(libc::SIGXFSZ);
    match rustix::fs::ftruncate(file, length) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::FBIG) => {
            // Sent to this thread by the call; one that the program had waiting stays.
            if !was_pending {
                take_pending(libc::SIGXFSZ);
            }
            drop(held);
            let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
            Err(file_too_large(length, limit))
        }
        Err(error) => Err(error.into()),
    }
}

/// A file cannot be as long as is needed, since there is such a limit.
pub(crate) fn file_too_large(length: u64, limit: Option<u64>) -> io::Error {
    let limit = limit.map_or_else(|| "no".into(), |bytes| bytes.to_string());
    let text =
        format!("a file of {length} bytes is needed; raise RLIMIT_FSIZE (ulimit -f), now {limit} bytes");
    io::Error::new(io::ErrorKind::FileTooLarge, text)
}

fn is_pending(signal: libc::c_int) -> bool {
    // SAFETY: the set is a local that outlives the calls.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigpending(&raw mut set);
        libc::sigismember(&raw const set, signal) == 1
    }
}

/// Takes a blocked signal away from this thread, if it waits.
fn take_pending(signal: libc::c_int) {
    let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the set and the time are locals that outlive the calls.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&raw mut set, signal);
        libc::sigtimedwait(&raw const set, std::ptr::null_mut(), &raw const now);
    }
}

impl Drop for SignalsHeld {
    fn drop(&mut self) {
        // SAFETY: the mask that `hold` found on this thread is put back.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut()) };
    }
}
