//! What one side wants to know of the other, and what it can say when it is asked itself.

use nonic_sys::Credentials;

use crate::answer::{Answer, answer};
use crate::challenge::{Challenge, Question};
use crate::peer::Peer;
use crate::users::TrustedUsers;

/// Whether a peer may reach this process, as long as that is not known.
#[derive(Debug)]
pub struct Doubt {
    peer: Credentials,
    challenge: Challenge,
}

impl Doubt {
    /// A new one.
    pub fn about(peer: &Peer) -> Self {
        let peer = peer.credentials();
        Self { peer, challenge: Challenge::new(peer) }
    }

    /// What to ask the peer.
    pub fn question(&self) -> Question {
        self.challenge.question()
    }

    /// Whether it is settled by an answer, or because people trust the user.
    pub fn is_settled_by(&self, answer: &Answer, trusted: &TrustedUsers) -> bool {
        let settled = self.challenge.is_answered_by(answer) || trusted.contain(self.peer.uid);
        if !settled {
            tracing::debug!(peer = %self.peer, "refused: the kernel does not let it at this process");
        }
        settled
    }
}

impl Answer {
    /// Answers nothing.
    pub const NOTHING: Self = Self([0; 16]);

    /// What this process can say to a peer that asks. Nothing of it helps if the kernel does not let this process at the peer.
    pub fn to(question: &Question, peer: &Peer) -> Self {
        match answer(question, peer) {
            Ok((answer, _)) => answer,
            Err(silence) => {
                tracing::debug!(peer = %peer.credentials(), %silence, "a peer is not shown that it can be reached");
                Self::NOTHING
            }
        }
    }
}
