//! How far a connection has come.

use std::sync::Arc;

use nonic_sys::Credentials;

use crate::shared::Attempt;
use crate::wire::Inquiry;

/// The other side of a connection: the channel's token, and its number there.
#[derive(Clone, Copy)]
pub(super) struct Far {
    pub(super) channel: u64,
    pub(super) number: u64,
}

/// Where a connection stands.
pub(super) enum Stage {
    /// Asking: not asked yet.
    Waiting(Box<Attempt>),
    /// Asking: the request is on its way by the name of the service; on this socket, unless that has done its work. Who holds
    /// the name, if the kernel says.
    Asked { service: Arc<str>, socket: Option<u64>, holder: Option<Credentials> },
    /// Asking: the request is on its way over the channel of this token.
    AskedOver { channel: u64, attempt: Box<Attempt> },
    /// Asking: the other process has it.
    Taken(Far),
    /// Asking: accepted; this side has not said that it is connected.
    Answered(Far),
    /// Serving: the program has not decided.
    Pending(Far, Box<Inquiry>),
    /// Serving: given to another process, on this socket unless that has done its work.
    HandedOn { far: Far, socket: Option<u64> },
    /// Serving: accepted; who asked has not said that it knows.
    Replied(Far),
    /// Established.
    Open(Far),
}

impl Stage {
    pub(super) fn far(&self) -> Option<Far> {
        match self {
            Self::Waiting(_) | Self::Asked { .. } | Self::AskedOver { .. } => None,
            Self::Taken(far) | Self::Pending(far, _) | Self::HandedOn { far, .. } => Some(*far),
            Self::Answered(far) | Self::Replied(far) | Self::Open(far) => Some(*far),
        }
    }

    /// The channel on which there is something to be said about it, as far as it is known.
    pub(super) fn channel(&self) -> Option<u64> {
        match self {
            Self::AskedOver { channel, .. } => Some(*channel),
            other => other.far().map(|far| far.channel),
        }
    }
}
