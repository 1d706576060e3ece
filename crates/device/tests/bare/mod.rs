//! A peer that is no device but the bare ring.

#![allow(dead_code)] // Each test is a crate of its own and uses its part.

use std::sync::Arc;
use std::time::{Duration, Instant};

use nonic_device::QpNumber;
use nonic_memory::AdoptionPolicy;
use nonic_protocol::Message;
use nonic_transport::{BLOCK_SIZE, Block, Link, Party, Tier, TrustedUsers, block_name, claim_block};

pub(crate) struct BarePeer {
    pub(crate) block: Block,
    pub(crate) party: Arc<Party>,
}

impl BarePeer {
    pub(crate) fn new(tier: Tier) -> Self {
        Self {
            block: claim_block().unwrap(),
            party: Arc::new(
                Party::create(
                    tier,
                    AdoptionPolicy::Never,
                    Arc::default(),
                    Vec::new(),
                    TrustedUsers::default(),
                )
                .unwrap(),
            ),
        }
    }

    /// Another process in the place of this one, which ends: it has the same numbers.
    pub(crate) fn succeed(self) -> Self {
        let number = self.block.number;
        drop(self);
        let socket = nonic_sys::listen_abstract(&block_name(number)).expect("the name is free again");
        Self { block: Block { number, socket }, ..Self::new(Tier::Ring) }
    }

    pub(crate) fn number(&self) -> QpNumber {
        QpNumber(self.block.number * BLOCK_SIZE + 7)
    }

    /// Accepts the device's connection.
    pub(crate) fn accept(&self) -> Link {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            assert!(Instant::now() < deadline, "the device does not connect");
            let Ok(socket) = self.block.socket.accept() else { continue };
            return Link::accept(&self.party, socket, &[]).map_err(|(error, _)| error).unwrap();
        }
    }
}

/// The next message and the length of its payload.
pub(crate) fn next_message(link: &Link) -> (Message, usize) {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        assert!(Instant::now() < deadline, "no message came");
        let Some(mut ring) = link.try_receive() else { continue };
        let found = ring.peek().unwrap().map(|incoming| (incoming.message, incoming.payload.length()));
        if let Some(found) = found {
            if ring.advance() | ring.report() {
                drop(ring);
                link.ring_bell_now();
            }
            return found;
        }
    }
}
