//! Receives waiting for messages.

use alloc::boxed::Box;

use crate::key::{Key, ZoneId};
use crate::ring::Ring;
use crate::work_request::{PostError, ReceiveRequest, ScatterGather};

/// Pieces that stand in place.
const FEW: usize = 2;
const NONE: ScatterGather = ScatterGather { address: 0, length: 0, key: Key(0) };

/// Pieces of a request: few stand in place, many on the heap.
#[derive(Clone, Debug)]
pub struct Pieces {
    count: u32,
    few: [ScatterGather; FEW],
    many: Option<Box<[ScatterGather]>>,
}

impl Pieces {
    const EMPTY: Self = Self { count: 0, few: [NONE; FEW], many: None };

    /// These.
    pub fn of(pieces: &[ScatterGather]) -> Self {
        let mut all = Self::EMPTY;
        all.set(pieces);
        all
    }

    #[inline]
    fn set(&mut self, pieces: &[ScatterGather]) {
        self.count = pieces.len() as u32;
        match *pieces {
            [] => {}
            [one] => self.few[0] = one,
            [one, two] => self.few = [one, two],
            _ => self.many = Some(pieces.into()),
        }
    }

    /// They, in their order.
    #[inline]
    pub fn as_slice(&self) -> &[ScatterGather] {
        match (&self.many, self.count as usize) {
            (_, count @ 0..=FEW) => &self.few[..count],
            (many, _) => many.as_deref().unwrap_or_default(),
        }
    }

    /// Bytes in all.
    pub fn length(&self) -> u64 {
        self.as_slice().iter().map(|piece| u64::from(piece.length)).sum()
    }
}

/// A posted receive.
#[derive(Clone, Debug)]
pub struct Receive {
    /// The program's own mark.
    pub id: u64,
    /// Where the message goes.
    pub pieces: Pieces,
    /// Whose regions it may name: the queue pair's zone, or the shared receive queue's.
    pub zone: ZoneId,
}

impl Default for Receive {
    fn default() -> Self {
        Self { id: 0, pieces: Pieces::EMPTY, zone: ZoneId(0) }
    }
}

/// A queue of receives with a hard limit.
#[derive(Debug)]
pub struct ReceiveQueue {
    receives: Ring<Receive>,
    capacity: u32,
    pieces_max: u32,
}

impl ReceiveQueue {
    /// A queue for so many receives of so many pieces.
    pub fn new(capacity: u32, pieces_max: u32) -> Self {
        Self { receives: Ring::new(), capacity, pieces_max }
    }

    /// Takes a receive whose pieces are of a zone's regions; a refused one changes nothing.
    #[inline]
    pub fn post(&mut self, request: &ReceiveRequest<'_>, zone: ZoneId) -> Result<(), PostError> {
        if request.pieces.len() > self.pieces_max as usize {
            return Err(PostError::TooManyPieces { pieces: request.pieces.len(), limit: self.pieces_max });
        }
        if self.receives.length() >= self.capacity as usize {
            return Err(PostError::QueueFull { capacity: self.capacity });
        }
        let place = self.receives.add();
        (place.id, place.zone) = (request.id, zone);
        place.pieces.set(request.pieces);
        Ok(())
    }

    /// The oldest receive, where it stands.
    #[inline]
    pub fn first(&self) -> Option<&Receive> {
        self.receives.first()
    }

    /// Takes the oldest away, after it was used where it stands.
    #[inline]
    pub fn pass_first(&mut self) {
        self.receives.pass_first();
    }

    /// Takes the oldest out.
    pub fn take(&mut self) -> Option<Receive> {
        self.receives.take_first()
    }

    /// Puts back what a message took that then broke off.
    pub fn give_back(&mut self, receive: Receive) {
        self.receives.put_first(receive);
    }

    /// Receives in it.
    pub fn length(&self) -> usize {
        self.receives.length()
    }

    /// Receives it takes.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Changes the limit; what it holds stays.
    pub fn set_capacity(&mut self, capacity: u32) {
        self.capacity = capacity;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn pieces(count: usize) -> Vec<ScatterGather> {
        (0..count).map(|i| ScatterGather { address: i as u64, length: 10, key: Key(1) }).collect()
    }

    #[test]
    fn a_queue_takes_its_limit_and_one_more_is_refused_and_changes_nothing() {
        let mut queue = ReceiveQueue::new(2, 3);
        let post = |queue: &mut ReceiveQueue, id, count| {
            queue.post(&ReceiveRequest { id, pieces: &pieces(count) }, ZoneId(1))
        };
        assert_eq!(post(&mut queue, 1, 3), Ok(()));
        assert_eq!(post(&mut queue, 2, 4), Err(PostError::TooManyPieces { pieces: 4, limit: 3 }));
        assert_eq!(post(&mut queue, 3, 0), Ok(()));
        assert_eq!(post(&mut queue, 4, 1), Err(PostError::QueueFull { capacity: 2 }));
        let first = queue.take().unwrap();
        assert_eq!((first.id, first.pieces.length()), (1, 30));
        assert_eq!(first.pieces.as_slice(), pieces(3));
        assert_eq!(queue.take().unwrap().id, 3);
        assert!(queue.take().is_none());
    }
}
