//! One end of a connection that the manager has made.

use std::net::SocketAddr;
use std::rc::Rc;

use super::{REPLY_BYTES, REQUEST_BYTES, Stage, check_private_data};
use crate::demo::endpoint::Endpoint;
use crate::demo::failure::Outcome;
use crate::rdmacm::{Event, EventKind, Identifier};
use crate::verbs::Session;

/// A connected queue pair and its identifier.
pub(super) struct Connection {
    pub(super) identifier: Rc<Identifier>,
    pub(super) endpoint: Endpoint,
}

impl Connection {
    /// With a queue pair that completes to the session's queue; not connected yet.
    pub(super) fn prepare(identifier: &Rc<Identifier>, session: &Rc<Session>) -> Outcome<Self> {
        let queue_pair = identifier.create_queue_pair(session)?;
        Ok(Self { identifier: Rc::clone(identifier), endpoint: Endpoint::over(session, queue_pair) })
    }

    /// Asks for the connection and waits for it; what the target said with it.
    pub(super) fn connect(&self, private_data: &[u8]) -> Outcome<Event> {
        self.identifier.connect(private_data)?;
        Ok(self.identifier.expect(EventKind::ESTABLISHED, 0)?)
    }

    /// Answers the request and waits for the connection.
    pub(super) fn accept(&self, private_data: &[u8]) -> Outcome<()> {
        self.identifier.accept(private_data)?;
        self.identifier.expect(EventKind::ESTABLISHED, 0)?;
        Ok(())
    }

    /// Ends it, and waits until the peer has agreed.
    pub(super) fn end(&self) -> Outcome<()> {
        self.identifier.disconnect()?;
        self.identifier.expect(EventKind::DISCONNECTED, 0)?;
        Ok(())
    }

    /// Waits for the peer to end it, and agrees.
    pub(super) fn end_with_peer(&self) -> Outcome<()> {
        self.identifier.expect(EventKind::DISCONNECTED, 0)?;
        Ok(self.identifier.disconnect()?)
    }
}

/// Connects and ends the connection again, from the first call to the last.
pub(super) fn visit(stage: &Stage, address: SocketAddr, session: &Rc<Session>) -> Outcome<()> {
    let connection = Connection::prepare(&stage.resolve(address)?, session)?;
    check_private_data(&connection.connect(b"visit")?.private_data, b"welcome", REPLY_BYTES)?;
    connection.end()
}

/// The target's part of a visit.
pub(super) fn receive_visit(listener: &Identifier) -> Outcome<()> {
    let (event, identifier) = listener.request()?;
    check_private_data(&event.private_data, b"visit", REQUEST_BYTES)?;
    let connection = Connection::prepare(&identifier, &identifier.session()?)?;
    connection.accept(b"welcome")?;
    connection.end_with_peer()
}
