//! One end of the socket behind an endpoint, for the length of a call.

use std::io;

use nonic_sys::{
    POLL_HANG_UP, POLL_IN, POLL_OUT, PollEntry, RawFd, poll, poll_now, send_byte, set_send_buffer, take_bytes,
};

use crate::direction::{Sent, Signals};

/// Room for more tokens than are ever on their way.
const ORDINARY_BUFFER: i32 = 32 * 1024;
/// The kernel makes it its least, in which one token has room and two are too many to be writable.
const SMALL_BUFFER: i32 = 1;

/// An end of the socket, by a number that was looked at during this call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamSocket(pub(crate) RawFd);

/// How a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// What was waited for is there, or was.
    Ready,
    /// The peer is gone.
    HungUp,
    /// By a signal.
    Interrupted,
}

impl StreamSocket {
    /// Whether the other end is gone.
    pub(crate) fn is_hung_up(self) -> bool {
        poll_now(self.0, 0) & POLL_HANG_UP != 0
    }

    /// Sleeps until there is a token.
    pub(crate) fn wait_for_token(self) -> Woken {
        self.wait(POLL_IN)
    }

    /// Sleeps until the end is writable.
    pub(crate) fn wait_until_writable(self) -> Woken {
        self.wait(POLL_OUT)
    }

    fn wait(self, events: i16) -> Woken {
        let mut entries = [PollEntry { number: self.0, events, revents: 0 }];
        match poll(&mut entries, None) {
            Ok(_) if entries[0].revents & !(POLL_IN | POLL_OUT) != 0 => Woken::HungUp,
            Ok(_) => Woken::Ready,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Woken::Interrupted,
            Err(_) => Woken::HungUp,
        }
    }
}

impl Signals for StreamSocket {
    fn send(&self) -> Sent {
        match send_byte(self.0) {
            Ok(()) => Sent::Yes,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Sent::NoRoom,
            Err(_) => Sent::Gone,
        }
    }

    fn take(&self, count: u64) -> u64 {
        take_bytes(self.0, count as usize).unwrap_or(0) as u64
    }

    fn lower(&self) {
        let _ = set_send_buffer(self.0, SMALL_BUFFER);
    }

    fn raise(&self) {
        let _ = set_send_buffer(self.0, ORDINARY_BUFFER);
    }
}
