//! A file of this user's in a folder where anybody may make files.

use std::io;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags};

use crate::user::effective_user;
use crate::virtual_memory::file_identity;

/// Error returned by [`open_user_file`].
#[derive(Debug)]
pub enum UserFileError {
    /// Somebody else took the name: this user, as far as this one has a number for it.
    Foreign(u32),
    /// What has the name is no ordinary file of one name.
    NoFile,
    /// The kernel refused.
    System(io::Error),
}

impl std::fmt::Display for UserFileError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Foreign(user) => write!(formatter, "user {user} has taken that name"),
            Self::NoFile => formatter.write_str("what has that name is no ordinary file"),
            Self::System(error) => error.fmt(formatter),
        }
    }
}

impl std::error::Error for UserFileError {}

/// Opens a file that only this user can open, or makes it. Anybody may have put anything there: links are not followed, and
/// what is there is not waited for.
pub fn open_user_file(path: &str) -> Result<OwnedFd, UserFileError> {
    let flags = OFlags::RDWR
        | OFlags::CREATE
        | OFlags::NOFOLLOW
        | OFlags::NONBLOCK
        | OFlags::NOCTTY
        | OFlags::CLOEXEC;
    let owner_only = Mode::RUSR | Mode::WUSR;
    let system = |error: rustix::io::Errno| UserFileError::System(error.into());
    let file = match rustix::fs::open(path, flags, owner_only) {
        Ok(file) => file,
        Err(error) => {
            return Err(match rustix::fs::lstat(path) {
                Ok(found) if found.st_uid != effective_user() => UserFileError::Foreign(found.st_uid),
                Ok(found) if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile => {
                    UserFileError::NoFile
                }
                _ => system(error),
            });
        }
    };
    let found = rustix::fs::fstat(&file).map_err(system)?;
    if found.st_uid != effective_user() {
        return Err(UserFileError::Foreign(found.st_uid));
    }
    // Of two names one may lead to a file of this user's that is meant for something else.
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile || found.st_nlink > 1 {
        return Err(UserFileError::NoFile);
    }
    if Mode::from_raw_mode(found.st_mode) != owner_only {
        rustix::fs::fchmod(&file, owner_only).map_err(system)?;
    }
    Ok(file)
}

/// Whether a path still leads to an open file.
pub fn is_still_at(file: BorrowedFd<'_>, path: &str) -> bool {
    let there = rustix::fs::lstat(path).map(|stat| (stat.st_dev, stat.st_ino));
    let here = rustix::fs::fstat(file).map(|stat| (stat.st_dev, stat.st_ino));
    here.is_ok() && here == there
}

/// Takes an open file's name away, if it still has it.
pub fn remove_user_file(file: BorrowedFd<'_>, path: &str) {
    if is_still_at(file, path) {
        let _ = rustix::fs::unlink(path);
    }
}

/// The number of the calling thread's namespace of a kind (`net`, `ipc`, `user`).
pub fn namespace_number(kind: &str) -> io::Result<u64> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let opened = rustix::fs::open(format!("/proc/thread-self/ns/{kind}"), flags, Mode::empty())?;
    Ok(file_identity(opened.as_fd())?.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_made_once_and_found_again_and_only_under_its_name() {
        let path = format!("/dev/shm/nonic-sys-test.{}", std::process::id());
        let file = open_user_file(&path).unwrap();
        let again = open_user_file(&path).unwrap();
        assert_eq!(file_identity(file.as_fd()).unwrap(), file_identity(again.as_fd()).unwrap());
        assert_eq!(rustix::fs::fstat(&file).unwrap().st_mode & 0o777, 0o600);
        assert!(is_still_at(file.as_fd(), &path));
        let second_name = format!("{path}.too");
        std::fs::hard_link(&path, &second_name).unwrap();
        assert!(matches!(open_user_file(&path), Err(UserFileError::NoFile)));
        std::fs::remove_file(second_name).unwrap();
        remove_user_file(file.as_fd(), &path);
        assert!(!is_still_at(file.as_fd(), &path) && !std::fs::exists(&path).unwrap());
    }

    #[test]
    fn what_is_no_file_is_refused_and_not_opened() {
        let path = format!("/dev/shm/nonic-sys-test-odd.{}", std::process::id());
        std::os::unix::fs::symlink("/dev/null", &path).unwrap();
        assert!(matches!(open_user_file(&path), Err(UserFileError::NoFile)));
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(matches!(open_user_file(&path), Err(UserFileError::NoFile)));
        std::fs::remove_dir(&path).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert!(matches!(open_user_file(&path), Err(UserFileError::NoFile)));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn namespaces_have_numbers() {
        assert_eq!(namespace_number("ipc").unwrap(), namespace_number("ipc").unwrap());
        assert_ne!(namespace_number("ipc").unwrap(), namespace_number("net").unwrap());
        assert!(namespace_number("nothing").is_err());
    }
}
