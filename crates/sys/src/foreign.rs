//! What another process owns, as far as the kernel lets this one at it: its descriptors, and who it is.

use std::io;
use std::sync::OnceLock;

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};

use crate::socket::Credentials;

/// Not in every version of the crate for C's definitions (include/uapi/asm-generic/socket.h).
const SO_PEERPIDFD: i32 = 77;

/// Who is at the other end of a Unix socket: who connected, or who listened.
pub fn peer_credentials(socket: BorrowedFd<'_>) -> io::Result<Credentials> {
    let mut raw = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    // Not through rustix: its `Pid` has no room for 0, which a foreign pid namespace shows.
    socket_option(socket, libc::SO_PEERCRED, &mut raw)?;
    Ok(Credentials { pid: raw.pid, uid: raw.uid })
}

/// A descriptor of the very process at the other end of a Unix socket, also of one in a pid namespace that this process does
/// not see, readable when it has ended. On kernels that cannot tell (before 6.5) it is the process that has the number now.
pub fn peer_process(socket: BorrowedFd<'_>, peer: Credentials) -> Option<OwnedFd> {
    let mut raw = -1i32;
    match socket_option(socket, SO_PEERPIDFD, &mut raw) {
        Ok(()) if raw >= 0 => {
            use std::os::fd::FromRawFd;
            // SAFETY: the kernel just made this descriptor for the caller, and nobody else knows it.
            Some(unsafe { OwnedFd::from_raw_fd(raw) })
        }
        // The process has ended: whoever has its number now is another one.
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => None,
        _ => crate::open_process(peer.pid),
    }
}

fn socket_option<T: Copy>(socket: BorrowedFd<'_>, option: i32, value: &mut T) -> io::Result<()> {
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` and `length` are locals of the callers above, whose types have the size the option wants and are plain
    // numbers; the kernel writes `length` bytes at most.
    let failed = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw mut *value).cast(),
            &raw mut length,
        )
    };
    if failed != 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Reads the first bytes of an anonymous file (`memfd_create(2)`) that process `pid` has open under `number`, through
/// `/proc/PID/fd`. The kernel grants that to whoever may read the process's state: the same user with no fewer rights, in
/// the same user namespace, of a process that can be dumped (`PTRACE_MODE_READ_FSCREDS`, ptrace(2)); Yama leaves it alone.
///
/// `like` is an anonymous file of this process: whatever lies on another file system is not opened. The other process
/// chooses the number, and opening, reading or closing a file of a file system of its own could block for ever.
pub fn read_foreign_file(pid: i32, number: u32, like: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<usize> {
    let file = reopen(pid, number, like, OFlags::RDONLY)?;
    Ok(rustix::io::pread(&file, bytes, 0)?)
}

/// Opens such a file once more, to read and to write.
pub fn open_foreign_file(pid: i32, number: u32, like: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    reopen(pid, number, like, OFlags::RDWR)
}

fn reopen(pid: i32, number: u32, like: BorrowedFd<'_>, access: OFlags) -> io::Result<OwnedFd> {
    // `O_PATH` follows the link to the file itself and asks nothing of its file system, neither now nor when it is closed.
    let path = format!("/proc/{pid}/fd/{number}");
    let found = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    check_same_file_system(found.as_fd(), like)?;
    let again = format!("/proc/self/fd/{}", found.as_raw_fd());
    let flags = access | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(again, flags, Mode::empty())?)
}

/// Whether the kernel lets process `pid`, of this user, at this process, too, as far as that can be seen from here: it has no
/// fewer rights, is in the same user namespace, and this process can be dumped. An error says what is in the way.
pub fn check_is_let_back(pid: i32) -> io::Result<()> {
    use rustix::process::{DumpableBehavior, Pid, dumpable_behavior};
    use rustix::thread::capabilities;
    let refused = |what: &str| io::Error::new(io::ErrorKind::PermissionDenied, what.to_owned());
    if dumpable_behavior()? != DumpableBehavior::Dumpable {
        return Err(refused("this process may not be looked at (PR_SET_DUMPABLE)"));
    }
    let theirs = Pid::from_raw(pid).ok_or_else(|| refused("it has no number here"))?;
    if !capabilities(Some(theirs))?.permitted.contains(capabilities(None)?.permitted) {
        return Err(refused("this process has capabilities that it lacks"));
    }
    let namespace = |process: &str| rustix::fs::readlink(format!("/proc/{process}/ns/user"), Vec::new());
    if namespace("self")? != namespace(&pid.to_string())? {
        return Err(refused("it is in another user namespace"));
    }
    Ok(())
}

/// The same of a process that has no number here, through a copy of its descriptor (`pidfd_getfd(2)`, Linux 5.6), for which
/// the kernel asks whether this process may trace it (`PTRACE_MODE_ATTACH_REALCREDS`), and so does Yama. The copy is
/// closed again, which may block if the other process is not of this one's user.
pub fn read_copied_file(
    process: BorrowedFd<'_>,
    number: u32,
    like: BorrowedFd<'_>,
    bytes: &mut [u8],
) -> io::Result<usize> {
    let number = i32::try_from(number).map_err(|_| io::ErrorKind::InvalidInput)?;
    let file = rustix::process::pidfd_getfd(process, number, rustix::process::PidfdGetfdFlags::empty())?;
    check_same_file_system(file.as_fd(), like)?;
    Ok(rustix::io::pread(&file, bytes, 0)?)
}

fn check_same_file_system(file: BorrowedFd<'_>, like: BorrowedFd<'_>) -> io::Result<()> {
    let device = |file: BorrowedFd<'_>| {
        // Without asking the file system's server, which may never answer.
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        rustix::fs::statx(file, "", flags, StatxFlags::TYPE)
            .map(|stat| (stat.stx_dev_major, stat.stx_dev_minor))
    };
    if device(file)? == device(like)? {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "a file that is no anonymous one"))
}

/// The user that stands for everybody whom this user namespace has no number for: 65534, unless the machine's
/// administrator chose another one.
pub fn overflow_user() -> u32 {
    static USER: OnceLock<u32> = OnceLock::new();
    *USER.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/sys/kernel/overflowuid");
        text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(65534)
    })
}

/// Whether this thread may look into processes of other users (`CAP_SYS_PTRACE`), now or when it wants.
pub fn may_trace_others() -> bool {
    use rustix::thread::{CapabilitySet, capabilities};
    capabilities(None)
        .map_or(true, |sets| (sets.effective | sets.permitted).contains(CapabilitySet::SYS_PTRACE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SharedMemory;

    fn number(file: &impl AsFd) -> u32 {
        file.as_fd().as_raw_fd() as u32
    }

    fn anonymous_file(bytes: &[u8]) -> SharedMemory {
        let file = SharedMemory::create("nonic-sys-test", 4096).unwrap();
        rustix::io::pwrite(&file, bytes, 0).unwrap();
        file
    }

    #[test]
    fn an_anonymous_file_of_a_process_is_read_by_the_number_it_has_there() {
        let file = anonymous_file(b"secret");
        let own = std::process::id() as i32;
        let mut bytes = [0; 6];
        assert_eq!(read_foreign_file(own, number(&file), file.as_fd(), &mut bytes).unwrap(), 6);
        assert_eq!(&bytes, b"secret");
        let process = crate::open_process(own).unwrap();
        let mut bytes = [0; 6];
        // A filter of the container may forbid it; then there is nothing to see.
        if let Ok(6) = read_copied_file(process.as_fd(), number(&file), file.as_fd(), &mut bytes) {
            assert_eq!(&bytes, b"secret");
        }
    }

    #[test]
    fn a_file_of_another_file_system_is_refused_and_not_opened() {
        let like = anonymous_file(b"");
        let own = std::process::id() as i32;
        // Opening a pipe that nobody writes to would block; a device could do anything.
        let (pipe, _writer) = crate::pipe().unwrap();
        let null = std::fs::File::open("/dev/null").unwrap();
        for other in [number(&pipe), number(&null), u32::MAX] {
            let mut bytes = [7; 4];
            assert!(read_foreign_file(own, other, like.as_fd(), &mut bytes).is_err());
            assert_eq!(bytes, [7; 4]);
        }
    }

    #[test]
    fn the_process_at_the_other_end_of_a_socket_is_seen_to_end() {
        let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
        let peer = peer_credentials(near.as_fd()).unwrap();
        assert_eq!(peer, Credentials { pid: std::process::id() as i32, uid: crate::effective_user() });
        let process = peer_process(near.as_fd(), peer).unwrap();
        assert!(!crate::wait_readable(process.as_fd(), Some(std::time::Duration::ZERO)));
        drop(far);
    }

    #[test]
    fn who_may_look_at_a_process_is_told_from_who_may_not() {
        check_is_let_back(std::process::id() as i32).unwrap();
        assert!(check_is_let_back(0).is_err());
        // SAFETY: the child looks at its parent and leaves by `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: plain system calls.
            unsafe {
                let before = check_is_let_back(libc::getppid()).is_ok();
                libc::prctl(libc::PR_SET_DUMPABLE, 0);
                let after = check_is_let_back(libc::getppid()).is_ok();
                libc::_exit(if before && !after { 0 } else { 1 });
            }
        }
        let mut status = -1;
        // SAFETY: the child is this test's.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
        if crate::effective_user() != 0 {
            println!("SKIPPED: a process with fewer capabilities: needs root");
            return;
        }
        let mut weaker = std::process::Command::new("setpriv");
        let mut weaker =
            weaker.args(["--bounding-set=-all", "--inh-caps=-all", "sleep", "60"]).spawn().unwrap();
        // It has them until it has become the other program.
        let name = format!("/proc/{}/comm", weaker.id());
        while std::fs::read_to_string(&name).unwrap().trim() != "sleep" {
            std::thread::yield_now();
        }
        let refused = check_is_let_back(weaker.id() as i32).unwrap_err();
        assert!(refused.to_string().contains("capabilities"), "{refused}");
        weaker.kill().unwrap();
        weaker.wait().unwrap();
    }
}
