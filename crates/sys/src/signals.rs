//! Keeping the program's signal handlers off a thread for a moment.

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

impl Drop for SignalsHeld {
    fn drop(&mut self) {
        // SAFETY: the mask that `hold` found on this thread is put back.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut()) };
    }
}
