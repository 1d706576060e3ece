//! Locks between processes that the kernel takes back from whoever dies (`fcntl(2)`, `F_SETLKW`).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

/// A lock on one byte of an open file or socket, held by this process until it is dropped. The processes that share the file
/// exclude each other by it; the threads of one process do not, and need a mutex before. Closing any descriptor of the same
/// file in this process lets the lock go early.
#[derive(Debug)]
#[must_use]
pub struct RecordLock<'a> {
    descriptor: BorrowedFd<'a>,
    byte: i64,
}

/// Takes the lock on a byte or lets it go (`F_WRLCK`, `F_UNLCK`), waiting for another process if `command` is `F_SETLKW`. A
/// signal ends the wait.
pub(crate) fn set_record(file: RawFd, byte: i64, command: libc::c_int, kind: libc::c_int) -> io::Result<()> {
    let lock = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: byte,
        l_len: 1,
        l_pid: 0,
    };
    // SAFETY: the structure is a local that the call only reads.
    match unsafe { libc::fcntl(file, command, &raw const lock) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn request(descriptor: BorrowedFd<'_>, byte: i64, command: libc::c_int, kind: libc::c_int) -> io::Result<()> {
    loop {
        match set_record(descriptor.as_raw_fd(), byte, command, kind) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

/// Waits for the lock on `byte` and takes it. Signals do not end the wait: whoever holds it does so for a short time.
pub fn lock_record(descriptor: BorrowedFd<'_>, byte: u32) -> io::Result<RecordLock<'_>> {
    let byte = i64::from(byte);
    request(descriptor, byte, libc::F_SETLKW, libc::F_WRLCK)?;
    Ok(RecordLock { descriptor, byte })
}

impl Drop for RecordLock<'_> {
    fn drop(&mut self) {
        let _ = request(self.descriptor, self.byte, libc::F_SETLK, libc::F_UNLCK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{pipe, read_byte, write_byte};
    use std::os::fd::AsFd;

    #[test]
    fn a_killed_process_lets_go_of_a_lock_on_a_socket() {
        let (socket, _peer) = std::os::unix::net::UnixStream::pair().unwrap();
        let (read_end, write_end) = pipe().unwrap();
        // SAFETY: the child makes system calls only and is killed.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let held = lock_record(socket.as_fd(), 2);
            let _ = write_byte(&write_end);
            loop {
                // SAFETY: waits for the signal that kills it.
                unsafe { libc::pause() };
                let _ = &held;
            }
        }
        read_byte(&read_end).unwrap();
        let taken = request(socket.as_fd(), 2, libc::F_SETLK, libc::F_WRLCK);
        assert!(taken.is_err(), "the child holds it");
        drop(lock_record(socket.as_fd(), 3).unwrap());
        // SAFETY: the child is this test's.
        unsafe {
            libc::kill(pid, libc::SIGKILL);
            libc::waitpid(pid, std::ptr::null_mut(), 0);
        }
        drop(lock_record(socket.as_fd(), 2).unwrap());
    }
}
