//! Which processes have a socket open.

use std::path::{Path, PathBuf};

/// A process that has it open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    /// Its process id.
    pub(crate) pid: i32,
    /// The name of its program, as far as the kernel keeps it.
    pub(crate) program: String,
    /// The user it acts as; `None` if it has ended meanwhile.
    pub(crate) user: Option<u32>,
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.program, self.pid)
    }
}

/// The effective user in what `/proc/PID/status` says.
fn user_in(status: &str) -> Option<u32> {
    status.lines().find_map(|line| line.strip_prefix("Uid:")?.split_ascii_whitespace().nth(1)?.parse().ok())
}

/// The processes that have the socket of that inode open, of those whose descriptors this one may see.
pub(crate) fn holders_of_socket(inode: u64) -> Vec<Holder> {
    let link = format!("socket:[{inode}]");
    let has_it = |folder: &Path| {
        let descriptors = std::fs::read_dir(folder.join("fd")).into_iter().flatten().flatten();
        descriptors.filter_map(|entry| entry.path().read_link().ok()).any(|target| target == Path::new(&link))
    };
    let holder = |folder: PathBuf| {
        let pid = folder.file_name()?.to_str()?.parse().ok()?;
        let program = std::fs::read_to_string(folder.join("comm")).unwrap_or_default();
        has_it(&folder).then(|| {
            let user =
                std::fs::read_to_string(folder.join("status")).ok().and_then(|status| user_in(&status));
            Holder { pid, program: program.trim_end().to_owned(), user }
        })
    };
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut holders: Vec<_> = processes.filter_map(|entry| holder(entry.path())).collect();
    holders.sort_by_key(|holder| holder.pid);
    holders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_leads_to_the_process_that_has_it_open() {
        use std::os::linux::fs::MetadataExt;
        let (socket, _other_end) = std::os::unix::net::UnixStream::pair().unwrap();
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&socket));
        let holders = holders_of_socket(std::fs::metadata(path).unwrap().st_ino());
        assert!(holders.iter().any(|holder| holder.pid == std::process::id() as i32), "{holders:?}");
        assert!(!holders[0].program.is_empty());
        assert_eq!(holders[0].user, Some(nonic_sys::effective_user()));
        assert!(holders_of_socket(u64::MAX).is_empty(), "no socket has it");
    }
}
