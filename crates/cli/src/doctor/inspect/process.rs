//! A running process and its port segments, found among its descriptors. It belongs to somebody else, may be anything, and
//! may end at any moment.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::PathBuf;

use nonic_rdma_cm::{IDENTIFIERS_NAME, ShownIdentifiers, read_identifiers};
use nonic_sockets::{SOCKETS_NAME, ShownSockets, read_sockets};
use nonic_transport::{
    Counters, SEGMENT_NAME, SegmentFault, SegmentHead, SegmentRegions, read_segment_counters,
    read_segment_head, read_segment_regions,
};

/// What `/proc` and the segment say of a process.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) seen: Seen,
    /// Variables of nonic that it was started with.
    pub(super) variables: Vec<String>,
    /// Its pid namespace, as the kernel names it.
    pub(super) namespace: Option<PathBuf>,
    pub(super) head: SegmentHead,
    /// By which tokens it is asked to change its devices: one for each of its engines that can be asked.
    pub(crate) changing: Vec<u64>,
    segment: File,
}

/// What `/proc` says of a process that may be looked at.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) pid: i32,
    /// Its own name for itself (`/proc/PID/comm`).
    pub(crate) name: String,
    /// Effective user.
    pub(crate) uid: u32,
    /// Its process id in its own pid namespace.
    pub(super) inner_pid: i32,
    /// Its folder.
    pub(super) place: PathBuf,
}

/// Why a process cannot be explained.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unexplained {
    #[error("/proc is not mounted, so no process can be looked at: mount -t proc proc /proc")]
    NoProc,
    #[error("there is no process {pid}")]
    NoProcess { pid: i32 },
    #[error(
        "process {pid} ({name}) belongs to user {uid}, and this command runs as user {own}: only that user and root \
         may look at it: sudo nonic doctor --pid {pid}"
    )]
    OtherUser { pid: i32, name: String, uid: u32, own: u32 },
    #[error(
        "process {pid} ({name}) may not be looked at, though it is of the same user (it is not dumpable): \
         sudo nonic doctor --pid {pid}"
    )]
    Forbidden { pid: i32, name: String },
    #[error(
        "process {pid} ({name}) has no device of nonic open: it has no port segment (memfd \"{SEGMENT_NAME}\")"
    )]
    NoDevice { pid: i32, name: String },
    #[error(
        "process {pid} ({name}) only holds the segment of process {owner}, whose child it is: it has opened no device itself"
    )]
    Inherited { pid: i32, name: String, owner: u32 },
    #[error("process {pid} ({name}) holds a file named \"{SEGMENT_NAME}\" that is no port segment: {fault}")]
    NoSegment { pid: i32, name: String, fault: SegmentFault },
}

impl Seen {
    /// Looks at a process; with it the files that are called segments.
    fn with_segments(pid: i32) -> Result<(Self, Vec<File>), Unexplained> {
        let place = PathBuf::from(format!("/proc/{pid}"));
        let Ok(status) = fs::read_to_string(place.join("status")) else {
            let mounted = fs::exists("/proc/self/status").unwrap_or(false);
            return Err(if mounted { Unexplained::NoProcess { pid } } else { Unexplained::NoProc });
        };
        let name = fs::read_to_string(place.join("comm")).unwrap_or_default().trim_end().to_owned();
        let field = |field: &str| status.lines().find_map(|line| line.strip_prefix(field));
        let uid = field("Uid:").and_then(|ids| ids.split_ascii_whitespace().nth(1)?.parse().ok());
        let uid: u32 = uid.unwrap_or(u32::MAX);
        let inner = field("NSpid:").and_then(|pids| pids.split_ascii_whitespace().last()?.parse().ok());
        let inner_pid: i32 = inner.unwrap_or(pid);
        match files_named(&place, SEGMENT_NAME) {
            Ok(segments) => Ok((Self { pid, name, uid, inner_pid, place }, segments)),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                let own = rustix::process::geteuid().as_raw();
                Err(if uid == own {
                    Unexplained::Forbidden { pid, name }
                } else {
                    Unexplained::OtherUser { pid, name, uid, own }
                })
            }
            Err(_) => Err(Unexplained::NoProcess { pid }),
        }
    }

    /// Looks at a process, whether or not it has a device.
    pub(super) fn find(pid: i32) -> Result<Self, Unexplained> {
        Self::with_segments(pid).map(|(seen, _)| seen)
    }

    /// What it shows of its TCP sockets under these numbers, and what it holds of processes whose child it is.
    pub(super) fn sockets(&self, numbers: &[i32]) -> Vec<ShownSockets> {
        let files = files_named(&self.place, SOCKETS_NAME).unwrap_or_default();
        files.iter().filter_map(|file| read_sockets(file, numbers).ok()).collect()
    }

    /// As it is called in a report.
    pub(crate) fn title(&self) -> String {
        format!("{} ({})", self.pid, self.name)
    }
}

impl Process {
    /// Looks at a process.
    pub(crate) fn find(pid: i32) -> Result<Self, Unexplained> {
        let (seen, segments) = Seen::with_segments(pid)?;
        let Seen { name, inner_pid, place, .. } = &seen;
        let mut why = Unexplained::NoDevice { pid, name: name.clone() };
        let mut own = Vec::new();
        for segment in segments {
            match read_segment_head(&segment) {
                Ok(head) if head.owner == *inner_pid as u32 => own.push((head, segment)),
                Ok(head) => why = Unexplained::Inherited { pid, name: name.clone(), owner: head.owner },
                Err(fault) => why = Unexplained::NoSegment { pid, name: name.clone(), fault },
            }
        }
        let tokens = own.iter().map(|(head, _)| head.changing).filter(|token| *token != 0);
        let changing = tokens.collect();
        let (head, segment) = own.into_iter().next().ok_or(why)?;
        let variables = variables(place);
        let namespace = fs::read_link(place.join("ns/pid")).ok();
        Ok(Self { seen, variables, namespace, head, changing, segment })
    }

    /// Its regions as they are now.
    pub(super) fn regions(&self) -> Result<SegmentRegions, Unexplained> {
        let (pid, name) = (self.seen.pid, self.seen.name.clone());
        read_segment_regions(&self.segment).map_err(|fault| Unexplained::NoSegment { pid, name, fault })
    }

    /// What it shows of its identifiers of the RDMA connection manager; `None` if it has never had one.
    pub(super) fn identifiers(&self) -> Option<ShownIdentifiers> {
        let files = files_named(&self.seen.place, IDENTIFIERS_NAME).ok()?;
        let shown = files.iter().filter_map(|file| read_identifiers(file).ok());
        // A child that has none holds its parent's.
        shown.into_iter().find(|shown| shown.owner == self.seen.inner_pid as u32)
    }

    /// What its queue pairs have done by now.
    pub(super) fn counters(&self) -> Result<Counters, Unexplained> {
        let (pid, name) = (self.seen.pid, self.seen.name.clone());
        read_segment_counters(&self.segment).map_err(|error| Unexplained::NoSegment {
            pid,
            name,
            fault: error.into(),
        })
    }

    /// The process behind a link of this one, if it can be looked at: that is so within one pid namespace.
    pub(super) fn peer(&self, pid: i32) -> Option<Self> {
        let own = fs::read_link("/proc/self/ns/pid").ok();
        (pid > 0 && own.is_some() && self.namespace == own).then(|| Self::find(pid).ok()).flatten()
    }
}

/// Files of that name among the process's descriptors, opened for reading.
fn files_named(place: &std::path::Path, name: &str) -> std::io::Result<Vec<File>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(place.join("fd"))?.flatten() {
        let path = entry.path();
        let named = fs::read_link(&path).is_ok_and(|target| {
            target
                .to_string_lossy()
                .strip_prefix("/memfd:")
                .is_some_and(|rest| rest == name || rest.strip_prefix(name) == Some(" (deleted)"))
        });
        // Asking before opening: a pipe or a device can go by any name, too, and opening it can block.
        if named && fs::metadata(&path).is_ok_and(|metadata| metadata.is_file()) {
            found.extend(File::open(&path));
        }
    }
    Ok(found)
}

fn variables(place: &std::path::Path) -> Vec<String> {
    let environment = fs::read(place.join("environ")).unwrap_or_default();
    let words = environment.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    words.filter(|word| word.starts_with("NONIC_")).map(|word| word.escape_debug().to_string()).collect()
}
