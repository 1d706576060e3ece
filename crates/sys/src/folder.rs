//! Folders in which processes meet: Unix sockets with names there, and files that say whether their owner lives. Anybody may have put
//! anything into one: links are not followed, and nothing is waited for.

use std::io;
use std::path::Path;

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::net::SocketAddrUnix;

use crate::fork::{forget_in_children, keep_in_children};
use crate::socket::{PacketSocket, new_socket};

/// An open folder.
#[derive(Debug)]
pub struct Folder {
    fd: OwnedFd,
}

/// A file of which the kernel says whether the process that made it lives: a lock that ends with the process, and that nobody else can hold
/// who may only read the file.
#[derive(Debug)]
pub struct LifeSign {
    fd: OwnedFd,
}

impl Drop for LifeSign {
    fn drop(&mut self) {
        keep_in_children(self.fd.as_fd());
    }
}

/// What a life sign says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Life {
    /// Its process lives, and wrote this.
    Of {
        /// The owner of the file.
        user: u32,
        /// What is in it.
        bytes: Vec<u8>,
    },
    /// Its process has ended.
    Ended {
        /// The owner of the file.
        user: u32,
    },
}

const OPEN: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC);
/// Nobody else opens it.
const OWN: Mode = Mode::from_raw_mode(0o600);
/// Everybody who gets into a folder may look at what is there.
const ALL_READ: Mode = Mode::from_raw_mode(0o644);
const ALL_ENTER: Mode = Mode::from_raw_mode(0o755);
const ALL_CONNECT: Mode = Mode::from_raw_mode(0o666);

impl Folder {
    /// Opens one; a link is followed, since whoever names it means what is there.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(Self { fd: rustix::fs::open(path, flags, Mode::empty())? })
    }

    /// Opens one that is in it.
    pub fn enter(&self, name: &str) -> io::Result<Self> {
        let flags = OPEN | OFlags::DIRECTORY | OFlags::RDONLY;
        Ok(Self { fd: rustix::fs::openat(&self.fd, name, flags, Mode::empty())? })
    }

    /// Makes one in it that only this user can change.
    pub fn make(&self, name: &str) -> io::Result<Self> {
        rustix::fs::mkdirat(&self.fd, name, ALL_ENTER)?;
        let made = self.enter(name)?;
        // Whatever the program's mask for new files says.
        rustix::fs::fchmod(&made.fd, ALL_ENTER)?;
        Ok(made)
    }

    /// Gives what is in it another name, which nothing has.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let alone = rustix::fs::RenameFlags::NOREPLACE;
        match rustix::fs::renameat_with(&self.fd, from, &self.fd, to, alone) {
            // Not every file system can.
            Err(rustix::io::Errno::INVAL) => Ok(rustix::fs::renameat(&self.fd, from, &self.fd, to)?),
            done => Ok(done?),
        }
    }

    /// Names of what is in it, at most `most`.
    pub fn names(&self, most: usize) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.fd)? {
            let entry = entry?;
            if let Ok(name) = entry.file_name().to_str()
                && name != "."
                && name != ".."
            {
                names.push(name.to_owned());
            }
            if names.len() >= most {
                break;
            }
        }
        Ok(names)
    }

    /// The user whose something in it is; of a link, whose the link is.
    pub fn owner_of(&self, name: &str) -> io::Result<u32> {
        Ok(rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW)?.st_uid)
    }

    /// The user whose it is, and how many seconds ago something in it changed.
    pub fn facts(&self) -> io::Result<(u32, u64)> {
        let stat = rustix::fs::fstat(&self.fd)?;
        let now = crate::wall_clock_ns() / 1_000_000_000;
        Ok((stat.st_uid, now.saturating_sub(stat.st_mtime as u64)))
    }

    /// Takes a file or socket out of it.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, name, AtFlags::empty())?)
    }

    /// Takes a folder of this user out of it, with the sockets and the life sign `sign` in that, of which there are `most` at most. Anything else in
    /// it stays, and so does the folder then: who may change this folder may have given the name to another.
    pub fn remove_folder(&self, name: &str, sign: &str, most: usize) -> io::Result<()> {
        let inner = self.enter(name)?;
        if inner.facts()?.0 != crate::effective_user() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        for file in inner.names(most)? {
            let stat = rustix::fs::statat(&inner.fd, &file, AtFlags::SYMLINK_NOFOLLOW)?;
            let is_of_ours = match FileType::from_raw_mode(stat.st_mode) {
                FileType::Socket => true,
                FileType::RegularFile => file == sign,
                _ => false,
            };
            if is_of_ours {
                let _ = inner.remove(&file);
            }
        }
        Ok(rustix::fs::unlinkat(&self.fd, name, AtFlags::REMOVEDIR)?)
    }

    /// Makes a socket with a name in it, which is taken by nothing, to which everybody may connect who gets there.
    pub fn listen(&self, name: &str) -> io::Result<PacketSocket> {
        let fd = new_socket()?;
        // The kernel takes paths of 107 bytes, and the folder's may be longer.
        let path = format!("/proc/self/fd/{}/{name}", self.fd.as_raw_fd());
        rustix::net::bind(&fd, &SocketAddrUnix::new(path)?)?;
        rustix::fs::chmodat(&self.fd, name, ALL_CONNECT, AtFlags::empty())?;
        let socket = PacketSocket::new(fd);
        socket.listen()?;
        Ok(socket)
    }

    /// Connects to such a socket; `ConnectionRefused` if nobody has the name any more, or something else has it.
    pub fn connect(&self, name: &str) -> io::Result<PacketSocket> {
        let refused = |_| io::Error::from(io::ErrorKind::ConnectionRefused);
        let there =
            rustix::fs::openat(&self.fd, name, OPEN | OFlags::PATH, Mode::empty()).map_err(refused)?;
        let stat = rustix::fs::fstat(&there)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Socket {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let fd = new_socket()?;
        // By what was looked at just now, and not by the name.
        let path = format!("/proc/self/fd/{}", there.as_raw_fd());
        rustix::net::connect(&fd, &SocketAddrUnix::new(path)?)?;
        Ok(PacketSocket::new(fd))
    }

    /// Makes a file that says that this process lives, as long as it does.
    pub fn show_life(&self, name: &str, bytes: &[u8]) -> io::Result<LifeSign> {
        let flags = OPEN | OFlags::CREATE | OFlags::EXCL | OFlags::RDWR;
        // Locked before anybody else can open it.
        let fd = rustix::fs::openat(&self.fd, name, flags, OWN)?;
        lock_for_writing(fd.as_fd())?;
        rustix::fs::fchmod(&fd, ALL_READ)?;
        let mut rest = bytes;
        while !rest.is_empty() {
            let written = rustix::io::write(&fd, rest)?;
            rest = &rest[written..];
        }
        // A child of this process has not made it.
        forget_in_children(fd.as_fd());
        Ok(LifeSign { fd })
    }

    /// Looks at such a file; at most `most` bytes of it are read.
    pub fn life(&self, name: &str, most: usize) -> io::Result<Life> {
        let flags = OPEN | OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let fd = rustix::fs::openat(&self.fd, name, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&fd)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let user = stat.st_uid;
        if !is_locked_for_writing(fd.as_fd())? {
            return Ok(Life::Ended { user });
        }
        let mut bytes = vec![0; most];
        let mut length = 0;
        while length < most {
            match rustix::io::read(&fd, &mut bytes[length..])? {
                0 => break,
                count => length += count,
            }
        }
        bytes.truncate(length);
        Ok(Life::Of { user, bytes })
    }
}

/// A lock of the open file (`F_OFD_SETLK`: fcntl(2)), which ends with it.
fn file_lock(kind: libc::c_int) -> libc::flock {
    // All of the file, from its beginning on.
    libc::flock { l_type: kind as _, l_whence: libc::SEEK_SET as _, l_start: 0, l_len: 0, l_pid: 0 }
}

/// Locks a file, for which it has to be open for writing.
fn lock_for_writing(file: BorrowedFd<'_>) -> io::Result<()> {
    let wanted = file_lock(libc::F_WRLCK);
    // SAFETY: the kernel reads the structure, which outlives the call.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const wanted) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether somebody has. Who may only read it can lock it for reading, which is not asked about.
fn is_locked_for_writing(file: BorrowedFd<'_>) -> io::Result<bool> {
    let mut found = file_lock(libc::F_RDLCK);
    // SAFETY: the kernel reads and writes the structure, which outlives the call.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut found) } {
        0 => Ok(libc::c_int::from(found.l_type) == libc::F_WRLCK),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> (std::path::PathBuf, Folder) {
        let path = std::env::temp_dir().join(format!("nonic-sys-folder.{name}.{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        let open = Folder::open(&path).unwrap();
        (path, open)
    }

    #[test]
    fn a_socket_in_a_folder_is_found_by_its_name_until_its_owner_ends_however_long_the_path_is() {
        let (path, outer) = folder("sockets");
        let deep = "a".repeat(150);
        let inner = outer.make(&deep).unwrap();
        let socket = inner.listen("name").unwrap();
        let near = outer.enter(&deep).unwrap().connect("name").unwrap();
        let far = socket.accept().unwrap();
        assert_eq!(far.peer().unwrap().pid, std::process::id() as i32);
        assert_eq!(inner.listen("name").unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop((socket, near, far));
        let refused =
            |name: &str| inner.connect(name).unwrap_err().kind() == io::ErrorKind::ConnectionRefused;
        assert!(refused("name"), "nobody listens any more");
        // What is there and is none.
        inner.remove("name").unwrap();
        std::fs::write(path.join(&deep).join("name"), "text").unwrap();
        std::os::unix::fs::symlink("name", path.join(&deep).join("link")).unwrap();
        assert!(refused("name") && refused("link") && refused("nothing"));
        assert_eq!(inner.names(100).unwrap().len(), 2);
        assert!(
            outer.remove_folder(&deep, "sign", 100).is_err(),
            "there are things in it that are none of ours"
        );
        assert_eq!(inner.names(100).unwrap().len(), 2);
        inner.remove("link").unwrap();
        outer.remove_folder(&deep, "name", 100).unwrap();
        assert!(outer.names(100).unwrap().is_empty());
        std::fs::remove_dir(path).unwrap();
    }

    #[test]
    fn a_life_sign_is_read_while_its_process_lives_and_says_when_it_does_not() {
        let (path, folder) = folder("signs");
        let own = crate::effective_user();
        let sign = folder.show_life("sign", b"words").unwrap();
        assert_eq!(folder.life("sign", 100).unwrap(), Life::Of { user: own, bytes: b"words".into() });
        assert_eq!(folder.life("sign", 3).unwrap(), Life::Of { user: own, bytes: b"wor".into() });
        assert!(folder.show_life("sign", b"").is_err(), "it is taken");
        drop(sign);
        assert_eq!(folder.life("sign", 100).unwrap(), Life::Ended { user: own });
        // Who may read it cannot hold it, as long as its process lives or when that has ended.
        let sign = folder.show_life("other", b"").unwrap();
        let read = || std::fs::File::open(path.join("other")).unwrap();
        let stranger = read();
        rustix::fs::flock(&stranger, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
        let reader = read();
        assert!(lock_for_writing(reader.as_fd()).is_err());
        assert!(matches!(folder.life("other", 100), Ok(Life::Of { .. })));
        drop(sign);
        assert!(lock_for_writing(reader.as_fd()).is_err(), "it is open for reading only");
        assert_eq!(folder.life("other", 100).unwrap(), Life::Ended { user: own });
        // What somebody else may have put there is neither waited for nor taken for one.
        std::fs::create_dir(path.join("folder")).unwrap();
        rustix::fs::mknodat(&folder.fd, "pipe", FileType::Fifo, ALL_READ, 0).unwrap();
        assert!(folder.life("folder", 100).is_err() && folder.life("pipe", 100).is_err());
        std::fs::remove_dir_all(path).unwrap();
    }
}
