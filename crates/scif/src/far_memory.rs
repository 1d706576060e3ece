//! The registered memory of a connection to another host, as calls of the program use it: own windows here, the peer's by its relay.
//!
//! A copy is complete when its call returns, whatever its flags: so nothing overtakes it, and a fence has to wait only for copies of
//! other threads. Its call ends when the connection does, and not by a signal.

use std::sync::Arc;

use crate::ScifError;
use crate::memory::{FoundRange, RegisteredMemory, Windows, check_range};
use crate::options::{Initiator, Protection, RmaFlags};
use crate::wire::{FIRST, Header, Kind, LAST, Link, ORDERED, PAYLOAD_MOST, READ_MOST, WRITES};

/// Bytes of a line, which `SCIF_RMA_ORDERED` is about.
const LINE: u64 = 64;
/// The bit of a mark that says that it is the peer's, and those that are the number.
const OF_PEER: u32 = 1 << 31;
const NUMBER: u64 = OF_PEER as u64 - 1;
/// Bytes of what a signal stores.
const VALUE: usize = 8;

/// Where the bytes of this side are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Near {
    /// In own windows.
    Windows(i64),
    /// In memory of the program.
    Program(usize),
}

/// Both sides' memory.
pub(crate) struct FarMemory<'a> {
    pub(crate) memory: &'a Arc<RegisteredMemory>,
    pub(crate) link: &'a Arc<Link>,
}

impl FarMemory<'_> {
    fn near(&self, near: Near, length: usize, write: bool) -> Result<FoundRange, ScifError> {
        let wanted = if write { Protection::WRITE } else { Protection::READ };
        match near {
            Near::Windows(offset) => self.memory.find_range(Windows::Own, offset, length, wanted, false),
            Near::Program(address) => self.memory.find_program(address, length, write),
        }
    }

    /// What is refused here is told after what is refused there, where the order is that: a byte in no window of the peer's comes before
    /// a window of the own that does not allow it, and before memory of the program that is not there.
    fn after_check(
        &self,
        near: Result<FoundRange, ScifError>,
        remote: i64,
        length: usize,
        write: bool,
    ) -> Result<FoundRange, ScifError> {
        match near {
            Err(error @ (ScifError::Protected | ScifError::BadMemory { .. })) => {
                // Of memory that is not there the peer's rights come first, too.
                let wanted = write && matches!(error, ScifError::BadMemory { .. });
                self.check(remote, length, wanted)?;
                Err(error)
            }
            near => near,
        }
    }

    /// This side's memory, for a copy that `writes` to the peer's or reads it, when all has been refused that is refused before a
    /// byte moves.
    fn both(&self, near: Near, length: usize, remote: i64, writes: bool) -> Result<FoundRange, ScifError> {
        if let Near::Windows(local) = near {
            check_range(local, length)?;
        }
        check_range(remote, length)?;
        self.after_check(self.near(near, length, !writes), remote, length, writes)
    }

    /// Copies from this side to the peer's windows.
    pub(crate) fn write(
        &self,
        near: Near,
        length: usize,
        remote: i64,
        flags: RmaFlags,
    ) -> Result<(), ScifError> {
        let source = self.both(near, length, remote, true)?;
        let begin = match near {
            Near::Windows(local) => local as u64,
            Near::Program(address) => address as u64,
        };
        let _operation = self.link.begin_operation();
        let request = self.link.ask()?;
        let mut bytes = vec![0; length.min(PAYLOAD_MOST)];
        for done in (0..length).step_by(PAYLOAD_MOST) {
            let count = PAYLOAD_MOST.min(length - done);
            let piece = &mut bytes[..count];
            let read = source.read(done, piece);
            let is_last = done + count == length || read.is_err() || request.is_decided();
            let ends = if is_last { LAST } else { 0 };
            let begins = if done == 0 { FIRST } else { 0 };
            let ordered = if flags.ordered { ORDERED } else { 0 };
            let header = Header {
                flags: begins | ends | ordered,
                small: ((begin.wrapping_add((done + count) as u64)) % LINE) as u16,
                number: request.number(),
                offset: remote + done as i64,
                value: length as u64,
                ..Header::new(Kind::Write)
            };
            // Of what could not be read nothing goes, but the request ends.
            self.link.push_in_turn(header.with(if read.is_ok() { piece } else { &[] }))?;
            if is_last {
                let written = request.wait(false);
                return read.and(written.map(drop));
            }
        }
        Ok(())
    }

    /// Copies from the peer's windows to this side.
    pub(crate) fn read(
        &self,
        near: Near,
        length: usize,
        remote: i64,
        flags: RmaFlags,
    ) -> Result<(), ScifError> {
        let target = self.both(near, length, remote, false)?;
        let _operation = self.link.begin_operation();
        for done in (0..length).step_by(READ_MOST) {
            let count = READ_MOST.min(length - done);
            let request = self.link.ask()?;
            let header = Header {
                number: request.number(),
                offset: remote + done as i64,
                value: count as u64,
                ..Header::new(Kind::Read)
            };
            self.link.push_in_turn(header.with(&((length - done) as u64).to_le_bytes()))?;
            let mut at = done;
            while let Some(piece) = request.piece()? {
                if piece.len() > done + count - at {
                    return Err(ScifError::Reset);
                }
                let end = (remote as u64).wrapping_add((at + piece.len()) as u64);
                target.write(at, &piece, flags.ordered.then_some(end))?;
                at += piece.len();
            }
            if at != done + count {
                return Err(ScifError::Reset);
            }
        }
        Ok(())
    }

    fn check(&self, remote: i64, length: usize, write: bool) -> Result<(), ScifError> {
        let request = self.link.ask()?;
        let header = Header {
            flags: if write { WRITES } else { 0 },
            number: request.number(),
            offset: remote,
            value: length as u64,
            ..Header::new(Kind::Check)
        };
        self.link.push_in_turn(header.alone())?;
        request.wait(false).map(drop)
    }

    /// Marks the copies that a side has started so far.
    pub(crate) fn fence_mark(&self, initiator: Initiator) -> Result<i32, ScifError> {
        Ok(match initiator {
            Initiator::Own => (self.link.mark() & NUMBER) as u32,
            Initiator::Peer => (self.mark_of_peer()? & NUMBER) as u32 | OF_PEER,
        } as i32)
    }

    fn mark_of_peer(&self) -> Result<u64, ScifError> {
        let request = self.link.ask()?;
        let header = Header { number: request.number(), ..Header::new(Kind::Mark) };
        self.link.push_in_turn(header.alone())?;
        request.wait(false)
    }

    /// Waits until what was marked is complete.
    pub(crate) fn fence_wait(&self, mark: i32) -> Result<(), ScifError> {
        let mark = mark as u32;
        if mark & OF_PEER == 0 {
            return self.link.wait_for_operations(mark.into());
        }
        self.wait_for_peer((u64::from(mark)) & NUMBER)
    }

    fn wait_for_peer(&self, mark: u64) -> Result<(), ScifError> {
        let request = self.link.ask()?;
        let header = Header { number: request.number(), value: mark, ..Header::new(Kind::Wait) };
        self.link.push_in_turn(header.alone())?;
        request.wait(true).map(drop)
    }

    /// Stores values into own windows, and then into the peer's, when what a side has started so far is complete.
    pub(crate) fn fence_signal(
        &self,
        local: Option<(i64, u64)>,
        remote: Option<(i64, u64)>,
        initiator: Initiator,
    ) -> Result<(), ScifError> {
        if local.iter().chain(&remote).any(|(offset, _)| offset % 4 != 0) {
            return Err(ScifError::Invalid("the offset of a signal is a multiple of 4"));
        }
        let own = local.map(|(offset, value)| {
            let range = self.memory.find_range(Windows::Own, offset, VALUE, Protection::WRITE, true);
            range.map(|range| (range, value))
        });
        let own = own.transpose()?;
        if let (Some(_), Some((offset, _))) = (&own, remote) {
            // Before the own value is stored: refused is all of it, or nothing.
            self.check(offset, VALUE, true)?;
        }
        match initiator {
            Initiator::Own => self.link.wait_for_operations(self.link.mark())?,
            Initiator::Peer => {
                let mark = self.mark_of_peer()?;
                self.wait_for_peer(mark)?;
            }
        }
        if let Some((range, value)) = own {
            range.write(0, &value.to_ne_bytes(), None)?;
        }
        let Some((offset, value)) = remote else { return Ok(()) };
        let request = self.link.ask()?;
        let header = Header { number: request.number(), offset, value, ..Header::new(Kind::Store) };
        self.link.push_in_turn(header.alone())?;
        request.wait(false).map(drop)
    }
}
