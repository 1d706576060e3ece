//! The C library's `errno`, which a call that succeeds leaves alone.

/// While this lives, what system calls do to `errno` of this thread does not count: it is put back at the end.
#[derive(Debug)]
pub struct ErrnoKept(i32);

impl ErrnoKept {
    /// Notes the present value.
    #[inline]
    pub fn new() -> Self {
        // SAFETY: the C library's variable of this thread.
        Self(unsafe { *libc::__errno_location() })
    }
}

impl Default for ErrnoKept {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for ErrnoKept {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = self.0 };
    }
}
