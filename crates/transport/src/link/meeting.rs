//! How two processes come to have a link: connecting, accepting, introducing themselves.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use nonic_sys::{AsFd, OwnedFd, PacketSocket, Protection, Received, SharedMapping, SharedMemory};
use nonic_trust::Peer;

use super::Link;
use crate::control::{ControlMessage, LONGEST};
use crate::layout::{LINK_LENGTH, LINK_VERSION, LinkEnd, MAGIC, VERSION};
use crate::party::Party;
use crate::session::{Session, has_ended};

impl Link {
    /// A link from this process to itself: one ring, read by its own progress.
    pub fn loopback(party: &Arc<Party>) -> io::Result<Self> {
        let mapping = Arc::new(SharedMapping::anonymous(LINK_LENGTH)?);
        let session = Session::with_itself(party.token);
        let link = Self::new(party, session, mapping, LinkEnd::Both);
        link.reach.view_itself();
        Ok(link)
    }

    /// Begins a link to the process at the other end of `socket`, which has the name of a block. The link can carry messages
    /// at once; the peer maps it when its agent sees the connection.
    pub fn connect(party: &Arc<Party>, socket: PacketSocket, own_blocks: &[u32]) -> io::Result<Self> {
        let peer = Peer::of(socket.as_fd())?;
        let memory = SharedMemory::create("nonic-link", LINK_LENGTH)?;
        let mapping = Arc::new(memory.map(Protection::ReadWrite)?);
        mapping.word(LINK_VERSION).store(u64::from(VERSION), Ordering::Relaxed);
        mapping.word(0).store(MAGIC, Ordering::Release);
        let session = Session::with_peer(socket, peer, |facts| party.segment.record_link(facts));
        let link = Self::new(party, session, mapping, LinkEnd::Active);
        let introduction = party.introduction(own_blocks, link.session.ask(&party.trusted_users));
        link.session.tell(&ControlMessage::Hello(introduction), &[memory.as_fd()])?;
        Ok(link)
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
        let peer = Peer::of(socket.as_fd())?;
        let memory = descriptors.into_iter().next();
        let memory = memory.ok_or_else(|| invalid("an introduction without memory".into()))?;
        let mapping = Arc::new(SharedMemory::from_peer(memory, LINK_LENGTH)?.map(Protection::ReadWrite)?);
        let version = mapping.word(LINK_VERSION).load(Ordering::Relaxed);
        if mapping.word(0).load(Ordering::Acquire) != MAGIC || version != u64::from(VERSION) {
            return Err(invalid(format!("link memory of version {version}, not {VERSION}")));
        }
        let session = Session::with_peer(socket, peer, |facts| party.segment.record_link(facts));
        let link = Self::new(party, session, mapping, LinkEnd::Passive);
        let answer = link.session.reply(introduction.question);
        link.session.meet(introduction);
        let own = party.introduction(own_blocks, link.session.ask(&party.trusted_users));
        match link.session.tell(&ControlMessage::Welcome(own, answer), &[]).and_then(|()| link.show()) {
            // Its ring still holds what it said before it ended.
            Err(error) if !has_ended(&error) => Err(error),
            _ => Ok(link),
        }
    }
}
