//! Receiving: what has come, where it stands, and what the peer is told that it may send.

use std::collections::VecDeque;
use std::ops::Range;

use super::TARGETS;

/// The peer sent what it may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Violation;

/// How long the receive buffer is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceiveBuffer {
    /// Bytes that are used at first, even.
    pub(crate) first: u32,
    /// Bytes that are there.
    pub(crate) most: u32,
}

/// The receiving half of a stream. The receive buffer is two halves, which the peer fills in turn; one that was read is
/// announced once more. When the peer has filled both, more of the buffer is used from the next time on that its end is reached.
#[derive(Debug)]
pub(crate) struct Receiver {
    /// Bytes of a half.
    half: u32,
    /// Bytes of the longest half.
    half_most: u32,
    /// The peer had room for nothing more.
    was_full: bool,
    /// Messages that have come and were not read to their end: what is left of each.
    unread: VecDeque<u32>,
    /// Bytes of all of them.
    waiting: u32,
    /// Where the oldest unread byte stands.
    position: u32,
    /// Bytes that the peer may still write.
    open: u32,
    /// Bytes that nothing stands in, and that the peer was not told of.
    free: u32,
    /// Where the half that was announced last ends.
    end: u32,
    /// The peer's entry that is written next, of so many.
    entry: u32,
    entries: u32,
    /// Messages that take a receive: how many were dealt with, and at which number the peer is told so.
    sequence: u16,
    tell_at: u16,
    /// Receives.
    depth: u16,
}

/// What the peer is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Announcement {
    /// The last message that is taken.
    pub(crate) limit: u16,
    /// A half of the buffer to fill: where it begins, its length, and the peer's entry to write.
    pub(crate) half: Option<Half>,
}

/// A half of the receive buffer, to be announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Half {
    pub(crate) offset: u32,
    pub(crate) length: u32,
    pub(crate) entry: u32,
}

impl Receiver {
    /// With a buffer of which the peer was told the first half of what is used at first, and so many receives. `entries` is how
    /// long the peer's list of targets is.
    pub(crate) fn new(buffer: ReceiveBuffer, depth: u16, entries: u32) -> Self {
        let half = buffer.first / 2;
        Self {
            half,
            half_most: buffer.most / 2,
            was_full: false,
            unread: VecDeque::new(),
            waiting: 0,
            position: 0,
            open: half,
            free: half,
            end: half,
            entry: 1 % entries,
            entries,
            sequence: 0,
            tell_at: depth / 2,
            depth,
        }
    }

    /// A message of data has come.
    pub(crate) fn arrived(&mut self, length: u32) -> Result<(), Violation> {
        if length > self.open || self.unread.len() >= self.depth.into() {
            return Err(Violation);
        }
        if length == 0 {
            // Nothing to read, and no end of the stream either.
            self.passed();
            return Ok(());
        }
        self.open -= length;
        self.waiting += length;
        self.unread.push_back(length);
        self.was_full |= self.open == 0;
        self.grow_if_due();
        Ok(())
    }

    /// Uses more of the buffer if the peer fills what is used, and it was announced to its end: so what is unread goes on behind it.
    fn grow_if_due(&mut self) {
        let is_at_end = self.end == 2 * self.half;
        if !self.was_full || !is_at_end || self.half > self.half_most / 2 {
            return;
        }
        self.free += self.end;
        self.half = self.end;
        // What is unread, or may still come, ends where the first part did, without a turn.
        self.position = self.end - self.waiting - self.open;
        self.was_full = false;
    }

    /// A message has come, or was read to its end, that took a receive and leaves nothing behind.
    pub(crate) fn passed(&mut self) {
        self.sequence = self.sequence.wrapping_add(1);
    }

    /// Bytes that wait.
    pub(crate) fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Whether nothing more can come before something is read.
    pub(crate) fn is_full(&self) -> bool {
        self.open == 0 && self.free < self.half || self.unread.len() >= self.depth.into()
    }

    /// Where the oldest bytes that wait stand in the buffer, `most` at most: up to its end, and from its beginning on.
    pub(crate) fn oldest(&self, most: usize) -> [Range<usize>; TARGETS] {
        let length = most.min(self.waiting as usize);
        let (start, size) = (self.position as usize, 2 * self.half as usize);
        let first = length.min(size - start);
        [start..start + first, 0..length - first]
    }

    /// The oldest bytes were read, so many of those that waited.
    pub(crate) fn read(&mut self, mut length: u32) {
        assert!(length <= self.waiting, "{length} bytes read, {} waited", self.waiting);
        self.waiting -= length;
        self.free += length;
        self.position = (self.position + length) % (2 * self.half);
        while length > 0 {
            let oldest = self.unread.front_mut().expect("what waits came in messages");
            let part = length.min(*oldest);
            *oldest -= part;
            length -= part;
            if *oldest == 0 {
                self.unread.pop_front();
                self.passed();
            }
        }
    }

    /// What the peer should be told now.
    pub(crate) fn announcement(&self) -> Option<Announcement> {
        let has_half = self.free >= self.half;
        let is_due = self.sequence.wrapping_sub(self.tell_at).cast_signed() >= 0;
        if !has_half && !is_due {
            return None;
        }
        let offset = self.end % (2 * self.half);
        let half = Half { offset, length: self.half, entry: self.entry };
        Some(Announcement { limit: self.sequence.wrapping_add(self.depth), half: has_half.then_some(half) })
    }

    /// It was told.
    pub(crate) fn announced(&mut self, announcement: &Announcement) {
        self.tell_at = self.sequence.wrapping_add(self.depth / 2);
        if let Some(half) = announcement.half {
            self.free -= half.length;
            self.open += half.length;
            self.end = half.offset + half.length;
            self.entry = (self.entry + 1) % self.entries;
            self.grow_if_due();
        }
    }
}
