//! What each user of the host may cost this process. Strangers are served as well; but they send what they like, read nothing,
//! and say nothing, and must find an end of it.

use std::ops::RangeInclusive;
use std::sync::Arc;

use nonic_sys::{Budget, PacketSocket, Seldom, Share, Shares, descriptor_limit};

use super::{Manager, Watched};

/// Descriptors for one stranger and for all at most, however many there may be.
const STRANGERS_SOCKETS: (usize, usize) = (512, 2048);
/// Requests that the program has not decided about.
const UNDECIDED: Shares = Shares { own: 1 << 20, stranger: 1024, strangers: 4096 };
/// Bytes of messages that wait until their receivers read.
const OWED: Shares = Shares { own: 64 << 20, stranger: 1 << 20, strangers: 4 << 20 };
/// Messages that wait for a stranger at most when it asks for something more.
pub(super) const STRANGERS_MESSAGES: usize = 256;

/// Connections taken at one place before others have their turn, and of those by strangers: what the next one of them has to say
/// can wait, and a flood of theirs must not keep this process from those whom it knows.
const TURN: usize = 64;
const STRANGERS_TURN: usize = 4;

/// Whoever is nobody's user as far as can be seen.
const UNKNOWN: u32 = u32::MAX;

/// What is spent on whom.
pub(super) struct Users {
    /// Descriptors of sockets that others opened or had opened.
    sockets: Arc<Budget>,
    /// Of those, what one stranger may have.
    stranger: usize,
    pub(super) undecided: Arc<Budget>,
    pub(super) owed: Arc<Budget>,
}

impl Users {
    pub(super) fn new(own: Option<u32>) -> Self {
        let Shares { stranger, strangers, .. } = Shares::of_limit(descriptor_limit());
        let sockets = Shares {
            // The kernel says when there are no more.
            own: usize::MAX,
            stranger: stranger.min(STRANGERS_SOCKETS.0),
            strangers: strangers.min(STRANGERS_SOCKETS.1),
        };
        Self {
            sockets: Budget::new(own, sockets),
            stranger: sockets.stranger,
            undecided: Budget::new(own, UNDECIDED),
            owed: Budget::new(own, OWED),
        }
    }

    pub(super) fn is_own(&self, user: u32) -> bool {
        self.sockets.is_own(user)
    }
}

/// What was taken at one place since others had their turn.
#[derive(Default)]
pub(super) struct Turn {
    taken: usize,
    of_strangers: usize,
}

impl Turn {
    /// A connection was taken.
    pub(super) fn note(&mut self, own: bool) {
        self.taken += 1;
        self.of_strangers += usize::from(!own);
    }

    /// Whether it is others' turn.
    pub(super) fn is_over(&self) -> bool {
        self.taken >= TURN || self.of_strangers >= STRANGERS_TURN
    }
}

/// A socket with somebody at its other end, and whose share it is of.
pub(super) struct Visitor {
    pub(super) socket: PacketSocket,
    pub(super) share: Share,
}

/// The user at the other end of a socket.
pub(super) fn user_of(socket: &PacketSocket) -> u32 {
    socket.peer().map_or(UNKNOWN, |peer| peer.uid)
}

impl Manager {
    /// A descriptor's share for a user; for that, one of its sockets may have to go that is of no use now. `None` if it has all
    /// it may have.
    pub(super) fn admit(&mut self, user: u32) -> Option<Share> {
        static FULL: Seldom = Seldom::new();
        if let Some(share) = self.users.sockets.take(user, 1) {
            return Some(share);
        }
        // One who has its whole share makes room itself; else all have theirs together, and any of them does.
        let whole = self.users.sockets.spent(user) >= self.users.stranger;
        let oldest = self
            .oldest_idle(user..=user)
            .or_else(|| if whole { None } else { self.oldest_idle(0..=UNKNOWN) });
        if let Some(token) = oldest {
            self.bury(token);
        }
        let share = self.users.sockets.take(user, 1);
        if share.is_none()
            && let Some(unsaid) = FULL.turn()
        {
            tracing::warn!(user, unsaid, "connections of another user are refused: it has as many as it may");
        }
        share
    }

    /// The oldest socket of some strangers that nothing is done with.
    fn oldest_idle(&self, users: RangeInclusive<u32>) -> Option<u64> {
        let tokens =
            self.visits.range((*users.start(), 0)..=(*users.end(), u64::MAX)).map(|(_, token)| *token);
        tokens.filter(|token| self.is_idle(*token)).min()
    }

    fn is_idle(&self, token: u64) -> bool {
        match self.sockets.get(&token) {
            Some(Watched::Stranger { .. }) => true,
            Some(Watched::Channel(channel)) => channel.is_idle(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_of_strangers_is_shorter_and_those_of_the_own_user_have_no_part_in_that() {
        let mut turn = Turn::default();
        for own in [vec![true; TURN - STRANGERS_TURN], vec![false; STRANGERS_TURN]].concat() {
            assert!(!turn.is_over());
            turn.note(own);
        }
        assert!(turn.is_over());
        let mut strangers = Turn::default();
        (0..STRANGERS_TURN).for_each(|_| strangers.note(false));
        assert!(strangers.is_over());
    }
}
