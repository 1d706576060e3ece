//! How two processes come to have a link: connecting, accepting, introducing themselves.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use nonic_queue::QpNumber;
use nonic_sys::{
    AsFd, Credentials, EventFd, OwnedFd, PacketSocket, Piece, Protection, Received, SharedMapping,
    SharedMemory,
};

use super::socket::has_ended;
use super::{Link, PeerView};
use crate::control::{ControlMessage, Introduction, LONGEST};
use crate::directory::connect_owner;
use crate::layout::{LINK_LENGTH, LINK_VERSION, MAGIC, VERSION};
use crate::link_record::Probe;
use crate::party::{Party, Tier};
use crate::segment::SegmentView;
use crate::windows::Windows;

impl Link {
    /// A link from this process to itself: one ring, read by its own progress.
    pub fn loopback(party: &Arc<Party>) -> io::Result<Self> {
        let mapping = Arc::new(SharedMapping::anonymous(LINK_LENGTH)?);
        let credentials = Credentials { pid: std::process::id() as i32, uid: nonic_sys::effective_user() };
        let link = Self::assemble(Arc::clone(party), None, credentials, mapping, 0, 0);
        let _ = link.token.set(party.token);
        let (introduction, _) = party.introduce(true, &[]);
        if party.tier > Tier::Ring {
            let view = PeerView { segment: party.segment.view(), arenas: Vec::new(), adopted: None };
            let _ = link.view.set(view);
            link.probe(&introduction);
            link.peer_can_reach.store(link.can_reach(), Ordering::Relaxed);
            link.peer_can_map.store(party.tier == Tier::Mapped, Ordering::Relaxed);
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

    pub(super) fn accept_hello(
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
        match link.tell(&ControlMessage::Welcome(own), &descriptors).and_then(|()| link.tell_reach()) {
            // Its ring still holds what it said before it ended.
            Err(error) if !has_ended(&error) => Err(error),
            _ => Ok(link),
        }
    }

    /// Takes what the peer says of itself.
    pub(super) fn meet(
        &self,
        introduction: Introduction,
        mut descriptors: impl Iterator<Item = OwnedFd>,
    ) -> io::Result<()> {
        let missing = || io::Error::new(io::ErrorKind::InvalidData, "an introduction that lacks descriptors");
        let doorbell = descriptors.next().ok_or_else(missing)?;
        let waiter_bell = descriptors.next().ok_or_else(missing)?;
        // Writing to a descriptor of a stranger could block for ever (a full pipe); strangers are told over the socket.
        if self.party.could_trace(self.credentials.uid) {
            let _ = self.peer_doorbell.set(EventFd::from_peer(doorbell));
            let _ = self.peer_waiter_bell.set(EventFd::from_peer(waiter_bell));
        }
        if introduction.trusts {
            let segment = SegmentView::from_peer(descriptors.next().ok_or_else(missing)?)?;
            let mut arenas = Vec::new();
            for _ in 0..introduction.arenas {
                let arena = SharedMemory::from_peer_whole(descriptors.next().ok_or_else(missing)?)?;
                arenas.push(arena.map(Protection::ReadWrite)?);
            }
            let mut adopted = None;
            if introduction.adopts {
                let file = descriptors.next().ok_or_else(missing)?;
                // Mapped only from a peer that this process could not hide from anyway, as with its other files.
                if self.party.tier == Tier::Mapped && self.party.could_trace(self.credentials.uid) {
                    adopted = Some(Windows::new(file, self.record.clone())?);
                }
            }
            if self.party.tier > Tier::Ring {
                let _ = self.view.set(PeerView { segment, arenas, adopted });
            }
        }
        self.probe(&introduction);
        self.note(|facts| {
            facts.met = true;
            facts.shown = self.view().is_some();
            facts.adopts = introduction.adopts;
            facts.can_map = self.can_map();
        });
        let _ = self.token.set(introduction.token);
        let _ = self.blocks.set(introduction.blocks);
        Ok(())
    }

    /// Tells the peer how this process can reach its memory, if it can.
    pub(super) fn tell_reach(&self) -> io::Result<()> {
        // Without its keys nothing of it is touched.
        let (kernel, mapping) = (self.can_reach() && self.view().is_some(), self.can_map());
        if !kernel && !mapping {
            return Ok(());
        }
        self.tell(&ControlMessage::CanReach { kernel, mapping }, &[])
    }

    /// Tries whether the kernel lets this process into the peer's memory.
    pub(super) fn probe(&self, introduction: &Introduction) {
        if self.party.tier < Tier::Kernel || self.credentials.pid <= 0 {
            return;
        }
        let mut seen = 0u64;
        let local = [Piece { address: &raw mut seen as usize, length: 8 }];
        let remote = [Piece { address: introduction.probe_address as usize, length: 8 }];
        // A process of the same number in another pid namespace does not hold the random value.
        let read = crate::kernel_copy::read_word(self.credentials.pid, &local, &remote);
        let reached = read.is_ok() && seen == introduction.probe_value;
        self.can_reach.store(reached, Ordering::Release);
        let outcome = match read {
            Ok(()) if reached => Probe::Reached,
            Ok(()) => Probe::OtherProcess,
            Err(error) => Probe::Refused(error.raw_os_error().unwrap_or_default() as u16),
        };
        self.note(|facts| facts.probe = outcome);
    }
}
