//! Copying between processes by the kernel (`process_vm_readv(2)`, `process_vm_writev(2)`).

use std::io;

/// A range of some process's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Piece {
    /// First byte.
    pub address: usize,
    /// Length in bytes.
    pub length: usize,
}

const _: () = assert!(size_of::<Piece>() == size_of::<libc::iovec>());

/// Copies from `remote` memory of process `pid` into `local` memory of this one; returns the bytes copied, fewer than
/// asked if the remote memory ends early.
///
/// # Safety
/// The kernel writes to the `local` pieces: they must be memory the caller may overwrite. Unmapped pieces are an
/// error, not a fault.
pub unsafe fn read_process(pid: i32, local: &[Piece], remote: &[Piece]) -> io::Result<usize> {
    // SAFETY: both arrays live through the call and have the layout of `iovec` (asserted above).
    let copied = unsafe {
        libc::process_vm_readv(
            pid,
            local.as_ptr().cast(),
            local.len() as libc::c_ulong,
            remote.as_ptr().cast(),
            remote.len() as libc::c_ulong,
            0,
        )
    };
    if copied < 0 { Err(io::Error::last_os_error()) } else { Ok(copied as usize) }
}

/// Copies from `remote` memory of process `pid` into `bytes`; returns the bytes copied.
pub fn read_process_into(pid: i32, remote: Piece, bytes: &mut [u8]) -> io::Result<usize> {
    let local = [Piece { address: bytes.as_mut_ptr() as usize, length: bytes.len() }];
    // SAFETY: the piece is `bytes`, which the caller lends to be overwritten.
    unsafe { read_process(pid, &local, &[remote]) }
}

/// Copies from `local` memory of this process into `remote` memory of process `pid`; returns the bytes copied.
pub(crate) fn write_process(pid: i32, local: &[Piece], remote: &[Piece]) -> io::Result<usize> {
    // SAFETY: both arrays live through the call; the kernel only reads local memory and refuses what is unmapped.
    let copied = unsafe {
        libc::process_vm_writev(
            pid,
            local.as_ptr().cast(),
            local.len() as libc::c_ulong,
            remote.as_ptr().cast(),
            remote.len() as libc::c_ulong,
            0,
        )
    };
    if copied < 0 { Err(io::Error::last_os_error()) } else { Ok(copied as usize) }
}

/// Lets every process of this user trace this one, which Yama's `ptrace_scope` 1 otherwise limits to its ancestors.
/// Without Yama this does nothing.
pub fn allow_any_tracer() {
    // SAFETY: this prctl takes numbers and touches no memory.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) };
}

/// Whether this thread may do what `CAP_SYS_ADMIN` allows.
pub fn may_administer() -> bool {
    use rustix::thread::{CapabilitySet, capabilities};
    capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN))
}

/// Whether this thread may take ports that are kept for the privileged (`CAP_NET_BIND_SERVICE`).
pub fn may_bind_any_port() -> bool {
    use rustix::thread::{CapabilitySet, capabilities};
    capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::NET_BIND_SERVICE))
}

/// A descriptor that becomes readable when process `pid` ends; `None` where the kernel offers none (before 5.3, or
/// refused), or for a process this one does not see.
pub fn open_process(pid: i32) -> Option<rustix::fd::OwnedFd> {
    let pid = rustix::process::Pid::from_raw(pid)?;
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
}

/// Whether process `pid` has ended, reaped or not. One that this process does not see counts as ended.
pub fn process_has_ended(pid: i32) -> bool {
    match open_process(pid) {
        Some(process) => {
            crate::wait_readable(rustix::fd::AsFd::as_fd(&process), Some(std::time::Duration::ZERO))
        }
        None => {
            let process = rustix::process::Pid::from_raw(pid);
            process.is_none_or(|pid| rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH))
        }
    }
}

/// Whether process `pid` has ended or is about to: its memory goes first, then its descriptors, and last the process itself.
/// In between the kernel refuses its files in `/proc` to everybody but root, as it does those of another user.
pub fn process_is_ending(pid: i32) -> bool {
    // The kernel's `PF_EXITING`.
    const EXITING: u64 = 4;
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return process_has_ended(pid);
    };
    // Behind the name, which may hold anything: the state, five numbers, the flags.
    let mut fields = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace();
    let state = fields.next();
    let flags = fields.nth(5).and_then(|flags| flags.parse::<u64>().ok());
    matches!(state, Some("Z" | "X")) || flags.is_some_and(|flags| flags & EXITING != 0)
}

/// Whether process `pid` has been stopped, by a signal or a debugger, and goes on nobody knows when.
pub fn process_is_stopped(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // Behind the name, which may hold anything.
    let state = stat.rsplit(')').next().unwrap_or_default().trim_start().chars().next();
    matches!(state, Some('T' | 't'))
}

/// Whether a process that has locked `bytes` of memory is within `RLIMIT_MEMLOCK`, or may pass it (`CAP_IPC_LOCK`).
pub fn may_lock(bytes: u64) -> bool {
    use rustix::thread::{CapabilitySet, capabilities};
    let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock).current;
    limit.is_none_or(|limit| bytes <= limit)
        || capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::IPC_LOCK))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_ended_is_known_before_it_is_reaped() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id() as i32;
        assert!(!process_is_ending(std::process::id() as i32));
        while !process_has_ended(pid) {
            std::thread::yield_now();
        }
        assert!(process_is_ending(pid));
        child.wait().unwrap();
        assert!(process_has_ended(pid) && !process_has_ended(std::process::id() as i32));
        assert!(!process_is_stopped(pid));
    }

    #[test]
    fn a_process_that_was_stopped_is_known() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id() as i32;
        assert!(!process_is_stopped(pid));
        // SAFETY: signals to a child of this test.
        unsafe { libc::kill(pid, libc::SIGSTOP) };
        while !process_is_stopped(pid) {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
