//! What carries a connection: within this host its connection manager, to other hosts datagrams.

use nonic_connection::{Connection, Request};
use nonic_roce::Reason;
use nonic_wire_connection::WireConnection;

use crate::wire::refused;
use crate::{Error, REJECT_CONSUMER};

/// The word by which a side ends a connection within the host. It is answered by the end of the manager's connection.
pub(super) const END: &[u8] = &[1];

/// A connection, or the attempt at one. Dropped, it ends.
#[derive(Debug)]
pub(super) enum Line {
    Host(Connection),
    Wire(WireConnection),
}

impl Line {
    /// Says that this side is ready.
    pub(super) fn confirm(&self) -> Result<(), Error> {
        match self {
            Self::Host(connection) => {
                connection.confirm();
                Ok(())
            }
            Self::Wire(connection) => connection.establish().map_err(refused),
        }
    }

    /// Rejects what the other side replied.
    pub(super) fn reject(self, reason: u8, data: &[u8]) {
        match self {
            Self::Host(connection) => connection.reject(&[&[reason], data].concat()),
            Self::Wire(connection) => connection.reject(Reason(reason.into()), data),
        }
    }

    /// The other side is ready, as what it has sent shows.
    pub(super) fn is_established(&self) {
        if let Self::Wire(connection) = self {
            connection.is_established();
        }
    }

    /// Says that this side ends it.
    pub(super) fn say_end(&self) {
        match self {
            Self::Host(connection) => connection.say(END),
            Self::Wire(connection) => connection.disconnect(&[]),
        }
    }
}

/// A request that is not decided. Dropped, it is refused.
#[derive(Debug)]
pub(super) enum Asker {
    Host(Request),
    Wire(WireConnection),
}

impl Asker {
    /// The identifier goes.
    pub(super) fn leave(self) {
        match self {
            Self::Host(request) => request.reject(&[REJECT_CONSUMER as u8]),
            Self::Wire(connection) => drop(connection),
        }
    }
}
