//! An attempt to connect.
//!
//! The endpoint's socket is connected to another end that the library keeps; what travels to the listener is that other end,
//! and the segment. While nobody has accepted, two bytes on the way make the endpoint unwritable; they are taken when it is
//! decided.

use std::sync::Arc;

use nonic_sys::{AsFd, BorrowedFd, POLL_IN, poll_now, take_bytes};

use crate::PortId;
use crate::connection::Connection;
use crate::kept_descriptor::KeptDescriptor;
use crate::registry::Entry;
use crate::segment::{Decision, Segment, Side};

/// What the program has started.
#[derive(Debug)]
pub(crate) enum Attempt {
    /// The request waits to be accepted.
    Waiting {
        /// What both sides will share.
        segment: Segment,
        /// The way to the listener: readable or hung up once it is decided.
        notice: Arc<KeptDescriptor>,
        /// Whether a thread waits for it.
        blocking: bool,
    },
    /// It was refused, and the program does not know yet.
    Refused,
    /// It was accepted, and the program does not know yet.
    Accepted,
}

/// Where an endpoint stands in connecting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It is not, and was not.
    Idle,
    /// A request waits.
    Undecided {
        /// Whether a thread waits with it.
        blocking: bool,
    },
    /// Refused, to be collected.
    Refused,
    /// Accepted, to be collected.
    Accepted,
    /// Connected, and known to be.
    Connected,
}

impl Entry {
    /// Takes note of what has been decided.
    pub(crate) fn standing(&mut self) -> Standing {
        let (segment, blocking) = match &self.attempt {
            None if self.record.connection.get().is_some() => return Standing::Connected,
            None => return Standing::Idle,
            Some(Attempt::Refused) => return Standing::Refused,
            Some(Attempt::Accepted) => return Standing::Accepted,
            Some(Attempt::Waiting { segment, notice, blocking }) => {
                if segment.decision() == Decision::Open && poll_now(notice.number(), POLL_IN) != 0 {
                    // Whoever accepts says so before the notice comes. It fails if it was.
                    segment.decide(Decision::Off);
                }
                (segment.clone(), *blocking)
            }
        };
        match segment.decision() {
            Decision::Open => Standing::Undecided { blocking },
            Decision::Accepted => {
                self.attempt = Some(Attempt::Accepted);
                // From now on the peer's is the only one: its end shows here.
                self.other_end = None;
                let identity = Arc::clone(&self.record.identity);
                let _ = self.record.connection.set(Connection::new(segment, Side::Connector, identity));
                Standing::Accepted
            }
            Decision::Off => {
                self.attempt = Some(Attempt::Refused);
                self.take_bytes_back();
                Standing::Refused
            }
        }
    }

    /// Gives up a request that waits; false if it was accepted before.
    pub(crate) fn withdraw(&mut self) -> bool {
        if let Some(Attempt::Waiting { segment, .. }) = &self.attempt {
            segment.decide(Decision::Off);
        }
        match self.standing() {
            Standing::Accepted | Standing::Connected => false,
            _ => {
                self.attempt = None;
                true
            }
        }
    }

    /// Makes the endpoint writable again.
    pub(crate) fn take_bytes_back(&self) {
        if let Some(other_end) = &self.other_end {
            let _ = take_bytes(other_end.number(), 64);
        }
    }
}

/// First word of a request.
const MAGIC: u64 = 0x6e6f_6e69_6353_5251;

/// What is sent to a listener, with the other end and the segment's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// The port asked for.
    pub(crate) target: PortId,
}

impl Request {
    pub(crate) const LENGTH: usize = 12;

    pub(crate) fn to_bytes(self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[..8].copy_from_slice(&MAGIC.to_ne_bytes());
        bytes[8..10].copy_from_slice(&self.target.node.to_ne_bytes());
        bytes[10..].copy_from_slice(&self.target.port.to_ne_bytes());
        bytes
    }

    /// `None` if the bytes are no request.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::LENGTH] = bytes.try_into().ok()?;
        let number = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        let is_one = bytes[..8] == MAGIC.to_ne_bytes();
        is_one.then(|| Self { target: PortId { node: number(8), port: number(10) } })
    }
}

/// The descriptors that go with a request.
pub(crate) fn enclosed<'a>(other_end: &'a KeptDescriptor, file: &'a impl AsFd) -> [BorrowedFd<'a>; 2] {
    [other_end.descriptor().as_fd(), file.as_fd()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_as_it_was_written_and_nothing_else_is_one() {
        let request = Request { target: PortId { node: 1, port: 2050 } };
        let bytes = request.to_bytes();
        assert_eq!(Request::from_bytes(&bytes), Some(request));
        assert_eq!(Request::from_bytes(&bytes[1..]), None);
        assert_eq!(Request::from_bytes(&[0; Request::LENGTH]), None);
    }
}
