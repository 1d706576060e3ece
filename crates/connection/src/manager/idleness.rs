//! Which connections lead over a channel; when none does for a while it is closed.

use std::time::{Duration, Instant};

use super::Manager;
use super::timers::Timer;

/// How long a channel without connections stays open.
const IDLE: Duration = Duration::from_secs(1);

impl Manager {
    /// A connection leads over this channel from now on.
    pub(super) fn bind(&mut self, token: u64, number: u64) {
        if let Some(channel) = self.channel(token) {
            channel.users.insert(number);
        }
    }

    /// No longer.
    pub(super) fn unbind(&mut self, token: u64, number: u64) {
        let Some(channel) = self.channel(token) else { return };
        channel.users.remove(&number);
        // Who opened it closes it: the other side cannot know what is on its way.
        if channel.to.is_none() || !channel.users.is_empty() {
            return;
        }
        if channel.idle.replace(Instant::now()).is_none() {
            self.timers.set_after(IDLE, Timer::Idle(token));
        }
    }

    /// Closes a channel that has not been used for a while.
    pub(super) fn close_if_idle(&mut self, token: u64) {
        let Some(channel) = self.channel(token) else { return };
        let Some(since) = channel.idle.filter(|_| channel.users.is_empty()) else {
            channel.idle = None;
            return;
        };
        if since.elapsed() < IDLE || !channel.is_idle() {
            self.timers.set_after(IDLE, Timer::Idle(token));
        } else {
            self.bury(token);
        }
    }
}
