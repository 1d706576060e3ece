//! The ledger's file, which the processes of a user change one after another.
//!
//! Every line belongs to the process that holds the lock on it; a line that nobody holds is free, whatever it says. The lock on
//! the first line, which is no process's, is the turn to change something.

use std::ops::Range;
use std::time::Duration;

use nonic_sys::{
    AsFd, ByteFile, LockedByte, RangeLock, effective_user, is_still_at, lock_byte_within, locked_by_others,
    open_user_file, remove_user_file, try_lock_range, unlock_range,
};

use super::LedgerError;
use super::line::{Bytes, LENGTH, Line};

/// First bytes of the file.
const MARK: [u8; 16] = *b"nonic ledger 1\n\0";
/// Lines at most, with the first: one for each cookie, and each shadow, in each process that has it.
pub(super) const LINES_MAX: u64 = 4096;

/// Where it is: anybody may make a file there, and it is gone when the machine is. Tests of this crate have one of their own.
pub(super) fn path() -> String {
    let test = if cfg!(test) { format!(".test.{}", std::process::id()) } else { String::new() };
    format!("/dev/shm/nonic-ledger.1.{}{test}", effective_user())
}

#[derive(Debug)]
pub(super) struct LedgerFile {
    file: ByteFile,
    path: String,
}

/// The lock of a line.
fn lock_of(line: u64) -> Range<u64> {
    line..line + 1
}

impl LedgerFile {
    pub(super) fn open() -> Result<Self, LedgerError> {
        let path = path();
        match open_user_file(&path) {
            Ok(file) => Ok(Self { file: ByteFile::new(file), path }),
            Err(error) => Err(LedgerError::Unusable { path, error }),
        }
    }

    /// The turn to change something; nobody keeps it for more than a moment, unless it was stopped in it.
    pub(super) fn turn(&self, patience: Duration) -> Result<LockedByte<'_>, LedgerError> {
        match lock_byte_within(self.file.as_fd(), 0, patience, || self.last_process())? {
            Some(turn) => Ok(turn),
            None => Err(LedgerError::Busy { process: self.last_process() }),
        }
    }

    /// The process whose turn it was last, or is.
    fn last_process(&self) -> i32 {
        let mut bytes = [0; 4];
        let read = self.file.read_at(MARK.len() as u64, &mut bytes);
        read.map_or(0, |()| i32::from_ne_bytes(bytes))
    }

    /// Writes the first line, in a turn.
    pub(super) fn begin(&self) -> Result<(), LedgerError> {
        let mut first = [0; LENGTH];
        self.file.read_at(0, &mut first)?;
        // One that was killed here left a part of it, at worst.
        let is_other =
            first[..MARK.len()].iter().zip(MARK).any(|(found, mark)| *found != 0 && *found != mark);
        if is_other {
            return Err(LedgerError::NoLedger { path: self.path.clone() });
        }
        first[..MARK.len()].copy_from_slice(&MARK);
        first[MARK.len()..][..4].copy_from_slice(&(std::process::id() as i32).to_ne_bytes());
        Ok(self.file.write_at(0, &first)?)
    }

    /// Whether it has its name still: whoever comes finds this file and no other.
    pub(super) fn is_in_place(&self) -> bool {
        is_still_at(self.file.as_fd(), &self.path)
    }

    /// What stands in every line, from the first of a process.
    pub(super) fn lines(&self) -> Result<Vec<(u64, Option<Line>)>, LedgerError> {
        let count = (self.file.length()? / LENGTH as u64).min(LINES_MAX);
        let mut bytes = vec![0; count as usize * LENGTH];
        self.file.read_at(0, &mut bytes)?;
        let (lines, _) = bytes.as_chunks::<LENGTH>();
        let lines =
            (0..).zip(lines).skip(1).map(|(number, line): (u64, &Bytes)| (number, Line::from_bytes(line)));
        Ok(lines.collect())
    }

    /// Whether another process holds a line.
    pub(super) fn is_held(&self, line: u64) -> Result<bool, LedgerError> {
        Ok(locked_by_others(self.file.as_fd(), &lock_of(line))?.is_some())
    }

    /// Takes a line that nobody holds, in a turn.
    pub(super) fn take(&self, number: u64, line: Line) -> Result<(), LedgerError> {
        if !try_lock_range(self.file.as_fd(), &lock_of(number), RangeLock::Alone)? {
            return Err(LedgerError::Full);
        }
        let written = self.file.write_at(number * LENGTH as u64, &line.to_bytes());
        written.inspect_err(|_| self.leave(number)).map_err(LedgerError::from)
    }

    /// Lets go of a line, which it says in a turn.
    pub(super) fn leave(&self, number: u64) {
        let _ = unlock_range(self.file.as_fd(), &lock_of(number));
    }

    /// Empties a line, in a turn.
    pub(super) fn clear(&self, number: u64) {
        let _ = self.file.write_at(number * LENGTH as u64, &[0; LENGTH]);
    }

    #[cfg(test)]
    pub(super) fn as_fd(&self) -> nonic_sys::BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Takes the file away if no other process has a line, in a turn.
    pub(super) fn remove_if_unused(&self) {
        if let Ok(None) = locked_by_others(self.file.as_fd(), &(1..LINES_MAX)) {
            remove_user_file(self.file.as_fd(), &self.path);
        }
    }
}
