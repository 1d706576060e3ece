//! What only those ask who hold a stream and have a descriptor of their own for it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nonic_device::Context;

use super::{Direction, Phase, Stream};
use crate::Error;
use crate::inbox::Entry;
use crate::link::Link;
use crate::waiting::{Awaited, Look};

/// How far a stream has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Neither connected nor about to be.
    Unconnected,
    /// On the way to a connection.
    Opening,
    /// There will be no connection, and why; `ETIMEDOUT` if the peer was asked and did not answer.
    Refused(Error),
    /// There is a connection, or was one.
    Connected,
}

impl Stream {
    /// How far it has come.
    pub fn standing(&self) -> Standing {
        let mut state = self.lock();
        self.update(&mut state, Look::Thorough);
        match state.phase {
            Phase::Idle | Phase::Listening | Phase::Closed => Standing::Unconnected,
            phase if phase.is_opening() => Standing::Opening,
            Phase::Refused => Standing::Refused(Error::new(state.error)),
            _ => Standing::Connected,
        }
    }

    /// Bytes that can be read now.
    pub fn waiting(&self) -> usize {
        let mut state = self.lock();
        self.update(&mut state, Look::Thorough);
        state.link.as_ref().map_or(0, Link::waiting)
    }

    /// From now on what happens to it is told there; see [`Stream::end_watch`]. The device, if there is one yet.
    pub fn begin_watch(&self, entry: &Arc<Entry>) -> Option<Arc<Context>> {
        self.wakeup.add(entry);
        self.begin_wait()
    }

    /// And now no longer.
    pub fn end_watch(&self, entry: &Arc<Entry>) {
        self.end_wait();
        self.wakeup.remove(entry);
    }

    /// The device that it goes over, once it has one.
    pub fn device(&self) -> Option<Arc<Context>> {
        self.lock().link.as_ref().map(|link| Arc::clone(link.context()))
    }

    /// Why the connection broke; 0 if it did not, or somebody was told before. As with TCP's `SO_ERROR` one is told, who asks or who
    /// receives.
    pub fn take_error(&self) -> i32 {
        let mut state = self.lock();
        self.update(&mut state, Look::Thorough);
        state.untold = None;
        std::mem::take(&mut state.error)
    }

    /// How long a call waits at most that sends or receives; zero: for ever. It then fails with `EAGAIN`, or did a part.
    pub fn set_timeout(&self, direction: Direction, timeout: Duration) {
        let nanoseconds = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        if direction != Direction::Send {
            self.receive_timeout.store(nanoseconds, Ordering::Relaxed);
        }
        if direction != Direction::Receive {
            self.send_timeout.store(nanoseconds, Ordering::Relaxed);
        }
    }
}
