//! Shutting a stream down, giving it back, and noticing that the peer is gone.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Phase, State, Stream};
use crate::link::Link;
use crate::protocol::Control;
use crate::waiting::{Look, Patience};
use crate::{Error, Result, service};

/// How long who listened waits for the ends of connections that nobody has accepted.
const LAST_PATIENCE: Duration = Duration::from_secs(1);

/// Which half of a stream ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Nothing more is received.
    Receive,
    /// Nothing more is sent.
    Send,
    /// Both.
    Both,
}

impl Direction {
    /// As `shutdown(2)` names it.
    pub fn of_number(how: i32) -> Option<Self> {
        match how {
            libc::SHUT_RD => Some(Self::Receive),
            libc::SHUT_WR => Some(Self::Send),
            libc::SHUT_RDWR => Some(Self::Both),
            _ => None,
        }
    }
}

impl Stream {
    /// Ends one half or both, and waits until everything has gone that was sent.
    pub fn shut_down(&self, direction: Direction) -> Result<()> {
        self.shut_down_within(direction, Patience::Endless)
    }

    /// The same, but waits at most until then: what was sent goes on by itself.
    pub fn shut_down_until(&self, direction: Direction, end: Instant) -> Result<()> {
        match self.shut_down_within(direction, Patience::Until(end)) {
            Err(error) if error.errno() == libc::EAGAIN => Ok(()),
            other => other,
        }
    }

    fn shut_down_within(&self, direction: Direction, patience: Patience) -> Result<()> {
        let mut state = self.lock();
        self.update(&mut state, Look::Thorough);
        match state.phase {
            Phase::Connected => {}
            Phase::Disconnected | Phase::Broken => return Ok(()),
            _ => return Err(Error::new(libc::ENOTCONN)),
        }
        let control = match direction {
            Direction::Receive => {
                state.readable = false;
                (!state.writable).then_some(Control::Disconnect)
            }
            Direction::Send => {
                state.writable = false;
                Some(if state.readable { Control::Shutdown } else { Control::Disconnect })
            }
            Direction::Both => {
                state.end(Phase::Connected);
                Some(Control::Disconnect)
            }
        };
        drop(state);
        self.wakeup.ring();
        if let Some(control) = control {
            self.say(control, patience)?;
            self.wait_uninterrupted(patience, &mut |state| {
                let is_idle = state.link.as_ref().is_none_or(Link::is_idle);
                (is_idle || state.phase != Phase::Connected).then_some(())
            })?;
        }
        Ok(())
    }

    /// Says something about the stream itself, once there is room.
    fn say(&self, control: Control, patience: Patience) -> Result<()> {
        self.wait_uninterrupted(patience, &mut |state| {
            if state.phase != Phase::Connected {
                return Some(());
            }
            let link = state.link.as_mut()?;
            if !link.can_control() {
                return None;
            }
            if let Err(error) = link.say(control) {
                state.break_off(error);
            }
            Some(())
        })
    }

    /// A signal does not end this wait: what was sent is not to be lost.
    fn wait_uninterrupted(
        &self,
        patience: Patience,
        ready: &mut dyn FnMut(&mut State) -> Option<()>,
    ) -> Result<()> {
        loop {
            match self.wait(patience, ready) {
                Err(error) if error.errno() == libc::EINTR => {}
                other => return other,
            }
        }
    }

    /// Gives the socket back: ends the connection in order, if there is one.
    pub fn close(&self) {
        self.close_with(Patience::Endless);
    }

    /// The same, but waits at most until then for what was sent to have gone.
    pub fn close_until(&self, end: Instant) {
        self.close_with(Patience::Until(end));
    }

    fn close_with(&self, patience: Patience) {
        let connected = {
            let mut state = self.lock();
            self.update(&mut state, Look::Thorough);
            state.phase == Phase::Connected
        };
        if connected && let Err(error) = self.shut_down_within(Direction::Both, patience) {
            tracing::debug!(%error, "a stream is closed without a word");
        }
        self.end();
        service::forget(self.channel.fd());
    }

    /// Lets go of everything; whoever waits is told. Nothing happens the second time.
    pub(super) fn end(&self) {
        let (link, never_accepted) = {
            let mut state = self.lock();
            if state.phase == Phase::Closed {
                return;
            }
            state.end(Phase::Closed);
            (state.link.take(), state.backlog.take_all())
        };
        self.wakeup.ring();
        drop(link);
        let _ = self.id.disconnect();
        self.id.destroy();
        let last = Instant::now() + LAST_PATIENCE;
        never_accepted.iter().for_each(|stream| stream.close_until(last));
    }

    /// Asks a peer that was silent for a period whether it is there; in what time to come again.
    pub(super) fn ask_if_silent(&self, now: Instant) -> Option<Duration> {
        let mut state = self.lock();
        self.update(&mut state, Look::Thorough);
        let period = state.options.keep_alive_period()?;
        if state.phase.is_opening() {
            return Some(period);
        }
        if state.phase != Phase::Connected {
            return None;
        }
        let silent = now.saturating_duration_since(state.active);
        if silent < period {
            return Some(period - silent);
        }
        let link = state.link.as_mut()?;
        if link.can_control()
            && let Err(error) = link.ask_whether_there()
        {
            state.break_off(error);
            self.wakeup.ring();
        }
        state.active = now;
        Some(period)
    }

    /// From now on a peer that was silent for so many seconds, 1 at least, is asked whether it is there; one that does not answer breaks
    /// the stream.
    pub fn keep_alive(self: &Arc<Self>, seconds: u32) -> Result<()> {
        self.lock().options.ask_after(seconds.max(1));
        self.start_keep_alive()
    }

    /// Asks from now on.
    pub(super) fn start_keep_alive(self: &Arc<Self>) -> Result<()> {
        let period = self.lock().options.keep_alive_period();
        period.map_or(Ok(()), |period| service::keep_alive(self, period))
    }
}
