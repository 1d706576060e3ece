//! A connected endpoint.

use std::fmt;
use std::sync::{Arc, OnceLock};

use nonic_memory::SharedSlice;
use nonic_sys::{Record, forks, light_fences_are_free};

use crate::ScifError;
use crate::identity::Identity;
use crate::incoming::Incoming;
use crate::lease;
use crate::memory::RegisteredMemory;
use crate::outgoing::Outgoing;
use crate::segment::Segment;
use crate::side::Side;
use crate::stream_socket::StreamSocket;
use crate::wire::{Relayed, find};

/// What two sides have in common once one has accepted the other.
pub(crate) struct Connection {
    segment: Segment,
    side: Side,
    outgoing: Outgoing,
    incoming: Incoming,
    identity: Arc<Identity>,
    memory: OnceLock<Arc<RegisteredMemory>>,
    /// The relay that its peer is, if that stands for an endpoint of another host.
    relayed: Option<Relayed>,
    /// How many forks there had been when it was made: children of later ones have it, too.
    forks: u32,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("side", &self.side)
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

impl Connection {
    pub(crate) fn new(segment: Segment, side: Side, identity: Arc<Identity>) -> Self {
        let other = match side {
            Side::Connector => Side::Acceptor,
            Side::Acceptor => Side::Connector,
        };
        // Known before the first call that would wait for it.
        lease::prepare();
        let fences = light_fences_are_free().then(|| segment.fences_of(other));
        Self {
            outgoing: Outgoing::new(segment.direction(side)),
            incoming: Incoming::new(segment.direction(other), fences),
            relayed: segment.relay().map(find),
            segment,
            side,
            identity,
            memory: OnceLock::new(),
            forks: forks(),
        }
    }

    /// What both sides share.
    pub(crate) fn segment(&self) -> &Segment {
        &self.segment
    }

    /// The relay that its peer is, if that stands for an endpoint of another host.
    #[inline]
    pub(crate) fn relayed(&self) -> Option<&Relayed> {
        self.relayed.as_ref()
    }

    /// Sends bytes; the caller has looked that they can be read.
    #[inline]
    pub(crate) fn send(
        &self,
        socket: StreamSocket,
        bytes: SharedSlice<'_>,
        block: bool,
    ) -> Result<usize, ScifError> {
        if let Some(memory) = self.memory.get() {
            // No message overtakes what this side wrote before it.
            memory.settle();
        }
        self.outgoing.send(socket, bytes, block, || self.segment.is_forked(self.side))
    }

    /// Receives bytes; the caller has looked that they can be written.
    #[inline]
    pub(crate) fn receive(
        &self,
        socket: StreamSocket,
        bytes: SharedSlice<'_>,
        block: bool,
    ) -> Result<usize, ScifError> {
        self.incoming.receive(socket, bytes, block, || self.segment.is_forked(self.side))
    }

    /// Whether bytes are unread.
    pub(crate) fn has_bytes(&self) -> bool {
        self.incoming.has_bytes()
    }

    /// Makes the descriptor unreadable if no bytes are unread and nobody is receiving.
    pub(crate) fn settle_tokens(&self, socket: StreamSocket) {
        if !self.segment.is_forked(self.side) {
            self.incoming.settle_now(socket);
        }
    }

    /// The registered memory of both sides.
    pub(crate) fn memory(&self) -> &Arc<RegisteredMemory> {
        self.memory.get_or_init(|| {
            let identity = Arc::clone(&self.identity);
            let peer_is_gone = Arc::new(move || identity.is_disconnected());
            RegisteredMemory::new(
                Arc::clone(self.segment.mapping()),
                self.segment.areas(),
                self.side,
                peer_is_gone,
                self.forks,
            )
        })
    }

    /// The same, if it was ever used in this process.
    pub(crate) fn used_memory(&self) -> Option<&Arc<RegisteredMemory>> {
        self.memory.get()
    }

    // Around a fork.

    pub(crate) fn prepare_fork(&self) {
        self.segment.set_forked(self.side);
        let file = self.identity.noted_number();
        for (lock, byte) in [self.outgoing.lock(), self.incoming.lock()] {
            lock.prepare_fork(Record { file, byte });
        }
    }

    pub(crate) fn become_child(&self) {
        for (lock, _) in [self.outgoing.lock(), self.incoming.lock()] {
            lock.become_child();
        }
    }
}
