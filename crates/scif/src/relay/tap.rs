//! What the program sends: bytes that are looked at, and stay in the ring until the other program has taken them.

use nonic_sys::full_fence;

use super::Why;
use crate::direction::{Direction, WINDOW};
use crate::stream_socket::StreamSocket;

/// Bytes of the program's, on their way.
pub(super) struct Tap {
    direction: Direction,
    /// Up to here the other program has taken them, and up to here they were sent.
    taken: u64,
    seen: u64,
}

impl Tap {
    pub(super) fn new(direction: Direction) -> Self {
        Self { direction, taken: 0, seen: 0 }
    }

    /// The bytes that were not seen yet, and the position of the first.
    pub(super) fn look(&mut self, socket: StreamSocket) -> Result<Option<(u64, Vec<u8>)>, Why> {
        // Before the look: what is sent after it tells anew.
        self.direction.take_tokens_of_seen(self.taken, &socket);
        let tail = self.direction.tail();
        Direction::unread(self.taken, tail).map_err(|_| "the program's ring makes no sense")?;
        let count = tail.wrapping_sub(self.seen);
        if count > WINDOW {
            return Err("the program's ring runs backwards");
        }
        if count == 0 {
            return Ok(None);
        }
        let (first, second) = self.direction.places(self.seen, count as usize);
        let mut bytes = vec![0; count as usize];
        let (low, high) = bytes.split_at_mut(first.length());
        first.read(low);
        second.read(high);
        let position = std::mem::replace(&mut self.seen, tail);
        Ok(Some((position, bytes)))
    }

    /// The other program has taken the bytes up to a position, so that there is room for others.
    pub(super) fn is_taken(&mut self, position: u64, socket: StreamSocket) -> Result<(), Why> {
        let count = position.wrapping_sub(self.taken);
        if count > self.seen.wrapping_sub(self.taken) {
            return Err("the other host says that bytes were taken which were not sent");
        }
        self.taken = position;
        self.direction.advance(position, &socket, full_fence);
        Ok(())
    }

    /// Whether there are bytes that were not seen.
    pub(super) fn has_news(&self) -> bool {
        self.direction.tail() != self.seen
    }

    /// Whether more bytes can come before some are taken.
    pub(super) fn has_room(&self) -> bool {
        self.seen.wrapping_sub(self.taken) < WINDOW
    }
}
