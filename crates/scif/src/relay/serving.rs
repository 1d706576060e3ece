//! What the other program does to this one's windows: the relay does it, as a peer of this host would.
//!
//! Its requests are judged by the table of windows when they come, and again with every piece: what is refused ends the request and
//! nothing else.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use nonic_sys::forks;

use super::Why;
use super::running::Local;
use crate::ScifError;
use crate::memory::{RegisteredMemory, Windows};
use crate::options::Protection;
use crate::stream_socket::StreamSocket;
use crate::wire::{FIRST, Header, Kind, LAST, Link, ORDERED, PAYLOAD_MOST, REQUESTS_MOST, WRITES, code_of};

/// Bytes of a value that a signal stores.
const VALUE: usize = 8;
/// Bytes on their way to the other host at most, before those of a read are put behind them.
const QUEUED_MOST: usize = 4 * PAYLOAD_MOST;

/// The windows of this host's program, for the other host.
pub(super) struct Serving {
    memory: Arc<RegisteredMemory>,
    writes: BTreeMap<u64, Write>,
    reads: VecDeque<Read>,
    /// Who waits until this side's copies up to a mark are complete.
    waits: Vec<(u64, u64)>,
}

/// A write of which pieces are to come.
struct Write {
    next: i64,
    left: u64,
    /// It was refused: what comes of it is dropped.
    over: bool,
}

/// A read of which pieces are to go.
struct Read {
    number: u64,
    next: i64,
    left: usize,
}

impl Serving {
    pub(super) fn new(local: &Local) -> Self {
        let number = local.socket.number();
        let peer_is_gone = Arc::new(move || StreamSocket(number).is_hung_up());
        let segment = &local.segment;
        let mapping = Arc::clone(segment.mapping());
        let memory = RegisteredMemory::new(mapping, segment.areas(), local.side, peer_is_gone, forks());
        Self { memory, writes: BTreeMap::new(), reads: VecDeque::new(), waits: Vec::new() }
    }

    fn find(&self, offset: i64, length: u64, wanted: Protection) -> Result<(), ScifError> {
        let length = usize::try_from(length).map_err(|_| ScifError::NoWindow)?;
        self.memory.find_range(Windows::Peers, offset, length, wanted, false).map(drop)
    }

    /// A piece of a write.
    pub(super) fn write(&mut self, link: &Link, header: &Header, bytes: &[u8]) -> Result<(), Why> {
        let number = header.number;
        if header.flags & FIRST != 0 {
            let judged = self.find(header.offset, header.value, Protection::WRITE);
            let write = Write { next: header.offset, left: header.value, over: judged.is_err() };
            if self.writes.len() >= REQUESTS_MOST || self.writes.insert(number, write).is_some() {
                return Err("the other host has more requests under way than it may");
            }
            if judged.is_err() {
                answer(link, number, judged, 0);
            }
        }
        let write = self.writes.get_mut(&number).ok_or("a piece of a write came that nobody began")?;
        if header.offset != write.next || bytes.len() as u64 > write.left {
            return Err("a piece of a write is not where it should be");
        }
        write.next = write.next.wrapping_add(bytes.len() as i64);
        write.left -= bytes.len() as u64;
        let over = write.over;
        if !over && !bytes.is_empty() {
            let end = (header.flags & ORDERED != 0).then_some(u64::from(header.small));
            let range =
                self.memory.find_range(Windows::Peers, header.offset, bytes.len(), Protection::WRITE, false);
            if let Err(error) = range.and_then(|range| range.write(0, bytes, end)) {
                answer(link, number, Err(error), 0);
                if let Some(write) = self.writes.get_mut(&number) {
                    write.over = true;
                }
            }
        }
        if header.flags & LAST != 0
            && let Some(write) = self.writes.remove(&number)
            && !write.over
        {
            answer(link, number, Ok(()), 0);
        }
        Ok(())
    }

    /// A read, of so many bytes, which is the first of a copy of so many.
    pub(super) fn read(&mut self, link: &Link, header: &Header, whole: &[u8]) -> Result<(), Why> {
        let whole = whole.try_into().map(u64::from_le_bytes).map_err(|_| "a read says no length")?;
        let judged = self.find(header.offset, whole.max(header.value), Protection::READ);
        match (judged, usize::try_from(header.value)) {
            (Ok(()), Ok(left)) => {
                if self.reads.len() >= REQUESTS_MOST {
                    return Err("the other host has more requests under way than it may");
                }
                self.reads.push_back(Read { number: header.number, next: header.offset, left });
            }
            (judged, _) => answer(link, header.number, judged.and(Err(ScifError::NoWindow)), 0),
        }
        Ok(())
    }

    /// Whether windows allow something.
    pub(super) fn check(&self, link: &Link, header: &Header) -> Result<(), Why> {
        let wanted = if header.flags & WRITES != 0 { Protection::WRITE } else { Protection::NONE };
        answer(link, header.number, self.find(header.offset, header.value, wanted), 0);
        Ok(())
    }

    /// The store of a signal.
    pub(super) fn store(&self, link: &Link, header: &Header) -> Result<(), Why> {
        let range = self.memory.find_range(Windows::Peers, header.offset, VALUE, Protection::WRITE, true);
        let stored = range.and_then(|range| range.write(0, &header.value.to_ne_bytes(), None));
        answer(link, header.number, stored, 0);
        Ok(())
    }

    /// Waits for what this side had begun up to a mark.
    pub(super) fn wait(&mut self, link: &Link, header: &Header) -> Result<(), Why> {
        if self.waits.len() >= REQUESTS_MOST {
            return Err("the other host has more requests under way than it may");
        }
        self.waits.push((header.number, header.value));
        self.settle(link);
        Ok(())
    }

    /// Goes on with what is under way; whether there was anything.
    pub(super) fn go_on(&mut self, link: &Link) -> bool {
        let mut any = self.settle(link);
        while link.queued() < QUEUED_MOST
            && let Some(mut read) = self.reads.pop_front()
        {
            any = true;
            let length = read.left.min(PAYLOAD_MOST);
            let mut bytes = vec![0; length];
            let range = self.memory.find_range(Windows::Peers, read.next, length, Protection::READ, false);
            if let Err(error) = range.and_then(|range| range.read(0, &mut bytes)) {
                answer(link, read.number, Err(error), 0);
                continue;
            }
            link.push(Header { number: read.number, ..Header::new(Kind::Piece) }.with(&bytes));
            read.next += length as i64;
            read.left -= length;
            if read.left == 0 {
                answer(link, read.number, Ok(()), 0);
            } else {
                self.reads.push_back(read);
            }
        }
        any
    }

    fn settle(&mut self, link: &Link) -> bool {
        let before = self.waits.len();
        self.waits.retain(|(number, mark)| {
            let outcome = match link.are_complete(*mark) {
                Ok(false) => return true,
                Ok(true) => Ok(()),
                Err(unknown) => Err(unknown),
            };
            answer(link, *number, outcome, 0);
            false
        });
        self.waits.len() < before
    }
}

/// Tells the other host what became of a request.
pub(super) fn answer(link: &Link, number: u64, outcome: Result<(), ScifError>, mark: u64) {
    let done = Header { number, offset: mark as i64, value: code_of(outcome), ..Header::new(Kind::Done) };
    link.push(done.alone());
}
