//! What comes by a socket: whole messages, checked, or the end.

use std::io;

use nonic_sys::{PacketSocket, Received, Seldom};

use crate::shared::{ListenerCore, lock};
use crate::wire::{LONGEST, Message};

/// What a socket has to say.
pub(super) enum Heard {
    Message(Message),
    Nothing,
    /// Sense may follow, which is not to be read any more.
    Nonsense,
    HungUp,
}

pub(super) fn hear(socket: &PacketSocket) -> Heard {
    let mut bytes = [0; LONGEST + 1];
    match socket.receive_bytes(&mut bytes) {
        Received::Message(length, _) => match Message::parse(&bytes[..length]) {
            Ok(message) => Heard::Message(message),
            Err(error) => {
                static NONSENSE: Seldom = Seldom::new();
                if let Some(unsaid) = NONSENSE.turn() {
                    let peer = said_of(socket);
                    tracing::warn!(%error, %peer, unsaid, "a connection is closed that sends what makes no sense");
                }
                Heard::Nonsense
            }
        },
        Received::Nothing => Heard::Nothing,
        Received::HungUp => Heard::HungUp,
    }
}

/// Who is at the other end, for people.
pub(super) fn said_of(socket: &PacketSocket) -> String {
    socket.peer().map_or_else(|error| error.to_string(), |peer| peer.to_string())
}

/// Accepts on a listening socket; `None` if nobody waits. An error is the lack of something.
pub(super) fn accept_on(socket: &PacketSocket) -> io::Result<Option<PacketSocket>> {
    loop {
        match socket.accept() {
            Ok(socket) => return Ok(Some(socket)),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock => return Ok(None),
                io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => {}
                _ => return Err(error),
            },
        }
    }
}

/// Whether a listener still takes requests.
pub(super) fn listens(listener: &ListenerCore) -> bool {
    lock(&listener.socket).is_some()
}
