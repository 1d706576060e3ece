//! Copying between places: mapped files, and memory that only the kernel reaches.

#![allow(unsafe_code)]

use std::sync::Arc;

use nonic_memory::SharedSlice;
use nonic_sys::{PeerMemory, Piece};

use super::far::whole;
use super::view::View;
use crate::{ScifError, program_memory};

/// Bytes that one turn moves between two places that only the kernel reaches.
const BOUNCE: usize = 16 << 10;
/// Bytes of a line, which `SCIF_RMA_ORDERED` is about.
const LINE: usize = 64;

/// Some bytes of a source or destination.
#[derive(Clone, Debug)]
pub(super) enum Part {
    /// In a file that is mapped here.
    File {
        /// The file.
        view: Arc<View>,
        /// Offset of the first byte.
        offset: u64,
        /// Bytes.
        length: usize,
    },
    /// In a process's memory.
    Process {
        /// The memory.
        memory: Arc<PeerMemory>,
        /// Address of the first byte.
        address: usize,
        /// Bytes.
        length: usize,
    },
    /// In this process's memory, found mapped just now.
    Program {
        /// Address of the first byte.
        address: usize,
        /// Bytes.
        length: usize,
    },
}

/// Bytes of a part that can be copied in one go.
enum Bytes<'a> {
    Here(SharedSlice<'a>),
    There { memory: &'a PeerMemory, address: usize, length: usize },
}

impl Bytes<'_> {
    fn length(&self) -> usize {
        match self {
            Self::Here(slice) => slice.length(),
            Self::There { length, .. } => *length,
        }
    }
}

impl Part {
    pub(super) fn length(&self) -> usize {
        match self {
            Self::File { length, .. } | Self::Process { length, .. } | Self::Program { length, .. } => {
                *length
            }
        }
    }

    /// Up to `most` bytes of it, from `skip` on, which lies inside.
    pub(super) fn piece(&self, skip: usize, most: usize) -> Self {
        let rest = most.min(self.length() - skip);
        let mut piece = self.clone();
        match &mut piece {
            Self::File { offset, length, .. } => (*offset, *length) = (*offset + skip as u64, rest),
            Self::Process { address, length, .. } | Self::Program { address, length } => {
                (*address, *length) = (*address + skip, rest);
            }
        }
        piece
    }

    /// Has all of it mapped now, so that whoever copies later need not.
    pub(super) fn prepare(&self, write: bool) -> Result<(), ScifError> {
        let mut done = 0;
        while done < self.length() {
            done += self.bytes(done, usize::MAX, write)?.length();
        }
        Ok(())
    }

    /// Whether only the kernel reaches it.
    pub(super) fn is_far(&self) -> bool {
        matches!(self, Self::Process { .. })
    }

    /// Some bytes from `skip` on: up to `most`, 1 at least.
    fn bytes(&self, skip: usize, most: usize, write: bool) -> Result<Bytes<'_>, ScifError> {
        let most = most.min(self.length() - skip);
        Ok(match self {
            Self::File { view, offset, .. } => {
                let slice = view.slice(offset + skip as u64, most, write);
                Bytes::Here(slice.ok_or(ScifError::NoMemory)?)
            }
            Self::Process { memory, address, .. } => {
                Bytes::There { memory, address: address + skip, length: most }
            }
            Self::Program { address, .. } => {
                let start = (address + skip) as *mut u8;
                // SAFETY: it was asked for in this call, and found to allow it; the program keeps it until the call returns.
                Bytes::Here(unsafe { SharedSlice::from_raw(start, most) })
            }
        })
    }
}

/// Bytes of the caller's, which outlive the copy that takes them.
pub(super) fn bytes_out(bytes: &[u8]) -> Part {
    Part::Program { address: bytes.as_ptr() as usize, length: bytes.len() }
}

/// A buffer of the caller's, which outlives the copy that fills it.
pub(super) fn bytes_in(buffer: &mut [u8]) -> Part {
    Part::Program { address: buffer.as_mut_ptr() as usize, length: buffer.len() }
}

/// Memory of the program, if all of it is mapped and allows what is wanted.
pub(super) fn program(address: usize, length: usize, write: bool) -> Result<Part, ScifError> {
    program_memory::check(address, length, write)?;
    Ok(Part::Program { address, length })
}

/// A copy on its way.
#[derive(Debug)]
pub(super) struct Transfer {
    destination: Vec<Part>,
    source: Vec<Part>,
    /// The part of each side that is next, and how much of it is done.
    to: (usize, usize),
    from: (usize, usize),
    left: usize,
    /// Bytes before the last line, if that is to come after them.
    head: usize,
}

impl Transfer {
    /// Of all bytes of `source` to `destination`, which are as many, in ascending order; within a piece, whoever sees the last
    /// byte sees all others. With `ordered`, whoever sees any byte of the source's last line sees all before that line;
    /// `source_end` is the offset at which the source ends.
    pub(super) fn new(destination: Vec<Part>, source: Vec<Part>, ordered: bool, source_end: u64) -> Self {
        let left: usize = source.iter().map(Part::length).sum();
        let last_line = match (source_end % LINE as u64) as usize {
            0 => LINE,
            rest => rest,
        };
        let head = if ordered { left.saturating_sub(last_line) } else { 0 };
        Self { destination, source, to: (0, 0), from: (0, 0), left, head }
    }

    /// Copies up to about `most` bytes. Whether there are more.
    pub(super) fn step(&mut self, most: usize) -> Result<bool, ScifError> {
        let stop = self.left.saturating_sub(most);
        while self.left > stop {
            let most = if self.head > 0 { self.head } else { self.left }.min(most);
            let (to, from) = (self.destination.get(self.to.0), self.source.get(self.from.0));
            let (Some(to), Some(from)) = (to, from) else { return Err(ScifError::NoWindow) };
            let sink = to.bytes(self.to.1, most, true)?;
            let origin = from.bytes(self.from.1, sink.length(), false)?;
            let copied = origin.length().min(sink.length());
            copy_bytes(&sink, &origin, copied)?;
            advance(&mut self.to, to.length(), copied);
            advance(&mut self.from, from.length(), copied);
            self.left -= copied;
            self.head = self.head.saturating_sub(copied);
        }
        Ok(self.left > 0)
    }

    /// Has everything mapped.
    pub(super) fn prepare(&self) -> Result<(), ScifError> {
        self.destination.iter().try_for_each(|part| part.prepare(true))?;
        self.source.iter().try_for_each(|part| part.prepare(false))
    }

    /// Copies everything.
    pub(super) fn run(mut self) -> Result<(), ScifError> {
        self.step(usize::MAX).map(|_| ())
    }
}

fn advance((part, done): &mut (usize, usize), length: usize, count: usize) {
    *done += count;
    if *done == length {
        (*part, *done) = (*part + 1, 0);
    }
}

fn copy_bytes(sink: &Bytes<'_>, origin: &Bytes<'_>, count: usize) -> Result<(), ScifError> {
    let local = |slice: &SharedSlice<'_>| [Piece { address: slice.address(), length: count }];
    match (sink, origin) {
        (Bytes::Here(sink), Bytes::Here(origin)) => {
            sink.part(0, count).copy_from(origin.part(0, count));
            Ok(())
        }
        (Bytes::There { memory, address, .. }, Bytes::Here(origin)) => {
            whole(memory, memory.write(&local(origin), *address), count, *address)
        }
        (Bytes::Here(sink), Bytes::There { memory, address, .. }) => {
            // SAFETY: the slice is a destination the caller resolved for writing.
            whole(memory, unsafe { memory.read(&local(sink), *address) }, count, *address)
        }
        (
            Bytes::There { memory: to, address: sink, .. },
            Bytes::There { memory: from, address: origin, .. },
        ) => {
            let mut bounce = [0u8; BOUNCE];
            for done in (0..count).step_by(BOUNCE) {
                let turn = BOUNCE.min(count - done);
                let own = [Piece { address: bounce.as_mut_ptr() as usize, length: turn }];
                // SAFETY: the piece is this function's own buffer.
                whole(from, unsafe { from.read(&own, origin + done) }, turn, *origin)?;
                whole(to, to.write(&own, sink + done), turn, *sink)?;
            }
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::far;

    fn here(bytes: &mut [u8]) -> Part {
        program(bytes.as_mut_ptr() as usize, bytes.len(), true).unwrap()
    }

    fn own_memory() -> Arc<PeerMemory> {
        far::reach(std::process::id() as i32, far::own_mark().unwrap()).unwrap()
    }

    fn by_kernel(bytes: &mut [u8]) -> Part {
        Part::Process { memory: own_memory(), address: bytes.as_mut_ptr() as usize, length: bytes.len() }
    }

    #[test]
    fn bytes_go_between_all_kinds_of_places_in_parts_of_any_length() {
        let make = [here as fn(&mut [u8]) -> Part, by_kernel];
        for (turn, (to, from)) in [(0, 0), (0, 1), (1, 0), (1, 1)].into_iter().enumerate() {
            for ordered in [false, true] {
                let mut source: Vec<u8> = (0..50_001u32).map(|at| (at * 7 + turn as u32) as u8).collect();
                let mut sink = vec![0u8; source.len()];
                let expected = source.clone();
                let (first, second) = source.split_at_mut(33_333);
                let sources = [make[from](first), make[from](second)];
                let (low, high) = sink.split_at_mut(7);
                let sinks = [make[to](low), make[1 - to](high)];
                Transfer::new(sinks.into(), sources.into(), ordered, 33).run().unwrap();
                assert!(sink == expected, "{to} {from} {ordered}");
            }
        }
    }

    #[test]
    fn memory_that_is_not_there_is_an_error_and_never_a_fault() {
        let nowhere = Part::Process { memory: own_memory(), address: 4096, length: 8 };
        let mut bytes = [7u8; 8];
        let refused = Err(ScifError::BadMemory { address: 4096 });
        let copy = |to, from| Transfer::new(vec![to], vec![from], false, 8).run();
        assert_eq!(copy(here(&mut bytes), nowhere.clone()), refused);
        assert_eq!(copy(nowhere, here(&mut bytes)), refused);
        assert_eq!(bytes, [7; 8]);
        assert!(program(0, 1, false).is_err() && program(usize::MAX, 2, false).is_err());
        assert!(program(here as *const () as usize, 1, false).is_ok(), "code can be read");
        assert!(program(here as *const () as usize, 1, true).is_err(), "but not written");
    }
}
