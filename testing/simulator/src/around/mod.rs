//! What a queue pair finds around it here. It moves bytes over virtual carriers and between two heaps of bytes, and looks at
//! whatever happens: may it?

mod surroundings;

use std::time::Duration;

use nonic_protocol::{Direct, RemoteRange};

use crate::carrier::Carried;
use crate::chance::Chance;
use crate::node::{Gone, Node, QueuePair, contents};
use crate::pair::Side;
use crate::scene::Scene;

/// The surroundings of one end, for as long as it does something.
pub(crate) struct Around<'a> {
    pub(crate) scene: &'a mut Scene,
    /// The other end's queue pair.
    pub(crate) peer: &'a QueuePair,
    pub(crate) side: Side,
    pub(crate) chance: &'a mut Chance,
    pub(crate) now: Duration,
    /// The request that is being started.
    pub(crate) starting: u64,
    /// The request that came, until it is carried out.
    pub(crate) arriving: Option<u64>,
    /// The program is about to post receives.
    pub(crate) owes_poll: bool,
    /// A refusal was read and not yet acted upon.
    pub(crate) denied: bool,
}

impl Around<'_> {
    fn node(&mut self) -> &mut Node {
        &mut self.scene.nodes[self.side]
    }

    fn there(&self) -> &Node {
        &self.scene.nodes[1 - self.side]
    }

    /// Whether the peer's tables allow it beyond doubt; and by chance, since not every peer's memory can be reached.
    fn can_go_directly(&mut self, remote: RemoteRange, length: u64, end: u64) -> Result<(), Direct> {
        if self.scene.extended || !self.chance.once_in(3) {
            return Err(Direct::Declined);
        }
        let there = self.there();
        match there.gone {
            Some(Gone::Killed) => return Err(Direct::Fault),
            Some(Gone::Left) => return Err(Direct::Declined),
            None => {}
        }
        let here = &self.scene.nodes[self.side];
        let connected = there.peer == here.number && here.peer == there.number;
        let takes = connected && self.peer.state().receives();
        let allowed = takes && there.allows(remote.key, remote.address, length, end);
        if allowed { Ok(()) } else { Err(Direct::Declined) }
    }

    /// The bytes of a whole message have to be those that were sent.
    fn check_received(&mut self, total: u32) {
        let serial = self.arriving.expect("a message came");
        let received = std::mem::take(&mut self.node().received);
        assert_eq!(received, contents(serial, 0..total.into()), "a message has other bytes");
    }

    /// A short send went to this receive without ceremony.
    pub(crate) fn took_at_once(&mut self, receive: u64, carried: &Carried) {
        self.node().receive_ended(receive);
        self.node().received = carried.payload.clone();
        self.check_received(carried.payload.len() as u32);
        self.executed(None);
    }

    /// The target of the request that came has carried it out.
    fn executed(&mut self, old: Option<u64>) {
        if let Some(serial) = self.arriving.take() {
            assert_eq!(self.scene.named_by(serial), self.node().turned_to, "it went to another queue");
            self.scene.ledgers[1 - self.side].executed(serial, old);
        }
    }
}
