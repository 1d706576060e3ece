//! The ledger: what the processes of a user agree on about memory that they share, across processes that may be stopped or
//! killed at any moment.
//!
//! It is a file of that user's alone, of lines of which each belongs to one living process: "I use this cookie for this memory",
//! "I keep the shadow of this memory". Whoever has something to say looks at the lines of the others first, and nobody has to
//! answer: the kernel says which lines are held, and frees those of a process that ends, however it ends. The last one that
//! leaves in order takes the file away; one that is killed leaves it, for the next to use.
//!
//! What it says holds in one network namespace, as everything else of the device.

mod file;
mod line;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nonic_sys::{
    AsFd, AsRawFd, ByteFile, PerProcess, UserFileError, check_is_let_back, current_generation,
    fork_generation, namespace_number, open_foreign_file,
};

use self::file::{LINES_MAX, LedgerFile};
use self::line::{Line, Subject};

/// What names memory among those who share it.
pub type Cookie = [u8; 40];

/// A file whose memory processes map shared, as the kernel tells it from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemoryFile {
    /// Device number, major and minor.
    pub device: (u32, u32),
    /// Inode.
    pub inode: u64,
    /// For a segment of System V, whose number stands for the inode: the namespace that numbered it. Else 0.
    pub segments: u64,
}

/// A range of such memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedMemoryRange {
    /// The file.
    pub file: MemoryFile,
    /// Offset of the first byte.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
}

/// Why nothing could be agreed on. Nothing has changed then.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// A cookie that a living process uses for other memory.
    #[error("process {process} uses that cookie for other memory")]
    OtherMemory {
        /// Its number.
        process: i32,
    },
    /// The file cannot be this user's.
    #[error("{path}, where the processes of this user agree on shared memory, cannot be used: {error}")]
    Unusable {
        /// Its name.
        path: String,
        /// What is in the way.
        error: UserFileError,
    },
    /// A file of this user's that is something else.
    #[error("{path} is no ledger of nonic's: take it away")]
    NoLedger {
        /// Its name.
        path: String,
    },
    /// It was taken away while this process had lines in it.
    #[error(
        "the ledger of shared memory in /dev/shm was taken away while it was in use: end the processes that share memory"
    )]
    Removed,
    /// Somebody keeps the turn.
    #[error(
        "process {process} does not get on with its entry in the ledger of shared memory: it was stopped in it"
    )]
    Busy {
        /// Its number.
        process: i32,
    },
    /// No line is left.
    #[error("the ledger of shared memory of this user is full: its processes use cookies {LINES_MAX} times")]
    Full,
    /// The shadow that others have cannot be reached.
    #[error(
        "the copy of memory that is not coherent, which process {process} shares, cannot be reached: {error}"
    )]
    Unreachable {
        /// Its number.
        process: i32,
        /// What is in the way.
        error: io::Error,
    },
    /// The kernel refused.
    #[error("the ledger of shared memory: {0}")]
    System(#[from] io::Error),
}

/// How long a turn is waited for by who needs one.
const PATIENCE: Duration = Duration::from_secs(5);
/// And by who only tidies up.
const SHORT_PATIENCE: Duration = Duration::from_millis(20);

/// This process's part.
#[derive(Debug, Default)]
struct Ledger {
    /// While it has lines.
    file: Option<Arc<LedgerFile>>,
    /// Those.
    own: BTreeSet<u64>,
}

static LEDGER: PerProcess<Mutex<Ledger>> = PerProcess::new();

fn lock() -> MutexGuard<'static, Ledger> {
    LEDGER.get_or_make(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// A line of this process's, until it is dropped.
#[derive(Debug)]
#[must_use]
pub struct Claim {
    line: u64,
    /// A child's claims are its own.
    generation: u32,
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.generation == current_generation() {
            lock().leave(self.line);
        }
    }
}

/// Says that this process uses a cookie for some memory. Refused if another living process uses it for other memory.
pub fn claim_cookie(cookie: Cookie, memory: SharedMemoryRange) -> Result<Claim, LedgerError> {
    let network = namespace_number("net")?;
    lock()
        .add(network, |file, others| {
            for (number, line) in others {
                if let Subject::Cookie(theirs, other) = line.subject
                    && theirs == cookie
                    && other != memory
                    && file.is_held(*number)?
                {
                    return Err(LedgerError::OtherMemory { process: line.process });
                }
            }
            Ok(((), Subject::Cookie(cookie, memory)))
        })
        .map(|((), claim)| claim)
}

/// First bytes of a file in which processes keep a shadow, before the name of the memory.
const SHADOW_MARK: [u8; 16] = *b"nonic shadow 1\n\0";

/// The anonymous file in which the shadow of some memory is kept, which is another process's if one has it already; and the
/// line that says that this process has it, too. Its first [`SHADOW_HEADER`] bytes are taken.
pub(crate) fn share_shadow(memory: MemoryFile) -> Result<(ByteFile, Claim), LedgerError> {
    let network = namespace_number("net")?;
    lock().add(network, |file, others| {
        let mut failed = None;
        for (number, line) in others {
            if let Subject::Shadow(theirs, descriptor) = line.subject
                && theirs == memory
                && file.is_held(*number)?
            {
                match open_shadow(line.process, descriptor, memory) {
                    Ok(shadow) => return Ok(with_number(shadow, memory)),
                    Err(error) => failed = Some((line.process, error)),
                }
            }
        }
        if let Some((process, error)) = failed {
            return Err(LedgerError::Unreachable { process, error });
        }
        let shadow = ByteFile::anonymous("nonic-shadow")?;
        shadow.write_at(0, &header(memory))?;
        Ok(with_number(shadow, memory))
    })
}

/// Bytes before a shadow.
pub(crate) const SHADOW_HEADER: u64 = 4096;

fn header(memory: MemoryFile) -> [u8; 40] {
    let mut header = [0; 40];
    header[..16].copy_from_slice(&SHADOW_MARK);
    header[16..].copy_from_slice(&memory.to_bytes());
    header
}

fn with_number(shadow: ByteFile, memory: MemoryFile) -> (ByteFile, Subject) {
    let number = shadow.as_fd().as_raw_fd() as u32;
    (shadow, Subject::Shadow(memory, number))
}

fn open_shadow(process: i32, descriptor: u32, memory: MemoryFile) -> io::Result<ByteFile> {
    check_is_let_back(process)?;
    let like = ByteFile::anonymous("nonic-shadow")?;
    let shadow = ByteFile::new(open_foreign_file(process, descriptor, like.as_fd())?);
    let mut found = [0; 40];
    shadow.read_at(0, &mut found)?;
    if found != header(memory) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is no shadow of that memory"));
    }
    Ok(shadow)
}

impl Ledger {
    /// Adds a line, which `judge` makes when it has looked at those of other processes in the same network.
    fn add<R>(
        &mut self,
        network: u64,
        judge: impl FnOnce(&LedgerFile, &[(u64, Line)]) -> Result<(R, Subject), LedgerError>,
    ) -> Result<(R, Claim), LedgerError> {
        // Its last user may take a file away that this process has just opened.
        const TRIES: u32 = 100;
        for _ in 0..TRIES {
            let file = match &self.file {
                Some(file) => Arc::clone(file),
                None => Arc::new(LedgerFile::open()?),
            };
            let _turn = file.turn(PATIENCE)?;
            if !file.is_in_place() {
                if self.file.is_some() {
                    return Err(LedgerError::Removed);
                }
                continue;
            }
            file.begin()?;
            let added = self.add_in_turn(&file, network, judge);
            if self.own.is_empty() {
                file.remove_if_unused();
            }
            return added;
        }
        Err(LedgerError::Removed)
    }

    fn add_in_turn<R>(
        &mut self,
        file: &Arc<LedgerFile>,
        network: u64,
        judge: impl FnOnce(&LedgerFile, &[(u64, Line)]) -> Result<(R, Subject), LedgerError>,
    ) -> Result<(R, Claim), LedgerError> {
        let lines = file.lines()?;
        let others = lines.iter().filter(|(number, _)| !self.own.contains(number));
        let others = others.filter_map(|(number, line)| Some((*number, (*line)?)));
        let others: Vec<_> = others.filter(|(_, line)| line.network == network).collect();
        let (kept, subject) = judge(file, &others)?;
        let number = self.free_line(file, &lines)?;
        file.take(number, Line { process: std::process::id() as i32, network, subject })?;
        self.own.insert(number);
        self.file = Some(Arc::clone(file));
        Ok((kept, Claim { line: number, generation: fork_generation() }))
    }

    /// A line that nobody holds: one that says nothing, else one of a process that was killed, else the next.
    fn free_line(&self, file: &LedgerFile, lines: &[(u64, Option<Line>)]) -> Result<u64, LedgerError> {
        for empty in [true, false] {
            for (number, line) in lines {
                if line.is_none() == empty && !self.own.contains(number) && !file.is_held(*number)? {
                    return Ok(*number);
                }
            }
        }
        let next = lines.last().map_or(1, |(number, _)| number + 1);
        if next < LINES_MAX { Ok(next) } else { Err(LedgerError::Full) }
    }

    fn leave(&mut self, line: u64) {
        let Some(file) = self.file.clone().filter(|_| self.own.remove(&line)) else { return };
        // Who was stopped in its turn is not waited for: what a line says that nobody holds does not count.
        let turn = file.turn(SHORT_PATIENCE).ok();
        if turn.is_some() {
            file.clear(line);
        }
        file.leave(line);
        if self.own.is_empty() {
            if turn.is_some() {
                file.remove_if_unused();
            }
            self.file = None;
        }
    }
}
