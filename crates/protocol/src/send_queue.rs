//! The send queue: a ring of slots with a hard limit. A slot is taken by posting, started, finished in order, and given
//! back when the program polls a completion that vouches for it.

use alloc::vec::Vec;

use crate::attributes::Capabilities;
use crate::number::{Psn, QueueName};
use crate::state::QpType;
use crate::work_request::{
    DatagramDestination, Destination, Operation, PostError, ScatterGather, SendFlags, SendRequest,
};

/// One posted request.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// The program's own mark.
    pub id: u64,
    /// What to do.
    pub operation: Operation,
    /// How.
    pub flags: SendFlags,
    /// Pieces; for an inline request 0.
    pub pieces: u32,
    /// Bytes in all.
    pub total: u64,
    /// Its number on the way, once it has one.
    pub psn: Psn,
}

impl Slot {
    /// Whether it ends with an answer that carries data, and not with an acknowledgement.
    #[inline]
    pub fn awaits_data(&self) -> bool {
        self.operation.is_answered_with_data()
    }
}

/// The queue. Memory for slots, pieces and inline bytes is taken when the first request needs it.
#[derive(Debug)]
pub struct SendQueue {
    slots: Vec<Slot>,
    pieces: Vec<ScatterGather>,
    inline: Vec<u8>,
    destinations: Vec<Destination>,
    /// Requests posted since the beginning.
    pub posted: u64,
    /// Those of them that are started.
    pub started: u64,
    /// Those of these that have finished.
    pub finished: u64,
    /// Somebody is to be told when nothing is left that has not finished.
    pub tells_end: bool,
}

impl Default for SendQueue {
    fn default() -> Self {
        Self::new()
    }
}

impl SendQueue {
    /// An empty one.
    pub const fn new() -> Self {
        Self {
            slots: Vec::new(),
            pieces: Vec::new(),
            inline: Vec::new(),
            destinations: Vec::new(),
            posted: 0,
            started: 0,
            finished: 0,
            tells_end: false,
        }
    }

    #[inline]
    fn place(&self, number: u64) -> usize {
        // The length is a power of two (`rounded`); a queue without slots has no numbers.
        number as usize & self.slots.len().wrapping_sub(1)
    }

    /// Whether nothing is posted that has not finished.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.finished == self.posted
    }

    /// Counts a request that finished without ever taking a slot.
    #[inline]
    pub fn skip_one(&mut self) {
        self.posted += 1;
        (self.started, self.finished) = (self.posted, self.posted);
    }

    /// Whether a request may be posted, `freed` slots having been given back since the beginning.
    #[inline]
    pub fn has_room(&self, capabilities: &Capabilities, freed: u64) -> bool {
        self.posted - freed < u64::from(capabilities.send_requests)
    }

    /// Whether [`SendQueue::post`] takes a request once `ahead` others are posted.
    #[inline]
    pub fn check(
        &self,
        request: &SendRequest<'_>,
        capabilities: &Capabilities,
        transport: QpType,
        freed: u64,
        ahead: u64,
    ) -> Result<(), PostError> {
        let pieces = request.pieces.len();
        if pieces > capabilities.send_pieces as usize {
            return Err(PostError::TooManyPieces { pieces, limit: capabilities.send_pieces });
        }
        if pieces > 0 && matches!(request.operation, Operation::Flush { .. }) {
            return Err(PostError::TooManyPieces { pieces, limit: 0 });
        }
        if request.flags.inline && request.operation.writes_locally() {
            return Err(PostError::InlineResult);
        }
        if let Operation::AtomicWrite { remote } = request.operation
            && (bytes_of(request) != 8 || !remote.address.is_multiple_of(8))
        {
            return Err(PostError::NoWord);
        }
        if request.flags.inline && bytes_of(request) > u64::from(capabilities.inline_bytes) {
            return Err(PostError::InlineTooLong {
                length: bytes_of(request),
                limit: capabilities.inline_bytes,
            });
        }
        let capacity = capabilities.send_requests;
        if self.posted + ahead - freed >= u64::from(capacity) {
            return Err(PostError::QueueFull { capacity });
        }
        let names_destination = match transport {
            // Only a message goes anywhere from there: any other request fails when its turn comes.
            QpType::UnreliableDatagram => {
                !matches!(request.operation, Operation::Send { .. })
                    || matches!(request.destination, Some(Destination::Datagram(_)))
            }
            QpType::ExtendedSend => matches!(request.destination, Some(Destination::Queue(_))),
            _ => true,
        };
        if !names_destination {
            return Err(PostError::NoDestination);
        }
        Ok(())
    }

    /// Takes a request; `freed` slots were given back since the beginning. `copy_inline` fills the inline bytes.
    pub fn post(
        &mut self,
        request: &SendRequest<'_>,
        capabilities: &Capabilities,
        transport: QpType,
        freed: u64,
        copy_inline: impl FnOnce(&mut [u8]),
    ) -> Result<(), PostError> {
        self.check(request, capabilities, transport, freed, 0)?;
        let (pieces, total, capacity) = (request.pieces.len(), bytes_of(request), capabilities.send_requests);
        let slot = Slot {
            id: request.id,
            operation: request.operation,
            flags: request.flags,
            pieces: if request.flags.inline { 0 } else { pieces as u32 },
            total,
            psn: Psn(0),
        };
        if self.slots.is_empty() {
            self.slots.resize(capacity as usize, slot);
        }
        let place = self.place(self.posted);
        self.slots[place] = slot;
        if request.flags.inline {
            let length = capabilities.inline_bytes as usize;
            if self.inline.is_empty() {
                self.inline.resize(length * capacity as usize, 0);
            }
            copy_inline(&mut self.inline[place * length..][..total as usize]);
        } else if pieces > 0 {
            let most = capabilities.send_pieces as usize;
            if self.pieces.is_empty() {
                self.pieces.resize(most * capacity as usize, request.pieces[0]);
            }
            self.pieces[place * most..][..pieces].copy_from_slice(request.pieces);
        }
        if matches!(transport, QpType::UnreliableDatagram | QpType::ExtendedSend)
            && let Some(destination) = request.destination
        {
            if self.destinations.is_empty() {
                self.destinations.resize(capacity as usize, destination);
            }
            self.destinations[place] = destination;
        }
        self.posted += 1;
        Ok(())
    }

    /// A request by its number, counted from the beginning.
    #[inline]
    pub fn slot(&self, number: u64) -> &Slot {
        &self.slots[self.place(number)]
    }

    /// Notes a send of one piece that is under way already, `psn` its number. Its inline bytes, if it has any, stand in their
    /// place ([`SendQueue::inline_place`]). The caller has made sure that there is room, and slots.
    #[inline]
    pub fn note_sent(&mut self, request: &SendRequest<'_>, pieces_max: u32, psn: Psn) {
        let place = self.place(self.posted);
        let piece = request.pieces[0];
        // Field by field: the slot is written where it stands.
        let slot = &mut self.slots[place];
        slot.id = request.id;
        slot.operation = Operation::Send { immediate: None };
        slot.flags = request.flags;
        slot.total = piece.length.into();
        slot.psn = psn;
        slot.pieces = u32::from(!request.flags.inline);
        if !request.flags.inline {
            self.pieces[place * pieces_max as usize] = piece;
        }
        self.posted += 1;
        self.started = self.posted;
    }

    /// Whether the queue has memory for a request of one piece, and for inline bytes if it has those.
    #[inline]
    pub fn has_slots(&self, inline: bool) -> bool {
        !self.slots.is_empty() && if inline { !self.inline.is_empty() } else { !self.pieces.is_empty() }
    }

    /// Where the inline bytes of the next request are kept, `length` of them.
    #[inline]
    pub fn inline_place(&mut self, capabilities: &Capabilities, length: usize) -> &mut [u8] {
        let start = self.place(self.posted) * capabilities.inline_bytes as usize;
        &mut self.inline[start..start + length]
    }

    /// It has a number on the way.
    #[inline]
    pub fn set_psn(&mut self, number: u64, psn: Psn) {
        let place = self.place(number);
        self.slots[place].psn = psn;
    }

    /// Its pieces; none if it is inline.
    #[inline]
    pub fn pieces(&self, number: u64, capabilities: &Capabilities) -> &[ScatterGather] {
        let place = self.place(number);
        let count = self.slots[place].pieces as usize;
        if count == 0 { &[] } else { &self.pieces[place * capabilities.send_pieces as usize..][..count] }
    }

    /// Where a datagram goes.
    pub fn datagram_destination(&self, number: u64) -> Option<DatagramDestination> {
        match self.destinations.get(self.place(number))? {
            Destination::Datagram(destination) => Some(*destination),
            Destination::Queue(_) => None,
        }
    }

    /// The shared receive queue that a request on an extended connection is for; none on any other.
    #[inline]
    pub fn destination_queue(&self, number: u64) -> QueueName {
        match self.destinations.get(self.place(number)) {
            Some(Destination::Queue(queue)) => QueueName::of(*queue),
            Some(Destination::Datagram(_)) | None => QueueName::NONE,
        }
    }

    /// Lends the inline bytes of all slots, to be put back.
    pub fn lend_inline(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.inline)
    }

    /// They come back.
    pub fn put_inline_back(&mut self, inline: Vec<u8>) {
        self.inline = inline;
    }

    /// The inline bytes of a request.
    pub fn inline_bytes(&self, number: u64, capabilities: &Capabilities) -> &[u8] {
        &self.inline[self.inline_range(number, capabilities)]
    }

    /// Where among the inline bytes of all slots those of one are.
    pub fn inline_range(&self, number: u64, capabilities: &Capabilities) -> core::ops::Range<usize> {
        let place = self.place(number);
        let start = place * capabilities.inline_bytes as usize;
        start..start + self.slots[place].total as usize
    }

    /// Whether everything started has finished.
    #[inline]
    pub fn nothing_in_flight(&self) -> bool {
        self.finished == self.started
    }
}

/// Bytes of a request in all.
fn bytes_of(request: &SendRequest<'_>) -> u64 {
    request.pieces.iter().map(|piece| u64::from(piece.length)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Key;

    const CAPABILITIES: Capabilities = Capabilities {
        send_requests: 2,
        receive_requests: 0,
        send_pieces: 1,
        receive_pieces: 0,
        inline_bytes: 4,
    };

    fn post(queue: &mut SendQueue, length: u32, inline: bool, freed: u64) -> Result<(), PostError> {
        let pieces = [ScatterGather { address: 1, length, key: Key(2) }];
        let request = SendRequest {
            id: 7,
            operation: Operation::Send { immediate: None },
            flags: SendFlags { inline, ..SendFlags::default() },
            pieces: &pieces,
            destination: None,
        };
        queue.post(&request, &CAPABILITIES, QpType::ReliableConnection, freed, |bytes| bytes.fill(9))
    }

    #[test]
    fn slots_come_back_only_when_credited() {
        let mut queue = SendQueue::new();
        assert_eq!(post(&mut queue, 100, false, 0), Ok(()));
        assert_eq!(post(&mut queue, 100, false, 0), Ok(()));
        queue.finished = 2;
        assert_eq!(post(&mut queue, 100, false, 0), Err(PostError::QueueFull { capacity: 2 }));
        assert_eq!(post(&mut queue, 100, false, 1), Ok(()));
        assert_eq!(queue.posted, 3);
    }

    #[test]
    fn inline_bytes_are_kept_and_too_many_are_refused() {
        let mut queue = SendQueue::new();
        assert_eq!(post(&mut queue, 5, true, 0), Err(PostError::InlineTooLong { length: 5, limit: 4 }));
        assert_eq!(queue.posted, 0);
        assert_eq!(post(&mut queue, 4, true, 0), Ok(()));
        let range = queue.inline_range(0, &CAPABILITIES);
        assert_eq!(&queue.lend_inline()[range], &[9; 4]);
    }
}
