//! Connections that have said nothing yet.

use std::time::{Duration, Instant};

use super::timers::Timer;
use super::{Manager, Watched};

/// How long a connection that says nothing is kept.
const STRANGER_PATIENCE: Duration = Duration::from_secs(5);
/// Such connections at most; the oldest go.
const STRANGERS_MAX: usize = 256;

impl Manager {
    /// Notes that a socket has said nothing yet.
    pub(super) fn note_stranger(&mut self, token: u64) {
        if self.strangers.is_empty() {
            self.timers.set_after(STRANGER_PATIENCE, Timer::Strangers);
        }
        self.strangers.push_back((Instant::now(), token));
        if self.strangers.len() > STRANGERS_MAX
            && let Some((_, oldest)) = self.strangers.pop_front()
        {
            self.dismiss(oldest);
        }
    }

    pub(super) fn dismiss_strangers(&mut self) {
        while let Some((since, token)) = self.strangers.front().copied() {
            if since.elapsed() < STRANGER_PATIENCE {
                self.timers.set(since + STRANGER_PATIENCE, Timer::Strangers);
                return;
            }
            self.strangers.pop_front();
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
