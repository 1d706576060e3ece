//! What carries messages from one end to the other, in order: as the ring between two processes does. Some lose a
//! fragment now and then. Nothing comes twice: what a repeated read is answered is for the packets of a wire to see to.

use std::collections::VecDeque;

use nonic_protocol::Message;

/// Bytes of a fragment: few, so that many messages have several.
pub(crate) const FRAGMENT: u64 = 64;

/// A message on its way.
#[derive(Clone, Debug)]
pub(crate) struct Carried {
    pub(crate) message: Message,
    pub(crate) payload: Vec<u8>,
    /// Which request it is of, for those who look on; nobody decides by it.
    pub(crate) serial: u64,
}

impl Carried {
    /// Whether it is a fragment between the first and the last of a request.
    pub(crate) fn is_middle(&self) -> bool {
        let length = self.payload.len() as u32;
        self.message.body.request().is_some_and(|request| !request.is_first() && !request.is_last(length))
    }
}

/// One direction.
#[derive(Debug)]
pub(crate) struct Carrier {
    room: usize,
    /// A fragment in the middle of a message may never come.
    pub(crate) loses: bool,
    carried: VecDeque<Carried>,
    /// Somebody found no room, and is to be told when there is some.
    pub(crate) was_full: bool,
}

impl Carrier {
    pub(crate) fn new(room: usize, loses: bool) -> Self {
        Self { room, loses, carried: VecDeque::new(), was_full: false }
    }

    /// Takes a message; false if there is no room.
    pub(crate) fn push(&mut self, message: Message, payload: Vec<u8>, serial: u64) -> bool {
        if self.carried.len() >= self.room {
            self.was_full = true;
            return false;
        }
        self.carried.push_back(Carried { message, payload, serial });
        true
    }

    pub(crate) fn first(&self) -> Option<&Carried> {
        self.carried.front()
    }

    pub(crate) fn pass_first(&mut self) {
        self.carried.pop_front();
    }

    pub(crate) fn clear(&mut self) {
        self.carried.clear();
    }

    pub(crate) fn length(&self) -> usize {
        self.carried.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.carried.is_empty()
    }
}
