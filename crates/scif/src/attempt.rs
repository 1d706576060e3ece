//! An attempt to connect.
//!
//! The endpoint's socket is connected to another end that the library keeps; what travels to the listener is that other end,
//! and the segment, once the listener has proved that it may have them. While nobody has accepted, two bytes on the way make the endpoint unwritable; they are taken when it is
//! decided.

use std::io;
use std::sync::Arc;

use nonic_sys::{AsFd, BorrowedFd, OwnedFd, POLL_IN, poll_now, send_message, take_bytes, take_signed};
use nonic_trust::{Answer, Doubt, Peer};

use crate::connection::Connection;
use crate::kept_descriptor::KeptDescriptor;
use crate::proof::{Kind, Word, trusted_users};
use crate::registry::Entry;
use crate::segment::{Decision, Segment};
use crate::side::Side;
use crate::wire::Link;
use crate::{PortId, ScifError};

/// What the program has started.
#[derive(Debug)]
pub(crate) enum Attempt {
    /// The request waits to be accepted.
    Waiting {
        /// What both sides will share.
        segment: Segment,
        /// The way to the listener: readable or hung up when there is something to hear, and once it is decided.
        notice: Arc<KeptDescriptor>,
        /// What is to be heard next.
        stage: Stage,
        /// Whether a thread waits for it.
        blocking: bool,
    },
    /// It was refused, and the program does not know yet: why.
    Refused(ScifError),
    /// It was accepted, and the program does not know yet.
    Accepted,
}

/// How far a request has come.
#[derive(Debug)]
pub(crate) enum Stage {
    /// Whoever accepts asks who this is.
    Requested(KeptDescriptor),
    /// It answers what it was asked. What is kept meanwhile is the segment's file.
    Asked(Doubt, KeptDescriptor),
    /// It has the endpoint's other end and the segment, and decides.
    Enclosed,
    /// A relay asks another host.
    Elsewhere(Arc<Link>),
}

impl Stage {
    /// Why there is no connection.
    fn refusal(&self) -> ScifError {
        match self {
            Self::Elsewhere(link) => link.refusal(),
            _ => ScifError::Refused,
        }
    }
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
    Refused(ScifError),
    /// Accepted, to be collected.
    Accepted,
    /// Connected, and known to be.
    Connected,
}

impl Entry {
    /// Takes note of what has been decided.
    pub(crate) fn standing(&mut self) -> Standing {
        let (segment, blocking, refusal) = match &mut self.attempt {
            None if self.record.connection.get().is_some() => return Standing::Connected,
            None => return Standing::Idle,
            Some(Attempt::Refused(why)) => return Standing::Refused(*why),
            Some(Attempt::Accepted) => return Standing::Accepted,
            Some(Attempt::Waiting { segment, notice, stage, blocking }) => {
                while segment.decision() == Decision::Open && poll_now(notice.number(), POLL_IN) != 0 {
                    // Whoever accepts says so before the notice comes. It fails if it was.
                    if let Err(why) = hear(notice, stage, self.other_end.as_ref())
                        && segment.decide(Decision::Off)
                    {
                        tracing::debug!(why, "there will be no connection");
                    }
                }
                (segment.clone(), *blocking, stage.refusal())
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
                self.attempt = Some(Attempt::Refused(refusal));
                self.take_bytes_back();
                Standing::Refused(refusal)
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

/// Sends what is asked for first.
pub(crate) fn send_request(way: &OwnedFd, target: PortId) -> io::Result<()> {
    send_message(way.as_fd(), &Word { target, ..Word::new(Kind::Request) }.to_bytes(), &[])
}

/// Takes the next word of whoever accepts, and goes on. Refused: there will be no connection, or it is decided.
fn hear(
    way: &KeptDescriptor,
    stage: &mut Stage,
    other_end: Option<&KeptDescriptor>,
) -> Result<(), &'static str> {
    match stage {
        Stage::Enclosed => return Err("the listener has hung up"),
        Stage::Elsewhere(_) => return Err("the relay has ended"),
        Stage::Requested(_) | Stage::Asked(..) => {}
    }
    let mut bytes = [0; Word::LENGTH];
    let (length, sender) = match take_signed(way.number(), &mut bytes) {
        Ok(taken) => taken,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
        Err(_) => return Err("the socket fails"),
    };
    if length == 0 {
        return Err("the listener has hung up before it knew who asks");
    }
    let bytes = &bytes[..length];
    let send = |word: Word, descriptors: &[BorrowedFd<'_>]| {
        send_message(way.descriptor().as_fd(), &word.to_bytes(), descriptors)
            .map_err(|_| "the listener takes no answer")
    };
    match std::mem::replace(stage, Stage::Enclosed) {
        Stage::Requested(file) => {
            let asked = Word::from_bytes(bytes, Kind::Question).ok_or("what came is no question")?;
            let listening =
                Peer::of(way.descriptor().as_fd()).map_err(|_| "the kernel does not say who listens")?;
            // A child of whoever listened may accept.
            let sender = sender.ok_or("the kernel does not say who asks")?;
            let same = sender == listening.credentials();
            let peer = if same { listening } else { Peer::who_sent(sender) };
            if !peer.may_be_own() {
                return Err("another user accepts");
            }
            let (answer, doubt) = (Answer::to(&asked.question, &peer), Doubt::about(&peer));
            let question = doubt.question();
            *stage = Stage::Asked(doubt, file);
            send(Word { answer, question, ..Word::new(Kind::Reply) }, &[])
        }
        Stage::Asked(doubt, file) => {
            let answered = Word::from_bytes(bytes, Kind::Answer).ok_or("what came is no answer")?;
            if !doubt.is_settled_by(&answered.answer, trusted_users()) {
                return Err("the answer does not settle the doubt");
            }
            let other_end = other_end.ok_or("the endpoint has gone")?;
            let enclosed = [other_end.descriptor().as_fd(), file.descriptor().as_fd()];
            send(Word::new(Kind::Enclosed), &enclosed)
        }
        Stage::Enclosed | Stage::Elsewhere(_) => Err("nothing more is awaited"),
    }
}
