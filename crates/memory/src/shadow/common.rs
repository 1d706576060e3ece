//! The shadow of memory that several processes share: one for all of them, since caches hold memory and not processes.
//!
//! It is kept in an anonymous file that each of them has opened for itself, page by page, each with what is noted about it. A page
//! is read, changed and written back under the kernel's lock on it, so that whoever is killed lets go. What was changed is all
//! that is written: a process that is stopped inside is not waited for without end, and what it writes when it goes on is what
//! it was about to write. Which bytes have regions on them is said by locks as well.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nonic_sys::{
    AsFd, ByteFile, LockedByte, RangeLock, Seldom, check_file_limit, lock_byte_within, locked_by_others,
    sparse_data, try_lock_range, unlock_range,
};

use super::cover::Cover;
use super::page::{Page, RECORD, SIZE};
use super::parts;
use crate::ledger::{Claim, LedgerError, MemoryFile, SHADOW_HEADER, share_shadow};

/// Positions in the memory's file end before this; the locks on them are what is covered.
const END: u64 = 1 << 60;
/// Where the locks on pages begin.
const PAGES: u64 = 1 << 61;
/// The lock on the change of what is covered.
const COVERING: u64 = 1 << 62;
/// Bytes between the records of two pages, so that notes take no memory where there are none.
const STRIDE: u64 = 3 * SIZE as u64;

/// In the header, which process took a lock last: by the locked byte.
const HOLDERS: u64 = 64;
const HOLDERS_COUNT: u64 = 1000;
const _: () = assert!(HOLDERS + 4 * HOLDERS_COUNT <= SHADOW_HEADER);

/// How long others are waited for who hold a page, or change what is covered: both is done in a moment. One that was stopped is
/// not.
const PATIENCE: Duration = Duration::from_secs(2);

/// A shadow that processes have in common.
#[derive(Debug)]
pub struct CommonShadow {
    /// By which others find it, unless it is a test's. Given up before the file is: who finds the claim finds the file.
    _claim: Option<Claim>,
    file: ByteFile,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Regions of this process.
    cover: Cover,
    /// Locks that somebody kept too long: a stopped process is waited for once.
    given_up: BTreeSet<u64>,
    record: Box<[u8; RECORD]>,
    changed: Box<[u8; RECORD]>,
}

impl CommonShadow {
    /// That of a file's memory, which is made if no process of this user has it.
    pub(super) fn open(memory: MemoryFile) -> Result<Self, LedgerError> {
        let (file, claim) = share_shadow(memory)?;
        Ok(Self::new(file, Some(claim)))
    }

    pub(super) fn new(file: ByteFile, claim: Option<Claim>) -> Self {
        let state = State {
            cover: Cover::default(),
            given_up: BTreeSet::new(),
            record: Box::new([0; RECORD]),
            changed: Box::new([0; RECORD]),
        };
        Self { _claim: claim, file, state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses positions that cannot be in a file.
    pub(super) fn check(&self, positions: &Range<u64>) -> io::Result<()> {
        if positions.start > positions.end || positions.end > END {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        check_file_limit(place_of(positions.end / SIZE as u64 + 1))
    }

    /// The kernel's lock on a byte; `None` if whoever has it does not let go.
    fn turn(&self, state: &mut State, byte: u64) -> io::Result<Option<LockedByte<'_>>> {
        static STOPPED: Seldom = Seldom::new();
        let given_up = state.given_up.contains(&byte);
        let patience = if given_up { Duration::ZERO } else { PATIENCE };
        // Of two bytes with one place the wrong process may be found there, which matters only if it was stopped.
        let place = HOLDERS + byte % HOLDERS_COUNT * 4;
        let holder = || {
            let mut number = [0; 4];
            self.file.read_at(place, &mut number).map_or(0, |()| i32::from_ne_bytes(number))
        };
        let turn = lock_byte_within(self.file.as_fd(), byte, patience, holder)?;
        if turn.is_some() {
            state.given_up.remove(&byte);
            self.file.write_at(place, &(std::process::id() as i32).to_ne_bytes())?;
        } else if state.given_up.insert(byte)
            && let Some(unsaid) = STOPPED.turn()
        {
            tracing::warn!(
                unsaid,
                "a process that shares memory which is not coherent was stopped while it changed it, and is not waited for"
            );
        }
        Ok(turn)
    }

    /// Runs `change` on a page, while no other process does.
    pub(super) fn with<R>(&self, page: u64, change: impl FnOnce(&mut Page) -> R) -> io::Result<R> {
        self.change(&mut self.lock(), page, change)
    }

    fn change<R>(&self, state: &mut State, page: u64, change: impl FnOnce(&mut Page) -> R) -> io::Result<R> {
        let _turn = self.turn(state, PAGES + page)?;
        let State { record, changed, .. } = state;
        self.file.read_at(place_of(page), &mut record[..])?;
        let mut copy = Page::from_record(record).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let result = change(&mut copy);
        changed.copy_from_slice(&record[..]);
        copy.to_record(changed);
        for part in differences(&record[..], &changed[..]) {
            self.file.write_at(place_of(page) + part.start as u64, &changed[part])?;
        }
        Ok(result)
    }

    /// What peers read in a part of a page.
    pub(super) fn read(&self, page: u64, place: &Range<usize>, bytes: &mut [u8]) -> io::Result<()> {
        self.file.read_at(place_of(page) + place.start as u64, bytes)
    }

    /// A region of this process is on these positions now. What peers wrote when no region was is forgotten.
    pub(super) fn cover(&self, positions: &Range<u64>) -> io::Result<()> {
        let state = &mut *self.lock();
        let _turn = self.turn(state, COVERING)?;
        for new in state.cover.bare(positions) {
            self.forget_uncovered(state, &new)?;
            try_lock_range(self.file.as_fd(), &new, RangeLock::Shared)?;
        }
        state.cover.add(positions);
        Ok(())
    }

    /// It is no longer. What peers wrote where no region is any more is forgotten.
    pub(super) fn uncover(&self, positions: &Range<u64>) -> io::Result<()> {
        let state = &mut *self.lock();
        let _turn = self.turn(state, COVERING)?;
        // What could not be covered is not.
        for covered in state.cover.covered(positions) {
            state.cover.remove(&covered);
        }
        for bare in state.cover.bare(positions) {
            unlock_range(self.file.as_fd(), &bare)?;
            self.forget_uncovered(state, &bare)?;
        }
        Ok(())
    }

    /// Forgets what peers wrote to those of some positions on which no other process has a region.
    fn forget_uncovered(&self, state: &mut State, positions: &Range<u64>) -> io::Result<()> {
        let mut left = vec![positions.clone()];
        while let Some(range) = left.pop() {
            if range.is_empty() {
                continue;
            }
            match locked_by_others(self.file.as_fd(), &range)? {
                Some(theirs) => left.extend([range.start..theirs.start, theirs.end..range.end]),
                None => self.forget(state, &range)?,
            }
        }
        Ok(())
    }

    fn forget(&self, state: &mut State, positions: &Range<u64>) -> io::Result<()> {
        let end = positions.end.div_ceil(SIZE as u64);
        let mut page = positions.start / SIZE as u64;
        // Pages that nobody has written are not there.
        while let Some((data, _)) = sparse_data(self.file.as_fd(), place_of(page), place_of(end))? {
            page = page.max((data - SHADOW_HEADER) / STRIDE);
            let start = page * SIZE as u64;
            let part = positions.start.max(start)..positions.end.min(start + SIZE as u64);
            for (page, place, _) in parts(part) {
                self.change(state, page, |page| {
                    if page.has_notes() {
                        page.drop_notes(&place);
                    }
                })?;
            }
            page += 1;
        }
        Ok(())
    }
}

/// Where the record of a page is. Pages end before 2^48.
fn place_of(page: u64) -> u64 {
    SHADOW_HEADER + page * STRIDE
}

/// Where two records differ; parts that are near each other count as one.
fn differences(one: &[u8], other: &[u8]) -> Vec<Range<usize>> {
    const NEAR: usize = 64;
    let mut parts: Vec<Range<usize>> = Vec::new();
    let mut at = 0;
    while at < one.len() {
        let end = one.len().min(at + NEAR);
        if one[at..end] == other[at..end] {
            at = end;
            continue;
        }
        let first = (at..end).find(|at| one[*at] != other[*at]).expect("the two differ in there");
        let last = (at..end).rfind(|at| one[*at] != other[*at]).expect("the two differ in there");
        match parts.last_mut() {
            Some(part) if part.end == at && first == at => part.end = last + 1,
            _ => parts.push(first..last + 1),
        }
        at = end;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_differs_is_all_that_is_written_where_lines_are_apart(
            changes in prop::collection::vec((0..RECORD, 1u8..), 0..12)
        ) {
            let old = vec![0; RECORD];
            let mut new = old.clone();
            changes.iter().for_each(|(at, value)| new[*at] = *value);
            let mut copy = old.clone();
            let mut behind = 0;
            for part in differences(&old, &new) {
                prop_assert!(part.start >= behind);
                prop_assert!(new[part.start] != old[part.start] && new[part.end - 1] != old[part.end - 1]);
                behind = part.end;
                copy[part.clone()].copy_from_slice(&new[part]);
            }
            prop_assert_eq!(copy, new);
        }
    }
}
