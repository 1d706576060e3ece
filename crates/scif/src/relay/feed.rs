//! What the program receives: bytes of another host, in its ring.

use nonic_memory::SharedSlice;

use super::Why;
use crate::ScifError;
use crate::direction::{Direction, WINDOW};
use crate::outgoing::Outgoing;
use crate::stream_socket::StreamSocket;

/// The other program's bytes, and how far this one has taken them.
pub(super) struct Feed {
    outgoing: Outgoing,
    /// So far the other relay knows.
    told: u64,
}

impl Feed {
    pub(super) fn new(direction: Direction) -> Self {
        Self { outgoing: Outgoing::new(direction), told: 0 }
    }

    /// Puts bytes into the ring, from a position on. There is room: the other relay does not send more than this one said was taken.
    pub(super) fn put(&self, position: u64, bytes: &mut [u8], socket: StreamSocket) -> Result<(), Why> {
        let (tail, head) = self.outgoing.positions().map_err(|_| "the program's ring makes no sense")?;
        if position != tail {
            return Err("bytes of the other host come in another order");
        }
        let length = bytes.len();
        if length as u64 > WINDOW - tail.wrapping_sub(head) {
            return Err("the other host sends more than there is room for");
        }
        match self.outgoing.send(socket, SharedSlice::of_private(bytes), false, || false) {
            Ok(sent) if sent == length => Ok(()),
            // The program is gone, which shows at the socket.
            Err(ScifError::Reset) => Ok(()),
            _ => Err("the program's ring makes no sense"),
        }
    }

    /// How far the program has taken them, if the other relay does not know.
    pub(super) fn news(&mut self) -> Result<Option<u64>, Why> {
        let (_, head) = self.outgoing.positions().map_err(|_| "the program's ring makes no sense")?;
        Ok((std::mem::replace(&mut self.told, head) != head).then_some(head))
    }

    /// Has the socket become writable when the program takes bytes; true if there are none, or that is arranged. False: look again.
    pub(super) fn arm(&self, socket: StreamSocket) -> Result<(bool, bool), Why> {
        let (tail, head) = self.outgoing.positions().map_err(|_| "the program's ring makes no sense")?;
        if tail == head {
            return Ok((head == self.told, false));
        }
        if head != self.told {
            return Ok((false, false));
        }
        let armed = self.outgoing.ask_for_taking(head, socket);
        armed.map(|armed| (armed, armed)).map_err(|_| "the program's ring makes no sense")
    }
}
