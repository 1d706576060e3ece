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
    /// The same of those that were given to others than the peer.
    others: BTreeMap<u32, Range<usize>>,
    /// How far the memory was read by a key, if it was.
    read_to: BTreeMap<u32, usize>,
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

    /// The same for somebody else: the peer may neither use the key nor take it out of use.
    pub fn give_to_others(&mut self, key: Key, place: Range<usize>) {
        self.others.insert(key.0, place);
    }

    /// A key leads nowhere any more, so nothing may change the bytes that it led to; false if it did not lead anywhere.
    pub fn take_back(&mut self, key: Key, memory: &[u8]) -> bool {
        let Some(place) = self.windows.remove(&key.0) else { return false };
        self.taken_back.insert(place.start, memory[place].to_vec());
        true
    }

    /// Whether a key leads anywhere.
    pub fn has(&self, key: Key) -> bool {
        self.windows.contains_key(&key.0) || self.others.contains_key(&key.0)
    }

    /// Whether the peer may take a key out of use: it was given to it.
    pub(super) fn may_be_invalidated(&self, key: Key) -> bool {
        self.windows.contains_key(&key.0)
    }

    /// Whether a key leads to all of these bytes.
    pub(super) fn leads_to(&self, key: Key, place: &Range<usize>) -> bool {
        let given = self.windows.get(&key.0);
        given.is_some_and(|given| given.start <= place.start && place.end <= given.end)
    }

    /// Whether a place has bytes that were taken back.
    fn was_taken_back(&self, place: &Range<usize>) -> bool {
        let before = self.taken_back.range(..place.end).next_back();
        before.is_some_and(|(start, bytes)| start + bytes.len() > place.start && !place.is_empty())
    }

    /// Bytes are about to change.
    pub(super) fn lands(&self, place: &Range<usize>) {
        assert!(!self.was_taken_back(place), "bytes land at {place:?}, which was taken back");
    }

    /// Bytes are about to be read for the peer, by this key.
    pub(super) fn is_read(&mut self, key: Key, place: &Range<usize>) {
        assert!(!self.was_taken_back(place), "bytes at {place:?} are read, which was taken back");
        let read_to = self.read_to.entry(key.0).or_default();
        *read_to = place.end.max(*read_to);
    }

    /// Behind the last byte that the peer read by a key; 0 if it read none.
    pub(super) fn was_read_to(&self, key: Key) -> usize {
        self.read_to.get(&key.0).copied().unwrap_or(0)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn taken_back() -> Grants {
        let mut grants = Grants::default();
        grants.give(Key(1), 4..8);
        assert!(grants.may_be_invalidated(Key(1)));
        assert!(grants.take_back(Key(1), &[7; 16]));
        assert!(!grants.has(Key(1)) && !grants.take_back(Key(1), &[7; 16]));
        grants
    }

    #[test]
    fn bytes_before_and_behind_what_was_taken_back_may_be_read_and_changed() {
        let mut grants = taken_back();
        for place in [0..4, 8..16, 5..5] {
            grants.lands(&place);
            grants.is_read(Key(2), &place);
        }
        assert_eq!((grants.was_read_to(Key(1)), grants.was_read_to(Key(2))), (0, 16));
    }

    #[test]
    #[should_panic(expected = "are read, which was taken back")]
    fn a_byte_that_was_taken_back_is_not_read() {
        taken_back().is_read(Key(2), &(0..5));
    }

    #[test]
    #[should_panic(expected = "bytes land")]
    fn a_byte_that_was_taken_back_is_not_changed() {
        taken_back().lands(&(7..9));
    }

    #[test]
    fn a_key_of_others_leads_nowhere_for_the_peer_who_may_not_take_it_out_of_use() {
        let mut grants = Grants::default();
        grants.give_to_others(Key(1), 4..8);
        assert!(grants.has(Key(1)) && !grants.leads_to(Key(1), &(4..5)));
        assert!(!grants.may_be_invalidated(Key(1)) && !grants.take_back(Key(1), &[0; 16]));
        assert!(grants.has(Key(1)));
    }
}
