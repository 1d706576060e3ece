//! Connections that have said nothing yet.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::timers::Timer;
use super::{Manager, Watched};

/// How long a connection that says nothing is kept.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// Such connections of one user at most, and of all; the oldest go.
const MOST: (usize, usize) = (256, 4096);

/// Sockets that have said nothing yet, or had not when they came, oldest first.
#[derive(Default)]
pub(super) struct Silent(VecDeque<Came>);

struct Came {
    at: Instant,
    token: u64,
    user: u32,
}

impl Silent {
    /// Adds one; returns one that has to go for it.
    fn add(&mut self, token: u64, user: u32) -> Option<u64> {
        self.0.push_back(Came { at: Instant::now(), token, user });
        let of_user = self.0.iter().filter(|came| came.user == user).count();
        let goes = if of_user > MOST.0 {
            self.0.iter().position(|came| came.user == user)
        } else {
            (self.0.len() > MOST.1).then_some(0)
        };
        self.0.remove(goes?).map(|came| came.token)
    }
}

impl Manager {
    /// Notes that a socket has said nothing yet.
    pub(super) fn note_silent(&mut self, token: u64, user: u32) {
        if self.silent.0.is_empty() {
            self.timers.set_after(PATIENCE, Timer::Strangers);
        }
        if let Some(oldest) = self.silent.add(token, user) {
            self.dismiss(oldest);
        }
    }

    /// Closes those that said nothing for too long.
    pub(super) fn dismiss_silent(&mut self) {
        while let Some(Came { at, token, .. }) = self.silent.0.front() {
            if at.elapsed() < PATIENCE {
                self.timers.set(*at + PATIENCE, Timer::Strangers);
                return;
            }
            let token = *token;
            self.silent.0.pop_front();
            self.dismiss(token);
        }
    }

    fn dismiss(&mut self, token: u64) {
        let silent = match self.sockets.get(&token) {
            Some(Watched::Stranger { .. }) => true,
            Some(Watched::Channel(channel)) => channel.is_silent(),
            _ => false,
        };
        if silent {
            tracing::debug!("a connection that said nothing is closed");
            self.bury(token);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_silent_connection_of_a_user_goes_for_its_newest_and_never_another_user_s() {
        let mut silent = Silent::default();
        assert_eq!(silent.add(0, 1), None);
        for token in 1..=MOST.0 as u64 {
            assert_eq!(silent.add(token, 2), None);
        }
        assert_eq!(silent.add(1000, 2), Some(1));
        assert_eq!(silent.add(1001, 2), Some(2));
        assert_eq!(silent.add(1002, 1), None);
    }

    #[test]
    fn of_too_many_users_the_oldest_goes() {
        let mut silent = Silent::default();
        for token in 0..MOST.1 as u64 {
            assert_eq!(silent.add(token, token as u32), None);
        }
        assert_eq!(silent.add(9999, 9999), Some(0));
    }
}
