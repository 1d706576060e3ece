//! One-sided requests of a peer.

use nonic_protocol::{AtomicChange, Extent, FlushRequest, NotChanged, RemoteRange};

use crate::bytes::Source;
use crate::queue_pair::{Asked, QueuePair};

impl QueuePair {
    /// Places a fragment of a write; false if that is not allowed.
    pub(crate) fn place_write(&self, remote: RemoteRange, extent: Extent, payload: impl Source) -> bool {
        match self.asked() {
            Asked::Here(memory) => memory.write(remote, extent, payload),
            Asked::Elsewhere(queue) => queue.write(remote, extent, payload.to_bytes()),
            Asked::Nobody => false,
        }
    }

    /// Whether a peer may read this.
    pub(crate) fn may_read(&self, remote: RemoteRange, total: u32) -> bool {
        match self.asked() {
            Asked::Here(memory) => memory.may_read(remote, total),
            Asked::Elsewhere(queue) => queue.may_read(remote, total),
            Asked::Nobody => false,
        }
    }

    /// Whether a peer may flush this.
    pub(crate) fn may_flush(&self, flush: &FlushRequest) -> bool {
        match self.asked() {
            Asked::Here(memory) => memory.may_flush(flush),
            Asked::Elsewhere(queue) => queue.may_flush(flush),
            Asked::Nobody => false,
        }
    }

    /// Carries an atomic out; what the word held before.
    pub(crate) fn change_word(&self, remote: RemoteRange, change: AtomicChange) -> Result<u64, NotChanged> {
        match self.asked() {
            Asked::Here(memory) => memory.change(remote, change),
            Asked::Elsewhere(queue) => queue.change(remote, change),
            Asked::Nobody => Err(NotChanged::NotAllowed),
        }
    }
}
