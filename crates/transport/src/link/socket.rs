//! What the two sides of a link tell each other beside the rings.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};

use nonic_sys::{AsFd, BorrowedFd, OwnedFd, Protection, Received, Seldom, SharedMemory};

use super::{Link, LinkEvent, PeerFile};
use crate::control::{ControlMessage, LONGEST};
use crate::party::Tier;

impl Link {
    /// Handles what waits on the socket, though not for ever: others have their turn after so many messages.
    pub fn handle_socket(&self) -> LinkEvent {
        self.handle_messages(MESSAGES_AT_ONCE)
    }

    /// Handles `most` of the messages that wait on the socket.
    pub fn handle_messages(&self, most: usize) -> LinkEvent {
        let Some(socket) = &self.socket else { return LinkEvent::None };
        let mut bytes = [0u8; LONGEST];
        for _ in 0..most {
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
                let pid = self.credentials.pid;
                if has_ended(&error) {
                    // It may have said more before: that it ends in order.
                    tracing::debug!(pid, "a peer ended while it was being answered");
                    continue;
                } else if error.raw_os_error().is_some() {
                    if let Some(unsaid) = NO_ROOM.turn() {
                        tracing::warn!(pid, %error, unsaid, "this process has no room for a link to a peer; it is closed");
                    }
                } else if let Some(unsaid) = BROKEN_RULES.turn() {
                    let uid = self.credentials.uid;
                    tracing::warn!(pid, uid, %error, unsaid, "a peer broke the rules; its link is closed");
                }
                return LinkEvent::Ended;
            }
        }
        LinkEvent::None
    }

    /// Takes what waits on the socket of an ended link and does nothing with it.
    pub fn discard_messages(&self) {
        let Some(socket) = &self.socket else { return };
        let mut bytes = [0u8; LONGEST];
        for _ in 0..MESSAGES_AT_ONCE {
            if !matches!(socket.receive(&mut bytes), Received::Message(..)) {
                return;
            }
        }
    }

    pub(super) fn handle_message(
        &self,
        message: ControlMessage,
        descriptors: Vec<OwnedFd>,
    ) -> io::Result<()> {
        match message {
            ControlMessage::Hello(_) => Err(io::Error::other("a second introduction")),
            ControlMessage::Welcome(introduction, answer) => {
                if self.token.get().is_some() {
                    return Err(io::Error::other("a second introduction"));
                }
                if let Some(answer) = answer {
                    self.take_answer(&answer)?;
                }
                let own = self.reply(introduction.question);
                self.meet(introduction);
                if let Some(own) = own {
                    self.tell(&ControlMessage::Answer(own), &[])?;
                }
                self.show()
            }
            ControlMessage::Answer(answer) => {
                self.take_answer(&answer)?;
                self.show()
            }
            ControlMessage::Show(shown) => self.take_shown(&shown, descriptors),
            ControlMessage::CanReach { .. } if !self.is_trusted() => Ok(()),
            ControlMessage::CanReach { kernel, mapping } => {
                // A limit of this side's own holds for what it offers, too.
                let tier = self.party.tier;
                self.peer_can_reach.store(kernel && tier >= Tier::Kernel, Ordering::Release);
                self.peer_can_map.store(mapping && tier == Tier::Mapped, Ordering::Release);
                self.note(|facts| {
                    facts.peer_can_reach = self.peer_can_reach();
                    facts.peer_can_map = self.peer_can_map();
                });
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

    pub(super) fn give_file(&self, file: u32) -> io::Result<()> {
        let may = self.is_trusted() && self.party.tier == Tier::Mapped;
        match may.then(|| self.party.files.descriptor(file)).flatten() {
            Some((descriptor, length)) => {
                self.tell(&ControlMessage::File { file, length }, &[descriptor.as_fd()])
            }
            None => self.tell(&ControlMessage::File { file, length: 0 }, &[]),
        }
    }

    pub(super) fn take_file(&self, file: u32, length: u64, descriptor: Option<OwnedFd>) {
        // The program behind a peer can shrink its own file, and using what is gone kills (`SIGBUS`): only from a peer
        // that could kill this process anyway.
        let descriptor = descriptor.filter(|_| self.is_trusted());
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

    pub(super) fn tell(&self, message: &ControlMessage, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        match &self.socket {
            Some(socket) => socket.send(&message.emit(), descriptors),
            None => Ok(()),
        }
    }

    /// Tells the peer that this process ends in order, so that it does not take the end for a crash.
    pub fn say_goodbye(&self) {
        let _ = self.tell(&ControlMessage::Goodbye, &[]);
    }
}

/// Whether a peer could not be told something because it is gone.
pub(super) fn has_ended(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

static NO_ROOM: Seldom = Seldom::new();
static BROKEN_RULES: Seldom = Seldom::new();

/// Messages of one socket that are handled before others have their turn.
pub(super) const MESSAGES_AT_ONCE: usize = 64;
