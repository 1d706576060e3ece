//! Files that are read and written by calls and never mapped, so that nobody who has them too can do worse than lie.

use std::io;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::MemfdFlags;
use rustix::io::Errno;

use crate::fork::{forget_in_children, keep_in_children};
use crate::signals::file_too_large;

/// A file that grows as it is written; what was never written is zeros. Children do not have it.
#[derive(Debug)]
pub struct ByteFile {
    descriptor: OwnedFd,
}

impl ByteFile {
    /// An opened file.
    pub fn new(descriptor: OwnedFd) -> Self {
        forget_in_children(descriptor.as_fd());
        Self { descriptor }
    }

    /// An empty one without a name (`memfd_create(2)`).
    pub fn anonymous(name: &str) -> io::Result<Self> {
        Ok(Self::new(rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC)?))
    }

    /// Length in bytes.
    pub fn length(&self) -> io::Result<u64> {
        Ok(rustix::fs::fstat(&self.descriptor)?.st_size as u64)
    }

    /// Reads bytes; zeros behind the end.
    pub fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            match rustix::io::pread(&self.descriptor, &mut bytes[done..], offset + done as u64) {
                Ok(0) => {
                    bytes[done..].fill(0);
                    break;
                }
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Writes all bytes, or says why not.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let end = offset.checked_add(bytes.len() as u64).ok_or(io::ErrorKind::InvalidInput)?;
        check_file_limit(end)?;
        let mut done = 0;
        while done < bytes.len() {
            match rustix::io::pwrite(&self.descriptor, &bytes[done..], offset + done as u64) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

impl AsFd for ByteFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Drop for ByteFile {
    fn drop(&mut self) {
        keep_in_children(self.descriptor.as_fd());
    }
}

/// Refuses what `RLIMIT_FSIZE` forbids: the kernel would also send `SIGXFSZ`, which ends the program.
pub fn check_file_limit(length: u64) -> io::Result<()> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
    match limit.filter(|limit| *limit < length) {
        None => Ok(()),
        limit => Err(file_too_large(length, limit)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_written_is_zeros() {
        let file = ByteFile::anonymous("nonic-sys-test").unwrap();
        file.write_at(10_000, b"abc").unwrap();
        assert_eq!(file.length().unwrap(), 10_003);
        let mut bytes = [7; 6];
        file.read_at(9_998, &mut bytes).unwrap();
        assert_eq!(&bytes, b"\0\0abc\0");
        file.read_at(1 << 40, &mut bytes).unwrap();
        assert_eq!(bytes, [0; 6]);
        assert!(file.write_at(u64::MAX, b"abc").is_err());
    }
}
