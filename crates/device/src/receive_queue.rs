//! Receives waiting for messages.

use std::collections::VecDeque;

use nonic_memory::ZoneId;
use nonic_queue::{PostError, ReceiveRequest, ScatterGather};

/// Pieces of a request: few stand in place, many on the heap.
#[derive(Clone, Debug)]
pub(crate) enum Pieces {
    Few(u8, [ScatterGather; 2]),
    Many(Box<[ScatterGather]>),
}

impl Pieces {
    pub(crate) fn new(pieces: &[ScatterGather]) -> Self {
        let none = ScatterGather { address: 0, length: 0, key: nonic_memory::Key(0) };
        match *pieces {
            [] => Self::Few(0, [none; 2]),
            [one] => Self::Few(1, [one, none]),
            [one, two] => Self::Few(2, [one, two]),
            _ => Self::Many(pieces.into()),
        }
    }

    pub(crate) fn as_slice(&self) -> &[ScatterGather] {
        match self {
            Self::Few(count, pieces) => &pieces[..usize::from(*count)],
            Self::Many(pieces) => pieces,
        }
    }

    /// Bytes in all.
    pub(crate) fn length(&self) -> u64 {
        self.as_slice().iter().map(|piece| u64::from(piece.length)).sum()
    }
}

/// A posted receive.
#[derive(Clone, Debug)]
pub(crate) struct Receive {
    pub(crate) id: u64,
    pub(crate) pieces: Pieces,
    /// Whose regions it may name: the queue pair's zone, or the shared receive queue's.
    pub(crate) zone: ZoneId,
}

/// A queue of receives with a hard limit.
#[derive(Debug)]
pub(crate) struct ReceiveQueue {
    receives: VecDeque<Receive>,
    capacity: u32,
    pieces_max: u32,
}

impl ReceiveQueue {
    pub(crate) fn new(capacity: u32, pieces_max: u32) -> Self {
        Self { receives: VecDeque::new(), capacity, pieces_max }
    }

    pub(crate) fn post(&mut self, request: &ReceiveRequest<'_>, zone: ZoneId) -> Result<(), PostError> {
        if request.pieces.len() > self.pieces_max as usize {
            return Err(PostError::TooManyPieces { pieces: request.pieces.len(), limit: self.pieces_max });
        }
        if self.receives.len() >= self.capacity as usize {
            return Err(PostError::QueueFull { capacity: self.capacity });
        }
        self.receives.push_back(Receive { id: request.id, pieces: Pieces::new(request.pieces), zone });
        Ok(())
    }

    pub(crate) fn take(&mut self) -> Option<Receive> {
        self.receives.pop_front()
    }

    /// Puts back what a message took that then broke off.
    pub(crate) fn give_back(&mut self, receive: Receive) {
        self.receives.push_front(receive);
    }

    pub(crate) fn length(&self) -> usize {
        self.receives.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nonic_memory::Key;

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
