//! What two processes say to each other before either shows the other anything: each finds out whether the kernel lets the
//! other at it. Names can be taken by anybody, and a user's number is not enough (see `nonic-trust`).
//!
//! ```text
//! connector                             acceptor
//!   Request   what it wants       --->
//!             <---  Question  the acceptor's
//!   Reply     answer, question    --->
//!             <---  Answer    to the connector's question
//!   Enclosed  endpoint, segment   --->
//! ```
//!
//! An answer goes to the process that asks: to the acceptor as the one that connected, to the connector as the one that sent the
//! question, which need not be the one that listened: children accept, too.

use std::sync::OnceLock;

use nonic_message::{Protocol, kinds, parts};
use nonic_trust::{Answer, Question, TrustedUsers};

use crate::PortId;

/// First bytes of every word; those of version 1 sent their memory at once.
const PROTOCOL: Protocol = Protocol::new(*b"RRScinon", "SCIF");

/// Which word it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Request,
    Question,
    Reply,
    Answer,
    Enclosed,
}

/// One of them. What a kind does not need is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) kind: Kind,
    /// The port asked for.
    pub(crate) target: PortId,
    pub(crate) question: Question,
    pub(crate) answer: Answer,
}

impl Word {
    pub(crate) const LENGTH: usize = 44;

    pub(crate) fn new(kind: Kind) -> Self {
        Self {
            kind,
            target: PortId { node: 0, port: 0 },
            question: Question { address: 0, descriptor: 0 },
            answer: Answer::NOTHING,
        }
    }

    pub(crate) fn to_bytes(self) -> Vec<u8> {
        PROTOCOL.emit(&self)
    }

    /// `None` if the bytes are no such word.
    pub(crate) fn from_bytes(bytes: &[u8], expected: Kind) -> Option<Self> {
        PROTOCOL.parse(bytes).ok().filter(|word: &Self| word.kind == expected)
    }
}

kinds!(Kind { 1 => Request, 2 => Question, 3 => Reply, 4 => Answer, 5 => Enclosed });
parts!(PortId { node, port });
parts!(Word { kind, target, question, answer });

/// Who needs no proof.
pub(crate) fn trusted_users() -> &'static TrustedUsers {
    static USERS: OnceLock<TrustedUsers> = OnceLock::new();
    USERS.get_or_init(|| {
        let text = std::env::var("NONIC_TRUST").unwrap_or_default();
        TrustedUsers::parse(&text).unwrap_or_else(|unknown| {
            tracing::warn!(%unknown, "NONIC_TRUST");
            TrustedUsers::default()
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORD: Word = Word {
        kind: Kind::Reply,
        target: PortId { node: 1, port: 0x802 },
        question: Question { address: 3 << 40, descriptor: 7 },
        answer: Answer([9; 16]),
    };

    #[test]
    fn a_word_is_read_as_it_was_written_and_nothing_else_is_one() {
        let bytes = WORD.to_bytes();
        assert_eq!(Word::from_bytes(&bytes, Kind::Reply), Some(WORD));
        assert_eq!(Word::from_bytes(&bytes, Kind::Request), None);
        assert_eq!(Word::from_bytes(&bytes[1..], Kind::Reply), None);
        assert_eq!(Word::from_bytes(&[0; Word::LENGTH], Kind::Reply), None);
    }

    #[test]
    fn the_bytes_of_a_word_are_these() {
        let told = [&b"RRScinon\x03\0\0\0\x01\0\x02\x08\0\0\0\0\0\x03\0\0\x07\0\0\0"[..], &[9; 16]];
        assert_eq!(WORD.to_bytes()[..], told.concat());
    }
}
