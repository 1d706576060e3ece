//! Standard error without a lock: a child is forked while another thread may hold that, and would wait for it for ever.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;

/// Writes a line to standard error as it is, as far as that takes it. For where nothing may be allocated: a child right after a fork.
pub fn say_to_people(line: &str) {
    // SAFETY: the bytes live through the call; nothing is done with the descriptor but to write to it.
    unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
}

/// Writes to standard error by the kernel's call alone, which is no point of cancellation. Where there is none, what is written is
/// dropped.
#[derive(Clone, Copy, Debug)]
pub struct StandardError;

impl io::Write for StandardError {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // SAFETY: used for this call only, in which the kernel looks the number up itself.
        let standard_error = unsafe { BorrowedFd::borrow_raw(libc::STDERR_FILENO) };
        match rustix::io::write(standard_error, bytes) {
            Err(Errno::BADF) => Ok(bytes.len()),
            other => Ok(other?),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
