//! Ranges of windows, and of the program's memory, as a copy between hosts uses them here: bytes go in and out piece by piece.

use std::sync::Arc;

use super::copying::{Part, Transfer, bytes_in, bytes_out, program};
use super::rma::{check, parts_of};
use super::slots::{Range, Slot, enter, leave};
use super::{Mirrors, RegisteredMemory};
use crate::ScifError;
use crate::options::Protection;

/// Whose windows a range lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Windows {
    /// This side's.
    Own,
    /// The other side's.
    Peers,
}

/// A range that was found, and allows what is wanted. Windows that end meanwhile keep their pages as long as it is there.
#[derive(Debug)]
pub(crate) struct FoundRange {
    memory: Arc<RegisteredMemory>,
    slot: Option<Slot>,
    parts: Vec<Part>,
}

impl RegisteredMemory {
    /// Finds `length` bytes of windows. Refused if a byte is in no window, or else if a window does not allow what is wanted;
    /// `one_window`: also if they lie in several.
    pub(crate) fn find_range(
        self: &Arc<Self>,
        windows: Windows,
        offset: i64,
        length: usize,
        wanted: Protection,
        one_window: bool,
    ) -> Result<FoundRange, ScifError> {
        let start = check(offset, length)?;
        let range = Range { start, length: length as u64 };
        let (own, peers) = match windows {
            Windows::Own => (range, Range::default()),
            Windows::Peers => (Range::default(), range),
        };
        let slot = enter(&self.own, self.process().pid, own, peers);
        let found = {
            let mut guard = self.process().mirrors.lock();
            let Mirrors { own, peer } = &mut *guard;
            let mirror = match windows {
                Windows::Own => own,
                Windows::Peers => peer,
            };
            mirror.refresh();
            parts_of(mirror, start, length, wanted, one_window)
        };
        match found {
            Ok(parts) => Ok(FoundRange { memory: Arc::clone(self), slot: Some(slot), parts }),
            Err(error) => {
                leave(&self.own, slot);
                Err(error)
            }
        }
    }

    /// Memory of the program, for the length of a call.
    pub(crate) fn find_program(
        self: &Arc<Self>,
        address: usize,
        length: usize,
        write: bool,
    ) -> Result<FoundRange, ScifError> {
        let parts = vec![program(address, length, write)?];
        Ok(FoundRange { memory: Arc::clone(self), slot: None, parts })
    }
}

impl FoundRange {
    /// Copies bytes out, from `skip` on.
    pub(crate) fn read(&self, skip: usize, into: &mut [u8]) -> Result<(), ScifError> {
        let source = cut(&self.parts, skip, into.len());
        Transfer::new(vec![bytes_in(into)], source, false, 0).run()
    }

    /// Copies bytes in, from `skip` on. With an end of the source, whoever sees any byte of the source's last line sees all before it.
    pub(crate) fn write(&self, skip: usize, from: &[u8], source_end: Option<u64>) -> Result<(), ScifError> {
        let destination = cut(&self.parts, skip, from.len());
        let (ordered, end) = (source_end.is_some(), source_end.unwrap_or(0));
        Transfer::new(destination, vec![bytes_out(from)], ordered, end).run()
    }
}

impl Drop for FoundRange {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            leave(&self.memory.own, slot);
        }
    }
}

/// `length` bytes of the parts, from `skip` on.
fn cut(parts: &[Part], skip: usize, length: usize) -> Vec<Part> {
    let (mut skip, mut left) = (skip, length);
    let mut found = Vec::with_capacity(1);
    for part in parts {
        if left == 0 {
            break;
        }
        if skip >= part.length() {
            skip -= part.length();
            continue;
        }
        let piece = part.piece(skip, left);
        left -= piece.length();
        skip = 0;
        found.push(piece);
    }
    found
}
