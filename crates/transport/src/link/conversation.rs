//! What the two sides of a link tell each other beside the rings, and what becomes of it.

use std::io;
use std::ops::ControlFlow;

use nonic_sys::{AsFd, OwnedFd, SharedMemory};

use super::{Link, LinkEvent};
use crate::control::ControlMessage;
use crate::tier::Tier;

impl Link {
    /// Handles what waits on the socket, though not for ever: others have their turn after so many messages.
    pub fn handle_socket(&self) -> LinkEvent {
        self.handle_messages(MESSAGES_AT_ONCE)
    }

    /// Handles `most` of the messages that wait on the socket.
    pub fn handle_messages(&self, most: usize) -> LinkEvent {
        match self.session.receive(most, |message, descriptors| self.handle(message, descriptors)) {
            ControlFlow::Continue(()) => LinkEvent::None,
            ControlFlow::Break(()) => LinkEvent::Ended,
        }
    }

    /// Takes what waits on the socket of an ended link and does nothing with it.
    pub fn discard_messages(&self) {
        self.session.discard(MESSAGES_AT_ONCE);
    }

    fn handle(&self, message: ControlMessage, descriptors: Vec<OwnedFd>) -> io::Result<()> {
        match message {
            ControlMessage::Hello(_) => Err(io::Error::other("a second introduction")),
            ControlMessage::Welcome(introduction, answer) => {
                if self.session.has_met() {
                    return Err(io::Error::other("a second introduction"));
                }
                if let Some(answer) = answer {
                    self.session.take_answer(&answer)?;
                }
                let own = self.session.reply(introduction.question);
                self.session.meet(introduction);
                if let Some(own) = own {
                    self.session.tell(&ControlMessage::Answer(own), &[])?;
                }
                self.show()
            }
            ControlMessage::Answer(answer) => {
                self.session.take_answer(&answer)?;
                self.show()
            }
            ControlMessage::Show(shown) => self.take_shown(&shown, descriptors),
            ControlMessage::CanReach { .. } if !self.is_trusted() => Ok(()),
            ControlMessage::CanReach { kernel, mapping } => {
                self.reach.set_peer_ways(kernel, mapping);
                self.session.note(|facts| {
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
                self.reach.forget_file(file);
                Ok(())
            }
            ControlMessage::Look => Ok(()),
            ControlMessage::Goodbye => {
                self.session.depart();
                Ok(())
            }
        }
    }

    fn give_file(&self, file: u32) -> io::Result<()> {
        let may = self.is_trusted() && self.party.tier == Tier::Mapped;
        match may.then(|| self.party.files.descriptor(file)).flatten() {
            Some((descriptor, length)) => {
                self.session.tell(&ControlMessage::File { file, length }, &[descriptor.as_fd()])
            }
            None => self.session.tell(&ControlMessage::File { file, length: 0 }, &[]),
        }
    }

    fn take_file(&self, file: u32, length: u64, descriptor: Option<OwnedFd>) {
        let memory = descriptor.filter(|_| self.is_trusted()).and_then(|descriptor| {
            SharedMemory::from_unsealed(descriptor, usize::try_from(length).ok()?).ok()
        });
        self.reach.take_file(file, memory);
    }

    /// Tells the peer that a file of this process's list is gone.
    pub fn drop_file(&self, file: u32) {
        let _ = self.session.tell(&ControlMessage::DropFile { file }, &[]);
    }
}

/// Messages of one socket that are handled before others have their turn.
const MESSAGES_AT_ONCE: usize = 64;
