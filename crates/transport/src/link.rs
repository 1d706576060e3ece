//! A link: everything between this process and one peer. Two rings, the way to wake the other side, and what of its
//! memory can be reached directly.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use nonic_memory::{KeyTableView, OperationSlots, SharedSlice};
use nonic_queue::QpNumber;
use nonic_sys::{
    AsFd, BorrowedFd, Credentials, EventFd, OwnedFd, PacketSocket, Piece, Protection, Received,
    SharedMapping, SharedMemory, open_process, wait_readable,
};

use crate::control::{ControlMessage, Introduction, LONGEST, ProcessToken};
use crate::directory::connect_owner;
use crate::layout::{LINK_LENGTH, LINK_VERSION, MAGIC, RING_SLOTS, VERSION, direction};
use crate::message::Header;
use crate::party::{Party, Tier};
use crate::ring::{Consumer, Producer, RingFull, RingMemory};
use crate::segment::SegmentView;

/// Messages of one socket that are handled before others have their turn.
const MESSAGES_AT_ONCE: usize = 64;

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
    /// The peer's process: a child of it may hold its end of the socket open when it dies.
    process: Option<OwnedFd>,
    credentials: Credentials,
    token: OnceLock<ProcessToken>,
    blocks: OnceLock<Vec<u32>>,
    transmit: Mutex<Producer>,
    receive: Mutex<Consumer>,
    /// Held while this process operates on the peer's memory.
    pub(crate) own_operations: OperationSlots,
    peer_operations: OperationSlots,
    peer_doorbell: OnceLock<EventFd>,
    view: OnceLock<PeerView>,
    pub(crate) files: Mutex<HashMap<u32, PeerFile>>,
    can_reach: AtomicBool,
    peer_can_reach: AtomicBool,
    dead: AtomicBool,
    departed: AtomicBool,
    stalled: Mutex<Vec<QpNumber>>,
    has_stalled: AtomicBool,
    /// Messages of the peer that made no sense and were dropped.
    pub refused_messages: AtomicU64,
}

impl Link {
    fn assemble(
        party: Arc<Party>,
        socket: Option<PacketSocket>,
        credentials: Credentials,
        mapping: Arc<SharedMapping>,
        transmit: usize,
        receive: usize,
    ) -> Self {
        let ring = |number| RingMemory::new(Arc::clone(&mapping), direction(number));
        let slots = |number| OperationSlots::new(Arc::clone(&mapping), direction(number) + RING_SLOTS);
        Self {
            party,
            process: socket.as_ref().and_then(|_| open_process(credentials.pid)),
            socket,
            credentials,
            token: OnceLock::new(),
            blocks: OnceLock::new(),
            transmit: Mutex::new(Producer::new(ring(transmit))),
            receive: Mutex::new(Consumer::new(ring(receive))),
            own_operations: slots(transmit),
            peer_operations: slots(receive),
            peer_doorbell: OnceLock::new(),
            view: OnceLock::new(),
            files: Mutex::new(HashMap::new()),
            can_reach: AtomicBool::new(false),
            peer_can_reach: AtomicBool::new(false),
            dead: AtomicBool::new(false),
            departed: AtomicBool::new(false),
            stalled: Mutex::new(Vec::new()),
            has_stalled: AtomicBool::new(false),
            refused_messages: AtomicU64::new(0),
        }
    }

    /// A link from this process to itself: one ring, read by its own progress.
    pub fn loopback(party: &Arc<Party>) -> io::Result<Self> {
        let mapping = Arc::new(SharedMapping::anonymous(LINK_LENGTH)?);
        let credentials = Credentials { pid: std::process::id() as i32, uid: nonic_sys::effective_user() };
        let link = Self::assemble(Arc::clone(party), None, credentials, mapping, 0, 0);
        let _ = link.token.set(party.token);
        let (introduction, _) = party.introduce(true, &[]);
        if party.tier > Tier::Ring {
            let _ = link.view.set(PeerView { segment: party.segment.view(), arenas: Vec::new() });
            link.probe(&introduction);
            link.peer_can_reach.store(link.can_reach(), Ordering::Relaxed);
        }
        Ok(link)
    }

    /// Connects to the process that owns `number`. The link can carry messages at once; the peer maps it when its agent
    /// sees the connection.
    pub fn connect(party: &Arc<Party>, number: QpNumber, own_blocks: &[u32]) -> io::Result<Self> {
        let socket = connect_owner(number)?;
        let credentials = socket.peer()?;
        let memory = SharedMemory::create("nonic-link", LINK_LENGTH)?;
        let mapping = Arc::new(memory.map(Protection::ReadWrite)?);
        mapping.word(LINK_VERSION).store(u64::from(VERSION), Ordering::Relaxed);
        mapping.word(0).store(MAGIC, Ordering::Release);
        let (introduction, mut descriptors) = party.introduce(party.trusts(credentials.uid), own_blocks);
        descriptors.insert(0, memory.as_fd());
        socket.send(&ControlMessage::Hello(introduction).emit(), &descriptors)?;
        Ok(Self::assemble(Arc::clone(party), Some(socket), credentials, mapping, 0, 1))
    }

    /// Completes a connection a peer made, from its first message. `Ok(None)` if that has not come yet.
    pub fn accept(
        party: &Arc<Party>,
        socket: PacketSocket,
        own_blocks: &[u32],
    ) -> Result<Self, (io::Error, Option<PacketSocket>)> {
        let mut bytes = [0u8; LONGEST];
        let (length, descriptors) = match socket.receive(&mut bytes) {
            Received::Message(length, descriptors) => (length, descriptors),
            Received::Nothing => return Err((io::ErrorKind::WouldBlock.into(), Some(socket))),
            Received::HungUp => return Err((io::ErrorKind::ConnectionReset.into(), None)),
        };
        Self::accept_hello(party, socket, &bytes[..length], descriptors, own_blocks)
            .map_err(|error| (error, None))
    }

    fn accept_hello(
        party: &Arc<Party>,
        socket: PacketSocket,
        bytes: &[u8],
        descriptors: Vec<OwnedFd>,
        own_blocks: &[u32],
    ) -> io::Result<Self> {
        let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
        let message = ControlMessage::parse(bytes).map_err(|malformed| invalid(malformed.to_string()))?;
        let ControlMessage::Hello(introduction) = message else {
            return Err(invalid("a link that does not begin with an introduction".into()));
        };
        let credentials = socket.peer()?;
        let mut descriptors = descriptors.into_iter();
        let memory = descriptors.next().ok_or_else(|| invalid("an introduction without memory".into()))?;
        let mapping = Arc::new(SharedMemory::from_peer(memory, LINK_LENGTH)?.map(Protection::ReadWrite)?);
        let version = mapping.word(LINK_VERSION).load(Ordering::Relaxed);
        if mapping.word(0).load(Ordering::Acquire) != MAGIC || version != u64::from(VERSION) {
            return Err(invalid(format!("link memory of version {version}, not {VERSION}")));
        }
        let link = Self::assemble(Arc::clone(party), Some(socket), credentials, mapping, 1, 0);
        link.meet(introduction, descriptors)?;
        let (own, descriptors) = party.introduce(party.trusts(credentials.uid), own_blocks);
        link.tell(&ControlMessage::Welcome(own), &descriptors)?;
        if link.can_reach() {
            link.tell(&ControlMessage::CanReach, &[])?;
        }
        Ok(link)
    }

    /// Takes what the peer says of itself.
    fn meet(
        &self,
        introduction: Introduction,
        mut descriptors: impl Iterator<Item = OwnedFd>,
    ) -> io::Result<()> {
        let missing = || io::Error::new(io::ErrorKind::InvalidData, "an introduction that lacks descriptors");
        let doorbell = descriptors.next().ok_or_else(missing)?;
        // Writing to a descriptor of a stranger could block for ever (a full pipe); strangers are told over the socket.
        if self.party.could_trace(self.credentials.uid) {
            let _ = self.peer_doorbell.set(EventFd::from_peer(doorbell));
        }
        if introduction.trusts {
            let segment = SegmentView::from_peer(descriptors.next().ok_or_else(missing)?)?;
            let mut arenas = Vec::new();
            for _ in 0..introduction.arenas {
                let arena = SharedMemory::from_peer_whole(descriptors.next().ok_or_else(missing)?)?;
                arenas.push(arena.map(Protection::ReadWrite)?);
            }
            if self.party.tier > Tier::Ring {
                let _ = self.view.set(PeerView { segment, arenas });
            }
        }
        self.probe(&introduction);
        let _ = self.token.set(introduction.token);
        let _ = self.blocks.set(introduction.blocks);
        Ok(())
    }

    /// Tries whether the kernel lets this process into the peer's memory.
    fn probe(&self, introduction: &Introduction) {
        if self.party.tier < Tier::Kernel || self.credentials.pid <= 0 {
            return;
        }
        let mut seen = 0u64;
        let local = [Piece { address: &raw mut seen as usize, length: 8 }];
        let remote = [Piece { address: introduction.probe_address as usize, length: 8 }];
        // A process of the same number in another pid namespace does not hold the random value.
        let read = crate::kernel_copy::read_word(self.credentials.pid, &local, &remote);
        self.can_reach.store(read && seen == introduction.probe_value, Ordering::Release);
    }

    /// The socket, to wait on; none for a link to this process.
    pub fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(AsFd::as_fd)
    }

    /// Readable when the peer's process has ended, where the kernel offers that.
    pub fn process(&self) -> Option<BorrowedFd<'_>> {
        self.process.as_ref().map(AsFd::as_fd)
    }

    /// Whether the peer's process has ended.
    pub fn process_ended(&self) -> bool {
        self.process.as_ref().is_some_and(|process| wait_readable(process.as_fd(), Some(Duration::ZERO)))
    }

    /// Whether both ends are this process.
    pub fn is_loopback(&self) -> bool {
        self.socket.is_none()
    }

    /// Who is at the other end, once it has said so.
    pub fn identity(&self) -> Option<PeerIdentity> {
        Some(PeerIdentity { credentials: self.credentials, token: *self.token.get()? })
    }

    /// Whether another link leads to the same process. Two processes that connect to each other at the same moment have
    /// two links, and one of them may not have introduced itself yet: then what the kernel says must do.
    pub fn leads_where(&self, other: &Self) -> bool {
        let tokens_agree = match (self.token.get(), other.token.get()) {
            (Some(own), Some(theirs)) => own == theirs,
            _ => true,
        };
        tokens_agree && self.credentials == other.credentials && self.is_loopback() == other.is_loopback()
    }

    /// Blocks of queue-pair numbers the peer says it owns, if it is of a user whose word counts.
    pub fn claimed_blocks(&self) -> &[u32] {
        let trusted = self.credentials.uid == nonic_sys::effective_user();
        if trusted { self.blocks.get().map_or(&[], Vec::as_slice) } else { &[] }
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

    pub(crate) fn keys(&self) -> Option<&KeyTableView> {
        self.view.get().map(|view| view.segment.keys())
    }

    /// Whether the kernel lets this process into the peer's memory.
    pub fn can_reach(&self) -> bool {
        self.can_reach.load(Ordering::Acquire)
    }

    /// Whether the kernel lets the peer into this process's memory.
    pub fn peer_can_reach(&self) -> bool {
        self.peer_can_reach.load(Ordering::Acquire)
    }

    /// Handles everything that waits on the socket.
    pub fn handle_socket(&self) -> LinkEvent {
        let Some(socket) = &self.socket else { return LinkEvent::None };
        let mut bytes = [0u8; LONGEST];
        for _ in 0..MESSAGES_AT_ONCE {
            let (length, descriptors) = match socket.receive(&mut bytes) {
                Received::Message(length, descriptors) => (length, descriptors),
                Received::Nothing => return LinkEvent::None,
                Received::HungUp => return LinkEvent::Ended,
            };
            let handled = match ControlMessage::parse(&bytes[..length]) {
                Ok(message) => self.handle_message(message, descriptors),
                Err(malformed) => Err(io::Error::new(io::ErrorKind::InvalidData, malformed)),
            };
            if let Err(error) = handled {
                tracing::warn!(pid = self.credentials.pid, %error, "a peer broke the rules; its link is closed");
                return LinkEvent::Ended;
            }
        }
        LinkEvent::None
    }

    fn handle_message(&self, message: ControlMessage, descriptors: Vec<OwnedFd>) -> io::Result<()> {
        match message {
            ControlMessage::Hello(_) => Err(io::Error::other("a second introduction")),
            ControlMessage::Welcome(introduction) => {
                if self.token.get().is_some() {
                    return Err(io::Error::other("a second introduction"));
                }
                self.meet(introduction, descriptors.into_iter())?;
                if self.can_reach() { self.tell(&ControlMessage::CanReach, &[]) } else { Ok(()) }
            }
            ControlMessage::CanReach => {
                self.peer_can_reach.store(true, Ordering::Release);
                Ok(())
            }
            ControlMessage::WantFile { file } => self.give_file(file),
            ControlMessage::File { file, length } => {
                self.take_file(file, length, descriptors.into_iter().next());
                Ok(())
            }
            ControlMessage::DropFile { file } => {
                self.lock_files().remove(&file);
                Ok(())
            }
            ControlMessage::Look => Ok(()),
            ControlMessage::Goodbye => {
                self.departed.store(true, Ordering::SeqCst);
                Ok(())
            }
        }
    }

    fn give_file(&self, file: u32) -> io::Result<()> {
        let may = self.party.trusts(self.credentials.uid) && self.party.tier == Tier::Mapped;
        match may.then(|| self.party.files.descriptor(file)).flatten() {
            Some((descriptor, length)) => {
                self.tell(&ControlMessage::File { file, length }, &[descriptor.as_fd()])
            }
            None => self.tell(&ControlMessage::File { file, length: 0 }, &[]),
        }
    }

    fn take_file(&self, file: u32, length: u64, descriptor: Option<OwnedFd>) {
        // The program behind a peer can shrink its own file, and using what is gone kills (`SIGBUS`): only from a peer
        // that could kill this process anyway.
        let descriptor = descriptor.filter(|_| self.party.could_trace(self.credentials.uid));
        let mapped = descriptor.and_then(|descriptor| {
            let memory = SharedMemory::from_unsealed(descriptor, usize::try_from(length).ok()?).ok()?;
            memory.map(Protection::ReadWrite).ok()
        });
        let mut files = self.lock_files();
        if matches!(files.get(&file), Some(PeerFile::Asked)) {
            files.insert(
                file,
                mapped.map_or(PeerFile::Refused, |mapping| PeerFile::Mapped(Arc::new(mapping))),
            );
        }
    }

    pub(crate) fn lock_files(&self) -> MutexGuard<'_, HashMap<u32, PeerFile>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the peer for a file of its list; the answer comes over the socket.
    pub(crate) fn ask_file(&self, file: u32) {
        let _ = self.tell(&ControlMessage::WantFile { file }, &[]);
    }

    /// Tells the peer that a file of this process's list is gone.
    pub fn drop_file(&self, file: u32) {
        let _ = self.tell(&ControlMessage::DropFile { file }, &[]);
    }

    fn tell(&self, message: &ControlMessage, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        match &self.socket {
            Some(socket) => socket.send(&message.emit(), descriptors),
            None => Ok(()),
        }
    }

    /// Puts a message into the ring; [`Link::ring_bell`] afterwards, once for several.
    pub fn push(&self, header: &Header, payload: &[SharedSlice<'_>]) -> Result<(), RingFull> {
        self.transmit.lock().unwrap_or_else(PoisonError::into_inner).push(header, payload)
    }

    /// Whether a message of the largest size would fit now.
    pub fn has_room(&self) -> bool {
        self.transmit.lock().unwrap_or_else(PoisonError::into_inner).has_room_for_fragment()
    }

    /// Wakes the peer if it sleeps.
    pub fn ring_bell(&self) {
        let wanted = self.transmit.lock().unwrap_or_else(PoisonError::into_inner).consumer_wants_bell();
        if wanted {
            self.ring_bell_now();
        }
    }

    /// Wakes the peer's agent.
    pub fn ring_bell_now(&self) {
        if self.is_loopback() {
            self.party.doorbell.signal();
        } else if let Some(doorbell) = self.peer_doorbell.get() {
            doorbell.signal();
        } else {
            let _ = self.tell(&ControlMessage::Look, &[]);
        }
    }

    /// The reading end, if no other thread has it.
    pub fn try_receive(&self) -> Option<MutexGuard<'_, Consumer>> {
        match self.receive.try_lock() {
            Ok(guard) => Some(guard),
            Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(std::sync::TryLockError::WouldBlock) => None,
        }
    }

    /// Says that this side sleeps or not, and whether a message waits all the same.
    pub fn set_sleeping(&self, sleeping: bool) -> bool {
        match self.try_receive() {
            Some(consumer) => {
                consumer.set_sleeping(sleeping);
                consumer.has_message()
            }
            // Whoever reads right now will not see the flag: do not sleep.
            None => true,
        }
    }

    /// Remembers a queue pair that waits for room in the ring.
    pub fn add_stalled(&self, number: QpNumber) {
        let mut stalled = self.stalled.lock().unwrap_or_else(PoisonError::into_inner);
        if !stalled.contains(&number) {
            stalled.push(number);
        }
        self.has_stalled.store(true, Ordering::Release);
    }

    /// The queue pairs that wait for room, if there is room now.
    pub fn take_stalled(&self) -> Vec<QpNumber> {
        if !self.has_stalled.load(Ordering::Acquire) || !self.has_room() {
            return Vec::new();
        }
        let mut stalled = self.stalled.lock().unwrap_or_else(PoisonError::into_inner);
        self.has_stalled.store(false, Ordering::Release);
        std::mem::take(&mut *stalled)
    }

    /// Whether queue pairs wait for room.
    pub fn has_stalled(&self) -> bool {
        self.has_stalled.load(Ordering::Acquire)
    }

    /// Ends the link: nothing is sent, received or reached any more.
    pub fn close(&self) {
        if !self.dead.swap(true, Ordering::SeqCst)
            && let Some(socket) = &self.socket
        {
            socket.shut_down();
        }
    }

    /// Tells the peer that this process ends in order, so that it does not take the end for a crash.
    pub fn say_goodbye(&self) {
        let _ = self.tell(&ControlMessage::Goodbye, &[]);
    }

    /// Whether the peer said that it ends in order.
    pub fn peer_departed(&self) -> bool {
        self.departed.load(Ordering::SeqCst)
    }

    /// Whether the link has ended.
    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    /// Waits until every operation the peer has under way on this process's memory is over. A peer that died meanwhile
    /// has none; a peer that does not move within `limit` loses its link, and false is returned.
    pub fn wait_for_peer(&self, limit: Duration) -> bool {
        let hung_up = || self.socket.as_ref().is_some_and(PacketSocket::is_hung_up);
        let gone = || self.is_dead() || hung_up() || self.process_ended();
        if self.peer_operations.wait_idle(limit, &gone) || gone() {
            return true;
        }
        tracing::warn!(
            pid = self.credentials.pid,
            "a peer stopped inside an operation on this process's memory"
        );
        self.close();
        false
    }
}
