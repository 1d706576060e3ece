//! A link: everything between this process and one peer of the same host. It is a [`Channel`] that carries messages, a
//! [`Reach`] into memory, and a [`Session`] that says with whom and for how long; here is what takes more than one of them.

mod attention;
mod burial;
mod conversation;
mod forwarding;
mod meeting;
mod showing;

use std::sync::Arc;
use std::time::Duration;

use nonic_memory::Inside;
use nonic_sys::{FenceReach, SharedMapping};

pub use self::attention::Attention;
use crate::channel::Channel;
use crate::control::ControlMessage;
use crate::layout::LinkEnd;
use crate::party::Party;
use crate::reach::{ControlPath, Reach};
use crate::session::Session;

/// What a link's socket brought that concerns others.
#[derive(Debug, PartialEq, Eq)]
pub enum LinkEvent {
    /// Nothing more to do.
    None,
    /// The peer is gone, or broke the rules.
    Ended,
}

/// A link to a peer, or to this process itself.
#[derive(Debug)]
pub struct Link {
    party: Arc<Party>,
    session: Session,
    reach: Reach,
    channel: Channel,
    /// How much attention the peer gets.
    pub attention: Attention,
    /// The peer is in another network namespace, where its numbers of queue pairs may be others' here.
    elsewhere: bool,
}

impl ControlPath for Session {
    #[inline(always)]
    fn is_dead(&self) -> bool {
        self.is_dead()
    }

    fn ask_file(&self, file: u32) {
        let _ = self.tell(&ControlMessage::WantFile { file }, &[]);
    }
}

impl Link {
    fn new(party: &Arc<Party>, session: Session, memory: Arc<SharedMapping>, end: LinkEnd) -> Self {
        Self {
            party: Arc::clone(party),
            session,
            reach: Reach::new(Arc::clone(party), &memory, end),
            channel: Channel::new(Arc::clone(party), memory, end),
            attention: Attention::default(),
            elsewhere: false,
        }
    }

    /// Notes that it came, or was made, by a folder in which other network namespaces are met.
    pub fn lies_elsewhere(self) -> Self {
        Self { elsewhere: true, ..self }
    }

    /// Whether the peer is in another network namespace.
    pub fn is_elsewhere(&self) -> bool {
        self.elsewhere
    }

    /// The party on this side.
    pub fn party(&self) -> &Arc<Party> {
        &self.party
    }

    /// Ends the link: nothing is sent, received or reached any more. The peer learns of it when no operation of this
    /// process on its memory is left: it takes a closed end for the promise that none is, and none can begin.
    pub fn close(&self) {
        if !self.session.end() {
            return;
        }
        nonic_sys::heavy_fence(FenceReach::Process);
        if !self.is_loopback() && self.party.memory.slots().wait_idle(OWN_PATIENCE) {
            self.session.stop_sending();
        }
    }

    /// The peer found no way to this process's memory after all: sends travel in the ring from now on.
    pub fn stop_pulls(&self) {
        self.reach.set_peer_ways(false, false);
        self.session.note(|facts| facts.pulls_stopped = true);
    }

    /// Waits until every operation the peer has under way on this process's memory is over. False if one is not within
    /// `limit`, though the peer's process lives: it is stopped. It is then not waited for again. Who was never shown this
    /// process's memory is not waited for, whatever it writes about itself.
    pub fn wait_for_peer(&self, limit: Duration) -> bool {
        if !self.session.has_shown() {
            return true;
        }
        let limit = if self.was_given_up() { Duration::ZERO } else { limit };
        let gone = || self.session.peer_is_gone();
        if self.reach.wait_for_peer(limit, &gone) || gone() {
            return true;
        }
        self.session.give_up();
        false
    }

    /// The operations the peer has under way on this process's memory. The caller has killed the key and passed the fence
    /// that goes with it.
    pub fn peer_inside(&self) -> Option<Inside> {
        self.reach.peer_inside().filter(|_| self.peer_may_operate())
    }
}

/// How long closing a link waits for this process's own operations on the peer's memory.
const OWN_PATIENCE: Duration = Duration::from_secs(2);
