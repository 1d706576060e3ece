//! How a request ended at the responder, and what it owes for it.

use crate::number::{Psn, QueueName, RemoteRange};
use crate::receive_queue::Receive;
use crate::refusal::Refusal;

/// An answer that carries data, as it is owed to the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Response {
    /// Bytes of a read (9.4.4).
    Read {
        /// Number of the request.
        psn: Psn,
        /// Which attempt at it.
        attempt: u8,
        /// The shared receive queue in whose zone the bytes are, on an extended connection.
        queue: QueueName,
        /// What is read.
        remote: RemoteRange,
        /// How many bytes.
        total: u32,
        /// So many of them are sent.
        sent: u32,
    },
    /// The result of an atomic (9.4.5).
    Atomic {
        /// Number of the request.
        psn: Psn,
        /// Which attempt at it.
        attempt: u8,
        /// What the word held before.
        old: u64,
    },
}

/// A refusal as it is owed to the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwedRefusal {
    /// Number of the request.
    pub psn: Psn,
    /// Which attempt at it.
    pub attempt: u8,
    /// Why.
    pub refusal: Refusal,
}

/// What the responder's own program is told of beside the refusal (affiliated asynchronous errors, 11.6.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AffiliatedError {
    /// The request made no sense, or more was asked than was agreed on.
    InvalidRequest,
    /// The peer has no right to what it asked for.
    AccessViolation,
}

/// How a request ended.
#[derive(Debug)]
pub enum Outcome {
    /// So many bytes have come, and more fragments follow; the receive that is being filled.
    More(u32, Option<Receive>),
    /// Done; whether a receive was filled.
    Done(bool),
    /// Nothing was done; the peer may try again.
    Retry(Refusal),
    /// The connection is over.
    Fatal(Refusal, Option<AffiliatedError>),
    /// The program is about to post a receive.
    Hold,
    /// An unreliable message is lost.
    Dropped,
}

/// What is left to do for the caller once a request has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conclusion {
    /// Nothing.
    Quiet,
    /// Nothing; a receive was filled.
    Filled,
    /// The message must wait where it is.
    Held,
    /// A message that broke off leaves its receive to the next: [`Responder::break_off`](super::Responder::break_off).
    BreakOff,
    /// Send what is owed, and end the connection.
    End(Option<AffiliatedError>),
}
