//! What the two sides tell each other beside the rings.

use std::io;
use std::ops::ControlFlow;

use nonic_sys::{AsFd, BorrowedFd, OwnedFd, Received, Seldom};

use super::Session;
use crate::control::{ControlMessage, LONGEST};

impl Session {
    /// The socket, to wait on; none of a session with this process itself.
    pub(crate) fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.far.as_ref().map(|far| far.socket.as_fd())
    }

    /// Readable when the peer's process has ended, where the kernel offers that.
    pub(crate) fn process(&self) -> Option<BorrowedFd<'_>> {
        self.far.as_ref().and_then(|far| far.peer.process())
    }

    /// Tells the peer something.
    pub(crate) fn tell(&self, message: &ControlMessage, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        match &self.far {
            Some(far) => far.socket.send(&message.emit(), descriptors),
            None => Ok(()),
        }
    }

    /// Handles `most` of the messages that wait on the socket. Breaks off if the peer is gone, or a message fails: it breaks the
    /// rules, or this process has no room for what it brings.
    pub(crate) fn receive(
        &self,
        most: usize,
        mut handle: impl FnMut(ControlMessage, Vec<OwnedFd>) -> io::Result<()>,
    ) -> ControlFlow<()> {
        let Some(far) = &self.far else { return ControlFlow::Continue(()) };
        let mut bytes = [0u8; LONGEST];
        for _ in 0..most {
            let (length, descriptors) = match far.socket.receive(&mut bytes) {
                Received::Message(length, descriptors) => (length, descriptors),
                Received::Nothing => return ControlFlow::Continue(()),
                Received::HungUp => return ControlFlow::Break(()),
            };
            let handled = match ControlMessage::parse(&bytes[..length]) {
                Ok(message) => handle(message, descriptors),
                Err(malformed) => Err(malformed.into()),
            };
            if let Err(error) = handled {
                let pid = self.credentials.pid;
                if has_ended(&error) {
                    // It may have said more before: that it ends in order.
                    tracing::debug!(pid, "a peer ended while it was being answered");
                    continue;
                } else if error.raw_os_error().is_some() {
                    if let Some(unsaid) = NO_ROOM.turn() {
                        tracing::warn!(pid, %error, unsaid, "this process has no room for a link to a peer; it is closed");
                    }
                } else if let Some(unsaid) = BROKEN_RULES.turn() {
                    let uid = self.credentials.uid;
                    tracing::warn!(pid, uid, %error, unsaid, "a peer broke the rules; its link is closed");
                }
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    /// Takes `most` of the messages that wait on the socket and does nothing with them.
    pub(crate) fn discard(&self, most: usize) {
        let Some(far) = &self.far else { return };
        let mut bytes = [0u8; LONGEST];
        for _ in 0..most {
            if !matches!(far.socket.receive(&mut bytes), Received::Message(..)) {
                return;
            }
        }
    }
}

/// Whether a peer could not be told something because it is gone.
pub(crate) fn has_ended(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

static NO_ROOM: Seldom = Seldom::new();
static BROKEN_RULES: Seldom = Seldom::new();
