//! What a host has given away for a while: keys for parts of its memory, receives, and what its own requests name. Nothing may land in any of
//! it any more once it was taken back, or has ended.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use nonic_protocol::Key;

/// What is given away, and what not any more.
#[derive(Debug, Default)]
pub struct Grants {
    /// Bytes of the region that a key leads to beside the region's own.
    windows: BTreeMap<u32, Range<usize>>,
    /// What was taken back, by where it begins: bytes as they were then.
    taken_back: BTreeMap<usize, Vec<u8>>,
    /// Receives that a message is filling.
    filling: BTreeSet<u64>,
    /// Requests that have ended.
    ended: u64,
}

impl Grants {
    /// From now on a key leads to these bytes.
    pub fn give(&mut self, key: Key, place: Range<usize>) {
        self.taken_back.remove(&place.start);
        self.windows.insert(key.0, place);
    }

    /// A key leads nowhere any more, so nothing may change the bytes that it led to; false if it did not lead anywhere.
    pub fn take_back(&mut self, key: Key, memory: &[u8]) -> bool {
        let Some(place) = self.windows.remove(&key.0) else { return false };
        self.taken_back.insert(place.start, memory[place].to_vec());
        true
    }

    /// Whether a key leads anywhere.
    pub fn has(&self, key: Key) -> bool {
        self.windows.contains_key(&key.0)
    }

    /// Whether a key leads to all of these bytes.
    pub(super) fn leads_to(&self, key: Key, place: &Range<usize>) -> bool {
        let given = self.windows.get(&key.0);
        given.is_some_and(|given| given.start <= place.start && place.end <= given.end)
    }

    /// Bytes are about to change.
    pub(super) fn lands(&self, place: &Range<usize>) {
        let before = self.taken_back.range(..place.end).next_back();
        let hit = before.filter(|(start, bytes)| *start + bytes.len() > place.start && !place.is_empty());
        assert!(hit.is_none(), "bytes land at {place:?}, which was taken back");
    }

    /// Nothing that was taken back has changed.
    pub(super) fn check(&self, memory: &[u8]) {
        for (start, bytes) in &self.taken_back {
            assert!(
                memory[*start..].starts_with(bytes),
                "bytes at {start} have changed that were taken back"
            );
        }
    }

    /// A message takes a receive.
    pub(super) fn begin_receive(&mut self, id: u64) {
        assert!(self.filling.insert(id), "receive {id} is taken twice");
    }

    /// Bytes are about to land in it.
    pub(super) fn fills(&self, id: u64) {
        assert!(self.filling.contains(&id), "bytes land in receive {id}, which has ended");
    }

    /// It has ended; of those that no message took, too.
    pub(super) fn end_receive(&mut self, id: u64) {
        self.filling.remove(&id);
    }

    /// A request is about to be sent from, or to get bytes.
    pub(super) fn uses_request(&self, number: u64) {
        assert!(number >= self.ended, "memory of request {number} is used, which has ended");
    }

    /// A request has ended.
    pub(super) fn end_request(&mut self, number: u64) {
        self.ended = self.ended.max(number + 1);
    }
}
