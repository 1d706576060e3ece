//! Sends whose bytes stay where they are until the receiver takes them: one copy instead of two through the ring.

use arrayvec::ArrayVec;
use nonic_memory::{AddressRange, SharedSlice};
use nonic_protocol::{Body, Message, QpType, Request, ScatterGather, SendPull, Slot};
use nonic_transport::{Link, PullPiece};

use crate::limits::PIECES_MAX;
use crate::queue_pair::{Inner, QueuePair};

impl QueuePair {
    /// Whether the receiver may take the bytes of a send itself, and it pays.
    pub(crate) fn may_be_pulled(&self, inner: &Inner, link: &Link, number: u64, slot: &Slot) -> bool {
        if slot.total < PULL_MAPPED_MIN || slot.flags.inline || self.service != QpType::ReliableConnection {
            return false;
        }
        let mut pieces =
            inner.send.pieces(number, &self.capabilities).iter().filter(|piece| piece.length > 0);
        let memory = &self.engine().party().memory;
        slot.total >= PULL_MIN
            && link.peer_can_reach()
            && !pieces.clone().any(|piece| memory.is_paged(self.zone.id(), piece.key, range_of(piece)))
            || link.peer_can_map()
                && pieces.all(|piece| memory.is_mappable(self.zone.id(), piece.key, range_of(piece)))
    }

    /// Pushes a message whose payload is the list of the sender's pieces; false if there is no room.
    pub(crate) fn push_list(&self, inner: &Inner, link: &Link, send: SendPull, number: u64) -> bool {
        let mut list = ArrayVec::<u8, { PIECES_MAX * PullPiece::LENGTH }>::new();
        for piece in inner.send.pieces(number, &self.capabilities) {
            if piece.length > 0 {
                let piece = PullPiece { range: range_of(piece), key: piece.key };
                let _ = list.try_extend_from_slice(&piece.to_bytes());
            }
        }
        let message = Message { base: inner.base(&self), body: Body::Request(Request::Pull(send)) };
        link.push(&message, &[SharedSlice::of_private(&mut list)]).is_ok()
    }
}

fn range_of(piece: &ScatterGather) -> AddressRange {
    AddressRange::new(piece.address, piece.length.into())
}

/// From here on a send's bytes are taken by the receiver from the sender's memory instead of travelling through the
/// ring: one copy by the kernel then costs less than two through the ring.
const PULL_MIN: u64 = 16 * 1024;

/// The same for bytes that the receiver can map.
pub(super) const PULL_MAPPED_MIN: u64 = 4 * 1024;
