//! The pieces by which a long read is asked for: each is a request of its own. What is read comes as fast as the peer can send it, and there is
//! room for so much where it comes to; what finds none is lost, and a second loss shows by time alone ([`Connection::take_answer`]).

use nonic_protocol::{Moment, Slot};

use super::Connection;

/// Bytes of a piece: the least that there is room for, where one process of a user hands packets on to another.
const PIECE: u32 = 128 << 10;
/// So many are on their way at most, where packets come to this process at once.
const PIECES_MAX: u32 = 3;

impl<T: Moment> Connection<T> {
    /// Says whether there is little room where packets come to, as far as is known.
    pub fn set_little_room(&mut self, little: bool) {
        self.has_little_room = little;
    }

    /// Packets of a piece. Where one ends does not change: what is asked for again lies in what was asked for (9.7.5.1.5).
    pub(super) fn piece(&self) -> u32 {
        PIECE / self.mtu().bytes()
    }

    /// Packets up to the end of the piece that is asked for next, of an answer of so many.
    pub(super) fn left_of_piece(&self, packets: u32) -> u32 {
        let sent = self.requester.sent;
        (self.piece() - sent % self.piece()).min(packets - sent)
    }

    /// Numbers that the next packet of a request takes: one that is answered with data has those of all packets of the answer.
    pub(super) fn numbers_of_next(&self, slot: &Slot, packets: u32) -> u32 {
        if slot.awaits_data() { self.left_of_piece(packets) } else { 1 }
    }

    /// Whether a request more that is answered with data may be under way (9.7.3.1), and so many packets more on their way.
    pub(super) fn may_ask_for(&self, packets: u32) -> bool {
        let (awaited, pieces) = (self.requester.awaited, if self.has_little_room { 1 } else { PIECES_MAX });
        self.requester.reads < self.attributes.max_rd_atomic
            && (awaited == 0 || awaited + packets <= pieces * self.piece())
    }
}
