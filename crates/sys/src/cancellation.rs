//! Keeping `pthread_cancel(3)` off a thread for a moment.

use std::ffi::c_int;
use std::marker::PhantomData;

unsafe extern "C" {
    /// `pthread_setcancelstate(3)`: since glibc 2.35 two stores to the thread's own memory.
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// `PTHREAD_CANCEL_DISABLE`.
const CANCEL_DISABLE: c_int = 1;

/// While this lives, the thread that made it is not cancelled.
#[derive(Debug)]
pub struct CancellationHeld {
    before: c_int,
    /// The state belongs to a thread.
    _thread: PhantomData<*const ()>,
}

impl CancellationHeld {
    /// Puts cancellation off.
    #[inline]
    pub fn hold() -> Self {
        let mut before = 0;
        // SAFETY: stores the state so far in `before`, and concerns this thread only.
        unsafe { pthread_setcancelstate(CANCEL_DISABLE, &raw mut before) };
        Self { before, _thread: PhantomData }
    }
}

impl Drop for CancellationHeld {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the state is one that the thread had; this is no point of cancellation.
        unsafe { pthread_setcancelstate(self.before, std::ptr::null_mut()) };
    }
}
