//! The links of an engine: finding the one to a peer, and taking leave of those whose peer is gone.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use nonic_meeting::Namespace;
use nonic_sys::{PacketSocket, Seldom};
use nonic_transport::{BLOCK_SIZE, Link, Party, connect_owner};

use super::catching_up::Admission;
use super::expected::Expected;
use super::progress::MESSAGES_PER_POLL;
use super::standing::Attended;
use super::{Engine, Progress, UsedLink, lock};
use crate::agent;
use crate::error::{OpenError, asked};
use crate::peer_address::PeerAddress;

/// The links of an engine, and how others come and go.
#[derive(Debug)]
pub(crate) struct Links {
    pub(super) known: RwLock<KnownLinks>,
    /// Grows whenever a link that polls look at comes or goes.
    pub(super) version: AtomicU64,
    /// To this engine itself.
    loopback: Arc<Link>,
    tokens: AtomicU32,
    /// To be buried when nobody holds a lock.
    pub(super) ended: Mutex<Vec<Arc<Link>>>,
    /// Listening sockets of the blocks, in the order of their claim.
    pub(crate) listeners: Mutex<Vec<Arc<BlockListener>>>,
    pub(crate) admission: Admission,
    pub(super) expected: Expected,
    /// Held from before this process introduces itself to a peer until the link is among the others: the peer may begin
    /// operations in between, and whoever takes memory back must find it.
    pub(crate) meeting: Mutex<()>,
}

/// Where peers connect to reach a block of numbers.
#[derive(Debug)]
pub(crate) struct BlockListener {
    pub(crate) socket: PacketSocket,
    /// Those of other network namespaces.
    pub(crate) is_for_others: bool,
}

/// Which links there are.
#[derive(Debug, Default)]
pub(super) struct KnownLinks {
    pub(super) all: Arc<Vec<Arc<Link>>>,
    /// Those that polls look at, or would if they did not rest.
    pub(super) attended: Arc<Attended>,
    /// Buried, but their peers have not closed their ends: they may be inside an operation, or begin one before they
    /// notice.
    pub(super) parted: Arc<Vec<Arc<Link>>>,
    /// Of this namespace (`None`) and of others.
    by_block: HashMap<(Option<Namespace>, u32), Arc<Link>>,
    pub(super) by_token: HashMap<u64, Arc<Link>>,
}

impl Links {
    /// The one to this engine itself.
    pub(super) fn new(party: &Arc<Party>) -> Result<Self, OpenError> {
        let loopback = Arc::new(asked("memory for a ring (mmap)", Link::loopback(party))?);
        let all = Arc::new(vec![Arc::clone(&loopback)]);
        let attended = Arc::new(Attended { links: vec![Arc::clone(&loopback)], own: 1 });
        Ok(Self {
            known: RwLock::new(KnownLinks { all, attended, ..KnownLinks::default() }),
            version: AtomicU64::new(1),
            loopback,
            tokens: AtomicU32::new(0),
            ended: Mutex::new(Vec::new()),
            listeners: Mutex::new(Vec::new()),
            admission: Admission::default(),
            expected: Expected::default(),
            meeting: Mutex::new(()),
        })
    }
}

static UNREACHED: Seldom = Seldom::new();

impl Engine {
    pub(crate) fn links(&self) -> Arc<Vec<Arc<Link>>> {
        Arc::clone(&self.links.known.read().unwrap_or_else(PoisonError::into_inner).all)
    }

    /// The link to the process with the queue pair of an address; connects if there is none. `None`: nobody is there.
    pub(crate) fn link_to(&self, address: PeerAddress) -> Option<UsedLink> {
        let (number, namespace) = match address {
            PeerAddress::ThisHost(number) => (number, None),
            PeerAddress::Met(namespace, number) => (number, Some(namespace)),
        };
        let block = (namespace, number.0 / BLOCK_SIZE);
        let own_blocks = self.own_blocks();
        if namespace.is_none() && own_blocks.contains(&block.1) {
            return Some(UsedLink::new(Arc::clone(&self.links.loopback)));
        }
        if let Some(link) = self.known_link_to(block) {
            return Some(link);
        }
        let _meeting = lock(&self.links.meeting);
        // Another thread may have met the same process while this one waited for its turn.
        if let Some(link) = self.known_link_to(block) {
            return Some(link);
        }
        let connected = match namespace {
            None => connect_owner(number),
            Some(namespace) => self.connect_to_other(namespace, number),
        };
        let met = connected.and_then(|socket| {
            // Of numbers that a peer elsewhere says to have there may be others here.
            let leads_there = |link: &&Arc<Link>| match (namespace, link.is_elsewhere()) {
                (None, false) => link.leads_to_owner(block.1, &socket),
                (Some(_), true) => link.leads_to_process_of(&socket),
                _ => false,
            };
            if let Some(known) = self.links().iter().find(leads_there)
                && let Some(known) = self.remember(block, known)
            {
                return Ok(known);
            }
            let mut link = Link::connect(&self.party, socket, &own_blocks)?;
            if namespace.is_some() {
                link = link.lies_elsewhere();
            }
            let link = UsedLink::new(Arc::new(link));
            self.add_link(Arc::clone(&link), Some(block));
            self.expect(&link);
            Ok(link)
        });
        match met {
            Ok(link) => Some(link),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                tracing::debug!(number = number.0, %error, "no process answers for this queue-pair number");
                None
            }
            Err(error) => {
                if let Some(unsaid) = UNREACHED.turn() {
                    let number = number.0;
                    tracing::warn!(
                        number, %error, unsaid,
                        "the process that holds this queue-pair number takes no connection; nonic doctor says who holds such numbers"
                    );
                }
                None
            }
        }
    }

    /// The same for a connection, which must not be lost to a process whose end has not been noticed yet: another may have its
    /// numbers by now.
    pub(crate) fn living_link_to(&self, address: PeerAddress) -> Option<UsedLink> {
        let link = self.link_to(address)?;
        if !link.peer_is_gone() {
            return Some(link);
        }
        let mut links = self.links.known.write().unwrap_or_else(PoisonError::into_inner);
        links.by_block.retain(|_, known| !Arc::ptr_eq(known, &link));
        drop(links);
        self.link_to(address)
    }

    /// The link to the owner of a block, counted as used.
    fn known_link_to(&self, block: (Option<Namespace>, u32)) -> Option<UsedLink> {
        let links = self.links.known.read().unwrap_or_else(PoisonError::into_inner);
        let known = links.by_block.get(&block).cloned();
        drop(links);
        self.begin_use(&known?)
    }

    fn remember(&self, block: (Option<Namespace>, u32), link: &Arc<Link>) -> Option<UsedLink> {
        let used = self.begin_use(link)?;
        let mut links = self.links.known.write().unwrap_or_else(PoisonError::into_inner);
        links.by_block.insert(block, Arc::clone(link));
        Some(used)
    }

    /// Counts a link as used, if it has not ended. The look comes after the count: whoever buries it ends it first, and then
    /// looks whether anybody has to be told.
    fn begin_use(&self, link: &Arc<Link>) -> Option<UsedLink> {
        let used = UsedLink::new(Arc::clone(link));
        if used.is_dead() {
            return None;
        }
        // It may be one that nobody talked with, or not for long.
        if !self.is_attended(link) {
            self.look_who_talks();
        }
        Some(used)
    }

    /// Enters a link: to the owner of `block` if this process connected, else to whoever connected. Returns its token.
    pub(crate) fn add_link(&self, link: Arc<Link>, block: Option<(Option<Namespace>, u32)>) -> u64 {
        let token = agent::LINKS + u64::from(self.links.tokens.fetch_add(1, Ordering::Relaxed));
        let changed = {
            let mut links = self.links.known.write().unwrap_or_else(PoisonError::into_inner);
            let mut all = Vec::clone(&links.all);
            all.push(Arc::clone(&link));
            links.all = Arc::new(all);
            links.by_token.insert(token, Arc::clone(&link));
            if let Some(block) = block {
                links.by_block.insert(block, Arc::clone(&link));
            }
            self.settle(&mut links)
        };
        if changed {
            self.attended_changed();
        }
        self.watch(&link, token);
        token
    }

    pub(crate) fn link_of_token(&self, token: u64) -> Option<Arc<Link>> {
        self.links.known.read().unwrap_or_else(PoisonError::into_inner).by_token.get(&token).cloned()
    }

    pub(crate) fn token_of(&self, link: &Arc<Link>) -> Option<u64> {
        let links = self.links.known.read().unwrap_or_else(PoisonError::into_inner);
        links.by_token.iter().find(|(_, other)| Arc::ptr_eq(other, link)).map(|(token, _)| *token)
    }

    /// Takes leave of a link whose peer is gone: what it still sent is handled, then its queue pairs fail.
    pub(crate) fn bury(&self, link: &Arc<Link>) {
        {
            let mut driver = self.driving.driver.lock();
            let mut held = false;
            // What the peer said last may stand in another ring: two processes that connected to each other at the same
            // moment have two links. A ring's worth and some of each: a peer that closed its socket and goes on writing
            // is not listened to for ever.
            for ring in self.attended().links.iter().filter(|other| other.leads_where(link)) {
                for _ in 0..64 {
                    let progress = self.drain(ring, &mut driver, MESSAGES_PER_POLL, usize::MAX);
                    held |= progress.any_of(Progress::HELD);
                    if !progress.any_of(Progress::WORKED) {
                        break;
                    }
                }
            }
            driver.answer();
            if held {
                // What waits for a receive is not lost with its sender: once more, later.
                lock(&self.links.ended).push(Arc::clone(link));
                return;
            }
        }
        self.part_from(link);
    }

    /// Takes leave of a link at once, whatever its peer still has to say.
    pub(crate) fn part_from(&self, link: &Arc<Link>) {
        link.close();
        let parted = link.peer_may_operate();
        let changed = {
            let mut links = self.links.known.write().unwrap_or_else(PoisonError::into_inner);
            let keep = |other: &Arc<Link>| !Arc::ptr_eq(other, link);
            links.all = Arc::new(links.all.iter().filter(|other| keep(other)).cloned().collect());
            links.by_block.retain(|_, other| keep(other));
            let others = links.parted.iter().filter(|other| keep(other) && other.peer_may_operate());
            let parted_now = others.chain(parted.then_some(link)).cloned().collect();
            links.parted = Arc::new(parted_now);
            if !parted {
                links.by_token.retain(|_, other| keep(other));
            }
            self.settle(&mut links)
        };
        if changed {
            self.attended_changed();
        }
        if parted {
            // Between the question and the entry its end may have been closed.
            self.watch_parted(link);
        } else {
            self.stop_watching(link);
            if link.was_given_up() {
                self.wake_to_use_again();
            }
        }
        // Whoever comes and goes in a loop must not have every queue pair asked.
        let is_used = link.attention.is_used();
        if is_used {
            for pair in self.all_pairs() {
                pair.peer_is_gone(link);
            }
        }
        // Its queue pairs keep the link, and the program may keep those for long.
        if is_used || !link.is_stranger() {
            link.let_go();
        }
    }

    pub(super) fn say_goodbye(&self) {
        for link in self.links().iter() {
            link.say_goodbye();
        }
    }

    /// Closes a link; the agent buries it, when nobody holds a lock.
    pub(super) fn end_link(&self, link: &Arc<Link>) {
        link.close();
        lock(&self.links.ended).push(Arc::clone(link));
        self.party.doorbell.signal();
    }

    /// Counts one region less on a file of the program; peers let go of it with the last.
    pub(crate) fn release_file(&self, file: u32) {
        if self.party.files.release(file) {
            for link in self.links().iter().filter(|link| !link.is_stranger()) {
                link.drop_file(file);
            }
        }
    }
}
