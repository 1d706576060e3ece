//! A session: the socket to a peer, who the peer is, whether it is trusted, and how the two part. It moves no bytes of programs
//! and maps nothing.

mod end;
mod socket;
#[cfg(test)]
mod tests;
mod trust;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};

use nonic_sys::{Credentials, PacketSocket};
use nonic_trust::{Challenge, Peer};

pub(crate) use self::socket::has_ended;
use crate::control::{Introduction, ProcessToken};
use crate::link_record::{LinkFacts, LinkRecord};

/// What this process has to do with one peer, or with itself.
#[derive(Debug)]
pub(crate) struct Session {
    /// Nothing if both ends are this process.
    far: Option<FarEnd>,
    credentials: Credentials,
    /// The peer's name, once it has introduced itself.
    token: OnceLock<ProcessToken>,
    blocks: OnceLock<Vec<u32>>,
    /// What the peer is to answer.
    challenge: Mutex<Option<Challenge>>,
    trusted: AtomicBool,
    /// The peer has been shown this process's memory.
    shown: AtomicBool,
    dead: AtomicBool,
    given_up: AtomicBool,
    departed: AtomicBool,
}

#[derive(Debug)]
struct FarEnd {
    socket: PacketSocket,
    /// Whom the kernel says is there, and its process: a child of it may hold its end of the socket open when it dies.
    peer: Peer,
    /// What is shown of it to people.
    record: Arc<LinkRecord>,
}

impl Session {
    fn new(far: Option<FarEnd>, credentials: Credentials) -> Self {
        Self {
            far,
            credentials,
            token: OnceLock::new(),
            blocks: OnceLock::new(),
            challenge: Mutex::new(None),
            trusted: AtomicBool::new(false),
            shown: AtomicBool::new(false),
            dead: AtomicBool::new(false),
            given_up: AtomicBool::new(false),
            departed: AtomicBool::new(false),
        }
    }

    /// A session with the peer behind `socket`, of which `record` makes what is shown of it to people.
    pub(crate) fn with_peer(
        socket: PacketSocket,
        peer: Peer,
        record: impl FnOnce(LinkFacts) -> LinkRecord,
    ) -> Self {
        let credentials = peer.credentials();
        let facts = LinkFacts { pid: credentials.pid, uid: credentials.uid, ..LinkFacts::default() };
        let record = Arc::new(record(facts));
        Self::new(Some(FarEnd { socket, peer, record }), credentials)
    }

    /// A session of this process, which goes by `token`, with itself.
    pub(crate) fn with_itself(token: ProcessToken) -> Self {
        let credentials = Credentials { pid: std::process::id() as i32, uid: nonic_sys::effective_user() };
        let session = Self { trusted: AtomicBool::new(true), ..Self::new(None, credentials) };
        let _ = session.token.set(token);
        session
    }

    /// Whether both ends are this process.
    #[inline]
    pub(crate) fn is_loopback(&self) -> bool {
        self.far.is_none()
    }

    /// What the kernel says of the peer.
    #[inline]
    pub(crate) fn credentials(&self) -> Credentials {
        self.credentials
    }

    /// Where it is shown what is known of the peer; nowhere for this process itself.
    pub(crate) fn record(&self) -> Option<&Arc<LinkRecord>> {
        self.far.as_ref().map(|far| &far.record)
    }

    /// Changes what is shown to people.
    pub(crate) fn note(&self, change: impl FnOnce(&mut LinkFacts)) {
        if let Some(record) = self.record() {
            record.update(change);
        }
    }

    /// Takes what the peer says of itself.
    pub(crate) fn meet(&self, introduction: Introduction) {
        self.note(|facts| facts.met = true);
        let _ = self.token.set(introduction.token);
        let _ = self.blocks.set(introduction.blocks);
    }

    /// Whether the peer has introduced itself.
    pub(crate) fn has_met(&self) -> bool {
        self.token.get().is_some()
    }

    /// Whether another session is with the same process. Two processes that connect to each other at the same moment have two,
    /// and in one of them the peer may not have introduced itself yet: then what the kernel says must do.
    #[inline]
    pub(crate) fn is_with_peer_of(&self, other: &Self) -> bool {
        let tokens_agree = match (self.token.get(), other.token.get()) {
            (Some(own), Some(theirs)) => own == theirs,
            _ => true,
        };
        tokens_agree && self.credentials == other.credentials && self.is_loopback() == other.is_loopback()
    }

    /// Whether the peer is the process that answers to the name of a block, which `owner` was connected to just now. Its own
    /// word counts if it is trusted; otherwise both must be the same living process for the kernel.
    pub(crate) fn is_with_owner(&self, block: u32, owner: &PacketSocket) -> bool {
        if !self.blocks.get().is_some_and(|blocks| blocks.contains(&block)) {
            return false;
        }
        // Of a process that has ended, which is not noticed at once, another may have the block by now.
        if self.is_dead() || self.peer_is_gone() {
            return false;
        }
        self.is_trusted() || self.is_with_process_of(owner)
    }

    /// Whether the peer is the living process at the other end of a socket, as the kernel says, if that knows its number.
    pub(crate) fn is_with_process_of(&self, socket: &PacketSocket) -> bool {
        let same = |found: Credentials| found == self.credentials && found.pid > 0;
        !self.is_dead() && !self.peer_is_gone() && socket.peer().is_ok_and(same)
    }
}
