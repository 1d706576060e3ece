//! A link: everything between this process and one peer. Two rings, the way to wake the other side, and what of its
//! memory can be reached directly.

mod attention;
mod burial;
mod forwarding;
mod meeting;
mod socket;
mod trusting;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use nonic_memory::{Inside, KeyTableView, OperationGuard, OperationSlots};
use nonic_sys::{AsFd, BorrowedFd, Credentials, FenceReach, PacketSocket, PeerMemory, SharedMapping};
use nonic_trust::{Challenge, Peer};

pub use self::attention::Attention;
use crate::channel::Channel;
use crate::control::ProcessToken;
use crate::layout::{LinkEnd, RING_SLOTS};
use crate::link_record::{LinkFacts, LinkRecord};
use crate::party::Party;
use crate::segment::SegmentView;
use crate::windows::Windows;

/// Who is at the other end: what the kernel says and what it says itself. Both must match for two links to lead to one
/// process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerIdentity {
    /// From the kernel.
    pub credentials: Credentials,
    /// From the peer.
    pub token: ProcessToken,
}

/// What a trusted peer lets this process see.
#[derive(Debug)]
pub struct PeerView {
    /// Its queue pairs and keys.
    pub segment: SegmentView,
    pub(crate) arenas: Vec<SharedMapping>,
    pub(crate) adopted: Option<Windows>,
}

#[derive(Debug)]
pub(crate) enum PeerFile {
    Asked,
    Mapped(Arc<SharedMapping>),
    Refused,
}

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
    socket: Option<PacketSocket>,
    /// Whom the kernel says is at the other end, and its process: a child of it may hold its end of the socket open when it
    /// dies.
    peer: Option<Peer>,
    credentials: Credentials,
    /// What the peer is to answer.
    challenge: Mutex<Option<Challenge>>,
    trusted: AtomicBool,
    /// The peer has been shown this process's memory.
    shown: AtomicBool,
    token: OnceLock<ProcessToken>,
    blocks: OnceLock<Vec<u32>>,
    channel: Channel,
    /// Held while this process operates on the peer's memory.
    pub(crate) own_operations: OperationSlots,
    peer_operations: OperationSlots,
    view: OnceLock<PeerView>,
    pub(crate) files: Mutex<HashMap<u32, PeerFile>>,
    /// The peer's memory, once it was shown that the kernel lets this process at it.
    pub(crate) peer_memory: OnceLock<PeerMemory>,
    peer_can_reach: AtomicBool,
    peer_can_map: AtomicBool,
    dead: AtomicBool,
    given_up: AtomicBool,
    departed: AtomicBool,
    /// What is shown of it; nothing of a link to this process itself.
    record: Option<Arc<LinkRecord>>,
    /// How much attention the peer gets.
    pub attention: Attention,
}

impl Link {
    fn assemble(
        party: Arc<Party>,
        peer: Option<(PacketSocket, Peer)>,
        credentials: Credentials,
        memory: Arc<SharedMapping>,
        end: LinkEnd,
    ) -> Self {
        let slots = |offset| OperationSlots::new(Arc::clone(&memory), offset + RING_SLOTS);
        let facts = LinkFacts { pid: credentials.pid, uid: credentials.uid, ..LinkFacts::default() };
        let (socket, peer) = peer.unzip();
        Self {
            record: socket.as_ref().map(|_| Arc::new(party.segment.record_link(facts))),
            socket,
            peer,
            credentials,
            challenge: Mutex::new(None),
            trusted: AtomicBool::new(false),
            shown: AtomicBool::new(false),
            token: OnceLock::new(),
            blocks: OnceLock::new(),
            own_operations: slots(end.transmits_at()),
            peer_operations: slots(end.receives_at()),
            channel: Channel::new(Arc::clone(&party), memory, end),
            party,
            view: OnceLock::new(),
            files: Mutex::new(HashMap::new()),
            peer_memory: OnceLock::new(),
            peer_can_reach: AtomicBool::new(false),
            peer_can_map: AtomicBool::new(false),
            dead: AtomicBool::new(false),
            given_up: AtomicBool::new(false),
            departed: AtomicBool::new(false),
            attention: Attention::default(),
        }
    }

    /// Changes what is shown of this link to people who look.
    fn note(&self, change: impl FnOnce(&mut LinkFacts)) {
        if let Some(record) = &self.record {
            record.update(change);
        }
    }

    /// The socket, to wait on; none for a link to this process.
    pub fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(AsFd::as_fd)
    }

    /// Readable when the peer's process has ended, where the kernel offers that.
    pub fn process(&self) -> Option<BorrowedFd<'_>> {
        self.peer.as_ref().and_then(Peer::process)
    }

    /// Whether the peer's process has ended.
    pub fn process_ended(&self) -> bool {
        self.peer.as_ref().is_some_and(Peer::has_ended)
    }

    /// Whether both ends are this process.
    #[inline]
    pub fn is_loopback(&self) -> bool {
        self.socket.is_none()
    }

    /// Who is at the other end, once it has said so.
    pub fn identity(&self) -> Option<PeerIdentity> {
        Some(PeerIdentity { credentials: self.credentials, token: *self.token.get()? })
    }

    /// Whether another link leads to the same process. Two processes that connect to each other at the same moment have
    /// two links, and one of them may not have introduced itself yet: then what the kernel says must do.
    #[inline]
    pub fn leads_where(&self, other: &Self) -> bool {
        let tokens_agree = match (self.token.get(), other.token.get()) {
            (Some(own), Some(theirs)) => own == theirs,
            _ => true,
        };
        tokens_agree && self.credentials == other.credentials && self.is_loopback() == other.is_loopback()
    }

    /// Whether the peer is the process that answers to the name of a block, which `owner` was connected to just now. Its own
    /// word counts if it is trusted; otherwise both must be the same living process for the kernel.
    pub fn leads_to_owner(&self, block: u32, owner: &PacketSocket) -> bool {
        if !self.blocks.get().is_some_and(|blocks| blocks.contains(&block)) || self.is_dead() {
            return false;
        }
        let same = |found: Credentials| found == self.credentials && found.pid > 0;
        self.is_trusted() || (owner.peer().is_ok_and(same) && !self.process_ended())
    }

    /// What the kernel says of the peer.
    pub fn credentials(&self) -> Credentials {
        self.credentials
    }

    /// What the peer lets this process see, if it trusts it and has said so.
    pub fn view(&self) -> Option<&PeerView> {
        self.view.get()
    }

    /// The party on this side.
    pub fn party(&self) -> &Arc<Party> {
        &self.party
    }

    /// Begins an operation of this process on the peer's memory; `None` if the link has ended, or so many threads are inside
    /// that the peer could not see this one. The look comes after the slots were taken, one that the peer waits for and one
    /// of this process: whoever closes the link waits for the latter, which no peer can write to.
    pub(crate) fn enter(&self, view: &PeerView) -> Option<Entered<'_>> {
        let own = self.party.memory.enter();
        // Of a link to this process itself only this process's own slots are waited for.
        let shown = match self.is_loopback() {
            true => None,
            false => Some(self.own_operations.enter(|| view.segment.light_fences())?),
        };
        (!self.is_dead()).then_some(Entered { guard: own, _shown: shown })
    }

    /// The same for a pull, of which there is one at a time, since whoever reads rings carries it out: the peer sees it,
    /// however many threads are inside.
    pub(crate) fn enter_to_pull(&self, view: &PeerView) -> Option<Entered<'_>> {
        let own = self.party.memory.enter();
        let shown = self.own_operations.enter_alone(|| view.segment.light_fences())?;
        (!self.is_dead()).then_some(Entered { guard: own, _shown: Some(shown) })
    }

    pub(crate) fn keys(&self) -> Option<&KeyTableView> {
        self.view.get().map(|view| view.segment.keys())
    }

    /// Whether the kernel lets this process into the peer's memory.
    #[inline]
    pub fn can_reach(&self) -> bool {
        self.peer_memory.get().is_some()
    }

    /// Whether the kernel lets the peer into this process's memory.
    pub fn peer_can_reach(&self) -> bool {
        self.peer_can_reach.load(Ordering::Acquire)
    }

    /// Whether this process can map the adopted pages of the peer.
    pub fn can_map(&self) -> bool {
        self.view.get().is_some_and(|view| view.adopted.is_some())
    }

    /// Whether the peer can map the adopted pages of this process.
    pub fn peer_can_map(&self) -> bool {
        self.peer_can_map.load(Ordering::Acquire)
    }

    /// The peer found no way to this process's memory after all: sends travel in the ring from now on.
    pub fn stop_pulls(&self) {
        self.peer_can_reach.store(false, Ordering::Release);
        self.peer_can_map.store(false, Ordering::Release);
        self.note(|facts| facts.pulls_stopped = true);
    }

    /// Ends the link: nothing is sent, received or reached any more. The peer learns of it when no operation of this
    /// process on its memory is left: it takes a closed end for the promise that none is, and none can begin.
    pub fn close(&self) {
        if self.dead.swap(true, Ordering::SeqCst) {
            return;
        }
        if let Some(record) = &self.record {
            record.leave();
        }
        nonic_sys::heavy_fence(FenceReach::Process);
        if let Some(socket) = &self.socket
            && self.party.memory.slots().wait_idle(OWN_PATIENCE)
        {
            socket.stop_sending();
        }
    }

    /// Whether the peer said that it ends in order.
    pub fn peer_departed(&self) -> bool {
        self.departed.load(Ordering::SeqCst)
    }

    /// Whether the link has ended.
    #[inline]
    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    /// Waits until every operation the peer has under way on this process's memory is over. False if one is not within
    /// `limit`, though the peer's process lives: it is stopped. It is then not waited for again. Who was never shown this
    /// process's memory is not waited for, whatever it writes about itself.
    pub fn wait_for_peer(&self, limit: Duration) -> bool {
        if !self.shown.load(Ordering::SeqCst) {
            return true;
        }
        let limit = if self.was_given_up() { Duration::ZERO } else { limit };
        let hung_up = || self.socket.as_ref().is_some_and(PacketSocket::is_hung_up);
        let gone = || hung_up() || self.process_ended();
        if self.peer_operations.wait_idle(limit, &gone) || gone() {
            return true;
        }
        if !self.given_up.swap(true, Ordering::SeqCst) {
            let pid = self.credentials.pid;
            tracing::warn!(
                pid,
                "a peer stopped inside an operation on this process's memory; its link is closed"
            );
        }
        false
    }

    /// The operations the peer has under way on this process's memory. The caller has killed the key and passed the fence
    /// that goes with it.
    pub fn peer_inside(&self) -> Option<Inside> {
        self.peer_operations.inside().filter(|_| self.peer_may_operate())
    }

    /// Whether the peer once did not leave an operation in time.
    pub fn was_given_up(&self) -> bool {
        self.given_up.load(Ordering::SeqCst)
    }

    /// Whether the peer can be inside an operation on this process's memory, or begin one, even if the link has ended
    /// here: it was shown keys, it lives, and it has not closed its end.
    pub fn peer_may_operate(&self) -> bool {
        let Some(socket) = &self.socket else { return false };
        self.shown.load(Ordering::SeqCst) && !socket.is_hung_up() && !self.process_ended()
    }
}

/// An operation of this process on a peer's memory; over when dropped.
#[derive(Debug)]
pub(crate) struct Entered<'a> {
    pub(crate) guard: OperationGuard<'a>,
    _shown: Option<OperationGuard<'a>>,
}

/// How long closing a link waits for this process's own operations on the peer's memory.
const OWN_PATIENCE: Duration = Duration::from_secs(2);
